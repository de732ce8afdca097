package verify

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"seatsmith/internal/engine"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// linear compares what config.json says about one module of the server with how its shards are stored.
func (j *judge) linear(i int) {
	l, r := &j.srv.Linears[i], j.resolved[i]
	if l.Place == engine.LMHead || l.Place == engine.LMHeadMTP || j.quantBroken {
		return // lmHead judges both together
	}
	k, ok := j.agree(i)
	if !ok {
		j.condemn(l)
		return
	}
	if k == absent {
		j.table(l, i, engine.Scheme{}, plain)
		return
	}
	switch r.State {
	case engine.Unjudged:
		var fits bool
		switch r, fits = j.unjudged(i, k); {
		case !fits && r.State == engine.Refused:
			j.refused(l, r.Err)
			return
		case !fits:
			j.contradiction(l, r, k)
			return
		}
	case engine.Refused:
		j.refused(l, r.Err)
		return
	}
	if r.Scheme.Kind == engine.Other {
		j.notes.join(r.Scheme.Name, playbook.New("scheme-unread", l.Runtime,
			fmt.Sprintf("group %s is %s to the server, which is not judged here", r.Group, r.Scheme), "judge it with the server itself"))
		j.skip("modules of scheme "+r.Scheme.Name, true)
		return
	}
	switch {
	case len(r.Lost) > 0:
		j.notes.join("same name", playbook.New("groups-overlap", l.Runtime,
			fmt.Sprintf("targets of group %s and of %s are spellings of one module; the server takes %s because it comes last, other readers may not", r.Group, strings.Join(r.Lost, ", "), r.Group),
			"name the module in one group only"))
	case len(r.Overlap) > 0:
		j.notes.join(r.Group, playbook.New("groups-overlap", l.Runtime,
			fmt.Sprintf("targets of group %s and of %s both match; the server takes %s because it comes first, other readers may not", r.Group, strings.Join(r.Overlap, ", "), r.Group),
			"make the targets exclude each other"))
	}
	if k != kindFor(r.Scheme) {
		j.contradiction(l, r, k)
		return
	}
	j.consistent(l, r, k)
	j.table(l, i, r.Scheme, k)
}

func (j *judge) condemn(l *engine.Linear) {
	for _, s := range l.Shards {
		j.condemned[s.Name] = true
	}
}

// agree finds the one kind of all shards of a module; shards that differ are a finding.
func (j *judge) agree(i int) (kind, bool) {
	l := &j.srv.Linears[i]
	if l.Routed() && len(j.fusedExperts[i]) > 0 {
		return plain, true
	}
	by := map[kind][]string{}
	var order []kind
	for s := range l.Shards {
		k := kindOf(j.stored[i][s])
		if k == absent {
			continue
		}
		if by[k] == nil {
			order = append(order, k)
		}
		by[k] = append(by[k], l.Shards[s].Name)
	}
	switch len(order) {
	case 0:
		return absent, true
	case 1:
		return order[0], true
	}
	slices.SortStableFunc(order, func(a, b kind) int { return len(by[a]) - len(by[b]) })
	few, many := order[0], order[len(order)-1]
	for _, name := range by[few] {
		j.blameModule(name)
	}
	j.notes.join("stored", playbook.New("fused-partial", l.Runtime,
		fmt.Sprintf("the server builds one module with one scheme, but %s is %s and %s is %s", listed(by[few], mostNames), few, listed(by[many], mostNames), many),
		"quantize all of them the same way, or keep all of them at source precision"))
	return absent, false
}

// refused: the server stops at this module.
func (j *judge) refused(l *engine.Linear, err error) {
	var part *engine.PartialError
	var scheme *engine.SchemeError
	var old *engine.VersionError
	j.condemn(l)
	j.blameConfig()
	switch {
	case errors.As(err, &part):
		j.notes.join("ignore", playbook.New("fused-partial", l.Runtime,
			fmt.Sprintf("the ignore list covers %s but not %s, which the server builds as one module; it stops", strings.Join(part.Ignored, ", "), strings.Join(part.Uncovered, ", ")),
			"ignore all of them or none"))
	case errors.As(err, &scheme):
		if !j.refusals[scheme.Group] { // told once, or while the block was read
			j.refuse(scheme.Group)
			j.add(playbook.New("config-args", j.groupKey(scheme.Group), scheme.Message, "write the arguments as the server knows them"))
		}
	case errors.As(err, &old):
		j.notes.join("old", playbook.New("engine-too-old", j.engine.String(), err.Error(), "serve with a later version, or write the other dialect"))
	default:
		j.notes.join("experts", playbook.New("fused-partial", l.Runtime, err.Error(), "give all projections of the experts the same scheme"))
	}
}

// refuse notes that it was told why the server refuses a group. A warning about the same group says no such thing.
func (j *judge) refuse(group string) {
	if j.refusals == nil {
		j.refusals = map[string]bool{}
	}
	j.refusals[group] = true
}

// contradiction: config.json and the tensors say different things about a module.
func (j *judge) contradiction(l *engine.Linear, r engine.Resolution, k kind) {
	j.condemn(l)
	j.blameConfig()
	name := shardNames(l)
	switch {
	case l.InHead() && k == plain:
		j.notes.join("", playbook.New("head-not-ignored", l.Runtime,
			fmt.Sprintf("its tensors are unquantized, but %s makes the server build it as %s: %s", target(r), r.Scheme, j.headFate()),
			fmt.Sprintf("add %q and the exact names (%s) to %s", j.headEntry(), name, j.ignoreKey())))
	case l.InHead() && r.State == engine.Unquantized:
		j.notes.join("config", playbook.New("head-quantized", l.Runtime,
			fmt.Sprintf("it is stored as %s, but the server builds it unquantized (%s)", k, why(r)),
			"restore the head from the source, or take it out of the ignore list and give it a group"))
	case (l.Place == engine.Tower || l.Place == engine.Gates) && k == plain:
		j.notes.join("config", playbook.New("protected-quantized", l.Runtime,
			fmt.Sprintf("its tensors are unquantized, but %s makes the server build it as %s", target(r), r.Scheme),
			fmt.Sprintf("add %s to %s", j.ignoreHint(l), j.ignoreKey())))
	case l.Place == engine.Tower:
		j.notes.join("stored", playbook.New("protected-quantized", l.Runtime,
			fmt.Sprintf("it is stored as %s; the tower stays at source precision", k), "restore it from the source"))
	case r.State == engine.Unquantized:
		j.notes.join("tensors", playbook.New("config-contradiction", l.Runtime,
			fmt.Sprintf("%s is stored as %s, but the server builds the module unquantized (%s)", name, k, why(r)),
			fmt.Sprintf("either give it a group (and take it out of %s), or restore it unquantized from the source", j.ignoreKey())))
	default:
		j.notes.join("config", playbook.New("config-contradiction", l.Runtime,
			fmt.Sprintf("%s makes the server build it as %s, but %s is stored %s", target(r), r.Scheme, name, k),
			fmt.Sprintf("either name it in %s (or in the group that it is stored in), or store it as the group says", j.ignoreKey())))
	}
}

// headFate says what a head that is built quantized and stored unquantized comes to.
func (j *judge) headFate() string {
	if j.engine.Has(engine.StrictNames) {
		return "the server stops when speculation is on"
	}
	return "it skips the tensors with one warning and drafts from uninitialised memory"
}

// consistent judges modules whose config and tensors agree.
func (j *judge) consistent(l *engine.Linear, r engine.Resolution, k kind) {
	switch {
	case l.InHead() && k.quantized():
		j.notes.join("", playbook.New("head-quantized", l.Runtime,
			fmt.Sprintf("it is stored as %s; drafts are accepted only as often as the head is exact", k),
			"measure acceptance before and after, or keep the head as the source has it").As(playbook.Warning))
	case l.Place == engine.Tower && k.quantized():
		j.notes.join("stored", playbook.New("protected-quantized", l.Runtime,
			fmt.Sprintf("it is stored as %s; the tower stays at source precision", k), "restore it from the source and ignore it"))
	case l.Place == engine.Gates && k.quantized():
		j.notes.join("gates", playbook.New("protected-quantized", l.Runtime,
			fmt.Sprintf("it is stored as %s; these gates set how the state decays, and both peers keep them", k),
			"restore it from the source and ignore it").As(playbook.Warning))
	}
	if k == plain && l.InHead() && l.Fused() && r.Ignored && j.bound.Covers(l.Runtime) == engine.No {
		j.notes.join("", playbook.New("head-portability", l.Runtime,
			"the ignore list names only its parts; runtimes that match fused names build it quantized and drop its tensors",
			fmt.Sprintf("add %q to %s", l.Runtime, j.ignoreKey())))
	}
	if !k.fp4() {
		if r.State == engine.Quantized && r.Scheme.Kind == engine.FP8 {
			j.rank(l, r.Scheme, 1)
		}
		return
	}
	if q := l.Shards[0]; q.Key == "q_proj" && j.srv.Arch.AttnGate && !l.InHead() {
		j.notes.join("", playbook.New("gated-q-fp4", q.Name,
			"q_proj holds the output gate as well (attn_output_gate), and FP4 noise in the gate half does the damage",
			"keep q, k and v unquantized or in FP8"))
	}
	rows := int64(0)
	for _, s := range l.Shards {
		rows += s.Out
	}
	in := l.Shards[0].In
	switch {
	case in%16 != 0:
		j.condemn(l)
		j.notes.join("", playbook.New("width-group", l.Shards[0].Name,
			fmt.Sprintf("its width is %d, and %d mod 16 = %d: it cannot hold NVFP4, and the server refuses it", in, in, in%16),
			"keep the module (with its fused partners) unquantized"))
	case in%32 != 0:
		j.notes.join("", playbook.New("width-kernel", l.Runtime,
			fmt.Sprintf("its width is %d, which 32 does not divide: kernels pad it, and some padded wrongly", in),
			"prefer keeping it unquantized; test the served text"))
	case !l.Routed() && rows%64 != 0 && !j.engine.Has(engine.PadsRows):
		j.notes.join("rows", playbook.New("width-kernel", l.Runtime,
			fmt.Sprintf("its height is %d, which 64 does not divide: the weight-only kernel of this version refuses it", rows),
			"serve with a later version, or keep it unquantized"))
	}
}

// table holds every shard against the exact list of its scheme. A module without any tensor is package model's news.
func (j *judge) table(l *engine.Linear, i int, s engine.Scheme, k kind) {
	if len(j.fusedExperts[i]) > 0 {
		j.expertTensors(l, i)
		return
	}
	for n := range l.Shards {
		sh, have := &l.Shards[n], j.stored[i][n]
		if k.fp4() && sh.In%16 != 0 {
			continue
		}
		needs := s.Tensors(sh.Out, sh.In)
		if sh.Bias {
			needs = append(needs, engine.Need{Suffix: "bias", Dtypes: plainDtypes, Shapes: [][]int64{{sh.Out}}})
		}
		for _, need := range needs {
			t := have[need.Suffix]
			if t != nil {
				j.exact(t, need)
				continue
			}
			j.lacking(sh, need, k)
		}
		for _, attr := range sortedKeys(have) {
			if attr == "bias" {
				if t := have[attr]; !sh.Bias && j.expected[t.Base] != nil {
					j.dropped(t)
				}
				continue
			}
			if !slices.ContainsFunc(needs, func(n engine.Need) bool { return n.Suffix == attr }) {
				t := have[attr]
				j.blame(t)
				j.notes.join(generic(t.Name), playbook.New("tensor-unexpected", t.Name,
					fmt.Sprintf("a module that is %s has no parameter %s; the server finds no place for it%s", s, attr, j.strict()),
					"take the tensor out of its shard (an index cannot hide it)"))
			}
		}
	}
}

// lacking: a tensor that the server reads is not there.
func (j *judge) lacking(sh *engine.Shard, need engine.Need, k kind) {
	if need.Optional {
		return
	}
	base := sh.Name + ".weight"
	if need.Suffix == "bias" {
		base = sh.Name + ".bias"
	}
	if !j.missing(base) {
		return
	}
	name := sh.Name + "." + need.Suffix
	j.condemned[sh.Name] = true
	j.blameModule(sh.Name)
	if need.Suffix == "input_global_scale" || need.Suffix == "input_scale" {
		j.notes.join(need.Suffix, playbook.New("scale-missing", name,
			"the group scales activations with a stored number, and it is not there: the server uses whatever its memory holds",
			"calibrate, or make the group weight-only (input_activations null)"))
		return
	}
	j.notes.join(generic(name), playbook.New("tensor-missing", name,
		fmt.Sprintf("the module is stored as %s without it: the server uses whatever its memory holds", k),
		"write the module again from the source"))
}

// exact compares dtype and shape of a tensor with what the server registers.
func (j *judge) exact(t *model.Tensor, need engine.Need) {
	plainPart := need.Suffix == t.Suffix && len(need.Dtypes) == len(plainDtypes) && !quantizedPart(t.Suffix)
	if !slices.Contains(need.Dtypes, t.Dtype()) && !(plainPart && j.notes.any("tensor-dtype")) {
		j.condemned[t.Module] = true
		j.blame(t)
		j.notes.join(generic(t.Name), playbook.New("tensor-dtype", t.Name,
			fmt.Sprintf("it is stored as %s, the server's parameter is %s; the loader converts without a word and the numbers change their meaning", t.Dtype(), dtypes(need.Dtypes)),
			"write the tensor again in that dtype"))
	}
	fits := slices.ContainsFunc(need.Shapes, func(s []int64) bool { return slices.Equal(s, t.Shape()) })
	if !fits && !(plainPart && j.notes.any("tensor-shape")) {
		j.condemned[t.Module] = true
		j.blame(t)
		j.notes.join(generic(t.Name), playbook.New("tensor-shape", t.Name,
			fmt.Sprintf("it is stored as %v, the server's parameter is %s", t.Shape(), shapes(need.Shapes)),
			"write the module again from the source"))
	}
}

func dtypes(list []safetensors.Dtype) string {
	names := make([]string, len(list))
	for i, d := range list {
		names[i] = string(d)
	}
	return strings.Join(names, " or ")
}

func shapes(list [][]int64) string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = fmt.Sprint(s)
	}
	return strings.Join(names, " or ")
}
