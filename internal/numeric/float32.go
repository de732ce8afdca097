package numeric

import (
	"encoding/binary"
	"fmt"
	"math"
)

// AmaxF32 is [AmaxBF16] for little-endian float32 bytes: the largest finite |value| and the element index of the first NaN
// or Inf, -1 if all are finite. One to three last bytes are ignored.
func AmaxF32(src []byte) (amax float32, bad int) {
	src = src[:len(src)&^3]
	top := active.amaxF32(src)
	if top < fp32Infinity {
		return math.Float32frombits(top), -1
	}
	top, bad = 0, -1
	for i := range len(src) / 4 {
		a := binary.LittleEndian.Uint32(src[4*i:]) & fp32Magnitude
		if a < fp32Infinity {
			top = max(top, a)
		} else if bad < 0 {
			bad = i
		}
	}
	return math.Float32frombits(top), bad
}

// amaxBitsF32 is the largest magnitude of src as an integer; the order of magnitudes is the order of their bits.
func amaxBitsF32(src []byte) uint32 {
	var a, b uint32
	for ; len(src) >= 8; src = src[8:] {
		w := binary.LittleEndian.Uint64(src)
		a = max(a, uint32(w)&fp32Magnitude)
		b = max(b, uint32(w>>32)&fp32Magnitude)
	}
	if len(src) >= 4 {
		a = max(a, binary.LittleEndian.Uint32(src)&fp32Magnitude)
	}
	return max(a, b)
}

// EncodeF32 is [NVFP4.EncodeBF16] for n float32 values (4n bytes), n%16 == 0: the same formula, applied to the value itself.
// No value is rounded to BF16 on the way, so that two float32 weights which BF16 would merge may get different codes;
// weights that are BF16 values get the bytes that EncodeBF16 gives them.
//
// What the peers do with a weight that is not BF16: modelopt a2fbac7ba divides and compares in the weight's own dtype
// (quantization/qtensor/nvfp4_tensor.py), which for float32 is this formula. compressed-tensors 0.18.0 makes the scales in
// the weight's dtype too (quantization/utils/helpers.py calculate_qparams, generate_gparam): for a float32 weight its bf()
// would be no rounding. Its users load checkpoints as BF16, and one formula for all dtypes is what makes equal values equal
// bytes; so the bf() of ct stay here, of scales, never of weights.
//
// It equals [NVFP4.EncodeF32Reference] bit for bit on every input, NaN and Inf included; it panics when the lengths do not
// match.
func (q NVFP4) EncodeF32(codes, scales, src []byte) (collapsed int) {
	checkBlocksF32(len(codes), len(scales), len(src))
	q.Global = usableScale(q.Global)
	return active.nvfp4F32(q, codes, scales, src)
}

// EncodeF32Reference is the plain definition of [NVFP4.EncodeF32].
func (q NVFP4) EncodeF32Reference(codes, scales, src []byte) (collapsed int) {
	checkBlocksF32(len(codes), len(scales), len(src))
	for b := range scales {
		if q.encodeBlockF32(codes[b*blockCodes:][:blockCodes], &scales[b], src[b*blockSourceF32:][:blockSourceF32]) {
			collapsed++
		}
	}
	return collapsed
}

// encodeBlockF32 codes 16 elements and reports whether the block collapsed.
func (q NVFP4) encodeBlockF32(codes []byte, scale *byte, src []byte) (collapsed bool) {
	m := amaxBitsF32(src)
	c, loc := q.blockScale(math.Float32frombits(m))
	*scale = c
	var magnitudes uint8
	for i := range codes {
		lo := E2M1FromFloat32(loadF32(src, 2*i) / loc)
		hi := E2M1FromFloat32(loadF32(src, 2*i+1) / loc)
		codes[i] = lo | hi<<4
		magnitudes |= (lo | hi) & 7
	}
	return m != 0 && magnitudes == 0
}

// encodeF32Go is the fastest form of EncodeF32 in plain Go. The argument of reciprocal holds for a float32 weight as it does
// for BF16: 24 bits of weight against the 25 of an odd middle leave a difference of at least one too.
func (q NVFP4) encodeF32Go(codes, scales, src []byte) (collapsed int) {
	for b := range scales {
		block, out := src[b*blockSourceF32:][:blockSourceF32], codes[b*blockCodes:][:blockCodes]
		m := amaxBitsF32(block)
		largest := math.Float32frombits(m)
		c, loc := q.blockScale(largest)
		// Otherwise quotients may be NaN, or so small that a negative weight rounds to zero.
		if m >= fp32Infinity || !(loc > 0 && loc <= 1) {
			if q.encodeBlockF32(out, &scales[b], block) {
				collapsed++
			}
			continue
		}
		scales[b] = c
		if m != 0 && largest/loc <= 0.25 {
			collapsed++
		}
		r := reciprocal(loc)
		for i := range out {
			w := binary.LittleEndian.Uint64(block[8*i:])
			x0 := float32(float64(math.Float32frombits(uint32(w))) * r)
			x1 := float32(float64(math.Float32frombits(uint32(w>>32))) * r)
			out[i] = e2m1Cells[e2m1Cell(math.Float32bits(x0))] | e2m1Cells[e2m1Cell(math.Float32bits(x1))]<<4
		}
	}
	return collapsed
}

// EncodeFP8F32 is [EncodeFP8BF16] for n float32 values (4n bytes): the same formula, applied to the value itself. What is
// rounded to BF16 there (the quotient, and modelopt's divisor on CUDA) is rounded here too, see [NVFP4.EncodeF32] for why.
func EncodeFP8F32(m Math, channel bool, dst, src []byte, scale float32) {
	if len(src) != 4*len(dst) {
		panic(fmt.Sprintf("numeric: FP8 of %d float32 source bytes needs a quarter as many destination bytes, not %d", len(src), len(dst)))
	}
	active.fp8F32(dst, src, fp8Divisor(m, channel, scale), fp8RoundsQuotient(m, channel))
}

// encodeFP8F32Reference is the plain definition: one element after the other.
func encodeFP8F32Reference(dst, src []byte, divisor float32, roundQuotient bool) {
	for i := range dst {
		x := loadF32(src, i) / divisor
		if roundQuotient {
			x = roundBF16(x)
		}
		dst[i] = E4M3FromFloat32(x)
	}
}

// encodeFP8F32Go is encodeFP8Go for float32.
func encodeFP8F32Go(dst, src []byte, divisor float32, roundQuotient bool) {
	const smallestNormal, largest = 0x3c800000, 0x43e00000 // bits of 2^-6 and 448
	r := reciprocal(divisor)
	src = src[:4*len(dst)]
	for i := range dst {
		w := math.Float32frombits(binary.LittleEndian.Uint32(src))
		src = src[4:]
		u := math.Float32bits(float32(float64(w) * r))
		if roundQuotient && u&fp32Magnitude <= fp32Infinity {
			u = (u + 0x7fff + u>>16&1) & 0xffff0000
		}
		a := u & fp32Magnitude
		if a-smallestNormal < largest-smallestNormal {
			dst[i] = uint8(u>>24)&0x80 | uint8((a+0x7ffff+a>>20&1)>>20-120<<3)
		} else {
			dst[i] = E4M3FromFloat32(math.Float32frombits(u))
		}
	}
}

// loadF32 reads element i of little-endian float32 bytes.
func loadF32(src []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
}

func checkBlocksF32(codes, scales, src int) {
	if src%blockSourceF32 != 0 || codes != src/blockSourceF32*blockCodes || scales != src/blockSourceF32 {
		panic(fmt.Sprintf("numeric: NVFP4 of %d float32 source bytes needs whole blocks of %d and %d code and %d scale bytes, not %d and %d",
			src, blockSourceF32, src/blockSourceF32*blockCodes, src/blockSourceF32, codes, scales))
	}
}
