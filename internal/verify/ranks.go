package verify

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"seatsmith/internal/engine"
	"seatsmith/internal/playbook"
)

// What each tensor-parallel rank is left with (vLLM 017e9f4448, layers/linear.py: RowParallelLinear splits the inner side,
// the other parallel classes the rows, and distributed/utils.py divide stops where a number does not divide). In a
// mixture the server splits the experts' own width, which is down's inner side and the rows of gate and up.

// inner says whether the inner side of a shard is split.
func inner(l *engine.Linear, shard int) bool {
	return l.Class == "RowParallelLinear" || l.Routed() && shard%3 == 2
}

// whole modules are not split at all, and the vocabulary is padded first.
func undivided(l *engine.Linear) bool {
	return l.Class == "ReplicatedLinear" || l.Place == engine.LMHead || l.Place == engine.LMHeadMTP
}

// parallel judges the split over ranks: heads, and the widths and heights that each rank is left with (C11, C12). tower is
// false when the vision tower is not split with the rest.
func (j *judge) parallel(tp int64, where string, tower bool) {
	if j.srv == nil {
		what := fmt.Sprintf("the split over %d ranks, because the server's class could not be built", tp)
		if j.notes.names(j.m.Config.Architecture, "loader-unread") {
			j.skipUnread(what)
		} else {
			j.skip(what, true)
		}
		return
	}
	a := j.srv.Arch
	subject := fmt.Sprintf("%s %d", where, tp)
	var whole []string
	split := func(n int64, what string) {
		if n > 0 && n%tp != 0 {
			whole = append(whole, fmt.Sprintf("%d %s", n, what))
		}
	}
	split(a.Heads, "attention heads")
	split(a.KeyHeads, "key heads of linear attention")
	split(a.ValueHeads, "value heads of linear attention")
	if a.KVHeads > 0 && a.KVHeads%tp != 0 && tp%a.KVHeads != 0 {
		split(a.KVHeads, "key/value heads")
	}
	if tower && a.Vision != nil {
		split(gjson.GetBytes(j.config, "vision_config.num_heads").Int(), "heads of the vision tower")
	}
	if len(whole) > 0 {
		j.add(playbook.New("tp-split", subject, fmt.Sprintf("%s cannot be split over %d ranks: the server stops", strings.Join(whole, ", "), tp), "choose a number of ranks that divides them"))
	}
	for i := range j.srv.Linears {
		l := &j.srv.Linears[i]
		if undivided(l) || l.Place == engine.Tower && !tower {
			continue
		}
		if j.divided(l, tp) && j.resolved[i].State == engine.Quantized {
			j.rank(l, j.resolved[i].Scheme, tp)
		}
	}
}

// divided says whether every side that is split divides. Heads of q, k and v are judged apart.
func (j *judge) divided(l *engine.Linear, tp int64) bool {
	if l.Class == "QKVParallelLinear" {
		return true
	}
	good := true
	for n, s := range l.Shards {
		side := s.Out
		if inner(l, n) {
			side = s.In
		}
		if side%tp != 0 {
			good = false
			j.notes.join("sides", playbook.New("tp-split", s.Name, fmt.Sprintf("its side of %d is not divided by %d ranks: the server stops", side, tp), "choose a number of ranks that divides it"))
		}
	}
	return good
}

// rank judges one module of one rank; with one rank, linear judges NVFP4 itself.
func (j *judge) rank(l *engine.Linear, s engine.Scheme, tp int64) {
	width, rows := int64(0), int64(0)
	for n, sh := range l.Shards {
		w, r := sh.In, j.rows(l, n, tp)
		if inner(l, n) {
			w, r = sh.In/tp, sh.Out
		}
		rows += r
		if width == 0 || w < width {
			width = w
		}
	}
	name := l.Shards[0].Name
	if l.Routed() && len(l.Shards) > 2 {
		name = l.Shards[2].Name
	}
	fewer := "serve with fewer ranks, or keep the module unquantized"
	switch {
	case s.NVFP4() && width%16 != 0:
		j.notes.join("rank", playbook.New("width-group", name, fmt.Sprintf("each of %d ranks has a width of %d, and %d mod 16 = %d: the server refuses it", tp, width, width, width%16), fewer))
	case s.NVFP4() && width%32 != 0:
		j.notes.join("rank", playbook.New("width-kernel", name, fmt.Sprintf("each of %d ranks has a width of %d, which 32 does not divide: kernels pad it, and some padded wrongly", tp, width),
			"serve with fewer ranks; test the served text"))
	case s.NVFP4() && !l.Routed() && rows%64 != 0 && !j.engine.Has(engine.PadsRows):
		j.notes.join("rank rows", playbook.New("width-kernel", l.Runtime, fmt.Sprintf("each of %d ranks has a height of %d, which 64 does not divide: the weight-only kernel of this version refuses it", tp, rows),
			"serve with fewer ranks or with a later version"))
	case s.Kind == engine.FP8 && s.Strategy == "block":
		j.blocks(l, s, tp)
	case s.Kind == engine.FP8 && !l.Routed() && (width%16 != 0 || rows%16 != 0) && !j.engine.Has(engine.PadsFP8):
		since, source := engine.Since(engine.PadsFP8)
		j.notes.join("rank fp8", playbook.New("width-kernel", l.Runtime,
			fmt.Sprintf("each rank has %d rows of width %d, which 16 does not divide: the FP8 kernel refuses that; vllm %s and later pad it (%s)", rows, width, since, source), "serve with vllm "+since+" or later"))
	}
}

// rows of a shard on one rank. Key and value heads that are fewer than the ranks are repeated.
func (j *judge) rows(l *engine.Linear, shard int, tp int64) int64 {
	s := l.Shards[shard]
	if kv := j.srv.Arch.KVHeads; l.Class == "QKVParallelLinear" && (s.Key == "k_proj" || s.Key == "v_proj") && kv > 0 {
		return s.Out / min(tp, kv)
	}
	return s.Out / tp
}

// blocks: FP8 with a scale per block (vLLM 017e9f4448, layers/quantization/utils/fp8_utils.py validate_fp8_block_shape).
// The inner side of a rank, where it is split, and the rows of every part of a fused or split module must be whole blocks;
// the last part need not be where the rows are not split.
func (j *judge) blocks(l *engine.Linear, s engine.Scheme, tp int64) {
	if l.Routed() {
		return // a mixture's kernels have rules of their own
	}
	var parts []int64
	for n, sh := range l.Shards {
		if w := sh.In / tp; tp > 1 && inner(l, n) && w%s.Block[1] != 0 {
			j.refusedBlock(sh.Name, fmt.Sprintf("each of %d ranks has a width of %d, and %d mod %d = %d", tp, w, w, s.Block[1], w%s.Block[1]))
			return
		}
		if a := j.srv.Arch; sh.Key == "in_proj_qkv" { // three outputs of the server's module
			key := a.KeyHeads * a.KeyDim / tp
			parts = append(parts, key, key, a.ValueHeads*a.ValueDim/tp)
			continue
		}
		parts = append(parts, j.rows(l, n, tp))
	}
	split := tp > 1 && !inner(l, 0) && !undivided(l)
	if !split {
		parts = parts[:max(0, len(parts)-1)]
	}
	for _, rows := range parts {
		if rows%s.Block[0] != 0 {
			j.refusedBlock(l.Runtime, fmt.Sprintf("a part of it has %d rows on each of %d ranks, and %d mod %d = %d", rows, tp, rows, s.Block[0], rows%s.Block[0]))
			return
		}
	}
}

func (j *judge) refusedBlock(subject, why string) {
	j.notes.join("blocks", playbook.New("width-block", subject, why+": it is FP8 in blocks, and the server refuses parts of a block", "serve with fewer ranks, or store the module per channel or unquantized"))
}
