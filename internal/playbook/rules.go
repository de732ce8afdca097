package playbook

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

//go:embed rules/*.yaml
var files embed.FS

// Rule is one entry of the playbook.
type Rule struct {
	ID       string     `json:"id" yaml:"id"`
	Title    string     `json:"title" yaml:"title"`
	Severity Severity   `json:"severity" yaml:"severity"`
	Claim    string     `json:"claim" yaml:"claim"`       // what is held to be true
	Why      string     `json:"why" yaml:"why"`           // what happens to people who break it
	Fix      string     `json:"fix" yaml:"fix"`           // what to do, in general
	Refs     []string   `json:"refs" yaml:"refs"`         // ids of docs/references.md (C13, R5, S02 …) and public reports (owner/repo#n)
	Engines  string     `json:"engines" yaml:"engines"`   // the servers and versions it holds for, in words; "any" where no server is asked
	Status   string     `json:"status" yaml:"status"`     // "holds", "superseded" or "doubtful"
	Evidence []Evidence `json:"evidence" yaml:"evidence"` // where the claim comes from
}

// Evidence is one source of a claim. Its date is the day that the source is of: of a commit or a release its own day, of
// a measurement the day it was made. A public thread goes on, so of a thread it is the day it was read, as it is of a file
// whose commit has no known day.
type Evidence struct {
	Source string `json:"source" yaml:"source"` // project, commit or version and path, or owner/repo#n
	Date   string `json:"date" yaml:"date"`     // YYYY-MM or YYYY-MM-DD
	Note   string `json:"note" yaml:"note"`
}

// Rules lists every entry in order of id.
func Rules() []Rule {
	load()
	return slices.Clone(loaded.list)
}

// Lookup finds the rules that key names: an id, or a reference such as "C13" or "vllm-project/vllm#53387" (upper and
// lower case are equal). A reference can lead to several rules.
func Lookup(key string) []Rule {
	load()
	var out []Rule
	for _, r := range loaded.list {
		hit := strings.EqualFold(r.ID, key)
		for _, ref := range r.Refs {
			hit = hit || strings.EqualFold(ref, key)
		}
		if hit {
			out = append(out, r)
		}
	}
	return out
}

var loaded struct {
	once sync.Once
	list []Rule
	byID map[string]Rule
}

func byID() map[string]Rule {
	load()
	return loaded.byID
}

func load() {
	loaded.once.Do(func() {
		list, err := parse(files, "rules")
		if err != nil { // the files are part of the binary and a test parses them
			panic(err)
		}
		loaded.list = list
		loaded.byID = make(map[string]Rule, len(list))
		for _, r := range list {
			loaded.byID[r.ID] = r
		}
	})
}

// parse reads every YAML file of a folder; the error names the file and what is wrong in it.
func parse(fsys fs.FS, dir string) ([]Rule, error) {
	names, err := fs.Glob(fsys, path.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("playbook: listing %s: %w", dir, err)
	}
	var out []Rule
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("playbook: reading %s: %w", name, err)
		}
		var r Rule
		dec := yaml.NewDecoder(bytes.NewReader(data))
		dec.KnownFields(true)
		if err := dec.Decode(&r); err != nil {
			return nil, fmt.Errorf("playbook: %s: %w", name, err)
		}
		if err := r.check(strings.TrimSuffix(path.Base(name), ".yaml")); err != nil {
			return nil, fmt.Errorf("playbook: %s: %w", name, err)
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Rule) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

var slug = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func (r Rule) check(file string) error {
	switch {
	case r.ID != file:
		return fmt.Errorf("id %q is not the file's name %q", r.ID, file)
	case !slug.MatchString(r.ID):
		return fmt.Errorf("id %q is not a kebab-case slug", r.ID)
	case r.Title == "" || r.Claim == "" || r.Why == "" || r.Fix == "":
		return fmt.Errorf("title, claim, why and fix must all be said")
	case rank(r.Severity) == 0:
		return fmt.Errorf("severity %q: want error, warning or info", r.Severity)
	case r.Status != "holds" && r.Status != "superseded" && r.Status != "doubtful":
		return fmt.Errorf("status %q: want holds, superseded or doubtful", r.Status)
	case len(r.Evidence) == 0:
		return fmt.Errorf("no evidence: name at least one source with its date")
	}
	for i, e := range r.Evidence {
		_, day := time.Parse("2006-01-02", e.Date)
		_, month := time.Parse("2006-01", e.Date)
		if e.Source == "" || (day != nil && month != nil) {
			return fmt.Errorf("evidence[%d]: want a source and a date YYYY-MM or YYYY-MM-DD, got %q, %q", i, e.Source, e.Date)
		}
	}
	return nil
}
