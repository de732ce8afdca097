package verify

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"seatsmith/internal/engine"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
)

// structure simulates the server over names, dtypes and shapes.
func (j *judge) structure() {
	drafter := j.m.Head.Present > 0 || j.m.Head.Promised > 0
	srv, err := engine.Build(j.engine, j.config, drafter)
	if err != nil {
		const skipped = "the server's modules, because its class could not be built"
		var old *engine.OldError
		var class *engine.ClassError
		switch {
		case errors.As(err, &old):
			j.add(playbook.New("engine-too-old", j.engine.String(), err.Error(), "serve with a later version, or keep the wrapper class"))
		case errors.As(err, &class) && class.Registered:
			// a class that this program has no family for is no fault of the checkpoint's
			j.notes.drop(func(f playbook.Finding) bool { return f.Rule == "arch-unknown" })
			j.add(playbook.New("loader-unread", class.Class, err.Error()+": nothing here says that the checkpoint loads, or that its head drafts", "try the checkpoint on the server itself before it takes a seat"))
			if j.m.StructureOnly() { // else nobody knows its tensors either
				j.skipUnread(skipped)
				return
			}
		case !j.notes.about("config.json"): // else package model said what is wrong with it
			j.add(playbook.New("arch-unknown", "config.json", err.Error(), "correct config.json, or serve with a version that knows the class"))
		}
		j.skip(skipped, true)
		return
	}
	if drafter && srv.Arch.TextOnly && !j.engine.Has(engine.TextOnlyDrafter) {
		since, source := engine.Since(engine.TextOnlyDrafter)
		j.add(playbook.New("engine-too-old", j.engine.String(),
			fmt.Sprintf("the head of a text-only checkpoint is recognised since vllm %s (%s); this version serves without it", since, source),
			"serve with vllm "+since+" or later, or keep the wrapper class"))
	}
	j.srv = srv
	j.spare()
	j.bind()
	j.place()
	for i := range srv.Linears {
		j.linear(i)
	}
	j.lmHead()
	j.params()
	j.entries()
	j.cacheScales()
	j.values()
}

// bind resolves every linear against the quantization block.
func (j *judge) bind() {
	q := j.quant
	if !j.dialectKnown {
		q = nil
	}
	j.bound = j.srv.Bind(q)
	for i := range j.srv.Linears {
		j.resolved = append(j.resolved, j.bound.Resolve(&j.srv.Linears[i]))
	}
}

// place gives every stored tensor to the module that the server would load it into.
func (j *judge) place() {
	s := j.srv
	j.stored, j.fusedExperts, j.caches = make([][]parts, len(s.Linears)), make([]parts, len(s.Linears)), map[string]*model.Tensor{}
	for i := range s.Linears {
		j.stored[i] = make([]parts, len(s.Linears[i].Shards))
		for k := range j.stored[i] {
			j.stored[i][k] = parts{}
		}
		j.fusedExperts[i] = parts{}
	}
	never := map[string]bool{}
	for i := range j.m.Tensors {
		t := &j.m.Tensors[i]
		switch slot := s.Place(t.Name); slot.Fate {
		case engine.InLinear:
			j.fill(j.stored[slot.Linear][slot.Shard], slot.Attr, t)
		case engine.InExperts:
			j.fill(j.fusedExperts[slot.Linear], slot.Attr, t)
		case engine.CacheScale:
			j.cache(t, slot)
		case engine.Tolerated:
			j.tolerated(t)
		case engine.NoPlace:
			if slot.Never != "" && quantizedPart(t.Suffix) {
				if !never[slot.Never] {
					never[slot.Never] = true
					j.protected(t)
				}
				continue
			}
			j.stray(t)
		}
	}
	// the drafter's lm_head reads the same tensors as the target's
	target := slices.IndexFunc(s.Linears, func(l engine.Linear) bool { return l.Place == engine.LMHead })
	for i := range s.Linears {
		if s.Linears[i].Place == engine.LMHeadMTP {
			j.stored[i] = j.stored[target]
		}
	}
}

func (j *judge) fill(into parts, attr string, t *model.Tensor) {
	if first := into[attr]; first != nil {
		j.blame(t)
		j.notes.join("twice", playbook.New("tensor-unexpected", t.Name,
			fmt.Sprintf("it fills the same place in the server as %s; the one that is read last wins", first.Name),
			"take one of the two out of its shard"))
		return
	}
	into[attr] = t
}

// stray is a tensor that no parameter takes.
func (j *judge) stray(t *model.Tensor) {
	if j.strayTold(t) || j.expected[t.Base] == nil &&
		(t.Role == model.RoleHead && j.notes.any("head-promise") || t.Base == "lm_head.weight" && j.notes.any("lm-head-tied")) {
		return
	}
	j.blame(t)
	j.notes.join(generic(t.Name), playbook.New("tensor-unexpected", t.Name, "the server has no module or parameter of this name"+j.strict(),
		"take the tensor out of its shard (an index cannot hide it)"))
}

// strict says what an unknown name does to this version.
func (j *judge) strict() string {
	if j.engine.Has(engine.StrictNames) {
		return " and stops"
	}
	return "; it skips the tensor with one warning, and the module that it was meant for stays uninitialised"
}

// protected: a module that the server never builds quantized is stored quantized.
func (j *judge) protected(t *model.Tensor) {
	j.condemned[t.Module] = true
	j.blame(t)
	j.notes.drop(func(f playbook.Finding) bool { return f.Rule == "tensor-dtype" && f.Subject == t.Module+".weight" })
	j.notes.join("stored", playbook.New("protected-quantized", t.Module,
		fmt.Sprintf("it is stored quantized (%s), but the server builds it without a quantization config", t.Suffix),
		"store it at source precision"))
}

// params checks what is never quantized. Package model looks at the same shapes; a second opinion is told only where the
// first said nothing.
func (j *judge) params() {
	for _, p := range j.srv.Params {
		t, ok := j.m.Lookup(p.Name)
		if !ok {
			if j.srv.Arch.TextOnly { // may stand under the nested spelling
				continue
			}
			if !j.condemned[moduleName(p.Name)] && j.missing(p.Name) { // else it is there in another form, which was told
				j.notes.join(generic(p.Name), playbook.New("tensor-missing", p.Name, "the server reads it and it is not stored: its memory stays uninitialised", "take it from the source"))
			}
			continue
		}
		if !j.condemned[t.Module] {
			j.exact(t, engine.Need{Suffix: t.Suffix, Dtypes: plainDtypes, Shapes: [][]int64{p.Shape}})
		}
	}
}

// generic is a name with its numbers replaced, so that layers fall together.
func generic(name string) string {
	parts := strings.Split(name, ".")
	for i, p := range parts {
		if p != "" && strings.Trim(p, "0123456789") == "" {
			parts[i] = "N"
		}
	}
	return strings.Join(parts, ".")
}
