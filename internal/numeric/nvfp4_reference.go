package numeric

import (
	"encoding/binary"
	"math"
)

// EncodeBF16Reference is the plain definition of [NVFP4.EncodeBF16]: one block after the other, one
// element after the other, every rounding spelled out. Fast paths are tested against it, and it against
// bytes that the peers wrote.
func (q NVFP4) EncodeBF16Reference(codes, scales, src []byte) (collapsed int) {
	checkBlocks(len(codes), len(scales), len(src))
	for b := range scales {
		if q.encodeBlock(codes[b*blockCodes:][:blockCodes], &scales[b], src[b*blockSource:][:blockSource]) {
			collapsed++
		}
	}
	return collapsed
}

// encodeBlock codes 16 elements and reports whether the block collapsed.
func (q NVFP4) encodeBlock(codes []byte, scale *byte, src []byte) (collapsed bool) {
	var m uint16
	for i := range blockElements {
		m = max(m, binary.LittleEndian.Uint16(src[2*i:])&bf16Magnitude)
	}
	c, loc := q.blockScale(BF16ToFloat32(m))
	*scale = c
	var magnitudes uint8
	for i := range codes {
		lo := E2M1FromFloat32(loadBF16(src, 2*i) / loc)
		hi := E2M1FromFloat32(loadBF16(src, 2*i+1) / loc)
		codes[i] = lo | hi<<4
		magnitudes |= (lo | hi) & 7
	}
	return m != 0 && magnitudes == 0
}

// blockScale is the scale byte of a block whose largest magnitude is m (NaN and Inf included), and the
// divisor that takes its elements into E2M1's range.
func (q NVFP4) blockScale(m float32) (code uint8, loc float32) {
	g := usableScale(q.Global)
	if q.Math == CT {
		s := float32(g * roundBF16(m/6))
		if !(s < e4m3Max) { // NaN included
			s = e4m3Max
		}
		code = E4M3FromFloat32(s)
		if code == 0 { // a zero block, or underflow
			code = 0x20
		}
		return code, E4M3ToFloat32(code) / g
	}
	p := m / float32(6*g)
	switch {
	case p == 0: // a zero block, or a quotient below the float32 range
		p = 1
	case math.IsNaN(float64(p)):
		p = e4m3Max
	}
	code = E4M3FromFloat32(min(max(p, e4m3Smallest), e4m3Max))
	return code, float32(E4M3ToFloat32(code) * g)
}
