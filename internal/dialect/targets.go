package dialect

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// lmHead is the only module without a dot in its name that can be quantized.
const lmHead = "lm_head"

// maxPatterns bounds the patterns of one group: a model whose names follow no layout gets exact names instead.
const maxPatterns = 16

// spellings lists the names under which a server asks for a module: the checkpoint's, and those that vLLM 017e9f4448
// makes of it with the prefix rules of the class that it builds: qwen3_vl.py hf_to_vllm_mapper for the wrapper, and
// qwen3_5.py Qwen3_5ForCausalLMBase.hf_to_vllm_mapper for the text-only class, which asks for "model.layers.N" whatever
// the file says. Exact entries of a configuration are mapped by the same rules, patterns are not (compressed_tensors.py
// apply_vllm_mapper), so patterns must match every spelling.
func spellings(name string) []string {
	if rest, ok := strings.CutPrefix(name, "model.language_model."); ok {
		return []string{name, "language_model.model." + rest, "model." + rest}
	}
	if rest, ok := strings.CutPrefix(name, "model.visual."); ok {
		return []string{name, "visual." + rest}
	}
	if name == lmHead { // the drafter asks for "lm_head", the target for the longer name (R15)
		return []string{name, "language_model.lm_head"}
	}
	return []string{name}
}

// kind is a module's place without its layer number: all modules of one kind can be named by one pattern.
type kind struct{ parent, leaf string }

var (
	word   = regexp.MustCompile(`^[A-Za-z0-9_]+$`)
	number = regexp.MustCompile(`^[0-9]+$`)
)

// kindOf finds the kind of a decoder module. The parent is a pattern anchored at the start of the name; the syntax is
// common to Go and to Python's re. What stands before the layers of a nested name is optional in all its parts, and the
// anchor keeps "mtp.layers.N" and the vision tower out, also where a runtime searches instead of matching. ok is false
// for names outside layers.N, and for names that need escaping in the leaf.
func kindOf(name string) (k kind, ok bool) {
	parts := strings.Split(name, ".")
	at := slices.Index(parts, "layers")
	if at < 0 || at+2 >= len(parts) || !number.MatchString(parts[at+1]) {
		return kind{}, false
	}
	var b strings.Builder
	switch prefix := strings.Join(parts[:at], "."); prefix {
	case "model.language_model":
		b.WriteString(`^(.*language_model\.)?(model\.)?`)
	case "":
		b.WriteString(`^`)
	default:
		b.WriteString(`^` + regexp.QuoteMeta(prefix) + `\.`)
	}
	b.WriteString(`layers\.\d+\.`)
	for _, p := range parts[at+2 : len(parts)-1] {
		if number.MatchString(p) {
			b.WriteString(`\d+\.`)
		} else {
			b.WriteString(regexp.QuoteMeta(p) + `\.`)
		}
	}
	leaf := parts[len(parts)-1]
	return kind{b.String(), leaf}, word.MatchString(leaf)
}

// patternTargets names each scheme's modules: a pattern for the kinds that the scheme holds in every layer, exact names
// for the rest. modules are sorted by name; the result is parallel to used.
func patternTargets(modules []Module, used []Scheme) [][]string {
	mixed := map[kind]bool{}
	schemeOf := map[kind]Scheme{}
	for _, m := range modules {
		if k, ok := kindOf(m.Name); ok {
			if s, seen := schemeOf[k]; seen && s != m.Scheme {
				mixed[k] = true
			}
			schemeOf[k] = m.Scheme
		}
	}
	out := make([][]string, len(used))
	for i, s := range used {
		leaves := map[string][]string{}
		for k, of := range schemeOf {
			if of == s && !mixed[k] {
				leaves[k.parent] = append(leaves[k.parent], k.leaf)
			}
		}
		if len(leaves) > maxPatterns {
			leaves = nil
		}
		for parent, names := range leaves {
			slices.Sort(names)
			leaf := names[0]
			if len(names) > 1 {
				leaf = "(" + strings.Join(names, "|") + ")"
			}
			out[i] = append(out[i], "re:"+parent+leaf+"$")
		}
		slices.Sort(out[i])
		for _, m := range modules {
			if k, ok := kindOf(m.Name); m.Scheme == s && (!ok || mixed[k] || leaves[k.parent] == nil) {
				out[i] = append(out[i], target(m.Name))
			}
		}
	}
	return out
}

// target is the entry that selects one module. A bare lm_head is taken for the name of a class and never matches what the
// target asks for, language_model.lm_head; the pattern matches that and the drafter's bare name (R15).
func target(name string) string {
	if name == lmHead {
		return "re:.*lm_head$"
	}
	return name
}

// exactTargets names each scheme's modules one by one.
func exactTargets(modules []Module, used []Scheme) [][]string {
	out := make([][]string, len(used))
	for i, s := range used {
		for _, m := range modules {
			if m.Scheme == s {
				out[i] = append(out[i], target(m.Name))
			}
		}
	}
	return out
}

// ignoreList names what stays as it is. Some runtimes match split names and some match fused ones (public report Q03:
// sgl-project/sglang#35797), some follow patterns only, and the drafter asks for lm_head under its bare name (R15).
// A form that would catch a quantized module is left out; the exact names cover the rest. modules are sorted by name.
func ignoreList(modules []Module) []string {
	var out []string
	seen := map[string]bool{}
	add := func(entry string) {
		if !seen[entry] {
			seen[entry] = true
			out = append(out, entry)
		}
	}
	head, vision := false, false
	for _, m := range modules {
		if !m.Scheme.Quantized() {
			add(m.Name)
		}
		head, vision = head || m.Head, vision || m.Vision
	}
	for _, m := range modules {
		if !m.Scheme.Quantized() && m.Fused != "" {
			add(m.Fused)
		}
	}
	forms := []string{"re:^mtp.*", "re:.*mtp.*"}
	if head {
		forms = append(forms, "mtp.fc")
	}
	if vision {
		forms = append(forms, "re:.*visual.*")
	}
	forms = append(forms, "lm_head", "re:.*lm_head$")
	for _, form := range forms {
		one := newMatcher([]string{form})
		if !slices.ContainsFunc(modules, func(m Module) bool { return m.Scheme.Quantized() && one.any(m) }) {
			add(form)
		}
	}
	return out
}

// matcher selects names as vLLM 017e9f4448 does (compressed_tensors/utils.py _is_equal_or_regex_match): an entry is
// equal, or a pattern that matches from the start of the name.
type matcher struct {
	exact    map[string]bool
	patterns []pattern
}

// pattern is an expression with the texts that it cannot match without: most names are told apart by those alone, which
// makes the check of 200,000 modules six times faster.
type pattern struct {
	expr  *regexp.Regexp
	texts []string
}

func newPattern(expr string) pattern {
	p := pattern{expr: regexp.MustCompile("^(?:" + expr + ")")} // made of quoted parts above
	if tree, err := syntax.Parse(expr, syntax.Perl); err == nil && tree.Op == syntax.OpConcat {
		for _, sub := range tree.Sub {
			if sub.Op == syntax.OpLiteral && sub.Flags&syntax.FoldCase == 0 {
				p.texts = append(p.texts, string(sub.Rune))
			}
		}
	}
	return p
}

func (p pattern) match(name string) bool {
	for _, text := range p.texts {
		if !strings.Contains(name, text) {
			return false
		}
	}
	return p.expr.MatchString(name)
}

func newMatcher(entries []string) matcher {
	m := matcher{exact: make(map[string]bool, len(entries))}
	for _, e := range entries {
		if expr, ok := strings.CutPrefix(e, "re:"); ok {
			m.patterns = append(m.patterns, newPattern(expr))
			continue
		}
		for _, s := range spellings(e) {
			m.exact[s] = true
		}
	}
	return m
}

func (m matcher) match(name string) bool {
	if m.exact[name] {
		return true
	}
	for _, p := range m.patterns {
		if p.match(name) {
			return true
		}
	}
	return false
}

// any says whether some spelling of the module, or of its fused name, is selected.
func (m matcher) any(mod Module) bool {
	return slices.ContainsFunc(spellings(mod.Name), m.match) || (mod.Fused != "" && slices.ContainsFunc(spellings(mod.Fused), m.match))
}

// all says whether every spelling of the module is selected.
func (m matcher) all(mod Module) bool {
	return !slices.ContainsFunc(spellings(mod.Name), func(s string) bool { return !m.match(s) })
}

// checkSelection makes sure that the targets of each group select exactly its modules, under every spelling, and that
// the ignore list selects exactly the kept ones. A fused name must not be selected where a member is not: a server that
// looks for it first would decide for all members.
func checkSelection(modules []Module, used []Scheme, targets [][]string, ignore []string) error {
	groups := make([]matcher, len(used))
	for i := range used {
		groups[i] = newMatcher(targets[i])
	}
	ignored := newMatcher(ignore)
	for _, m := range modules {
		for i, s := range used {
			if m.Scheme == s && !groups[i].all(m) {
				return fmt.Errorf("the targets of %s do not select %s under every name that a server asks for", s, m.Name)
			}
			if m.Scheme != s && groups[i].any(m) {
				return fmt.Errorf("the targets of %s also select %s, which is %s", s, m.Name, m.Scheme)
			}
		}
		if m.Scheme.Quantized() && ignored.any(m) {
			return fmt.Errorf("%s is %s, but the ignore list selects it", m.Name, m.Scheme)
		}
		if !m.Scheme.Quantized() && !ignored.all(m) {
			return fmt.Errorf("%s is kept, but the ignore list does not select it under every name that a server asks for", m.Name)
		}
	}
	return nil
}
