package verify

import (
	"fmt"
	"slices"

	"seatsmith/internal/engine"
	"seatsmith/internal/playbook"
)

// lmHead judges lm_head, which the target asks for under one name and the drafter under another; both must come to the
// same, and to what is stored.
func (j *judge) lmHead() {
	at := func(p engine.Place) int {
		return slices.IndexFunc(j.srv.Linears, func(l engine.Linear) bool { return l.Place == p })
	}
	t, d := at(engine.LMHead), at(engine.LMHeadMTP)
	if j.quantBroken || t < 0 {
		return
	}
	l, r := &j.srv.Linears[t], j.resolved[t]
	k := kindOf(j.stored[t][0])
	if k == absent {
		return // tied, or package model's news
	}
	var draft engine.Resolution
	for _, i := range []int{t, d} {
		if i < 0 {
			continue
		}
		s := j.resolved[i]
		if s.State == engine.Unjudged {
			s, _ = j.unjudged(i, k)
		}
		if s.State == engine.Refused {
			j.refused(&j.srv.Linears[i], s.Err)
			return
		}
		if draft = s; i == t {
			r = s
		}
	}
	if d >= 0 && draft.Scheme != r.Scheme {
		j.condemn(l)
		j.blameConfig()
		j.add(playbook.New("lm-head-state", "lm_head",
			fmt.Sprintf("the target asks for %s and gets %s, the drafter asks for %s and gets %s; one of them cannot load what is stored",
				l.Runtime, r.Scheme, j.srv.Linears[d].Runtime, draft.Scheme),
			`use "re:.*lm_head$", which matches both names, as target or as ignore entry`))
		return
	}
	if r.Scheme.Kind == engine.Other {
		j.skip("lm_head: scheme "+r.Scheme.Name, true)
		return
	}
	if kindFor(r.Scheme) != k {
		j.condemn(l)
		j.blameConfig()
		j.add(playbook.New("lm-head-state", "lm_head",
			fmt.Sprintf("it is stored as %s, but the server builds it as %s", k, r.Scheme),
			j.lmHeadFix(k)))
		return
	}
	j.consistent(l, r, k)
	j.table(l, t, r.Scheme, k)
}

// lmHeadFix offers both ways out, in the words of the block's dialect.
func (j *judge) lmHeadFix(k kind) string {
	if !j.quant.IsModelOpt() {
		return `either make config.json say what is stored (a group with the target "re:.*lm_head$" and no entry in ` + j.ignoreKey() + `, or the reverse), or store lm_head as config.json says (from the source)`
	}
	if k.quantized() {
		return "either take lm_head out of " + j.ignoreKey() + ", or restore lm_head.weight unquantized from the source"
	}
	return "add \"lm_head\" to " + j.ignoreKey()
}
