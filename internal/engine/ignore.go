package engine

import (
	"regexp"
	"slices"
	"strings"
)

// Dead is an ignore entry that does nothing for this server.
type Dead struct {
	Entry  string
	Reason string
	Means  []string // checkpoint modules that it seems to mean and that the server would take for quantized
}

// portable are entries that recipes carry for every model of the family, whether it has such modules or not.
var portable = []string{
	"lm_head", "re:.*lm_head", "re:.*lm_head$", "re:^lm_head$", "re:^mtp.*", "re:.*mtp.*", "re:mtp.*", "re:.*visual.*", "re:visual.*",
	"re:model.visual.*", `re:model\.visual\..*`, "re:.*vision_tower.*", "re:.*mlp.gate$", `re:.*mlp\.gate$`, "re:.*shared_expert_gate$",
	"re:.*shared_expert_gate.*", "re:.*embed_tokens$", "re:.*embed_tokens.*", "re:.*router.*", "re:.*conv1d.*", "re:.*linear_attn.*",
}

// known is a module of the server with every spelling under which an entry could mean it.
type known struct {
	asked   []string // what the server asks: its runtime name and those of its shards
	ckpt    []string // checkpoint names
	covered bool     // not quantized anyway
}

// Dead lists the ignore entries without effect, given the resolution of every linear (in the order of Server.Linears).
// An entry is alive when it matches a name that the server asks. One that does not is still harmless, and not listed,
// when it names a module that exists and is never quantized (norms, conv1d, a router), when all that it seems to mean is
// left alone anyway (spellings for other servers), or when it is a form that recipes carry for every model.
func (b *Bound) Dead(resolved []Resolution) []Dead {
	if b.Quantization == nil {
		return nil
	}
	if b.opt != nil {
		return b.deadModelOpt(resolved)
	}
	mods := b.known(resolved)
	var out []Dead
	for i := range b.ignore.list {
		it := &b.ignore.list[i]
		if it.re != nil && it.re.bad != "" || slices.Contains(portable, it.written) || b.elsewhere(it.mapped) {
			continue
		}
		if d, dead := b.judge(it, mods); dead {
			out = append(out, d)
		}
	}
	return out
}

// elsewhere says whether an exact entry names a part that this build of the family does not have: a head that is not
// there, or the tower of a text-only class.
func (b *Bound) elsewhere(name string) bool {
	return !b.server.Drafter && strings.HasPrefix(name, "mtp.") ||
		b.server.Arch.TextOnly && (strings.HasPrefix(name, "model.visual.") || strings.HasPrefix(name, "visual."))
}

func (b *Bound) judge(it *entry, mods []known) (Dead, bool) {
	matches := func(name string) bool { return it.mapped == name }
	if it.re != nil {
		matches = func(name string) bool { return it.re.match(name) != No } // what is unknown is not called dead
	}
	for _, m := range mods {
		if slices.ContainsFunc(m.asked, matches) {
			return Dead{}, false
		}
	}
	d := Dead{Entry: it.written}
	var means func(k *known) bool
	switch {
	case it.re != nil:
		d.Reason = "a pattern is matched from the start of the server's own name (language_model.model.…), not of the name on disk"
		means = func(k *known) bool { return slices.ContainsFunc(k.ckpt, matches) }
	case strings.ContainsAny(it.written, "*?["):
		d.Reason = "only entries that start re: are patterns; a * means nothing here"
		g := glob(it.written)
		means = func(k *known) bool {
			return slices.ContainsFunc(k.ckpt, g.MatchString) || slices.ContainsFunc(k.asked, g.MatchString)
		}
	default:
		d.Reason = "an entry must be the whole name of a module, or start re:; a parent does not cover what is below it"
		below := func(name string) bool {
			return name == it.written || name == it.mapped || strings.HasPrefix(name, it.written+".") || strings.HasPrefix(name, it.mapped+".")
		}
		means = func(k *known) bool { return slices.ContainsFunc(k.ckpt, below) || slices.ContainsFunc(k.asked, below) }
	}
	meant := false
	for i := range mods {
		if !means(&mods[i]) {
			continue
		}
		meant = true
		if !mods[i].covered {
			d.Means = append(d.Means, mods[i].ckpt...)
		}
	}
	if !meant {
		d.Reason = "no module of this checkpoint has such a name"
	}
	return d, !meant || len(d.Means) > 0
}

func (b *Bound) known(resolved []Resolution) []known {
	s := b.server
	var out []known
	for i := range s.Linears {
		l := &s.Linears[i]
		k := known{covered: i < len(resolved) && resolved[i].State == Unquantized}
		if !l.Routed() { // the experts module itself is never asked
			k.asked = append(k.asked, l.Runtime)
		}
		for _, sh := range l.Shards {
			k.ckpt = append(k.ckpt, sh.Name)
			if l.Fused() {
				parent, _ := cutLast(l.Runtime)
				k.asked = append(k.asked, parent+"."+sh.Key)
			}
			if l.Routed() {
				name, _ := s.weight(sh.Name)
				k.asked = append(k.asked, name) // any expert: only expert 0 decides, the others are no mistake
			}
		}
		out = append(out, k)
	}
	for _, p := range s.Params {
		name, _ := s.weight(p.Name)
		module, _ := cutLast(name)
		ckpt, _ := cutLast(p.Name)
		out = append(out, known{asked: []string{module}, ckpt: []string{ckpt}, covered: true})
	}
	return out
}

// glob reads a shell pattern the way fnmatch does: * crosses dots.
func glob(text string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`\A`)
	for _, r := range text {
		switch r {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

// BadPattern is an entry that no engine of regular expressions compiles.
type BadPattern struct{ Entry, Why string }

// BadPatterns lists the entries of ignore and targets on which the server stops with regex.error, each once.
func (q *Quantization) BadPatterns() []BadPattern {
	var out []BadPattern
	for _, list := range append([][]string{q.Ignore}, groupTargets(q)...) {
		for _, e := range list {
			text, ok := strings.CutPrefix(e, "re:")
			p := q.compiled[text]
			if ok && p != nil && p.bad != "" && !slices.ContainsFunc(out, func(b BadPattern) bool { return b.Entry == e }) {
				out = append(out, BadPattern{e, p.bad})
			}
		}
	}
	return out
}

func groupTargets(q *Quantization) [][]string {
	var out [][]string
	for _, g := range q.Groups {
		if !g.Skipped {
			out = append(out, g.Targets)
		}
	}
	return out
}
