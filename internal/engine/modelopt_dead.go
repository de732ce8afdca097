package engine

import (
	"slices"
	"strings"
)

// deadModelOpt is Dead for a modelopt block: exclusions, and for a mixed block the entries of quantized_layers too.
func (b *Bound) deadModelOpt(resolved []Resolution) []Dead {
	mods := b.known(resolved)
	var out []Dead
	for _, w := range b.writtenExclusions() {
		if slices.Contains(portableModelOpt, strings.TrimRight(strings.Trim(w, "*"), ".")) || b.elsewhere(w) || b.aliveModelOpt(w) {
			continue
		}
		if d, dead := b.judgeModelOpt(w, mods); dead {
			out = append(out, d)
		}
	}
	return append(out, b.deadLayers()...)
}

// portableModelOpt are entries, without stars and dots at their ends, that recipes carry for every model.
var portableModelOpt = []string{"lm_head", "mtp", "model.visual", "visual", "vision_tower", "model.vision_tower", "conv1d", "linear_attn.conv1d", "mlp.gate",
	"mlp.shared_expert_gate", "shared_expert_gate", "router", "block_sparse_moe.gate", "proj_out", "output_layer", "embed_tokens", "model.embed_tokens", "linear_attn", "re:.*mtp.*", "re:^mtp.*"}

func (b *Bound) writtenExclusions() []string {
	var out []string
	for _, e := range b.opt.list {
		if len(out) == 0 || out[len(out)-1] != e.written {
			out = append(out, e.written)
		}
	}
	return out
}

// aliveModelOpt says whether an exclusion would change anything if it were the only one; that it splits a fused module is
// an effect, too.
func (b *Bound) aliveModelOpt(written string) bool {
	one := b.alone(written)
	for i := range b.server.Linears {
		l := &b.server.Linears[i]
		packed := b.packed
		if l.Drafter {
			packed = packedDrafter
		}
		if yes, _, err := one.excluded(l.Runtime, packed); yes || err != nil {
			return true
		}
	}
	return false
}

func (b *Bound) alone(written string) *modeloptBound {
	one := &modeloptBound{exact: map[string]bool{}}
	for _, e := range b.opt.list {
		if e.written == written {
			one.list = append(one.list, e)
			one.exact[e.mapped] = true
		}
	}
	return one
}

func (b *Bound) judgeModelOpt(written string, mods []known) (Dead, bool) {
	d := Dead{Entry: written}
	var means func(name string) bool
	switch text, re := strings.CutPrefix(written, "re:"); {
	case re:
		d.Reason = "modelopt's loader knows no patterns that start re:; it looks for these very characters in the name"
		p := compile(text)
		means = func(name string) bool { return p.match(name) != No }
	case strings.ContainsAny(written, "*?["):
		d.Reason = "a shell pattern is held against the server's own name, where q, k, v (and gate and up, and a and b) are one module"
		forms := []string{written}
		if p, ok := strings.CutSuffix(written, "*"); ok {
			forms = append(forms, p, p+".*")
		}
		means = func(name string) bool {
			return slices.ContainsFunc(forms, func(f string) bool { return fnmatch(f, name) })
		}
	default:
		d.Reason = "no module of this server has such a name, or holds it"
		means = func(name string) bool { return name == written || strings.HasPrefix(name, written+".") }
	}
	meant := false
	for i := range mods {
		if !slices.ContainsFunc(mods[i].ckpt, means) && !slices.ContainsFunc(mods[i].asked, means) {
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

// deadLayers are entries of quantized_layers that no module of the server asks for.
func (b *Bound) deadLayers() []Dead {
	m := b.Quantization.ModelOpt
	if b.Quantization.Method != ModelOptMixed || m == nil {
		return nil
	}
	asked, above := map[string]bool{}, map[string]bool{}
	for i := range b.server.Linears {
		l := &b.server.Linears[i]
		names := []string{l.Runtime}
		if parent, _ := cutLast(l.Runtime); l.Fused() {
			for _, sh := range l.Shards {
				names = append(names, parent+"."+sh.Key)
			}
		} else if l.Routed() {
			above[l.Runtime] = true
			above[parent] = true // beside the experts
		}
		for _, n := range names {
			for _, s := range spellings(n) {
				asked[s] = true
			}
			above[n] = true
		}
	}
	var out []Dead
	for _, l := range m.Layers {
		name := b.server.mapper.prefixes(l.Name)
		if asked[name] || b.elsewhere(l.Name) {
			continue
		}
		below := false
		for i := strings.LastIndexByte(name, '.'); i > 0 && !below; i = strings.LastIndexByte(name[:i], '.') {
			below = above[name[:i]]
		}
		if !below {
			out = append(out, Dead{Entry: l.Name, Reason: "quantized_layers gives it " + l.Algo + ", and the server asks for no such module"})
		}
	}
	return out
}

// Overreach is an exclusion of a modelopt block that covers more than it says, because the server takes it for any part
// of a name: "layers.1" is in layers.10, too.
type Overreach struct {
	Entry string
	Also  []string // checkpoint modules that it covers beside those that it names
}

// Overreaches lists them: an entry without a star inside that is found in a name and stops there in the middle of a word
// or a number.
func (b *Bound) Overreaches() []Overreach {
	if b.opt == nil {
		return nil
	}
	var out []Overreach
	for _, w := range b.writtenExclusions() {
		core := strings.TrimSuffix(w, "*")
		if core == "" || strings.ContainsAny(core, "*?[") || strings.HasSuffix(core, ".") {
			continue
		}
		at := b.server.mapper.prefixes(core)
		o := Overreach{Entry: w}
		for i := range b.server.Linears {
			l := &b.server.Linears[i]
			k := strings.Index(l.Runtime, at)
			if k < 0 || l.Place == LMHeadMTP {
				continue
			}
			whole := false // somewhere it ends where a part of the name ends
			for ; k >= 0 && !whole; k = next(l.Runtime, at, k) {
				end := k + len(at)
				whole = end == len(l.Runtime) || l.Runtime[end] == '.'
			}
			if whole {
				continue
			}
			for _, sh := range l.Shards {
				o.Also = append(o.Also, sh.Name)
			}
		}
		if len(o.Also) > 0 {
			out = append(out, o)
		}
	}
	return out
}

func next(name, part string, after int) int {
	i := strings.Index(name[after+1:], part)
	if i < 0 {
		return -1
	}
	return after + 1 + i
}
