package numeric

import "encoding/binary"

// AmaxBF16 returns the largest |value| of src (little-endian BF16 bytes, any alignment) and the
// element index of the first NaN or Inf, -1 if all are finite.
//
// NaN and Inf do not count towards amax, so that it is always finite and exactly representable in
// BF16; it is 0 for an empty or all-zero src. An odd last byte is ignored.
//
// amax equals torch's w.abs().max() of a finite tensor, the statistic that both peers start from.
func AmaxBF16(src []byte) (amax float32, bad int) {
	top := active.amax(src[:len(src)&^1])
	if top < bf16Infinity {
		return BF16ToFloat32(top), -1
	}
	return amaxOfFinite(src)
}

// amaxBits is the largest magnitude of src as an integer. The order of BF16 magnitudes is the order
// of their bits, with Inf above every finite value and NaN above Inf.
func amaxBits(src []byte) uint16 {
	var a, b, c, d uint16
	for ; len(src) >= 8; src = src[8:] {
		w := binary.LittleEndian.Uint64(src)
		a = max(a, uint16(w)&bf16Magnitude)
		b = max(b, uint16(w>>16)&bf16Magnitude)
		c = max(c, uint16(w>>32)&bf16Magnitude)
		d = max(d, uint16(w>>48)&bf16Magnitude)
	}
	for ; len(src) >= 2; src = src[2:] {
		a = max(a, binary.LittleEndian.Uint16(src)&bf16Magnitude)
	}
	return max(a, b, c, d)
}

// amaxOfFinite is AmaxBF16 for a src that holds a NaN or Inf.
func amaxOfFinite(src []byte) (amax float32, bad int) {
	var top uint16
	bad = -1
	for i := range len(src) / 2 {
		a := binary.LittleEndian.Uint16(src[2*i:]) & bf16Magnitude
		if a < bf16Infinity {
			top = max(top, a)
		} else if bad < 0 {
			bad = i
		}
	}
	return BF16ToFloat32(top), bad
}
