package numeric

import (
	"encoding/binary"
	"math"
)

// e2m1Cells gives the code of a float32 by its upper bits. All thresholds of E2M1 lie at float32 values
// with two mantissa bits, so a cell is what shares the upper eleven bits; whether a threshold itself
// belongs below or above it is decided by e2m1Cell, which moves ties as rounding to even would.
var e2m1Cells = func() (t [1 << 11]uint8) {
	for cell := range t {
		if u := uint32(cell) << 21; u&0x7fffffff != 0 { // else zero, alone in its cell
			t[cell] = E2M1FromFloat32(math.Float32frombits(u - 1<<20)) // the middle of the values below u
		}
	}
	return t
}()

// e2m1Cell is the cell of a float32 that is not NaN: those above a threshold, with it if rounding to even
// takes it up, have a larger cell than those below. Zeros of either sign have cells of their own.
func e2m1Cell(u uint32) uint32 { return (u + 0x1fffff + u>>22&1) >> 21 }

// encodeGo is the fastest form of EncodeBF16 in plain Go.
func (q NVFP4) encodeGo(codes, scales, src []byte) (collapsed int) {
	for b := range scales {
		block, out := src[b*blockSource:][:blockSource], codes[b*blockCodes:][:blockCodes]
		m := amaxBits(block)
		c, loc := q.blockScale(BF16ToFloat32(m))
		if m >= bf16Infinity || !(loc > 0 && loc <= math.MaxFloat32) { // quotients may be NaN
			if q.encodeBlock(out, &scales[b], block) {
				collapsed++
			}
			continue
		}
		scales[b] = c
		if m != 0 && BF16ToFloat32(m)/loc <= 0.25 {
			collapsed++
		}
		for i := range out {
			w := binary.LittleEndian.Uint32(block[4*i:])
			lo := math.Float32bits(math.Float32frombits(w<<16) / loc)
			hi := math.Float32bits(math.Float32frombits(w&0xffff0000) / loc)
			out[i] = e2m1Cells[e2m1Cell(lo)] | e2m1Cells[e2m1Cell(hi)]<<4
		}
	}
	return collapsed
}
