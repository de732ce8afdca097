package numeric_test

import (
	"encoding/binary"
	"math"
	"testing"

	"seatsmith/internal/numeric"

	"pgregory.net/rapid"
)

func TestEveryFP16ValueIsWidenedExactly(t *testing.T) {
	src := make([]byte, 1<<17)
	for u := range 1 << 16 {
		binary.LittleEndian.PutUint16(src[2*u:], uint16(u))
	}
	dst := make([]byte, 2*len(src))
	eachLevel(t, func(t *testing.T) {
		clear(dst)
		numeric.WidenF16(dst, src)
		for u := range 1 << 16 {
			got, want := binary.LittleEndian.Uint32(dst[4*u:]), math.Float32bits(numeric.FP16ToFloat32(uint16(u)))
			if got != want {
				t.Fatalf("%#04x becomes %#08x, want %#08x", u, got, want)
			}
		}
		for n := range 70 {
			part := make([]byte, 4*n)
			numeric.WidenF16(part, src[20000:20000+2*n])
			if string(part) != string(dst[40000:40000+4*n]) {
				t.Fatalf("%d values differ from the same among many", n)
			}
		}
	})
}

func TestEveryE4M3CodeIsWidenedByItsScale(t *testing.T) {
	src := make([]byte, 259)
	for i := range src {
		src[i] = uint8(i)
	}
	dst, values := make([]byte, 4*len(src)), make([]float32, len(src))
	eachLevel(t, func(t *testing.T) {
		for _, scale := range []float32{1, 0.00123, 3e38, 0x1p-149, 0x1p-126} {
			numeric.WidenE4M3(dst, src, scale)
			numeric.DecodeFP8(values, src, scale)
			for i, v := range values {
				if got := binary.LittleEndian.Uint32(dst[4*i:]); got != math.Float32bits(v) && v == v {
					t.Fatalf("scale %v: code %#02x becomes %#08x, want %v", scale, src[i], got, v)
				} else if v != v && got&0x7fffffff <= 0x7f800000 {
					t.Fatalf("NaN code %#02x becomes %#08x", src[i], got)
				}
			}
			for n := range 70 {
				part := make([]byte, 4*n)
				numeric.WidenE4M3(part, src[90:90+n], scale)
				if string(part) != string(dst[360:360+4*n]) {
					t.Fatalf("%d codes differ from the same among many", n)
				}
			}
		}
	})
}

func TestTheFirstNaNCodeIsFoundAnywhere(t *testing.T) {
	for n := range 40 {
		src := make([]byte, n)
		for i := range src {
			src[i] = [...]uint8{0x7e, 0xfe, 0x80, 0, 0x77}[i%5]
		}
		if got := numeric.FirstNaNE4M3(src); got != -1 {
			t.Fatalf("%d codes: found one at %d", n, got)
		}
		for at := range src {
			src[at], src[n-1] = 0x7f|src[at]&0x80, 0xff
			if got := numeric.FirstNaNE4M3(src); got != at {
				t.Fatalf("%d codes: found %d, want %d", n, got, at)
			}
			src[at], src[n-1] = 0, 0
		}
	}
}

func TestRoundingToBF16EqualsItsDefinition(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			src := noise(r, 4*rapid.IntRange(0, 80).Draw(r, "values"))
			if rapid.Bool().Draw(r, "finite") {
				for i := range len(src) / 4 {
					src[4*i+3] &= 0xbf
				}
			}
			if rapid.Bool().Draw(r, "exact") {
				for i := range len(src) / 4 {
					src[4*i], src[4*i+1] = 0, 0
				}
			}
			got, want := make([]byte, len(src)/2), make([]byte, len(src)/2)
			changed, bad := numeric.RoundF32(got, src)
			wantChanged, wantBad := numeric.RoundF32Reference(want, src)
			if string(got) != string(want) || changed != wantChanged || bad != wantBad {
				r.Fatalf("% x gives % x, %d changed, bad %d; want % x, %d, %d", src, got, changed, bad, want, wantChanged, wantBad)
			}
		})
	})
}

func TestRoundingCountsChangesAndFindsWhatBF16CannotHold(t *testing.T) {
	largest := math.Float32frombits(0x7f7f0000) // of BF16
	for _, c := range []struct {
		values  []float32
		changed int64
		bad     int
	}{
		{[]float32{0, 1, -1.5, largest, 0x1p-133}, 0, -1},
		{[]float32{1.001, 1, 0.1, 0x1p-149}, 3, -1},
		{[]float32{math.Float32frombits(0x7f7f7fff), 1}, 1, -1}, // the last that rounds down
		{[]float32{1, 1, math.Float32frombits(0x7f7f8000)}, 1, 2},
		{[]float32{1, 1, 1, 1, 1, -math.MaxFloat32, float32(math.NaN())}, 1, 5},
		{[]float32{float32(math.Inf(-1)), 2}, 0, 0},
	} {
		dst := make([]byte, 2*len(c.values))
		changed, bad := numeric.RoundF32(dst, floats(c.values...))
		if changed != c.changed || bad != c.bad {
			t.Errorf("%v: %d changed, bad %d; want %d, %d", c.values, changed, bad, c.changed, c.bad)
		}
	}
}

// Every F16 value survives BF16's range: what changes, changes in precision only.
func TestEveryFiniteFP16ValueRoundsToAFiniteBF16(t *testing.T) {
	src := make([]byte, 0, 1<<17)
	for u := range 1 << 16 {
		if u&0x7c00 != 0x7c00 {
			src = binary.LittleEndian.AppendUint16(src, uint16(u))
		}
	}
	wide, dst := make([]byte, 2*len(src)), make([]byte, len(src))
	numeric.WidenF16(wide, src)
	changed, bad := numeric.RoundF32(dst, wide)
	if bad >= 0 {
		t.Fatalf("value %d is not finite", bad)
	}
	var want int64
	for i := range len(src) / 2 {
		f := numeric.FP16ToFloat32(binary.LittleEndian.Uint16(src[2*i:]))
		if numeric.BF16ToFloat32(binary.LittleEndian.Uint16(dst[2*i:])) != f {
			want++
		}
	}
	if changed != want {
		t.Errorf("%d values changed, counted %d", want, changed)
	}
}
