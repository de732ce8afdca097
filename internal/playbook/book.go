package playbook

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Book is a set of entries: ours, and perhaps an owner's beside them. It is read-only.
type Book struct {
	entries []Rule
	byID    map[string]int
	own     map[string]bool // ids of the owner's entries
	ledger  ledger          // of ours
	theirs  ledger          // of the owner's folder
	faults  []Finding       // entries of the owner's that cannot be used
	dir     string
}

var ours = sync.OnceValue(func() *Book {
	var list []Rule
	for _, dir := range []string{"rules", "lessons"} {
		part, err := parse(files, dir)
		if err != nil { // the files are part of the binary and a test parses them
			panic(err)
		}
		list = append(list, part...)
	}
	text, err := fs.ReadFile(files, LedgerName)
	if err != nil {
		panic(err)
	}
	locked, err := readLedger(text)
	if err != nil {
		panic(err)
	}
	return newBook(list, locked)
})

// Ours is the playbook of this program.
func Ours() *Book { return ours() }

func newBook(list []Rule, locked ledger) *Book {
	b := &Book{entries: list, ledger: locked, own: map[string]bool{}}
	b.index()
	return b
}

func (b *Book) index() {
	slices.SortFunc(b.entries, func(x, y Rule) int { return strings.Compare(x.ID, y.ID) })
	b.byID = make(map[string]int, len(b.entries))
	for i, r := range b.entries {
		b.byID[r.ID] = i
	}
}

// maxEntryBytes bounds one YAML file of an owner.
const maxEntryBytes = 1 << 20

// Open reads an owner's entries, one YAML file each (DIR/<id>.yaml), beside ours. A file that is no entry, or takes an id
// of ours, becomes a finding of Lint and is left out; an error is for a folder that cannot be read.
func Open(dir string) (*Book, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the playbook: %w; name a folder of YAML files", err)
	}
	mine := Ours()
	b := &Book{entries: slices.Clone(mine.entries), ledger: mine.ledger, own: map[string]bool{}, dir: dir}
	for _, e := range names {
		name := e.Name()
		if e.IsDir() || strings.HasPrefix(name, ".") || filepath.Ext(name) != ".yaml" && filepath.Ext(name) != ".yml" {
			continue
		}
		data, err := readEntry(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("opening the playbook: %w", err)
		}
		r, err := parseEntry(data)
		if err == nil {
			r.settle("")
			if r.Kind == KindRule {
				err = fmt.Errorf("kind rule: only entries that this program's code cites are rules; write kind: lesson")
			}
		}
		if err == nil {
			err = r.check(strings.TrimSuffix(strings.TrimSuffix(name, ".yml"), ".yaml"))
		}
		if _, taken := mine.byID[r.ID]; err == nil && taken {
			err = fmt.Errorf("the id %s is ours: an own entry may not hide it; give it another id and say supersedes: [{id: %s, on: …}]", r.ID, r.ID)
		}
		if err == nil && b.own[r.ID] {
			err = fmt.Errorf("the id %s is taken by another file", r.ID)
		}
		if err != nil {
			b.faults = append(b.faults, New("playbook-entry", name, strings.ReplaceAll(err.Error(), "\n", " "), "correct the file; `seatsmith playbook show head-missing --json` is a whole entry"))
			continue
		}
		b.own[r.ID] = true
		b.entries = append(b.entries, r)
	}
	text, err := readEntry(filepath.Join(dir, LedgerName))
	switch {
	case os.IsNotExist(err):
	case err != nil:
		return nil, fmt.Errorf("opening the playbook: %w", err)
	default:
		if b.theirs, err = readLedger(text); err != nil {
			b.faults = append(b.faults, New("playbook-entry", LedgerName, err.Error(), "restore the file: it is only ever added to"))
		}
	}
	b.index()
	return b, nil
}

func readEntry(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxEntryBytes {
		return nil, fmt.Errorf("%s: want a regular file of at most %d bytes", name, maxEntryBytes)
	}
	return os.ReadFile(name)
}

func parseEntry(data []byte) (Rule, error) {
	var r Rule
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	err := dec.Decode(&r)
	return r, err
}

// Entries lists everything in order of id.
func (b *Book) Entries() []Rule { return slices.Clone(b.entries) }

// Own says whether an entry is the owner's.
func (b *Book) Own(id string) bool { return b.own[id] }

// Lookup finds the entries that key names: an id, or a reference such as "C13" or "vllm-project/vllm#53387" (upper and
// lower case are equal). A reference can lead to several entries.
func (b *Book) Lookup(key string) []Rule {
	var out []Rule
	for _, r := range b.entries {
		hit := strings.EqualFold(r.ID, key)
		for _, ref := range r.Refs {
			hit = hit || strings.EqualFold(ref, key)
		}
		if hit {
			out = append(out, b.settled(r))
		}
	}
	return out
}

// settled is an entry with what later entries say about it.
func (b *Book) settled(r Rule) Rule {
	if r.SupersededBy != "" {
		return r
	}
	for _, s := range b.entries {
		for _, old := range s.Supersedes {
			if old.ID == r.ID {
				r.Status, r.SupersededBy, r.SupersededOn = "superseded", s.ID, old.On
			}
		}
	}
	return r
}

// Settled lists every entry as it stands now: superseded by what says so, in either file.
func (b *Book) Settled() []Rule {
	out := make([]Rule, len(b.entries))
	for i, r := range b.entries {
		out[i] = b.settled(r)
	}
	return out
}

// Search finds the entries that hold every word, in whatever field, those with more of them in id and title first.
func (b *Book) Search(words []string) []Rule {
	type hit struct {
		r     Rule
		score int
	}
	var hits []hit
	for _, r := range b.Settled() {
		head := plain(r.ID + " " + r.Title + " " + strings.Join(r.Refs, " "))
		body := plain(strings.Join([]string{r.Claim, r.Why, r.Fix, r.Engines, r.Chapter, r.Status, r.Reproduce, evidenceText(r)}, " "))
		score := 0
		for _, word := range words {
			w := plain(word)
			switch {
			case w == "":
			case strings.Contains(head, w):
				score += 3
			case strings.Contains(body, w):
				score++
			default:
				score = -1 << 20
			}
		}
		if score > 0 {
			hits = append(hits, hit{r, score})
		}
	}
	slices.SortStableFunc(hits, func(x, y hit) int { return y.score - x.score })
	var out []Rule
	for _, h := range hits {
		out = append(out, h.r)
	}
	return out
}

func evidenceText(r Rule) string {
	var b strings.Builder
	for _, row := range r.Table {
		b.WriteString(strings.Join(row, " ") + " ")
	}
	for _, e := range r.Evidence {
		b.WriteString(e.Source + " " + e.Date + " " + e.Note + " ")
	}
	return b.String()
}

// ruleByID finds the rules that code may cite.
func ruleByID(id string) (Rule, bool) {
	b := Ours()
	i, ok := b.byID[id]
	if !ok || b.entries[i].Kind != KindRule {
		return Rule{}, false
	}
	return b.entries[i], true
}

// fileOf is where an entry stands in its folder.
func (b *Book) fileOf(r Rule) string {
	if b.own[r.ID] {
		return r.ID + ".yaml"
	}
	return path.Join("internal/playbook", r.Kind+"s", r.ID+".yaml")
}
