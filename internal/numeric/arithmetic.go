package numeric

import "fmt"

// Math names the exact arithmetic of a peer: which roundings happen between a BF16 weight and the
// bytes on disk. It is independent of the dialect those bytes are spelled in; both dialects can hold
// the result of either arithmetic.
//
// The arithmetics are those of nvidia-modelopt 0.47.0dev+81 (a2fbac7ba) and compressed-tensors
// 0.18.0 (ac8e2ba82) with llm-compressor 0.13.0+37 (ab1ba3eff), on torch 2.11.
type Math uint8

const (
	// Modelopt is nvidia-modelopt as it runs on a CUDA device, the default. PyTorch on CUDA divides a
	// tensor by a Python scalar by multiplying with the scalar's float32 reciprocal
	// (aten/src/ATen/native/cuda/BinaryDivTrueKernel.cu).
	Modelopt Math = iota
	// ModeloptCPU is nvidia-modelopt as it runs on a CPU, where the same expressions divide truly.
	ModeloptCPU
	// CT is compressed-tensors and llm-compressor, which compute the scales in BF16. Their CPU and
	// CUDA results are equal.
	CT
)

var mathNames = [...]string{Modelopt: "modelopt", ModeloptCPU: "modelopt-cpu", CT: "ct"}

// String is the word that ParseMath reads: "modelopt", "modelopt-cpu" or "ct".
func (m Math) String() string {
	if int(m) < len(mathNames) {
		return mathNames[m]
	}
	return fmt.Sprintf("math(%d)", uint8(m))
}

// ParseMath reads "modelopt", "modelopt-cpu" or "ct". It does not accept other spellings or an empty
// string: the default is the caller's to state.
func ParseMath(s string) (Math, error) {
	for m, name := range mathNames {
		if s == name {
			return Math(m), nil
		}
	}
	return 0, fmt.Errorf("unknown arithmetic %q: use modelopt, modelopt-cpu or ct", s)
}
