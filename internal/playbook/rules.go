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
	"time"

	"go.yaml.in/yaml/v3"
)

//go:embed rules/*.yaml lessons/*.yaml claims.lock
var files embed.FS

// Rule is one entry of the playbook: a rule that code enforces, or a lesson that only people can follow.
type Rule struct {
	ID       string     `json:"id" yaml:"id"`
	Kind     string     `json:"kind" yaml:"kind"`       // KindRule (the default of a rules folder) or KindLesson
	Chapter  string     `json:"chapter" yaml:"chapter"` // one of Chapters; "landmines" when not said
	Title    string     `json:"title" yaml:"title"`
	Severity Severity   `json:"severity" yaml:"severity"` // of a lesson: what it costs to ignore it
	Claim    string     `json:"claim" yaml:"claim"`       // what is held to be true
	Why      string     `json:"why" yaml:"why"`           // what happens to people who break it; of a superseded claim its true cause
	Fix      string     `json:"fix" yaml:"fix"`           // what to do, in general
	Refs     []string   `json:"refs" yaml:"refs"`         // ids of docs/references.md (C13, R5, S02 …) and public reports (owner/repo#n)
	Engines  string     `json:"engines" yaml:"engines"`   // the servers and versions it holds for, in words; "any" where no server is asked
	Status   string     `json:"status" yaml:"status"`     // "holds", "superseded" or "doubtful"
	Evidence []Evidence `json:"evidence" yaml:"evidence"` // where the claim comes from

	SupersededBy string         `json:"superseded_by,omitempty" yaml:"superseded_by"` // the entry that took its place
	SupersededOn string         `json:"superseded_on,omitempty" yaml:"superseded_on"` // the day it did
	Supersedes   []Supersession `json:"supersedes,omitempty" yaml:"supersedes"`       // written in the successor, where the old file may not be touched
	Phrases      []string       `json:"phrases,omitempty" yaml:"phrases"`             // how the claim is repeated elsewhere: words, or "re:" and a pattern (markdown.go)
	Reproduce    string         `json:"reproduce,omitempty" yaml:"reproduce"`         // the shortest way to see it
	Table        [][]string     `json:"table,omitempty" yaml:"table"`                 // rows below the claim, the first one the heading
}

// Supersession says that an entry takes the place of another, since when, and why.
type Supersession struct {
	ID    string `json:"id" yaml:"id"`
	On    string `json:"on" yaml:"on"`
	Cause string `json:"cause,omitempty" yaml:"cause"`
}

// The kinds of entries. Every rule is cited by code, and code cites nothing else; a lesson is cited by nobody.
const (
	KindRule   = "rule"
	KindLesson = "lesson"
)

// Evidence is one source of a claim. Its date is the day that the source is of: of a commit or a release its own day, of
// a measurement the day it was made. A public thread goes on, so of a thread it is the day it was read, as it is of a file
// whose commit has no known day.
type Evidence struct {
	Source string `json:"source" yaml:"source"` // project, commit or version and path, or owner/repo#n
	Date   string `json:"date" yaml:"date"`     // YYYY-MM or YYYY-MM-DD
	Note   string `json:"note" yaml:"note"`
}

// Rules lists the entries that code cites, in order of id.
func Rules() []Rule {
	var out []Rule
	for _, r := range Ours().entries {
		if r.Kind == KindRule {
			out = append(out, r)
		}
	}
	return out
}

// Lookup finds our entries that key names: an id, or a reference such as "C13" or "vllm-project/vllm#53387" (upper and
// lower case are equal). A reference can lead to several rules.
func Lookup(key string) []Rule {
	return Ours().Lookup(key)
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
		r.settle(path.Base(dir))
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
	case r.Kind != KindRule && r.Kind != KindLesson:
		return fmt.Errorf("kind %q: want rule or lesson", r.Kind)
	case chapterOf(r.Chapter) == nil:
		return fmt.Errorf("chapter %q: want one of %s", r.Chapter, chapterNames())
	case len(r.Evidence) == 0:
		return fmt.Errorf("no evidence: name at least one source with its date")
	case (r.SupersededBy == "") != (r.SupersededOn == ""), r.SupersededBy != "" && r.Status != "superseded", r.SupersededOn != "" && !dated(r.SupersededOn):
		return fmt.Errorf("superseded_by, superseded_on (YYYY-MM or YYYY-MM-DD) and status superseded belong together, got %q, %q, %q", r.SupersededBy, r.SupersededOn, r.Status)
	}
	for i, s := range r.Supersedes {
		if s.ID == "" || s.ID == r.ID || !dated(s.On) {
			return fmt.Errorf("supersedes[%d]: want the id of another entry and a date YYYY-MM or YYYY-MM-DD, got %q, %q", i, s.ID, s.On)
		}
	}
	for i, row := range r.Table {
		if len(row) != len(r.Table[0]) || len(row) == 0 {
			return fmt.Errorf("table[%d]: %d cells, the heading has %d", i, len(row), len(r.Table[0]))
		}
	}
	for i, p := range r.Phrases {
		if _, err := phrase(p); err != nil {
			return fmt.Errorf("phrases[%d]: %w", i, err)
		}
	}
	for i, e := range r.Evidence {
		if e.Source == "" || !dated(e.Date) {
			return fmt.Errorf("evidence[%d]: want a source and a date YYYY-MM or YYYY-MM-DD, got %q, %q", i, e.Source, e.Date)
		}
	}
	return nil
}

// settle fills in what an entry leaves unsaid.
func (r *Rule) settle(folder string) {
	if r.Kind == "" && folder == "rules" {
		r.Kind = KindRule
	}
	if r.Kind == "" {
		r.Kind = KindLesson
	}
	if r.Chapter == "" {
		r.Chapter = "landmines"
	}
}

// dated says whether a text is a day or a month.
func dated(s string) bool {
	_, day := time.Parse("2006-01-02", s)
	_, month := time.Parse("2006-01", s)
	return day == nil || month == nil
}
