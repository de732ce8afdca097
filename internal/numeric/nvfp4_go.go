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

// reciprocal turns the division of a BF16 value by a float32 divisor into a multiplication: for every
// BF16 w whose quotient is a normal float32,
//
//	float32(float64(w) * reciprocal(divisor)) == w / divisor
//
// The product's relative error is at most 2^-52. It could round to another float32 only if the quotient
// were that close to the middle M of two float32, but it is at least 2^-49 away: as integers w*2^k,
// M (25 bits, odd) and divisor (24 bits), w*2^k - M*divisor is at least 1, and not 0 because w has 8
// bits. Below the normal range the result may be one step off, which no code notices.
func reciprocal(divisor float32) float64 { return 1 / float64(divisor) }

// A blockRule is what encodeGo needs to know of all blocks with the same largest magnitude.
type blockRule struct {
	reciprocal float64 // of the block's divisor; 0 where a block needs the plain path
	known      uint16  // the magnitude it is for, plus one
	scale      uint8
	collapses  bool
}

func (q NVFP4) ruleFor(m uint16) blockRule {
	largest := BF16ToFloat32(m)
	c, loc := q.blockScale(largest)
	rule := blockRule{known: m + 1, scale: c, collapses: m != 0 && largest/loc <= 0.25}
	// Otherwise quotients may be NaN, or so small that a negative weight rounds to zero.
	if m < bf16Infinity && loc > 0 && loc <= 0x1p16 {
		rule.reciprocal = reciprocal(loc)
	}
	return rule
}

// encodeGo is the fastest form of EncodeBF16 in plain Go. The largest magnitudes of a tensor's blocks
// differ by a few powers of two, each with 128 values: what follows from one is kept for the next.
func (q NVFP4) encodeGo(codes, scales, src []byte) (collapsed int) {
	var rules [512]blockRule
	for b := range scales {
		block, out := src[b*blockSource:][:blockSource], codes[b*blockCodes:][:blockCodes]
		m := amaxBits(block)
		rule := &rules[m%uint16(len(rules))]
		if rule.known != m+1 {
			*rule = q.ruleFor(m)
		}
		if rule.reciprocal == 0 {
			if q.encodeBlock(out, &scales[b], block) {
				collapsed++
			}
			continue
		}
		scales[b] = rule.scale
		if rule.collapses {
			collapsed++
		}
		r := rule.reciprocal
		for i := 0; i < len(out); i += 2 {
			w := binary.LittleEndian.Uint64(block[4*i:])
			x0 := float32(float64(math.Float32frombits(uint32(w)<<16)) * r)
			x1 := float32(float64(math.Float32frombits(uint32(w)&0xffff0000)) * r)
			x2 := float32(float64(math.Float32frombits(uint32(w>>16)&0xffff0000)) * r)
			x3 := float32(float64(math.Float32frombits(uint32(w>>32)&0xffff0000)) * r)
			out[i] = e2m1Cells[e2m1Cell(math.Float32bits(x0))] | e2m1Cells[e2m1Cell(math.Float32bits(x1))]<<4
			out[i+1] = e2m1Cells[e2m1Cell(math.Float32bits(x2))] | e2m1Cells[e2m1Cell(math.Float32bits(x3))]<<4
		}
	}
	return collapsed
}
