package numeric

import (
	"encoding/binary"
	"math"
)

// Bounds of BF16 magnitudes (the 15 bits without the sign).
const (
	bf16Magnitude = 0x7fff // mask that drops the sign
	bf16Infinity  = 0x7f80 // from here up: Inf, then NaN
)

// BF16ToFloat32 widens a BF16 value. It is exact for every input, NaN payloads included.
func BF16ToFloat32(u uint16) float32 { return math.Float32frombits(uint32(u) << 16) }

// BF16FromFloat32 rounds to the nearest BF16, ties to the even code, as torch's .to(bfloat16) does.
// Values beyond the largest finite BF16 by half a step become Inf; subnormals are kept. A NaN stays a
// NaN of the same sign and becomes quiet.
func BF16FromFloat32(f float32) uint16 {
	u := math.Float32bits(f)
	if u&0x7fffffff > 0x7f800000 {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// roundBF16 is the float32 value of the nearest BF16.
func roundBF16(f float32) float32 { return BF16ToFloat32(BF16FromFloat32(f)) }

// loadBF16 widens element i of little-endian BF16 bytes.
func loadBF16(src []byte, i int) float32 {
	return BF16ToFloat32(binary.LittleEndian.Uint16(src[2*i:]))
}
