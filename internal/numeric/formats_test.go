package numeric_test

import (
	"math"
	"slices"
	"testing"

	"seatsmith/internal/numeric"
)

// A format under test: its finite non-negative values with their codes, in ascending order.
type lattice struct {
	values []float64
	codes  []uint32
}

func newLattice(count int, value func(code int) float64) lattice {
	var l lattice
	for c := range count {
		if v := value(c); !math.IsNaN(v) && !math.IsInf(v, 0) {
			l.values, l.codes = append(l.values, v), append(l.codes, uint32(c))
		}
	}
	if !slices.IsSorted(l.values) {
		panic("codes of a positive range must ascend with their values")
	}
	return l
}

// nearest is the brute-force definition of rounding: the closest value, of two equally close ones the
// even code. Magnitudes above the largest value give the largest.
func (l lattice) nearest(x float64) uint32 {
	hi, _ := slices.BinarySearch(l.values, x)
	best, bestGap := uint32(0), math.Inf(1)
	for i := max(hi-2, 0); i < min(hi+3, len(l.values)); i++ {
		gap := math.Abs(l.values[i] - x)
		if gap < bestGap || gap == bestGap && l.codes[i]&1 == 0 {
			best, bestGap = l.codes[i], gap
		}
	}
	return best
}

// probes are the float32 values where an encoder can go wrong: every value, every midpoint between
// neighbours, and the float32 on either side of each.
func (l lattice) probes() []float32 {
	var p []float32
	add := func(x float64) {
		f := float32(x)
		p = append(p, f, math.Nextafter32(f, float32(math.Inf(1))))
		if f > 0 {
			p = append(p, math.Nextafter32(f, 0))
		}
	}
	for i, v := range l.values {
		add(v)
		if i > 0 {
			add((v + l.values[i-1]) / 2)
		}
	}
	return p
}

// spread covers the whole positive float32 range at a step that is coprime to every format's step.
func spread() []float32 {
	var p []float32
	for u := uint32(0); u <= 0x7f800000; u += 8191 {
		p = append(p, math.Float32frombits(u))
	}
	return append(p, math.MaxFloat32, math.SmallestNonzeroFloat32, float32(math.Inf(1)))
}

func fieldValue(code, expBits, manBits, bias int) float64 {
	exp, man := code>>manBits&(1<<expBits-1), code&(1<<manBits-1)
	if exp == 0 {
		return math.Ldexp(float64(man), 1-bias-manBits)
	}
	return math.Ldexp(float64(man|1<<manBits), exp-bias-manBits)
}

func TestE4M3CodesHaveTheValuesOfTheirFields(t *testing.T) {
	for c := range 256 {
		got := float64(numeric.E4M3ToFloat32(uint8(c)))
		want := fieldValue(c&0x7f, 4, 3, 7)
		if c&0x80 != 0 {
			want = -want
		}
		if c&0x7f == 0x7f {
			want = math.NaN()
		}
		if math.IsNaN(want) != math.IsNaN(got) || !math.IsNaN(want) && (got != want || math.Signbit(got) != math.Signbit(want)) {
			t.Errorf("code %#02x: got %v, want %v", c, got, want)
		}
		if want == want && numeric.E4M3FromFloat32(float32(got)) != uint8(c) {
			t.Errorf("code %#02x does not come back: %#02x", c, numeric.E4M3FromFloat32(float32(got)))
		}
	}
}

func TestE4M3RoundsToTheNearestCodeAndSaturates(t *testing.T) {
	l := newLattice(127, func(c int) float64 { return fieldValue(c, 4, 3, 7) })
	n := 0
	for _, f := range append(l.probes(), spread()...) {
		want := uint8(0x7e)
		if f < 448 {
			want = uint8(l.nearest(float64(f)))
		}
		if got := numeric.E4M3FromFloat32(f); got != want {
			t.Fatalf("%v (%#08x): got %#02x, want %#02x", f, math.Float32bits(f), got, want)
		}
		if got := numeric.E4M3FromFloat32(-f); got != want|0x80 {
			t.Fatalf("%v: got %#02x, want %#02x", -f, got, want|0x80)
		}
		n++
	}
	t.Logf("%d magnitudes compared", n)
}

func TestE4M3KeepsNaN(t *testing.T) {
	for _, u := range []uint32{0x7f800001, 0x7fc00000, 0x7fffffff} {
		if got := numeric.E4M3FromFloat32(math.Float32frombits(u)); got != 0x7f {
			t.Errorf("NaN %#08x gave %#02x", u, got)
		}
		if got := numeric.E4M3FromFloat32(math.Float32frombits(u | 1<<31)); got != 0xff {
			t.Errorf("NaN %#08x gave %#02x", u|1<<31, got)
		}
	}
}

func TestE2M1CodesHaveTheValuesOfTheirFields(t *testing.T) {
	for c := range 256 {
		want := fieldValue(c&7, 2, 1, 1)
		if c&8 != 0 {
			want = -want
		}
		got := float64(numeric.E2M1ToFloat32(uint8(c)))
		if got != want || math.Signbit(got) != math.Signbit(want) {
			t.Errorf("code %#02x: got %v, want %v", c, got, want)
		}
		back, code := numeric.E2M1FromFloat32(float32(got)), uint8(c&15)
		if code == 8 {
			code = 0 // a zero of either sign is code 0
		}
		if back != code {
			t.Errorf("code %#02x comes back as %#02x", code, back)
		}
	}
}

func TestE2M1RoundsToTheNearestCodeAndSaturates(t *testing.T) {
	l := newLattice(8, func(c int) float64 { return fieldValue(c, 2, 1, 1) })
	for _, f := range append(l.probes(), spread()...) {
		want := uint8(7)
		if f < 6 {
			want = uint8(l.nearest(float64(f)))
		}
		if got := numeric.E2M1FromFloat32(f); got != want {
			t.Fatalf("%v (%#08x): got %d, want %d", f, math.Float32bits(f), got, want)
		}
		if f > 0 {
			want |= 8 // small negatives are code 8
		}
		if got := numeric.E2M1FromFloat32(-f); got != want {
			t.Fatalf("%v: got %d, want %d", -f, got, want)
		}
	}
}

func TestE2M1OfNaNIsTheLargestCode(t *testing.T) {
	for _, u := range []uint32{0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff} {
		if got := numeric.E2M1FromFloat32(math.Float32frombits(u)); got != 7 {
			t.Errorf("NaN %#08x gave %d", u, got)
		}
	}
}

func TestBF16IsTheUpperHalfOfAFloat32(t *testing.T) {
	for c := range 1 << 16 {
		f := numeric.BF16ToFloat32(uint16(c))
		if math.Float32bits(f) != uint32(c)<<16 {
			t.Fatalf("%#04x: got %#08x", c, math.Float32bits(f))
		}
		want := uint16(c)
		if f != f {
			want |= 0x40
		}
		if got := numeric.BF16FromFloat32(f); got != want {
			t.Fatalf("%#04x comes back as %#04x", c, got)
		}
	}
}

func TestFP16CodesHaveTheValuesOfTheirFields(t *testing.T) {
	for c := range 1 << 16 {
		f := numeric.FP16ToFloat32(uint16(c))
		got, want := float64(f), fieldValue(c&0x7fff, 5, 10, 15)
		switch {
		case c&0x7fff == 0x7c00:
			want = math.Inf(1)
		case c&0x7fff > 0x7c00:
			if f == f || math.Signbit(got) != (c>>15 == 1) || math.Float32bits(f)>>13&0x3ff != uint32(c&0x3ff) {
				t.Fatalf("NaN %#04x became %#08x", c, math.Float32bits(f))
			}
			if back := numeric.FP16FromFloat32(f); back != uint16(c)|0x200 {
				t.Fatalf("NaN %#04x comes back as %#04x", c, back)
			}
			continue
		}
		if c>>15 == 1 {
			want = -want
		}
		if got != want || math.Signbit(got) != math.Signbit(want) {
			t.Fatalf("%#04x: got %v, want %v", c, got, want)
		}
		if back := numeric.FP16FromFloat32(f); back != uint16(c) {
			t.Fatalf("%#04x comes back as %#04x", c, back)
		}
	}
}

// The 16-bit formats round to the nearest of all their values and go to infinity from half a step
// above the largest.
func TestSixteenBitFormatsRoundToTheNearestCode(t *testing.T) {
	formats := []struct {
		name     string
		expBits  int
		manBits  int
		infinity uint32
		encode   func(float32) uint16
	}{
		{"bf16", 8, 7, 0x7f80, numeric.BF16FromFloat32},
		{"fp16", 5, 10, 0x7c00, numeric.FP16FromFloat32},
	}
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			l := newLattice(int(f.infinity), func(c int) float64 {
				return fieldValue(c, f.expBits, f.manBits, 1<<(f.expBits-1)-1)
			})
			top := l.values[len(l.values)-1]
			overflow := top + (top-l.values[len(l.values)-2])/2
			probes := append(l.probes(), spread()...)
			probes = append(probes, float32(overflow), math.Nextafter32(float32(overflow), 0))
			for _, x := range probes {
				want := f.infinity
				if float64(x) < overflow {
					want = l.nearest(float64(x))
				}
				if got := f.encode(x); uint32(got) != want {
					t.Fatalf("%v (%#08x): got %#04x, want %#04x", x, math.Float32bits(x), got, want)
				}
				if got := f.encode(-x); uint32(got) != want|0x8000 {
					t.Fatalf("%v: got %#04x, want %#04x", -x, got, want|0x8000)
				}
			}
			t.Logf("%d magnitudes compared", len(probes))
		})
	}
}
