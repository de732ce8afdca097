package dialect

import (
	"fmt"
	"math"

	"seatsmith/internal/numeric"
)

// minNormal is the smallest normal float32: hardware that flushes subnormals reads less as zero.
const minNormal = 0x1p-126

// activation is an amax as an arithmetic sees it: compressed-tensors makes its scales from BF16 activations.
func activation(m numeric.Math, amax float32) float32 {
	if m == numeric.CT {
		return numeric.BF16ToFloat32(numeric.BF16FromFloat32(amax))
	}
	return amax
}

// NativeInput is the input scale of nvfp4-w4a4 in the form of the arithmetic, whatever the dialect stores. amax is one that
// InputScale takes.
func NativeInput(m numeric.Math, amax float32) float32 {
	return numeric.NewNVFP4(m, activation(m, amax)).Global
}

// inputScale turns the largest magnitude of a module's input into the scale that the dialect stores. The rules are those of
// the weights' scales, as both peers use one function for both (numeric.NewNVFP4, numeric.FP8Scale): NVFP4 has
// amax/(6*448), or its reciprocal, and FP8 amax/448. An amax of zero (a module that no token reached), NaN or Inf has no
// scale: an infinite input_global_scale in 14 of 92,400 modules is what compressed-tensors#595 reports (Q10).
func inputScale(d Dialect, s Scheme, m numeric.Math, amax float32) (float32, error) {
	v := float64(amax)
	if math.IsNaN(v) || math.IsInf(v, 0) || v <= 0 {
		return 0, fmt.Errorf("the largest input is %v: it must be finite and above zero", amax)
	}
	amax = activation(m, amax)
	// Below this numeric would put 1 in the place of a scale that underflows, and above it BF16 overflows.
	if least := 448 * minNormal; float64(amax) < least || math.IsInf(float64(amax), 0) {
		return 0, fmt.Errorf("the largest input is %v, beyond what a scale can hold", v)
	}
	var scale float32
	switch s {
	case NVFP4W4A4:
		q := numeric.NewNVFP4(m, amax)
		if q.Extreme() {
			return 0, fmt.Errorf("the largest input is %v, beyond what a scale of NVFP4 can hold", amax)
		}
		scale = d.GlobalScale(q)
	case FP8Tensor:
		scale = numeric.FP8Scale(m, false, amax)
	default:
		return 0, fmt.Errorf("scheme %s stores no input scale", s)
	}
	if inverse := 1 / scale; !(scale >= minNormal && inverse >= minNormal && scale <= math.MaxFloat32 && inverse <= math.MaxFloat32) {
		return 0, fmt.Errorf("the largest input is %v, which makes a scale of %v: it and its reciprocal must be normal numbers", amax, scale)
	}
	return scale, nil
}
