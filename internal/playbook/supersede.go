package playbook

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Change is what takes the place of a claim. Claim and Evidence must be said; the rest is the old entry's where it is empty.
type Change struct {
	NewID    string // "" makes one of the old id and the date
	Claim    string
	Cause    string // the true cause: why the old claim is wrong; becomes why
	Fix      string
	Title    string
	On       string     // the day of the change; "" takes the newest evidence's
	Evidence []Evidence // at least one, dated
}

// ParseEvidence reads "SOURCE | DATE | NOTE".
func ParseEvidence(s string) (Evidence, error) {
	parts := strings.Split(s, "|")
	if len(parts) != 3 {
		return Evidence{}, fmt.Errorf("evidence %q: want \"SOURCE | DATE | NOTE\"", s)
	}
	e := Evidence{strings.TrimSpace(parts[0]), strings.TrimSpace(parts[1]), strings.TrimSpace(parts[2])}
	if e.Source == "" || e.Note == "" || !dated(e.Date) {
		return Evidence{}, fmt.Errorf("evidence %q: want a source, a date YYYY-MM or YYYY-MM-DD, and what it shows", s)
	}
	return e, nil
}

// Successor makes the dated entry that supersedes another. The old file stays as it is: the new one says what it supersedes.
func (b *Book) Successor(id string, c Change) (Rule, error) {
	at, ok := b.byID[id]
	if !ok {
		return Rule{}, fmt.Errorf("no entry is called %q; `seatsmith playbook list` names them all", id)
	}
	old := b.settled(b.entries[at])
	if old.Status == "superseded" {
		return Rule{}, fmt.Errorf("%s is superseded already, by %s on %s: supersede that one", id, old.SupersededBy, old.SupersededOn)
	}
	for _, e := range c.Evidence {
		if c.On == "" || c.On < e.Date && len(c.On) == len(e.Date) {
			c.On = e.Date
		}
	}
	r := Rule{
		ID: c.NewID, Kind: KindLesson, Chapter: old.Chapter, Title: or(c.Title, old.Title), Severity: old.Severity, Claim: strings.TrimSpace(c.Claim),
		Why: or(c.Cause, old.Why), Fix: or(c.Fix, old.Fix), Refs: old.Refs, Engines: old.Engines, Status: "holds", Evidence: c.Evidence,
		Supersedes: []Supersession{{ID: id, On: c.On, Cause: c.Cause}},
	}
	if r.ID == "" {
		r.ID = id + "-" + c.On
	}
	switch _, taken := b.byID[r.ID]; {
	case claimHash(r.Claim) == claimHash(old.Claim):
		return Rule{}, errors.New("the new claim is the old one, word for word")
	case taken:
		return Rule{}, fmt.Errorf("the id %s is taken; name another with --id", r.ID)
	}
	return r, r.check(r.ID)
}

func or(a, b string) string {
	if strings.TrimSpace(a) != "" {
		return strings.TrimSpace(a)
	}
	return b
}

// YAML spells an entry as its file.
func (r Rule) YAML() ([]byte, error) {
	type file struct {
		ID         string         `yaml:"id"`
		Kind       string         `yaml:"kind"`
		Chapter    string         `yaml:"chapter"`
		Title      string         `yaml:"title"`
		Severity   Severity       `yaml:"severity"`
		Claim      string         `yaml:"claim"`
		Why        string         `yaml:"why"`
		Fix        string         `yaml:"fix"`
		Refs       []string       `yaml:"refs,flow"`
		Engines    string         `yaml:"engines"`
		Status     string         `yaml:"status"`
		Supersedes []Supersession `yaml:"supersedes,omitempty"`
		Evidence   []Evidence     `yaml:"evidence"`
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	err := enc.Encode(file{r.ID, r.Kind, r.Chapter, r.Title, r.Severity, r.Claim, r.Why, r.Fix, r.Refs, r.Engines, r.Status, r.Supersedes, r.Evidence})
	return out.Bytes(), err
}

// Write puts an entry into the owner's folder as a new file and adds its claim to the folder's ledger. A file of that name
// is never overwritten.
func (b *Book) Write(r Rule) (string, error) {
	if b.dir == "" {
		return "", errors.New("there is no folder for own entries")
	}
	data, err := r.YAML()
	if err != nil {
		return "", err
	}
	name := filepath.Join(b.dir, r.ID+".yaml")
	if err := create(name, data); err != nil {
		return "", fmt.Errorf("writing the entry: %w", err)
	}
	next, err := Open(b.dir)
	if err != nil {
		return "", err
	}
	return name, next.Seal()
}

// Seal adds to the owner's ledger what it lacks.
func (b *Book) Seal() error {
	return appendTo(filepath.Join(b.dir, LedgerName), b.Unsealed(true))
}

func create(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

func appendTo(name, lines string) error {
	if lines == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("adding to the ledger: %w", err)
	}
	_, err = f.WriteString(lines)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("adding to the ledger: %w", err)
	}
	return nil
}
