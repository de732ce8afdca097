package verify

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"seatsmith/internal/engine"
	"seatsmith/internal/playbook"
)

// ParseGPU reads "sm_120", "sm120", "12.0", "cpu", "rocm" or "xpu" as a CUDA capability (120), or the name of another
// platform.
func ParseGPU(s string) (capability int64, platform string, err error) {
	s = strings.ToLower(s)
	switch s {
	case "cpu", "rocm", "xpu":
		return 0, s, nil
	}
	digits := strings.TrimPrefix(strings.TrimPrefix(s, "sm"), "_")
	digits = strings.TrimRight(digits, "af") // sm_90a, sm_120f: the same card
	if major, minor, ok := strings.Cut(digits, "."); ok {
		digits = major + minor
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 50 || n > 999 {
		return 0, "", fmt.Errorf("gpu %q: want a compute capability such as sm_120, or cpu, rocm, xpu", s)
	}
	return n, "", nil
}

// host judges the checkpoint for the cards that are to serve it.
func (j *judge) host() error {
	h := j.o.Host
	if h.GPU != "" {
		capability, platform, err := ParseGPU(h.GPU)
		if err != nil {
			return err
		}
		j.gpu(capability, platform)
	}
	if h.TP > 1 {
		j.parallel(h.TP, "--tp")
	}
	return nil
}

// gpu: C30. Kernels by card (vLLM 017e9f4448, model_executor/kernels/linear/__init__.py init_nvfp4_linear_kernel;
// quantization/compressed_tensors/schemes get_min_capability).
func (j *judge) gpu(capability int64, platform string) {
	schemes := j.quantizedSchemes()
	for _, s := range slices.SortedFunc(maps.Keys(schemes), func(a, b engine.Scheme) int { return strings.Compare(a.String(), b.String()) }) {
		where := schemes[s]
		fix := "serve it on an NVIDIA card from sm_75 on, or serve the unquantized checkpoint"
		switch {
		case s.NVFP4() && (platform == "cpu" || platform == "xpu" || platform == "rocm" && s.Kind == engine.W4A16):
			j.add(playbook.New("gpu-unfit", where, fmt.Sprintf("it is %s, and the server has no kernel for that on %s: it stops", s, platform), fix))
		case s.NVFP4() && platform == "rocm":
			j.add(playbook.New("gpu-unfit", where, fmt.Sprintf("it is %s, which is emulated on rocm: the weights are decoded to BF16 at every step", s), fix).As(playbook.Warning))
		case platform != "":
			j.skip(fmt.Sprintf("%s on %s", s, platform), true)
		case capability < int64(s.MinCapability()):
			j.add(playbook.New("gpu-unfit", where, fmt.Sprintf("it is %s, which needs sm_%d or later, not sm_%d: the server stops", s, s.MinCapability(), capability), fix))
		case s.Kind == engine.W4A4 && capability < 100:
			j.add(playbook.New("scheme-gpus", where, fmt.Sprintf("it is %s, and sm_%d has no FP4 arithmetic: it runs weight-only, its input scales are not used", s, capability),
				"use nvfp4-w4a16, which is as fast there and loses less").As(playbook.Warning))
		}
	}
}

// rowParallel are modules whose inner side is split over ranks; every other linear is split by rows.
var rowParallel = []string{".o_proj", ".down_proj", ".out_proj", ".linear_fc2", ".attn.proj"}

// parallel judges the split over ranks: heads, and the widths and heights that each rank is left with (C11, C12).
func (j *judge) parallel(tp int64, where string) {
	if j.srv == nil {
		j.skip(fmt.Sprintf("the split over %d ranks, because the server's class could not be built", tp), true)
		return
	}
	a := j.srv.Arch
	subject := fmt.Sprintf("%s %d", where, tp)
	split := func(n int64, what string) {
		if n > 0 && n%tp != 0 {
			j.notes.join("heads", playbook.New("tp-split", subject, fmt.Sprintf("%d %s cannot be split over %d ranks: the server stops", n, what, tp), "choose a number of ranks that divides them"))
		}
	}
	split(a.Heads, "attention heads")
	split(a.KeyHeads, "key heads of linear attention")
	split(a.ValueHeads, "value heads of linear attention")
	if a.KVHeads > 0 && a.KVHeads%tp != 0 && tp%a.KVHeads != 0 {
		split(a.KVHeads, "key/value heads")
	}
	for i := range j.srv.Linears {
		l, r := &j.srv.Linears[i], j.resolved[i]
		if r.State != engine.Quantized || !r.Scheme.NVFP4() {
			continue
		}
		for _, s := range l.Shards {
			inner := slices.ContainsFunc(rowParallel, func(end string) bool { return strings.HasSuffix(s.Name, end) })
			switch {
			case inner && s.In%tp != 0, !inner && s.Out%tp != 0 && s.Key != "k_proj" && s.Key != "v_proj":
				j.notes.join("sides", playbook.New("tp-split", s.Name, fmt.Sprintf("its side of %d is not divided by %d ranks: the server stops", side(s, inner), tp), "choose a number of ranks that divides it"))
			case inner && s.In/tp%16 != 0:
				j.notes.join("rank", playbook.New("width-group", s.Name, fmt.Sprintf("each of %d ranks has a width of %d, and %d mod 16 = %d: the server refuses it", tp, s.In/tp, s.In/tp, s.In/tp%16),
					"serve with fewer ranks, or keep the module unquantized"))
			case inner && s.In/tp%32 != 0:
				j.notes.join("rank", playbook.New("width-kernel", s.Name, fmt.Sprintf("each of %d ranks has a width of %d, which 32 does not divide: kernels pad it, and some padded wrongly", tp, s.In/tp),
					"serve with fewer ranks; test the served text"))
			}
		}
	}
}

func side(s engine.Shard, inner bool) int64 {
	if inner {
		return s.In
	}
	return s.Out
}
