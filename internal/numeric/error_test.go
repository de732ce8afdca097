package numeric_test

import (
	"math"
	"testing"

	"seatsmith/internal/numeric"
)

func TestErrorSumsSquaresAndKeepsTheLargestDifference(t *testing.T) {
	var e numeric.Error
	e.AddBF16([]float32{1, 2.5, -4}, words(0x3f80, 0x4000, 0xc040)) // sources 1, 2, -3
	want := numeric.Error{SumSq: 0.25 + 1, SumRef: 1 + 4 + 9, MaxAbs: 1, N: 3}
	if e != want {
		t.Errorf("got %+v, want %+v", e, want)
	}
	if r := e.RelativeMSE(); r != 1.25/14 {
		t.Errorf("relative error %v", r)
	}
}

func TestMergedErrorsEqualOneErrorOverBothParts(t *testing.T) {
	decoded := []float32{1, 2, 3, 4, 5, 6}
	src := words(0x3f81, 0x4001, 0x4041, 0x4081, 0x40a1, 0x40c1)
	var whole, left, right numeric.Error
	whole.AddBF16(decoded[:3], src[:6])
	whole.AddBF16(decoded[3:], src[6:])
	left.AddBF16(decoded[:3], src[:6])
	right.AddBF16(decoded[3:], src[6:])
	left.Merge(right)
	if left != whole {
		t.Errorf("got %+v, want %+v", left, whole)
	}
}

func TestRelativeErrorOfZerosIsZeroAndOfLostZerosIsInfinite(t *testing.T) {
	var none, same, lost numeric.Error
	same.AddBF16([]float32{0, 0}, words(0, 0x8000))
	lost.AddBF16([]float32{0, 1}, words(0, 0))
	if none.RelativeMSE() != 0 || same.RelativeMSE() != 0 || !math.IsInf(lost.RelativeMSE(), 1) {
		t.Errorf("got %v, %v, %v", none.RelativeMSE(), same.RelativeMSE(), lost.RelativeMSE())
	}
}

func TestANaNShowsInTheSums(t *testing.T) {
	var e numeric.Error
	e.AddBF16([]float32{float32(math.NaN()), 1}, words(0x3f80, 0x4000))
	if !math.IsNaN(e.SumSq) || e.MaxAbs != 1 || e.N != 2 {
		t.Errorf("got %+v", e)
	}
}
