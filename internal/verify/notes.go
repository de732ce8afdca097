package verify

import (
	"fmt"
	"slices"
	"strings"

	"seatsmith/internal/playbook"
)

// mostNames is how many subjects a joined finding names beside the first.
const mostNames = 4

// notes collects findings and joins what one cause repeats: 64 layers with the same fault are one finding.
type notes struct {
	entries []*note
	by      map[noteKey]*note
	errs    map[subjectKey]bool // of the errors: their subjects and kinds, asked for once per tensor of a folder that may have 300,000
	all     map[subjectKey]bool // of findings of any severity
	rules   map[string]int      // errors by rule
}

type subjectKey struct{ rule, subject string }

type note struct {
	finding  playbook.Finding
	subjects []string
}

// index keeps the answers to told, any and names.
func (n *notes) index(f playbook.Finding) {
	if n.all == nil {
		n.errs, n.all, n.rules = map[subjectKey]bool{}, map[subjectKey]bool{}, map[string]int{}
	}
	n.all[subjectKey{f.Rule, f.Subject}] = true
	if f.Severity == playbook.Error {
		n.rules[f.Rule]++
		n.errs[subjectKey{f.Rule, f.Subject}] = true
		n.errs[subjectKey{f.Rule, alike(f.Subject)}] = true
	}
}

// alike is a key that no subject can be: tensors of one kind in other layers have the same.
func alike(subject string) string { return "\x00" + generic(subject) }

type noteKey struct {
	rule     string
	severity playbook.Severity
	cause    string
}

func (n *notes) add(f playbook.Finding) {
	n.entries = append(n.entries, &note{finding: f, subjects: []string{f.Subject}})
	n.index(f)
}

// join adds a finding under a cause; findings of one rule, severity and cause become one, worded as the first was.
func (n *notes) join(cause string, f playbook.Finding) {
	n.index(f)
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

// any says whether an error of one of the rules was noted. Warnings do not count: they explain nothing away.
func (n *notes) any(rules ...string) bool {
	return slices.ContainsFunc(rules, func(r string) bool { return n.rules[r] > 0 })
}

// told says whether an error of one of the rules names a tensor, or one of its kind in another layer: findings name the
// first of each kind.
func (n *notes) told(name string, rules ...string) bool {
	kind := alike(name)
	return slices.ContainsFunc(rules, func(r string) bool { return n.errs[subjectKey{r, name}] || n.errs[subjectKey{r, kind}] })
}

// about says whether an error is about a file, or something in it.
func (n *notes) about(file string) bool {
	return n.find(func(e *note) bool { return strings.HasPrefix(e.finding.Subject, file) })
}

// names says whether a finding of any severity, of one of the rules, has this subject.
func (n *notes) names(subject string, rules ...string) bool {
	return slices.ContainsFunc(rules, func(r string) bool { return n.all[subjectKey{r, subject}] })
}

// find says whether an error answers to a question.
func (n *notes) find(is func(*note) bool) bool {
	return slices.ContainsFunc(n.entries, func(e *note) bool { return e.finding.Severity == playbook.Error && is(e) })
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
	n.reindex()
}

// reindex starts the index anew, after entries were removed or changed.
func (n *notes) reindex() {
	n.errs, n.all, n.rules = nil, nil, nil
	for _, e := range n.entries {
		for _, subject := range e.subjects {
			f := e.finding
			f.Subject = subject
			n.index(f)
		}
	}
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
