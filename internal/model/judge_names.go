package model

import (
	"fmt"
	"strings"

	"seatsmith/internal/playbook"
)

// takeTwice understands tensor i as the parameter that its name would be without a part that stands twice at its end:
// "gate_up_proj_blocks_blocks", "q_proj.weight.weight". A save of transformers 5.4.0 wrote 96 of 459 names of gpt-oss so
// (public report p-e-w/heretic#211).
func (m *Model) takeTwice(i int) {
	t := &m.Tensors[i]
	base := m.layout.untwice(t.Base)
	if base == "" {
		return
	}
	if _, stored := m.byName[base]; stored {
		return
	}
	p := m.layout.place(base)
	p.fused, p.linear = "", false // nobody quantizes it under this name
	t.apply(p)
	m.respelled[i] = respelling{base: base, from: t.Base, to: base, head: p.role == RoleHead, twice: true}
}

// untwice is the known name that base becomes without its doubled end, "" when there is none.
func (l *layout) untwice(base string) string {
	for _, last := range []string{".weight", ".bias"} {
		if rest, ok := strings.CutSuffix(base, last); ok && strings.HasSuffix(rest, last) && l.place(rest).known {
			return rest
		}
	}
	component := base[strings.LastIndexByte(base, '.')+1:]
	for at := len(component) - 1; at > 0; at-- {
		if component[at] != '_' {
			continue
		}
		part := component[at:]
		if rest := base[:len(base)-len(part)]; strings.HasSuffix(rest, part) && l.place(rest).known {
			return rest
		}
	}
	return ""
}

// judgeTwice: one finding for all names whose end stands twice.
func (m *Model) judgeTwice() []playbook.Finding {
	n, first := 0, -1
	for i := range m.Tensors {
		if m.respelled[i].twice {
			if n++; first < 0 {
				first = i
			}
		}
	}
	if n == 0 {
		return nil
	}
	r := m.respelled[first]
	return []playbook.Finding{playbook.New("name-doubled", m.Tensors[first].Name,
		fmt.Sprintf("the names of %s end in a part that stands twice: %q where %q is read", tensors(n), pattern(r.from), pattern(r.to)),
		fmt.Sprintf("rename them: %q to %q and so on, and take out the doubled part alone", r.from, r.to))}
}

// judgeUnread: of a family whose tables are a part, names that no table has. Nothing is said about them, which is said.
func (m *Model) judgeUnread(x *match) []playbook.Finding {
	seen := map[string]bool{}
	var kinds []string
	n, first := 0, ""
	for _, i := range x.unexpected {
		t := &m.Tensors[i]
		if _, ok := m.respelled[i]; ok || m.layout.place(t.Base).known || strings.HasSuffix(t.Name, ".rotary_emb.inv_freq") {
			continue
		}
		if n++; first == "" {
			first = t.Name
		}
		if p := pattern(t.Base); !seen[p] {
			seen[p] = true
			kinds = append(kinds, p)
		}
	}
	if n == 0 {
		return nil
	}
	return []playbook.Finding{playbook.New("names-unread", first,
		fmt.Sprintf("of family %s only a part is known: %d of %s are of %d kinds that are not, and nothing is said about them: %s",
			m.Family, n, tensors(len(m.Tensors)), len(kinds), names(kinds)), "compare the list with the base model's, as diff does")}
}
