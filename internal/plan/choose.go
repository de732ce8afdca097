package plan

import (
	"errors"
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

// meaning is what a rule's scheme comes to in this plan.
type meaning struct {
	scheme dialect.Scheme
	kept   string // why a rule that asks for a scheme keeps its weights instead, "" when it does not
	err    error  // why the rule is refused
}

// meaning resolves the scheme of a rule. "fp8" is the dialect's own form: per channel in compressed-tensors, which needs no
// statistics; per tensor in modelopt, which does, and without them the weights stay as they are.
func (a askedFor) meaning(r Rule) meaning {
	if why, ok := refusedSchemes[r.Scheme]; ok {
		return meaning{err: errors.New(why)}
	}
	m := meaning{scheme: r.Scheme}
	if r.Scheme == FP8 {
		m.scheme = dialect.FP8Channel
		if a.dialect.Servable(m.scheme) != nil {
			m.scheme = dialect.FP8Tensor
		}
		if m.scheme.StaticInput() && a.stats == nil && r.Name == "" {
			return meaning{scheme: dialect.BF16, kept: fmt.Sprintf("fp8 is %s in the %s dialect, which needs activation statistics, and none are given", m.scheme, a.dialect.Name())}
		}
	}
	m.err = a.dialect.Servable(m.scheme)
	return m
}

// choose applies the recipe to every tensor. What a rule asks and this version never does is refused, once per rule.
func choose(tensors []model.Tensor, a askedFor, src source, notes *notes) []choice {
	recipe, tied := a.recipe, src.config.TieEmbeddings
	meant := make([]meaning, len(recipe.Rules))
	selected := make([]bool, len(recipe.Rules))
	for i, r := range recipe.Rules {
		m := a.meaning(r)
		if m.err == nil && m.scheme.StaticInput() && src.unread {
			m.err = fmt.Errorf("%s needs activation statistics, and nothing here can run a %s model; use nvfp4-w4a16 or fp8-channel", m.scheme, src.family)
		}
		switch {
		case m.err != nil:
			notes.add(playbook.New("scheme-unservable", ruleName(recipe, i), fmt.Sprintf("%s: %v", r, m.err), "change the rule's scheme"))
		case m.scheme.StaticInput() && a.stats == nil:
			m.err = fmt.Errorf("%s stores an input scale per module, which comes from activation statistics, and none are given; a server computes with uninitialised memory without it (R23)", m.scheme)
			notes.add(playbook.New("stats-missing", ruleName(recipe, i), fmt.Sprintf("%s: %v", r, m.err), "give them with --stats, or choose a recipe without statistics, such as default"))
		case m.kept != "":
			notes.add(playbook.New("plan-kept", ruleName(recipe, i), fmt.Sprintf("%s: %s; these weights stay as they are", r, m.kept), "give --stats, or use --dialect compressed-tensors, where fp8 needs none"))
		}
		meant[i] = m
		for _, role := range r.Roles {
			if why, ok := refuses(role, m.scheme, tied); ok && m.scheme.Quantized() {
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
		switch {
		case c.rule < 0:
			why, protected := Protected(t.Role)
			if c.reason = why; !protected {
				c.reason = "no rule of recipe " + recipe.Name + " selects it"
			}
		default:
			r, m := recipe.Rules[c.rule], meant[c.rule]
			selected[c.rule] = true
			c.byName = r.Name != ""
			c.reason = fmt.Sprintf("rule %d of recipe %s (%s)", c.rule+1, recipe.Name, r)
			why, no := refuses(t.Role, m.scheme, tied)
			if !no {
				why, no = apart(t)
			}
			switch {
			case m.err != nil:
				c.reason = "refused: " + m.err.Error()
			case m.kept != "":
				c.reason = m.kept
			case !m.scheme.Quantized():
			case no:
				c.reason = why
				if c.byName {
					refused[c.rule].add(t.Module, fmt.Sprintf("role %s cannot be quantized: %s", t.Role, why))
				}
			case !t.Linear || src.unread && len(t.Shape()) != 2:
				c.reason = "not the weight of a Linear that the server can quantize"
				if src.unread {
					c.reason = "whether the server can take it quantized is not certain in this family"
				}
				if c.byName {
					refused[c.rule].add(t.Module, c.reason)
				}
			default:
				c.scheme = m.scheme
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
