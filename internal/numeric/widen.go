package numeric

import (
	"encoding/binary"
	"fmt"
	"math"
)

// AmaxF16 is [AmaxBF16] for little-endian IEEE 754 binary16 bytes. amax is exact: every F16 value is a float32.
func AmaxF16(src []byte) (amax float32, bad int) {
	src = src[:len(src)&^1]
	top := active.amax(src) // magnitudes of both formats are ordered as their bits
	if top < fp16Infinity {
		return FP16ToFloat32(top), -1
	}
	top, bad = 0, -1
	for i := range len(src) / 2 {
		a := binary.LittleEndian.Uint16(src[2*i:]) & bf16Magnitude
		if a < fp16Infinity {
			top = max(top, a)
		} else if bad < 0 {
			bad = i
		}
	}
	return FP16ToFloat32(top), bad
}

// WidenF16 writes n IEEE 754 binary16 values (2n bytes) as n little-endian float32 (4n bytes), exactly, as [FP16ToFloat32]
// does. It panics when the lengths do not match.
func WidenF16(dst, src []byte) {
	checkWiden(len(dst), 2*len(src))
	active.widenF16(dst, src)
}

func widenF16Go(dst, src []byte) {
	for ; len(src) >= 8; src, dst = src[8:], dst[16:] {
		w := binary.LittleEndian.Uint64(src)
		binary.LittleEndian.PutUint64(dst, uint64(widenFP16(uint32(w)&0xffff))|uint64(widenFP16(uint32(w>>16)&0xffff))<<32)
		binary.LittleEndian.PutUint64(dst[8:], uint64(widenFP16(uint32(w>>32)&0xffff))|uint64(widenFP16(uint32(w>>48)))<<32)
	}
	for i := range len(src) / 2 {
		binary.LittleEndian.PutUint32(dst[4*i:], widenFP16(uint32(binary.LittleEndian.Uint16(src[2*i:]))))
	}
}

// widenFP16 is the bits of FP16ToFloat32: the exponent and mantissa moved to their places make a float32 that is 2^-112 of
// the value, subnormals included, and a multiplication by a power of two is exact. Exponent 31 comes out as 2^16 and above.
func widenFP16(u uint32) uint32 {
	a := math.Float32bits(math.Float32frombits(u&0x7fff<<13) * 0x1p112)
	if a >= 0x47800000 { // 2^16: Inf or NaN
		a |= 0x7f800000
	}
	return u&0x8000<<16 | a
}

// WidenE4M3 writes v = fl(value(code) * scale) for E4M3 codes as little-endian float32: four bytes of dst per byte of src. It
// is [DecodeFP8] into bytes. NaN codes give NaN (which one is not promised), and a product beyond float32 gives Inf. It panics when the lengths do not
// match.
func WidenE4M3(dst, src []byte, scale float32) {
	checkWiden(len(dst), 4*len(src))
	active.widenE4M3(dst, src, scale)
}

func widenE4M3Go(dst, src []byte, scale float32) {
	for ; len(src) >= 4; src, dst = src[4:], dst[16:] {
		c, d := binary.LittleEndian.Uint32(src), dst[:16]
		binary.LittleEndian.PutUint64(d, uint64(math.Float32bits(float32(e4m3Values[c&0xff]*scale)))|uint64(math.Float32bits(float32(e4m3Values[c>>8&0xff]*scale)))<<32)
		binary.LittleEndian.PutUint64(d[8:], uint64(math.Float32bits(float32(e4m3Values[c>>16&0xff]*scale)))|uint64(math.Float32bits(float32(e4m3Values[c>>24]*scale)))<<32)
	}
	for i, c := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(float32(e4m3Values[c]*scale)))
	}
}

// FirstNaNE4M3 returns the index of the first NaN code (0x7f or 0xff) of src, -1 if there is none. E4M3 has no infinity.
func FirstNaNE4M3(src []byte) int {
	const magnitudes, ones, carried = 0x7f7f7f7f7f7f7f7f, 0x0101010101010101, 0x8080808080808080
	at := 0
	for ; len(src)-at >= 8; at += 8 {
		if (binary.LittleEndian.Uint64(src[at:])&magnitudes+ones)&carried != 0 {
			break
		}
	}
	for ; at < len(src); at++ {
		if src[at]&0x7f == e4m3NaN {
			return at
		}
	}
	return -1
}

// RoundF32 rounds n float32 values (4n bytes) to BF16 (2n bytes), to nearest, ties to the even code, subnormals kept, as
// [BF16FromFloat32] and torch's .to(bfloat16) do. changed counts the values that BF16 cannot hold exactly. bad is the index of
// the first value that does not come out finite: a NaN, an Inf, or a magnitude that rounds beyond BF16's largest
// (3.3961775e38 and above; BF16 has float32's range but for that last half step); -1 when there is none. Such values are
// written as BF16FromFloat32 writes them, and a NaN whose lower half is set counts as changed. It panics when the lengths do
// not match.
func RoundF32(dst, src []byte) (changed int64, bad int) {
	if len(src) != 2*len(dst) || len(dst)%2 != 0 {
		panic(fmt.Sprintf("numeric: %d bytes of float32 make half as many of BF16, not %d", len(src), len(dst)))
	}
	changed, top := active.roundF32(dst, src)
	if top < beyondBF16 {
		return changed, -1
	}
	return roundF32Reference(dst, src)
}

// roundF32Go rounds without looking for what is not finite; top is the largest magnitude as an integer.
func roundF32Go(dst, src []byte) (changed int64, top uint32) {
	const half = 0x7fff
	for ; len(src) >= 16; src, dst = src[16:], dst[8:] {
		p, q := binary.LittleEndian.Uint64(src), binary.LittleEndian.Uint64(src[8:])
		a, b, c, d := uint32(p), uint32(p>>32), uint32(q), uint32(q>>32)
		top = max(top, a&fp32Magnitude, b&fp32Magnitude, c&fp32Magnitude, d&fp32Magnitude)
		// -low has its sign bit set exactly when the lower half is not zero.
		changed += int64(-(a&0xffff)>>31 + -(b&0xffff)>>31 + -(c&0xffff)>>31 + -(d&0xffff)>>31)
		binary.LittleEndian.PutUint64(dst, uint64((a+half+a>>16&1)>>16)|uint64((b+half+b>>16&1)&0xffff0000)|
			uint64((c+half+c>>16&1)>>16)<<32|uint64((d+half+d>>16&1)&0xffff0000)<<32)
	}
	for i := range len(dst) / 2 {
		a := binary.LittleEndian.Uint32(src[4*i:])
		top = max(top, a&fp32Magnitude)
		changed += int64(-(a & 0xffff) >> 31)
		binary.LittleEndian.PutUint16(dst[2*i:], uint16((a+half+a>>16&1)>>16))
	}
	return changed, top
}

// beyondBF16 is the smallest float32 magnitude that rounds to Inf, and larger ones are Inf and NaN.
const beyondBF16 = 0x7f7f8000

// roundF32Reference is the plain definition of RoundF32.
func roundF32Reference(dst, src []byte) (changed int64, bad int) {
	bad = -1
	for i := range len(dst) / 2 {
		f := loadF32(src, i)
		u := BF16FromFloat32(f)
		binary.LittleEndian.PutUint16(dst[2*i:], u)
		if math.Float32bits(f)&0xffff != 0 {
			changed++
		}
		if bad < 0 && u&bf16Magnitude >= bf16Infinity {
			bad = i
		}
	}
	return changed, bad
}

func checkWiden(dst, want int) {
	if dst != want {
		panic(fmt.Sprintf("numeric: widening needs %d destination bytes, not %d", want, dst))
	}
}
