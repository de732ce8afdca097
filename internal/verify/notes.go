package verify

import (
	"fmt"
	"strings"

	"seatsmith/internal/playbook"
)

// mostNames is how many subjects a joined finding names beside the first.
const mostNames = 4

// notes collects findings and joins what one cause repeats: 64 layers with the same fault are one finding.
type notes struct {
	entries []*note
	by      map[noteKey]*note
}

type note struct {
	finding  playbook.Finding
	subjects []string
}

type noteKey struct {
	rule     string
	severity playbook.Severity
	cause    string
}

func (n *notes) add(f playbook.Finding) {
	n.entries = append(n.entries, &note{finding: f, subjects: []string{f.Subject}})
}

// join adds a finding under a cause; findings of one rule, severity and cause become one, worded as the first was.
func (n *notes) join(cause string, f playbook.Finding) {
	k := noteKey{f.Rule, f.Severity, cause}
	if have := n.by[k]; have != nil {
		have.subjects = append(have.subjects, f.Subject)
		return
	}
	if n.by == nil {
		n.by = map[noteKey]*note{}
	}
	n.by[k] = &note{finding: f, subjects: []string{f.Subject}}
	n.entries = append(n.entries, n.by[k])
}

// any says whether a finding of one of the rules was noted.
func (n *notes) any(rules ...string) bool {
	for _, e := range n.entries {
		for _, r := range rules {
			if e.finding.Rule == r {
				return true
			}
		}
	}
	return false
}

// errors says whether any error was noted.
func (n *notes) errors() bool {
	for _, e := range n.entries {
		if e.finding.Severity == playbook.Error {
			return true
		}
	}
	return false
}

// drop removes noted findings.
func (n *notes) drop(when func(playbook.Finding) bool) {
	kept := n.entries[:0]
	for _, e := range n.entries {
		if !when(e.finding) {
			kept = append(kept, e)
		}
	}
	n.entries = kept
}

func (n *notes) done() []playbook.Finding {
	out := make([]playbook.Finding, 0, len(n.entries))
	for _, e := range n.entries {
		f := e.finding
		if more := len(e.subjects) - 1; more > 0 {
			f.Message += fmt.Sprintf(" (%d in all; also %s)", more+1, listed(e.subjects[1:], mostNames))
		}
		out = append(out, f)
	}
	return out
}

// listed joins the first names of a list.
func listed(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
