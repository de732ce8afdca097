package plan

import (
	"fmt"
	"strings"

	"seatsmith/internal/playbook"
)

// notes collects findings in order, says nothing twice, and joins what is true of the same place in many layers into
// one finding: 64 layers with the same odd width are one fact.
type notes struct {
	entries []*note
	seen    map[playbook.Finding]bool
	placed  map[placeKey]*note
}

type note struct {
	finding playbook.Finding
	places  []string
}

type placeKey struct {
	finding playbook.Finding
	kind    string
}

func newNotes() *notes {
	return &notes{seen: map[playbook.Finding]bool{}, placed: map[placeKey]*note{}}
}

func (n *notes) add(f playbook.Finding) {
	if !n.seen[f] {
		n.seen[f] = true
		n.entries = append(n.entries, &note{finding: f})
	}
}

func (n *notes) carry(list []playbook.Finding) {
	for _, f := range list {
		n.add(f)
	}
}

// at adds a finding about one module, joined with the same finding about its like in other layers. f has no subject.
func (n *notes) at(module string, f playbook.Finding) {
	key := placeKey{f, generic(module)}
	if n.placed[key] == nil {
		n.placed[key] = &note{finding: f}
		n.entries = append(n.entries, n.placed[key])
	}
	n.placed[key].places = append(n.placed[key].places, module)
}

// generic is a module's name with its numbers replaced: "model.language_model.layers.*.mlp.down_proj".
func generic(module string) string {
	parts := strings.Split(module, ".")
	for i, p := range parts {
		if p != "" && strings.Trim(p, "0123456789") == "" {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, ".")
}

// done renders what has been collected so far.
func (n *notes) done() []playbook.Finding {
	out := make([]playbook.Finding, 0, len(n.entries))
	for _, e := range n.entries {
		f := e.finding
		switch len(e.places) {
		case 0:
		case 1:
			f.Subject = e.places[0]
		default:
			f.Subject = generic(e.places[0])
			f.Message += fmt.Sprintf(" (in %d places: %s)", len(e.places), numbers(e.places))
		}
		out = append(out, f)
	}
	return out
}

// numbers lists what tells the places apart: the numbers in their names.
func numbers(places []string) string {
	var out []string
	for _, p := range places {
		var own []string
		for _, part := range strings.Split(p, ".") {
			if part != "" && strings.Trim(part, "0123456789") == "" {
				own = append(own, part)
			}
		}
		out = append(out, strings.Join(own, "/"))
	}
	return listed(out, 8)
}
