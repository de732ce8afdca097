package dialect

import (
	"fmt"
	"slices"
	"strings"

	"seatsmith/internal/safetensors"
)

// Scheme is how a tensor is stored.
type Scheme string

const (
	BF16       Scheme = "bf16"        // kept: as it is in the source, or in BF16 of an F16, F32 or FP8 one
	NVFP4W4A4  Scheme = "nvfp4-w4a4"  // FP4 weights and FP4 activations under a calibrated global scale
	NVFP4W4A16 Scheme = "nvfp4-w4a16" // FP4 weights, activations stay BF16
	FP8Tensor  Scheme = "fp8-tensor"  // one scale per weight, one calibrated scale per input
	FP8Channel Scheme = "fp8-channel" // one scale per output row, inputs scaled per token at run time
)

// schemes is every scheme, in the order in which configurations list their groups.
var schemes = []Scheme{BF16, NVFP4W4A4, NVFP4W4A16, FP8Tensor, FP8Channel}

// ParseScheme reads a scheme's name as recipes write it.
func ParseScheme(s string) (Scheme, error) {
	if slices.Contains(schemes, Scheme(s)) {
		return Scheme(s), nil
	}
	names := make([]string, len(schemes))
	for i, known := range schemes {
		names[i] = string(known)
	}
	return "", fmt.Errorf("scheme %q is not known; use one of %s", s, strings.Join(names, ", "))
}

// Quantized says whether the scheme changes the weight's bytes.
func (s Scheme) Quantized() bool { return s.NVFP4() || s.FP8() }

// NVFP4 says whether weights are E2M1 nibbles in blocks of 16 under one global scale.
func (s Scheme) NVFP4() bool { return s == NVFP4W4A4 || s == NVFP4W4A16 }

// FP8 says whether weights are E4M3 bytes.
func (s Scheme) FP8() bool { return s == FP8Tensor || s == FP8Channel }

// StaticInput says whether the scheme stores a scale of the activations, which comes from statistics.
func (s Scheme) StaticInput() bool { return s == NVFP4W4A4 || s == FP8Tensor }

// Part says what a stored tensor holds.
type Part string

const (
	PartKept        Part = "kept"         // source bytes, or its values in BF16
	PartCodes       Part = "codes"        // NVFP4 nibbles [out, in/2] U8, or FP8 [out, in]
	PartBlockScale  Part = "block-scale"  // E4M3 [out, in/16]
	PartGlobalScale Part = "global-scale" // F32 [1]
	PartScale       Part = "scale"        // FP8: per channel [out, 1], per tensor [1]
	PartInputScale  Part = "input-scale"  // F32 scalar from activation statistics: fp8-tensor and nvfp4-w4a4
)

// Output is one tensor on disk.
type Output struct {
	Name  string            `json:"name"`
	Part  Part              `json:"part"`
	Dtype safetensors.Dtype `json:"dtype"`
	Shape []int64           `json:"shape"`
}

// Module is a Linear (checkpoint name without ".weight") and what became of it. Fused is the server's
// fused spelling of the same place ("…self_attn.qkv_proj"), "" when it is not fused.
type Module struct {
	Name   string
	Fused  string
	Scheme Scheme
	Head   bool // part of the MTP head
	Vision bool
	// Plain says that vLLM builds the module without a quantization config (a router, a short convolution, an embedding). It
	// is always kept, and named only where a list says what is not quantized, for runtimes that would.
	Plain bool
	// Unread says that nobody read which modules of its model a server builds with a quantization config. A configuration
	// that quantizes what it does not name is not written for such a model.
	Unread bool
}
