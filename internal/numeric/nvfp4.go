package numeric

import (
	"fmt"
	"math"
)

// Sizes of an NVFP4 block.
const (
	blockElements = 16
	blockSource   = 2 * blockElements // BF16 bytes
	blockCodes    = blockElements / 2 // code bytes

	blockSourceF32 = 4 * blockElements // float32 bytes
)

// fp4Range is the largest value that E2M1 times E4M3 can express, 6 * 448: a block at the tensor's
// amax gets the largest scale and the largest code.
const fp4Range = 6 * e4m3Max

// Float32 reciprocals of the Python scalars that modelopt divides by, as torch on CUDA uses them.
var (
	reciprocalFP4 = float32(1) / fp4Range // 0x39c30c31
	reciprocalFP8 = float32(1) / e4m3Max  // 0x3b124925
)

// NVFP4 codes one tensor, or one fused group of tensors that share a global scale.
type NVFP4 struct {
	Math   Math
	Global float32 // native: modelopt weight_scale_2, ct weight_global_scale (g)
}

// NewNVFP4 makes the coder for a tensor whose largest magnitude is amax, or for a fused group whose
// largest magnitude over all members is amax. Global follows the peer exactly for a BF16 amax, and by the same formula for
// any other (see [NVFP4.EncodeF32]):
//
//	modelopt      fl(amax * fl(1/2688)), as torch on CUDA divides by a Python scalar
//	modelopt-cpu  fl(amax / 2688)
//	ct            bf(bf(1/max(amax, 2^-126)) * 2688), two BF16 roundings; 1 when that overflows
//
// (fl rounds to float32, bf to BF16.) Sources: modelopt a2fbac7ba quantization/qtensor/nvfp4_tensor.py
// get_weights_scaling_factor_2_from_quantizer; compressed-tensors 0.18.0 quantization/utils/helpers.py
// generate_gparam. The same rules give the global scale of activations from their calibrated amax.
//
// Global is always finite and positive. An amax of zero, and one that is negative, NaN or infinite,
// gives 1; modelopt itself writes 0 for an all-zero tensor, and with it NaN scales. A subnormal amax
// (below 2^-126) keeps the peer's result: ct gives 1, which codes every weight as zero; modelopt gives
// a subnormal Global, see [NVFP4.Extreme]. The largest finite amax gives Global 1.3e35 for modelopt,
// 7.9e-36 for ct.
func NewNVFP4(m Math, amax float32) NVFP4 {
	var g float32
	switch m {
	case CT:
		if amax <= math.MaxFloat32 { // not NaN, not Inf
			g = roundBF16(float32(roundBF16(1/max(amax, 0x1p-126)) * fp4Range))
		}
	case ModeloptCPU:
		g = amax / fp4Range
	default:
		g = float32(amax * reciprocalFP4)
	}
	return NVFP4{Math: m, Global: usableScale(g)}
}

// usableScale replaces a scale that no checkpoint may hold (NaN, infinite, zero, negative) by 1.
func usableScale(s float32) float32 {
	if s > 0 && s <= math.MaxFloat32 {
		return s
	}
	return 1
}

// Divisor is the value compressed-tensors stores as weight_global_scale (1/weight_scale_2 or g). It is
// finite and positive: where 1/weight_scale_2 overflows float32 it is the largest float32.
func (q NVFP4) Divisor() float32 {
	if q.Math == CT {
		return usableScale(q.Global)
	}
	return finiteReciprocal(usableScale(q.Global))
}

// Multiplier is the value modelopt stores as weight_scale_2 (ws2 or 1/g). It is finite and positive.
func (q NVFP4) Multiplier() float32 {
	if q.Math == CT {
		return finiteReciprocal(usableScale(q.Global))
	}
	return usableScale(q.Global)
}

func finiteReciprocal(s float32) float32 { return min(1/s, math.MaxFloat32) }

// Extreme reports a scale at which the format itself fails; the owner of such a tensor should keep it
// unquantized. Either Global or its reciprocal is below float32's normal range (an amax below 3.2e-35),
// so that its two spellings do not mean the same number and hardware that flushes subnormals reads zero;
// or the largest code times the largest scale decodes to Inf (ct, an amax above 3.3e38).
func (q NVFP4) Extreme() bool {
	const smallestNormal = 0x1p-126
	g := usableScale(q.Global)
	largest := float32(6 * float32(e4m3Max*q.Multiplier()))
	return g < smallestNormal || 1/g < smallestNormal || largest > math.MaxFloat32
}

// EncodeBF16 codes src (n BF16 values, n%16 == 0): codes gets n/2 bytes, scales n/16 bytes. It
// returns the number of collapsed blocks: those with a source value other than zero whose every code
// decodes to zero.
//
// The bytes are those of modelopt's max-calibrated export (a2fbac7ba quantization/qtensor/
// nvfp4_tensor.py) or of compressed-tensors 0.18.0's eager path (quantization/utils/helpers.py
// calculate_qparams, compressors/nvfp4/base.py), by q.Math. Per block, with m its largest magnitude:
//
//	modelopt  p = fl(m / fl(6*Global)); 0 -> 1; clamp to [2^-9, 448]; c = e4m3(p); loc = fl(value(c)*Global)
//	ct        s = fl(Global * bf(fl(m/6))); at most 448; c = e4m3(s); zero -> 0x20; loc = fl(value(c)/Global)
//	both      x = fl(w / loc); code = E2M1FromFloat32(x)
//
// Ties go to the even code, magnitudes above 5 give code 7, small negatives code 8, zeros of either
// sign code 0. A block of zeros gets scale 0x38 (modelopt) or 0x20 (ct), a block so small that its
// scale underflows 0x01 or 0x20. A scale byte is never zero and never NaN: a block that holds NaN or
// Inf gets 0x7e, its NaN and Inf elements code 7 (15 for -Inf). A Global that is not finite and
// positive counts as 1.
//
// EncodeBF16 equals [NVFP4.EncodeBF16Reference] bit for bit on every input. It panics when the
// lengths do not match.
func (q NVFP4) EncodeBF16(codes, scales, src []byte) (collapsed int) {
	checkBlocks(len(codes), len(scales), len(src))
	q.Global = usableScale(q.Global)
	return active.nvfp4(q, codes, scales, src)
}

// checkBlocks panics unless the three lengths describe the same whole number of blocks.
func checkBlocks(codes, scales, src int) {
	if src%blockSource != 0 || codes != src/blockSource*blockCodes || scales != src/blockSource {
		panic(fmt.Sprintf("numeric: NVFP4 of %d source bytes needs whole blocks of %d and %d code and %d scale bytes, not %d and %d",
			src, blockSource, src/blockSource*blockCodes, src/blockSource, codes, scales))
	}
}

// TurnScale is the other dialect's form of a stored global scale or input scale, fl(1/s), as [NVFP4.Divisor] and
// [NVFP4.Multiplier] make it: where the reciprocal overflows it is the largest float32. s must be finite and positive;
// TurnScale(TurnScale(s)) need not be s.
func TurnScale(s float32) float32 { return finiteReciprocal(s) }
