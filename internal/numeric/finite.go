package numeric

import "encoding/binary"

// Infinity of each format as an integer: the exponent alone, all ones. A magnitude from here up is Inf, then NaN.
const (
	fp16Infinity  = 0x7c00
	fp32Infinity  = 0x7f800000
	fp32Magnitude = 0x7fffffff // mask that drops the sign
)

// FirstNonFiniteBF16 returns the element index of the first NaN or Inf of src (little-endian BF16 bytes, any alignment),
// -1 if all are finite. An odd last byte is ignored. It is AmaxBF16 for who asks of finiteness alone.
func FirstNonFiniteBF16(src []byte) int {
	src = src[:len(src)&^1]
	if active.amax(src) < bf16Infinity {
		return -1
	}
	return firstFrom(src, bf16Infinity)
}

// FirstNonFiniteF16 is the same of IEEE 754 binary16. Its magnitudes are ordered as BF16's are, so that the largest of
// them, as an integer, tells.
func FirstNonFiniteF16(src []byte) int {
	src = src[:len(src)&^1]
	if active.amax(src) < fp16Infinity {
		return -1
	}
	return firstFrom(src, fp16Infinity)
}

// firstFrom is the index of the first 16-bit magnitude from least up, -1 for none.
func firstFrom(src []byte, least uint16) int {
	for i := range len(src) / 2 {
		if binary.LittleEndian.Uint16(src[2*i:])&bf16Magnitude >= least {
			return i
		}
	}
	return -1
}

// FirstNonFiniteF32 returns the element index of the first NaN or Inf of src (little-endian float32 bytes, any
// alignment), -1 if all are finite. One to three last bytes are ignored.
func FirstNonFiniteF32(src []byte) int {
	src = src[:len(src)&^3]
	const chunk = 4096 // bytes: what is gone through again when it holds a NaN or Inf
	for at := 0; at < len(src); at += chunk {
		part := src[at:min(at+chunk, len(src))]
		if allFiniteF32(part) {
			continue
		}
		for i := range len(part) / 4 {
			if binary.LittleEndian.Uint32(part[4*i:])&fp32Infinity == fp32Infinity {
				return at/4 + i
			}
		}
	}
	return -1
}

// allFiniteF32 looks at two values at a time: adding one unit of the exponent's last place carries into the sign's place
// exactly when the exponent is all ones, and never beyond.
func allFiniteF32(src []byte) bool {
	const exponents, unit, carried = fp32Infinity<<32 | fp32Infinity, 0x00800000_00800000, 0x80000000_80000000
	var a, b, c, d uint64
	for ; len(src) >= 32; src = src[32:] {
		a |= binary.LittleEndian.Uint64(src)&exponents + unit
		b |= binary.LittleEndian.Uint64(src[8:])&exponents + unit
		c |= binary.LittleEndian.Uint64(src[16:])&exponents + unit
		d |= binary.LittleEndian.Uint64(src[24:])&exponents + unit
	}
	for ; len(src) >= 4; src = src[4:] {
		a |= uint64(binary.LittleEndian.Uint32(src)&fp32Infinity) + 0x00800000
	}
	return (a|b|c|d)&carried == 0
}
