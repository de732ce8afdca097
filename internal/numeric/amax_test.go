package numeric_test

import (
	"encoding/binary"
	"testing"

	"seatsmith/internal/numeric"

	"pgregory.net/rapid"
)

// plainAmax is the definition of AmaxBF16.
func plainAmax(src []byte) (amax float32, bad int) {
	bad = -1
	for i := range len(src) / 2 {
		u := binary.LittleEndian.Uint16(src[2*i:])
		if u&0x7f80 == 0x7f80 {
			if bad < 0 {
				bad = i
			}
			continue
		}
		amax = max(amax, numeric.BF16ToFloat32(u&0x7fff))
	}
	return amax, bad
}

func TestAmaxOfEverySingleValue(t *testing.T) {
	for u := range 1 << 16 {
		src := words(uint16(u))
		amax, bad := numeric.AmaxBF16(src)
		if wantAmax, wantBad := plainAmax(src); amax != wantAmax || bad != wantBad {
			t.Fatalf("%#04x: %v, %d, want %v, %d", u, amax, bad, wantAmax, wantBad)
		}
	}
}

func TestAmaxFindsTheLargestAtAnyPlaceAndAlignment(t *testing.T) {
	buffer := make([]byte, 700)
	for offset := range 3 {
		for n := range 300 {
			src := buffer[offset : offset+2*n : offset+2*n]
			for at := range n {
				binary.LittleEndian.PutUint16(src[2*at:], 0xc000)
				if amax, bad := numeric.AmaxBF16(src); amax != 2 || bad != -1 {
					t.Fatalf("offset %d, element %d of %d: %v, %d", offset, at, n, amax, bad)
				}
				binary.LittleEndian.PutUint16(src[2*at:], 0x7fc0)
				if amax, bad := numeric.AmaxBF16(src); amax != 0 || bad != at {
					t.Fatalf("offset %d, NaN at %d of %d: %v, %d", offset, at, n, amax, bad)
				}
				binary.LittleEndian.PutUint16(src[2*at:], 0)
			}
		}
	}
}

func TestAmaxEqualsItsDefinitionOnAnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := noise(t, rapid.IntRange(0, 1200).Draw(t, "bytes"))
		if rapid.Bool().Draw(t, "finite") {
			for i := range len(src) / 2 {
				src[2*i+1] &= 0xbf
			}
		}
		amax, bad := numeric.AmaxBF16(src)
		if wantAmax, wantBad := plainAmax(src); amax != wantAmax || bad != wantBad {
			t.Fatalf("%v, %d, want %v, %d", amax, bad, wantAmax, wantBad)
		}
	})
}

func TestAmaxReportsTheFirstBadValueAndTheLargestFiniteOne(t *testing.T) {
	amax, bad := numeric.AmaxBF16(words(0x3f80, 0xc040, 0xff80, 0x7fc0, 0x4000))
	if amax != 3 || bad != 2 {
		t.Errorf("got %v, %d, want 3, 2", amax, bad)
	}
	if amax, bad := numeric.AmaxBF16(nil); amax != 0 || bad != -1 {
		t.Errorf("of nothing: %v, %d", amax, bad)
	}
}
