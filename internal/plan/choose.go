package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
)

// choice is what the recipe says about one tensor, and later what was made of it.
type choice struct {
	scheme dialect.Scheme
	rule   int  // index of the rule that decided, -1 when none did
	byName bool // the rule names modules
	reason string
}

// matching finds the first rule for a tensor without trying every rule on every tensor.
type matching struct {
	exact map[string]int // rules that name one module
	roles map[model.Role]int
	globs []int // rules with patterns, in order
	rules []Rule
}

func newMatching(rules []Rule) matching {
	m := matching{exact: map[string]int{}, roles: map[model.Role]int{}, rules: rules}
	for i, r := range rules {
		switch {
		case strings.ContainsAny(r.Name, `*?[\`):
			m.globs = append(m.globs, i)
		case r.Name != "":
			if _, ok := m.exact[r.Name]; !ok {
				m.exact[r.Name] = i
			}
		}
		for _, role := range r.Roles {
			if _, ok := m.roles[role]; !ok {
				m.roles[role] = i
			}
		}
	}
	return m
}

// first is the index of the first rule that selects the tensor, -1 for none. Names select only parameters called weight
// (and fused experts, whose module is the whole name): a bias is never meant.
func (m matching) first(t *model.Tensor) int {
	best := -1
	better := func(i int, ok bool) {
		if ok && (best < 0 || i < best) {
			best = i
		}
	}
	i, ok := m.roles[t.Role]
	better(i, ok)
	if t.Suffix != "weight" && t.Module != t.Base {
		return best
	}
	i, ok = m.exact[t.Module]
	better(i, ok)
	for _, i := range m.globs {
		if best >= 0 && i > best {
			break
		}
		if ok, _ := path.Match(m.rules[i].Name, t.Module); ok {
			better(i, true)
		}
	}
	return best
}

// choose applies the recipe to every tensor. What a rule asks and this version never does is refused, once per rule.
func choose(tensors []model.Tensor, recipe Recipe, d dialect.Dialect, notes *notes) []choice {
	unservable := make([]error, len(recipe.Rules))
	selected := make([]bool, len(recipe.Rules))
	for i, r := range recipe.Rules {
		unservable[i] = d.Servable(r.Scheme)
		if unservable[i] == nil && r.Scheme.StaticInput() {
			unservable[i] = fmt.Errorf("%s stores an input scale per module, which comes from activation statistics, and none are given; a server computes with uninitialised memory without it (R23)", r.Scheme)
		}
		if unservable[i] != nil {
			notes.add(playbook.New("scheme-unservable", ruleName(recipe, i), fmt.Sprintf("%s: %v", r, unservable[i]), "change the rule's scheme"))
		}
		for _, role := range r.Roles {
			if why, ok := Protected(role); ok && r.Scheme.Quantized() {
				notes.add(playbook.New("scheme-unservable", ruleName(recipe, i), fmt.Sprintf("%s: role %s cannot be quantized: %s", r, role, why), "take the role out of the rule"))
			}
		}
	}
	find := newMatching(recipe.Rules)
	refused := make([]refusals, len(recipe.Rules))
	out := make([]choice, len(tensors))
	for i := range tensors {
		t := &tensors[i]
		c := choice{scheme: dialect.BF16, rule: find.first(t)}
		why, protected := Protected(t.Role)
		switch {
		case c.rule < 0 && protected:
			c.reason = why
		case c.rule < 0:
			c.reason = "no rule of recipe " + recipe.Name + " selects it"
		default:
			r := recipe.Rules[c.rule]
			selected[c.rule] = true
			c.byName = r.Name != ""
			c.reason = fmt.Sprintf("rule %d of recipe %s (%s)", c.rule+1, recipe.Name, r)
			switch {
			case !r.Scheme.Quantized():
			case unservable[c.rule] != nil:
				c.reason = "refused: " + unservable[c.rule].Error()
			case protected:
				c.reason = why
				if c.byName {
					refused[c.rule].add(t.Module, fmt.Sprintf("role %s cannot be quantized: %s", t.Role, why))
				}
			case !t.Linear:
				c.reason = "not the weight of a Linear that the server can quantize"
				if c.byName {
					refused[c.rule].add(t.Module, c.reason)
				}
			default:
				c.scheme = r.Scheme
			}
		}
		out[i] = c
	}
	for i, r := range recipe.Rules {
		for _, line := range refused[i].lines() {
			notes.add(playbook.New("scheme-unservable", ruleName(recipe, i), fmt.Sprintf("%s: %s", r, line), "narrow the pattern, or put a rule with scheme bf16 for these names before it"))
		}
		if r.Name != "" && !selected[i] {
			notes.add(playbook.New("rule-idle", ruleName(recipe, i), fmt.Sprintf("%s: no module of this checkpoint has such a name, or an earlier rule takes it", r), "correct the pattern or remove the rule"))
		}
	}
	return out
}

func ruleName(r Recipe, i int) string { return fmt.Sprintf("recipe %s, rule %d", r.Name, i+1) }

// refusals collects modules by the reason for which they are refused.
type refusals struct {
	order   []string
	modules map[string][]string
}

func (r *refusals) add(module, reason string) {
	if r.modules == nil {
		r.modules = map[string][]string{}
	}
	if r.modules[reason] == nil {
		r.order = append(r.order, reason)
	}
	r.modules[reason] = append(r.modules[reason], module)
}

func (r *refusals) lines() []string {
	var out []string
	for _, reason := range r.order {
		out = append(out, fmt.Sprintf("%s: %s", listed(r.modules[reason], 3), reason))
	}
	return out
}

// listed names the first few of a list and counts the rest.
func listed(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(slices.Clone(names[:most]), ", "), len(names)-most)
}
