package numeric

import "math"

// FP16ToFloat32 widens an IEEE 754 binary16 value. It is exact for every input: subnormals are
// normalized, infinities stay, and a NaN keeps its sign and payload.
func FP16ToFloat32(u uint16) float32 {
	sign := uint32(u&0x8000) << 16
	exp, man := uint32(u>>10)&0x1f, uint32(u&0x3ff)
	switch exp {
	case 0: // zero and subnormals are man * 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(man)*0x1p-24))
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
}

// FP16FromFloat32 rounds to the nearest IEEE 754 binary16, ties to the even code, as torch's
// .to(float16) does. From 65520 up the result is Inf; below 2^-14 it is a subnormal or zero of the
// same sign. A NaN keeps its sign and upper payload bits and becomes quiet.
func FP16FromFloat32(f float32) uint16 {
	u := math.Float32bits(f)
	sign, a := uint16(u>>16)&0x8000, u&0x7fffffff
	switch {
	case a > 0x7f800000:
		return sign | 0x7e00 | uint16(a>>13)&0x3ff
	case a >= 0x477ff000: // 65520, half way to the step after 65504
		return sign | 0x7c00
	case a < 0x38800000: // below 2^-14: a multiple of 2^-24, which adding 0.5 (one step is 2^-24) rounds to
		return sign | uint16(math.Float32bits(math.Float32frombits(a)+0.5)-0x3f000000)
	}
	a += 0xfff + a>>13&1
	return sign | uint16(a>>13-112<<10)
}
