package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Bound is a quantization block as one server understands it: entries mapped to runtime names. The drafter uses the
// same, already mapped block; only its packed mapping differs.
type Bound struct {
	Quantization *Quantization
	server       *Server
	ignore       entries
	targets      entries
	owner        []int // group of each target
	shadowed     []shadow
	packed       []Packed
	opt          *modeloptBound // a modelopt block's entries
}

// shadow is a group that lost a target to a later group, which spells the same runtime name differently.
type shadow struct{ target, group int }

// Bind maps the block's entries (apply_vllm_mapper). q is a block of compressed-tensors or modelopt, or nil for an
// unquantized checkpoint; of other dialects nothing is resolved, which callers must say.
func (s *Server) Bind(q *Quantization) *Bound {
	b := &Bound{Quantization: q, server: s, packed: packedWrapper}
	switch {
	case s.Arch.Family != Qwen35:
		b.packed = s.class.packed(s.Arch)
	case s.Arch.TextOnly:
		b.packed = packedTextOnly
	}
	if q == nil {
		return b
	}
	if q.IsModelOpt() {
		m := q.ModelOpt
		if m == nil {
			m = &ModelOpt{}
		}
		b.opt = s.bindModelOpt(m)
		return b
	}
	b.ignore = newEntries(s.mapper, q.Ignore, q.compiled)
	var texts []string
	at := map[string]int{}
	for _, t := range q.targets {
		// apply_vllm_mapper builds a dict: of targets that map to one name, the first keeps its place and the last its group
		name := s.mapper.Entry(t.text)
		if i, seen := at[name]; seen {
			b.shadowed = append(b.shadowed, shadow{i, b.owner[i]})
			texts[i], b.owner[i] = t.text, t.group
			continue
		}
		at[name] = len(texts)
		texts, b.owner = append(texts, t.text), append(b.owner, t.group)
	}
	// _add_fused_moe_to_target_scheme_map: what is said of "Linear" also holds for a mixture's experts
	linear := slices.Index(texts, "Linear")
	if s.Arch.MoE && linear >= 0 && !slices.Contains(texts, "RoutedExperts") {
		texts, b.owner = append(texts, "RoutedExperts"), append(b.owner, b.owner[linear])
	}
	b.targets = newEntries(s.mapper, texts, q.compiled)
	return b
}

// State is the outcome of a resolution.
type State uint8

const (
	Unquantized State = iota // the server builds a plain module
	Quantized
	Refused  // the server stops
	Unjudged // a pattern cannot be run here, so nobody knows
)

// Resolution is what the block says about one linear.
type Resolution struct {
	State   State
	Scheme  Scheme
	Ignored bool     // Unquantized: an ignore entry covers it (false: no target matches)
	By      string   // the entry, the target or the pattern that decided, as written
	Group   string   // Quantized, Refused by a SchemeError: name of the group
	Overlap []string // names of other groups whose targets match in the same step, so that only their order decides
	Lost    []string // names of groups that named the module too, in another spelling, and were overwritten by Group
	Err     error    // Refused: *PartialError, *SchemeError, *ExpertsError or *MixedError

	// PassedOver is an algorithm that quantized_layers gives the module and that the server does not know there: it builds
	// the module unquantized without a word.
	PassedOver string
}

// ExpertsError is the refusal of experts whose projections resolve differently.
type ExpertsError struct{ Runtime, Message string }

func (e *ExpertsError) Error() string { return e.Runtime + ": " + e.Message }

// Resolve asks the block about a linear, as CompressedTensorsConfig.get_quant_method does.
func (b *Bound) Resolve(l *Linear) Resolution {
	if b.Quantization == nil {
		return Resolution{}
	}
	packed := b.packed
	if l.Drafter {
		if packed = packedDrafter; b.Quantization.PlainHead && strings.HasPrefix(l.Runtime, "mtp.layers.") {
			return Resolution{Ignored: true, By: "dynamic"}
		}
	}
	if b.opt != nil {
		if l.Drafter && l.Runtime == "mtp.fc" && b.Quantization.Method == ModelOptFP4 && b.server.Engine.Has(b.server.fcFact()) {
			return Resolution{Ignored: true, By: "mtp.fc"} // built without the quantization config, whatever that says
		}
		return b.modelopt(l, packed)
	}
	if l.Routed() {
		return b.experts(l, packed)
	}
	r := b.one(l.Runtime, l.Class, packed)
	if l.Class == "ParallelLMHead" && r.State == Refused && valueError(r.Err) {
		return Resolution{By: r.By, Group: r.Group} // get_quant_method catches ValueError for the lm_head
	}
	return r
}

// valueError: a scheme that is not found is a NotImplementedError, which nobody catches.
func valueError(err error) bool {
	var s *SchemeError
	return !errors.As(err, &s)
}

func (b *Bound) one(name, class string, packed []Packed) Resolution {
	a, by, err := ignored(name, &b.ignore, packed)
	switch {
	case err != nil:
		return Resolution{State: Refused, Err: err}
	case a == Unknown:
		return Resolution{State: Unjudged, By: by}
	case a == Yes:
		return Resolution{Ignored: true, By: by}
	}
	m, found, unsure := findTarget(name, class, &b.targets, packed)
	switch {
	case unsure != "":
		return Resolution{State: Unjudged, By: unsure}
	case !found:
		return Resolution{}
	}
	q := b.Quantization
	g := &q.Groups[b.owner[m.target]]
	r := Resolution{By: b.targets.list[m.target].written, Group: g.Name, Overlap: b.overlap(name, class, packed, m)}
	for _, s := range b.shadowed {
		if n := q.Groups[s.group].Name; s.target == m.target && n != g.Name && !slices.Contains(r.Lost, n) {
			r.Lost = append(r.Lost, n)
		}
	}
	if g.bad {
		r.State, r.Err = Refused, &SchemeError{g.Name, "the group's arguments are refused"}
		return r
	}
	if r.Scheme, err = q.recognise(g); err != nil {
		r.State, r.Err = Refused, err
		return r
	}
	r.State = Quantized
	return r
}

func (b *Bound) overlap(name, class string, packed []Packed, m match) []string {
	var out []string
	own := b.owner[m.target]
	for _, t := range allTargets(name, class, &b.targets, packed, m.step) {
		g := b.owner[t]
		if n := b.Quantization.Groups[g].Name; g != own && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// experts is CompressedTensorsMoEMethod.get_moe_method: only the names of expert 0 are asked, and an entry that names
// the experts module itself does nothing.
func (b *Bound) experts(l *Linear, packed []Packed) Resolution {
	var first Resolution
	for i, p := range []string{".0.down_proj", ".0.gate_proj", ".0.up_proj"} {
		r := b.one(l.Runtime+p, l.Class, packed)
		switch {
		case r.State == Unjudged || r.State == Refused:
			return r
		case i == 0:
			first = r
		case r.State != first.State || r.Scheme != first.Scheme:
			return Resolution{State: Refused, Err: &ExpertsError{l.Runtime, fmt.Sprintf("the projections of expert 0 resolve to different schemes (%s, %s)", first.Scheme, r.Scheme)}}
		}
	}
	if first.State != Quantized {
		return first
	}
	g := b.group(first.Group)
	// the test for weight-only integers comes first and takes FP8 per channel without activations for one
	if (g.Weights.Strategy == "channel" || g.Weights.Strategy == "group") && g.Input == nil && g.Weights.Dynamic == "false" && b.Quantization.format(g) != "pack-quantized" {
		first.State, first.Err = Refused, &SchemeError{first.Group, "experts take weights without activations only as NVFP4 or pack-quantized"}
	}
	return first
}

// Possible lists what the block may say about a linear that Resolve leaves unjudged: every outcome that some answer of
// the patterns that cannot be run would have, and maybe more, each scheme once. A refusal is an outcome too.
func (b *Bound) Possible(l *Linear) []Resolution {
	if b.opt != nil || b.Quantization == nil {
		return []Resolution{b.Resolve(l)} // shell patterns leave no doubt
	}
	packed := b.packed
	if l.Drafter {
		packed = packedDrafter
	}
	if !l.Routed() {
		return b.possible(nil, l.Runtime, l.Class, packed)
	}
	var out []Resolution
	for _, p := range []string{".0.down_proj", ".0.gate_proj", ".0.up_proj"} {
		out = b.possible(out, l.Runtime+p, l.Class, packed)
	}
	return out
}

func (b *Bound) possible(out []Resolution, name, class string, packed []Packed) []Resolution {
	add := func(r Resolution) {
		if !slices.ContainsFunc(out, func(have Resolution) bool { return have.State == r.State && have.Scheme == r.Scheme }) {
			out = append(out, r)
		}
	}
	a, by, err := ignored(name, &b.ignore, packed)
	if err != nil {
		add(Resolution{State: Refused, Err: err})
		return out
	}
	if a != No {
		add(Resolution{Ignored: true, By: by})
	}
	if a == Yes {
		return out
	}
	sure := false
	for i := range b.targets.list {
		one := entries{list: b.targets.list[i : i+1]}
		_, found, unsure := findTarget(name, class, &one, packed)
		if sure = sure || found; !found && unsure == "" && !firstShard(name, &one, packed) {
			continue
		}
		g := &b.Quantization.Groups[b.owner[i]]
		r := Resolution{State: Quantized, By: b.targets.list[i].written, Group: g.Name}
		if g.bad {
			r.State, r.Err = Refused, &SchemeError{g.Name, "the group's arguments are refused"}
		} else if r.Scheme, r.Err = b.Quantization.recognise(g); r.Err != nil {
			r.State = Refused
		}
		add(r)
	}
	if !sure {
		add(Resolution{})
	}
	return out
}

// firstShard says whether a target may match the first shard of a fused module: where other targets match the other
// shards, the first one's group is taken.
func firstShard(name string, one *entries, packed []Packed) bool {
	for _, p := range packed {
		if strings.HasSuffix(name, p.Fused) {
			_, found, unsure := findTarget(strings.ReplaceAll(name, p.Fused, p.Shards[0]), "", one, nil)
			return found || unsure != ""
		}
	}
	return false
}

func (b *Bound) group(name string) *Group {
	for i := range b.Quantization.Groups {
		if b.Quantization.Groups[i].Name == name {
			return &b.Quantization.Groups[i]
		}
	}
	return nil
}

// Covers says whether an ignore entry matches this very name (equality or pattern, no fusing): what servers without a
// packed mapping for the drafter see.
func (b *Bound) Covers(runtime string) Answer {
	if b.opt != nil {
		yes, _, err := b.opt.excluded(runtime, nil)
		return answer(yes && err == nil)
	}
	a, _ := b.ignore.matches(runtime)
	return a
}
