package numeric_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"seatsmith/internal/numeric"
)

// Exponents only shift the quotient, so all 128 significands of BF16 stand for all of it.
func TestMultiplyingByTheReciprocalEqualsDividing(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	for range 30000 {
		divisor := math.Float32frombits(0x3f800000 | random.Uint32N(1<<23))
		r := numeric.Reciprocal(divisor)
		for s := range uint16(128) {
			w := numeric.BF16ToFloat32(0x4180 | s)
			if got, want := float32(float64(w)*r), w/divisor; got != want {
				t.Fatalf("%v / %v: got %v, want %v", w, divisor, got, want)
			}
		}
	}
}

func TestTheTableOfCellsEqualsTheComparisons(t *testing.T) {
	check := func(u uint32) {
		if f := math.Float32frombits(u); f == f && numeric.E2M1ByCell(f) != numeric.E2M1FromFloat32(f) {
			t.Fatalf("%v (%#08x): got %d, want %d", f, u, numeric.E2M1ByCell(f), numeric.E2M1FromFloat32(f))
		}
	}
	for u := uint64(0); u < 1<<32; u += 1021 {
		check(uint32(u))
	}
	for cell := range uint32(1 << 11) {
		for _, step := range []uint32{0, 1, ^uint32(0)} {
			check(cell<<21 + step)
			check(cell<<21 + 1<<20 + step)
		}
	}
}
