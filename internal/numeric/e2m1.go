package numeric

import "math"

// e2m1Values holds the value of every E2M1 code; bit 3 is the sign, code 8 is -0.
var e2m1Values = [16]float32{
	0, 0.5, 1, 1.5, 2, 3, 4, 6,
	float32(math.Copysign(0, -1)), -0.5, -1, -1.5, -2, -3, -4, -6,
}

// E2M1ToFloat32 is the exact value of the low four bits of c; the upper four are ignored. Code 8 is -0.
func E2M1ToFloat32(c uint8) float32 { return e2m1Values[c&15] }

// E2M1FromFloat32 rounds to the nearest E2M1 value, ties to the even code, and saturates at +-6.
//
// The sign bit is set exactly when f < 0, as both peers do it (compressed-tensors 0.18.0
// quantization/utils/fp4_utils.py cast_to_fp4 with pack_fp4_to_uint8; modelopt
// quantization/qtensor/nvfp4_tensor.py _cast_fp4): a small negative value gives code 8, a zero of
// either sign gives code 0. NaN gives code 7, as modelopt's searchsorted does.
func E2M1FromFloat32(f float32) uint8 {
	var sign uint8
	if f < 0 {
		sign, f = 8, -f
	}
	switch {
	case f <= 0.25:
		return sign
	case f < 0.75:
		return sign | 1
	case f <= 1.25:
		return sign | 2
	case f < 1.75:
		return sign | 3
	case f <= 2.5:
		return sign | 4
	case f < 3.5:
		return sign | 5
	case f <= 5:
		return sign | 6
	}
	return sign | 7
}
