package diff

import (
	"cmp"
	"fmt"
	"slices"

	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// rung is one layer of a kind: changed when any parameter of it is.
type rung struct {
	layer   string
	changed bool
}

// layers looks for layers of a kind that are untouched while others of the same kind changed. Kinds of small tensors are
// left out: a small step on them vanishes in BF16.
//
//	error     fewer than half are untouched, and one lies between changed ones: trainings freeze a beginning or an end,
//	          and edits work on a range; a hole is a tensor that the merge did not find
//	warning   the untouched ones are a beginning or an end of the layers, or at least half (Spectrum and its like unfreeze a
//	          part of the layers, chosen by kind)
func (c *comparison) layers() {
	type pattern struct {
		holes  string
		middle bool
	}
	grouped := map[pattern][]string{}
	var order []pattern
	for _, k := range c.r.Kinds {
		if !slices.Contains(linears, k.Role) || k.Changed == 0 || k.Identical == 0 {
			continue
		}
		ladder := rungs(k.params)
		var still []string
		first, last := -1, -1
		for i, r := range ladder {
			if r.changed {
				if first < 0 {
					first = i
				}
				last = i
			} else {
				still = append(still, r.layer)
			}
		}
		if len(still) == 0 {
			continue
		}
		middle := false
		for i, r := range ladder {
			middle = middle || !r.changed && i > first && i < last
		}
		p := pattern{holes: fmt.Sprintf("%d of %d layers (%s)", len(still), len(ladder), some(still)), middle: middle && 2*len(still) < len(ladder)}
		if grouped[p] == nil {
			order = append(order, p)
		}
		grouped[p] = append(grouped[p], k.Name)
	}
	for _, p := range order {
		names := grouped[p]
		f := playbook.New("diff-layers-untouched", names[0], fmt.Sprintf("%s: untouched in %s while the other layers changed", some(names), p.holes), mergeAgain)
		if !p.middle {
			f.Message += "; a frozen beginning or end, and a choice of layers, look like that too"
			f = f.As(playbook.Warning)
		}
		c.add(f)
	}
}

// rungs sums a kind up by layer, in natural order.
func rungs(params []*param) []rung {
	at := map[string]int{}
	var out []rung
	for _, p := range params {
		layer := layerOf(p.key)
		i, ok := at[layer]
		if !ok {
			i = len(out)
			at[layer] = i
			out = append(out, rung{layer: layer})
		}
		out[i].changed = out[i].changed || p.state == changed
	}
	slices.SortFunc(out, func(a, b rung) int { return safetensors.NaturalCompare(a.layer, b.layer) })
	return out
}

// experts looks for layers in which a part of the routed experts is untouched. An expert that no token of the training
// reached can stay as it was, so a minority is a warning; half or more is how a merge looks that took the wrong axis or the
// wrong names (unsloth-zoo#779: 57 of 60 expert tensors from the base).
func (c *comparison) experts() {
	type one struct {
		layer  string
		expert int
	}
	moved := map[one]bool{}
	var order []one
	for i := range c.units {
		u := &c.units[i]
		p := c.params[u.param]
		if u.expert < 0 || p.role != model.RoleExpert || p.state > changed {
			continue
		}
		o := one{layerOf(p.key), u.expert}
		if _, ok := moved[o]; !ok {
			order = append(order, o)
		}
		moved[o] = moved[o] || u.differs
	}
	slices.SortStableFunc(order, func(a, b one) int {
		return cmp.Or(safetensors.NaturalCompare(a.layer, b.layer), cmp.Compare(a.expert, b.expert))
	})
	for _, o := range order {
		n := len(c.r.Experts)
		if n == 0 || c.r.Experts[n-1].Layer != o.layer {
			c.r.Experts = append(c.r.Experts, Experts{Layer: o.layer})
			n++
		}
		e := &c.r.Experts[n-1]
		e.Experts++
		if !moved[o] {
			e.Identical++
		}
	}
	c.r.Experts = slices.DeleteFunc(c.r.Experts, func(e Experts) bool { return e.Identical == 0 || e.Identical == e.Experts })
	var list []string
	most := false
	for _, e := range c.r.Experts {
		list = append(list, fmt.Sprintf("%d of %d experts identical in %s", e.Identical, e.Experts, e.Layer))
		most = most || 2*e.Identical >= e.Experts
	}
	if len(list) == 0 {
		return
	}
	f := playbook.New("diff-experts-partial", c.r.Experts[0].Layer, some(list), mergeAgain)
	if !most {
		f.Message += "; experts that the training never reached look like that too"
		f = f.As(playbook.Warning)
	}
	c.add(f)
}
