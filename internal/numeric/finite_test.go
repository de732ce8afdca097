package numeric_test

import (
	"encoding/binary"
	"math"
	"testing"

	"seatsmith/internal/numeric"

	"pgregory.net/rapid"
)

// scans are the three scans, each with its definition: widen every value and ask the language.
var scans = []struct {
	name  string
	width int
	first func(src []byte) int
	value func(src []byte) float32
	nan   []byte
}{
	{"BF16", 2, numeric.FirstNonFiniteBF16, func(b []byte) float32 { return numeric.BF16ToFloat32(binary.LittleEndian.Uint16(b)) }, []byte{0xc0, 0x7f}},
	{"F16", 2, numeric.FirstNonFiniteF16, func(b []byte) float32 { return numeric.FP16ToFloat32(binary.LittleEndian.Uint16(b)) }, []byte{0x01, 0xfc}},
	{"F32", 4, numeric.FirstNonFiniteF32, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }, []byte{1, 0, 0x80, 0x7f}},
}

func firstByDefinition(src []byte, width int, value func([]byte) float32) int {
	for i := range len(src) / width {
		if v := float64(value(src[i*width:])); math.IsNaN(v) || math.IsInf(v, 0) {
			return i
		}
	}
	return -1
}

func TestEverySixteenBitValueIsTakenForWhatItIs(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, s := range scans[:2] {
			for u := range 1 << 16 {
				src := words(uint16(u))
				if got, want := s.first(src), firstByDefinition(src, 2, s.value); got != want {
					t.Fatalf("%s %#04x: %d, want %d", s.name, u, got, want)
				}
			}
		}
	})
}

func TestEveryUpperHalfOfAFloat32IsTakenForWhatItIs(t *testing.T) {
	s := scans[2]
	for u := range 1 << 16 {
		for _, low := range []uint32{0, 1, 0xffff} {
			src := binary.LittleEndian.AppendUint32(nil, uint32(u)<<16|low)
			if got, want := s.first(src), firstByDefinition(src, 4, s.value); got != want {
				t.Fatalf("%#04x%04x: %d, want %d", u, low, got, want)
			}
		}
	}
}

func TestANonFiniteValueIsFoundAtAnyPlaceAndAlignment(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, s := range scans {
			buffer := make([]byte, 8300)
			for i := range buffer {
				buffer[i] = 0x3b // a finite value in each of the formats
			}
			for offset := range 3 {
				for _, n := range []int{0, 1, 2, 3, 7, 8, 9, 130, 257, 1024, 1025, 2060} {
					src := buffer[offset : offset+s.width*n : offset+s.width*n]
					if got := s.first(src); got != -1 {
						t.Fatalf("%s, %d finite values: %d", s.name, n, got)
					}
					for at := range n {
						if n > 300 && at%37 != 0 && at < n-9 {
							continue
						}
						copy(src[at*s.width:], s.nan)
						if got := s.first(src); got != at {
							t.Fatalf("%s, offset %d, NaN at %d of %d: %d", s.name, offset, at, n, got)
						}
						for i := range s.nan {
							src[at*s.width+i] = 0x3b
						}
					}
				}
			}
		}
	})
}

func TestTheFirstOfSeveralNonFiniteValuesIsReportedOnAnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := noise(t, rapid.IntRange(0, 6000).Draw(t, "bytes"))
		if rapid.Bool().Draw(t, "mostly finite") {
			for i := range src {
				if i%97 != 3 {
					src[i] &= 0xbb // clears a bit of each exponent
				}
			}
		}
		for _, s := range scans {
			if got, want := s.first(src), firstByDefinition(src, s.width, s.value); got != want {
				t.Fatalf("%s: %d, want %d", s.name, got, want)
			}
		}
	})
}
