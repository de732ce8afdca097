package numeric

import (
	"encoding/binary"
	"fmt"
	"math"
)

// FP8Scale turns an amax (of a row when channel is true, of a whole tensor when it is false) into the
// stored scale. amax is a BF16 value. (fl rounds to float32, bf to BF16.)
//
//	ct                     bf(fl(amax/448)), for a row and for a tensor; 0 -> 2^-7. A BF16 value.
//	modelopt, tensor       fl(amax * fl(1/448)); modelopt-cpu fl(amax/448)
//	modelopt, row          the same of max(amax, 2^-126); a zero row counts as amax 448, scale 1
//
// Sources: compressed-tensors 0.18.0 quantization/utils/helpers.py calculate_qparams (presets FP8 and
// FP8_DYNAMIC); modelopt a2fbac7ba export/quant_utils.py (FP8 and FP8_PER_CHANNEL_PER_TOKEN) and
// export_amax. The rule of a tensor also gives the static input_scale from an activation amax.
//
// The scale is always finite and positive. An amax that is zero, negative, NaN or infinite counts as
// zero, and a modelopt tensor of zeros gets 1 where modelopt itself stores 0 and NaN weights.
func FP8Scale(m Math, channel bool, amax float32) float32 {
	if !(amax > 0 && amax <= math.MaxFloat32) {
		amax = 0
	}
	if m == CT {
		if s := roundBF16(amax / e4m3Max); s > 0 {
			return s
		}
		return 0x1p-7
	}
	if channel {
		if amax == 0 {
			amax = e4m3Max
		}
		amax = max(amax, 0x1p-126)
	}
	if m == ModeloptCPU {
		return usableScale(amax / e4m3Max)
	}
	return usableScale(float32(amax * reciprocalFP8))
}

// EncodeFP8BF16 codes src (n BF16 values) with one scale into n E4M3 bytes. channel says, as in
// [FP8Scale], whether the scale belongs to one row or to a whole tensor.
//
//	ct                     e4m3(bf(fl(w / scale)))
//	modelopt, tensor       e4m3(bf(fl(w / bf(scale)))): the BF16 weight meets a 0-dim float32 tensor,
//	                       which does not promote it, and CUDA rounds the divisor first
//	modelopt-cpu, tensor   e4m3(bf(fl(w / scale))): the CPU keeps the divisor
//	modelopt, row          e4m3(fl(w / scale)) on both
//
// The sign is kept, that of zero too. Quotients beyond +-448, which modelopt turns into NaN above 464,
// saturate. A finite w never gives NaN: where bf(scale) is zero (a tensor with amax below 2^-125, NaN
// in modelopt on CUDA), the unrounded scale divides. NaN weights give NaN, infinite ones +-448. A scale
// that is not finite and positive counts as 1.
//
// It panics when the lengths do not match.
func EncodeFP8BF16(m Math, channel bool, dst, src []byte, scale float32) {
	checkFP8(len(dst), len(src))
	active.fp8(dst, src, fp8Divisor(m, channel, scale), fp8RoundsQuotient(m, channel))
}

// fp8Divisor is what the weights are divided by, finite and positive.
func fp8Divisor(m Math, channel bool, scale float32) float32 {
	scale = usableScale(scale)
	if m == Modelopt && !channel {
		if r := roundBF16(scale); r > 0 && r <= math.MaxFloat32 {
			return r
		}
	}
	return scale
}

// fp8RoundsQuotient says whether the quotient is a BF16 value before it becomes E4M3.
func fp8RoundsQuotient(m Math, channel bool) bool { return m == CT || !channel }

// encodeFP8Reference is the plain definition: one element after the other.
func encodeFP8Reference(dst, src []byte, divisor float32, roundQuotient bool) {
	for i := range dst {
		x := loadBF16(src, i) / divisor
		if roundQuotient {
			x = roundBF16(x)
		}
		dst[i] = E4M3FromFloat32(x)
	}
}

// encodeFP8Go is the fastest form in plain Go: no division, see reciprocal, and no call in the range that
// nearly all weights fall into.
func encodeFP8Go(dst, src []byte, divisor float32, roundQuotient bool) {
	const smallestNormal, largest = 0x3c800000, 0x43e00000 // bits of 2^-6 and 448
	r := reciprocal(divisor)
	src = src[:2*len(dst)]
	for i := range dst {
		w := math.Float32frombits(uint32(binary.LittleEndian.Uint16(src)) << 16)
		src = src[2:]
		u := math.Float32bits(float32(float64(w) * r))
		if roundQuotient {
			u = (u + 0x7fff + u>>16&1) & 0xffff0000 // a NaN quotient has room below for it
		}
		a := u & 0x7fffffff
		if a-smallestNormal < largest-smallestNormal {
			dst[i] = uint8(u>>24)&0x80 | uint8((a+0x7ffff+a>>20&1)>>20-120<<3)
		} else {
			dst[i] = E4M3FromFloat32(math.Float32frombits(u))
		}
	}
}

func checkFP8(dst, src int) {
	if src != 2*dst {
		panic(fmt.Sprintf("numeric: FP8 of %d source bytes needs half as many destination bytes, not %d", src, dst))
	}
}
