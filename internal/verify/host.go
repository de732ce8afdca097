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
		j.parallel(h.TP, "--tp", true)
	}
	if len(j.o.Serve) == 0 && (h.GPU != "" || h.Memory > 0) {
		j.memory(nil, h.TP, "--gpu-memory")
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
