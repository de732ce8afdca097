package verify

import (
	"fmt"
	"math"

	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
)

// The wide bounds, for folders that were not made by this program's max arithmetic. Other tools search scales (mse, four
// over six) and move weights to make up for the errors of others (GPTQ), so a code need not be the nearest one. What
// none of them does is to lose the weights' direction or size.
//
// Gain. For weights w and what the server decodes ŵ, the gain is <w,ŵ>/<w,w>. Rounding to nearest in a cell of width d
// with an even density gives E[(ŵ-w)w] = -d²/12 and E[(ŵ-w)²] = d²/12, so the gain is 1 less the relative mean squared
// error: 0.991 for trained NVFP4 weights (0.009), 0.9993 for FP8 (0.0007). Clipping by a searched scale, and scales that
// are rounded to E4M3 and to BF16, move it by less than the error again. A scale that is k times too large moves it to k.
// So 1 within 4 % for NVFP4 and within 1 % for FP8 is honest, and a global scale that is off by 5 %, or channel scales by
// 2 %, are not. Tensors of few values have no mean: below mostlyNoise values the gain is not judged.
//
// Blocks (NVFP4). Under a stored scale s every |w| <= 6s has a code within s, half of the largest gap (from 4 to 6), and
// within s/4 if |w| <= 2s; so to nearest the squared error of a block is at most 0.04 of its square sum, or 16(s/4)² = s²
// where the whole block is small beside its scale. Searched and compensated codes have several times that. A block of
// which more than half is error (or more than 4s², if it is small) holds other weights, or a code whose sign was lost.
//
// Elements (FP8). To nearest the error is at most 1/16 of |w|, 2^-10 of the scale below the smallest normal, and 1/256 of
// the value for a second rounding. Twice that, and 1/32 of the row's largest for compensation and clipping, is allowed.
const (
	gainNVFP4   = 0.04
	gainFP8     = 0.01
	mostlyNoise = 4096
	halfBlock   = 0.5
)

// wide judges one decoded row without knowing the arithmetic. scales are the row's E4M3 block scales (NVFP4).
func (o *outcome) wide(it item, n int64, row []float32, source, scales []byte, global, amax float32) {
	d := it.reads()
	w := width(d)
	at := func(i int) float64 { return float64(floatAt(d, source[int64(i)*w:])) }
	if !it.kind.fp4() {
		off := false
		for i, v := range row {
			x := at(i)
			o.dot += x * float64(v)
			off = off || !(math.Abs(float64(v)-x) <= math.Abs(x)/7+float64(amax)/32)
		}
		o.units++
		if off {
			o.unlike(n, 0)
		}
		return
	}
	for b := 0; b < len(scales); b++ {
		var lost, sum float64
		for i := 16 * b; i < 16*b+16; i++ {
			x, v := at(i), float64(row[i])
			o.dot += x * v
			lost += (v - x) * (v - x)
			sum += x * x
		}
		s := float64(numeric.E4M3ToFloat32(scales[b]) / global)
		o.units++
		if !(lost <= max(halfBlock*sum, 4*s*s)) {
			o.unlike(n, int64(b))
		}
	}
}

// gain is <w,ŵ>/<w,w>; ok is false where there are too few values to judge it.
func (o *outcome) gain() (g float64, ok bool) {
	if o.err.N < mostlyNoise || o.err.SumRef == 0 {
		return 1, false
	}
	return o.dot / o.err.SumRef, true
}

func gainBound(k kind) float64 {
	if k.fp4() {
		return gainNVFP4
	}
	return gainFP8
}

// tooWide tells of a tensor outside the wide bounds.
func (j *judge) tooWide(it *item, o *outcome) bool {
	fix := "quantize the module again from the source, or name the source that it was made from"
	g, ok := o.gain()
	switch {
	case ok && !(math.Abs(g-1) <= gainBound(it.kind)):
		j.notes.join(it.kind.String()+" gain", playbook.New("error-bound", it.name(),
			fmt.Sprintf("its values are %.4g times the source's in the mean, %s explains 1 within %g: a scale is off", g, it.kind, gainBound(it.kind)), fix))
	case o.unalike > 0 && it.kind.fp4():
		j.notes.join("blocks", playbook.New("error-bound", it.name(),
			fmt.Sprintf("%d of %d blocks have more error than half of their content, the first is block %d of row %d: codes or scales are mixed up", o.unalike, o.units, o.unlikeBlock, o.unlikeRow), fix))
	case o.unalike > 0:
		j.notes.join("elements", playbook.New("error-bound", it.name(),
			fmt.Sprintf("%d of %d rows have values that no rounding to FP8 explains, the first is row %d: codes or scales are mixed up", o.unalike, o.units, o.unlikeRow), fix))
	default:
		return false
	}
	j.blameModule(it.module)
	return true
}
