package numeric_test

import (
	"math"
	"testing"

	"seatsmith/internal/numeric"
)

// seeds are inputs at the corners of the arithmetic.
func seeds() [][]byte {
	block := func(w ...uint16) []byte { return append(words(w...), make([]byte, 32-2*len(w))...) }
	long := benchTile(32 * 37)
	return [][]byte{
		nil,
		make([]byte, 32),
		block(0x3f3f, 0xbf00, 0x3e80, 0x3dcd, 0xbdcd, 0x3d80, 0xbcf6, 0x3c76, 0x3ecd, 0xbea9, 0x3e4d, 0xbe57, 0x3a83, 0xba83, 0, 0x8000),
		block(0x7fc0, 0xff80, 0x7f80, 0xffff),
		block(0x0001, 0x8001, 0x007f, 0x807f),
		block(0x7f7f, 0xff7f, 0x0001, 0x8000),
		long,
		long[1:],
	}
}

// FuzzNVFP4 codes any bytes with any global scale: every level gives the reference's bytes, no scale is
// zero or NaN, and finite weights decode to finite values.
func FuzzNVFP4(f *testing.F) {
	for _, src := range seeds() {
		for m := range maths {
			f.Add(src, uint8(m), uint32(0x39918619))
			f.Add(src, uint8(m), uint32(0x45620000))
		}
	}
	f.Fuzz(func(t *testing.T, src []byte, m uint8, global uint32) {
		src = src[:len(src)/32*32]
		amax, bad := numeric.AmaxBF16(src)
		if wantAmax, wantBad := plainAmax(src); amax != wantAmax || bad != wantBad {
			t.Fatalf("amax %v, %d, want %v, %d", amax, bad, wantAmax, wantBad)
		}
		own := numeric.NewNVFP4(numeric.Math(m), amax)
		if !finitePositive(own.Global) || !finitePositive(own.Divisor()) || !finitePositive(own.Multiplier()) {
			t.Fatalf("%v, amax %v: %+v", own.Math, amax, own)
		}
		for _, name := range numeric.LevelNames() {
			restore := numeric.UseLevel(name)
			requireSameNVFP4(t, own, src)
			requireSameNVFP4(t, numeric.NVFP4{Math: numeric.Math(m), Global: math.Float32frombits(global)}, src)
			restore()
		}
		codes, scales, _ := encodeNVFP4(numeric.NVFP4.EncodeBF16, own, src)
		values := make([]float32, len(src)/2)
		numeric.DecodeNVFP4Multiplier(values, codes, scales, own.Multiplier())
		for i, v := range values {
			if v-v != 0 && !own.Extreme() {
				t.Fatalf("element %d decodes to %v", i, v)
			}
		}
	})
}

// FuzzFP8 codes any bytes with any scale: every level gives the reference's bytes, and only NaN weights
// become NaN.
func FuzzFP8(f *testing.F) {
	for _, src := range seeds() {
		for m := range maths {
			f.Add(src, uint8(m), true, uint32(0x39500000))
			f.Add(src, uint8(m), false, uint32(0x3b124925))
		}
	}
	f.Fuzz(func(t *testing.T, src []byte, m uint8, channel bool, bits uint32) {
		src = src[:len(src)/2*2]
		amax, _ := numeric.AmaxBF16(src)
		own := numeric.FP8Scale(numeric.Math(m), channel, amax)
		if !finitePositive(own) {
			t.Fatalf("amax %v gives scale %v", amax, own)
		}
		got, want := make([]byte, len(src)/2), make([]byte, len(src)/2)
		for _, scale := range []float32{own, math.Float32frombits(bits)} {
			numeric.EncodeFP8BF16Reference(numeric.Math(m), channel, want, src, scale)
			for _, name := range numeric.LevelNames() {
				restore := numeric.UseLevel(name)
				numeric.EncodeFP8BF16(numeric.Math(m), channel, got, src, scale)
				restore()
				if i := firstDifference(got, want); i >= 0 {
					t.Fatalf("%s, scale %v: element %d is %#02x, the reference has %#02x", name, scale, i, got[i], want[i])
				}
			}
			for i, c := range want {
				nan := src[2*i+1]&0x7f == 0x7f && src[2*i]&0x80 != 0 && src[2*i]&0x7f != 0
				if (c&0x7f == 0x7f) != nan {
					t.Fatalf("scale %v: element %d, % x, became %#02x", scale, i, src[2*i:2*i+2], c)
				}
			}
		}
	})
}

// FuzzDecode decodes any bytes: every level gives the reference's values.
func FuzzDecode(f *testing.F) {
	for _, src := range seeds() {
		f.Add(src, uint32(0x45620000))
		f.Add(src, uint32(0))
	}
	f.Fuzz(func(t *testing.T, stored []byte, divisor uint32) {
		blocks := len(stored) / 9
		codes, scales := stored[:8*blocks], stored[8*blocks:9*blocks]
		r := 1 / math.Float32frombits(divisor)
		got, want := make([]float32, 16*blocks), make([]float32, 16*blocks)
		numeric.DecodeNVFP4Reference(want, codes, scales, r)
		for _, name := range numeric.LevelNames() {
			restore := numeric.UseLevel(name)
			numeric.DecodeNVFP4(got, codes, scales, math.Float32frombits(divisor))
			restore()
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
					t.Fatalf("%s: element %d is %v, the reference has %v", name, i, got[i], want[i])
				}
			}
		}
	})
}

// FuzzFloat32 codes any float32 bytes with any scale: every level gives the reference's bytes.
func FuzzFloat32(f *testing.F) {
	for _, src := range seeds() {
		f.Add(widened(src[:len(src)/32*32]), uint8(0), uint32(0x39918619))
		f.Add(src, uint8(2), uint32(0x45620000))
	}
	f.Add(floats(math.Float32frombits(0x7fffffff), math.Float32frombits(0xff800001), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14), uint8(2), uint32(0x45620000))
	f.Fuzz(func(t *testing.T, src []byte, m uint8, bits uint32) {
		src = src[:len(src)/64*64]
		math32 := numeric.Math(m % 3)
		amax, _ := numeric.AmaxF32(src)
		for _, name := range numeric.LevelNames() {
			restore := numeric.UseLevel(name)
			requireSameF32(t, numeric.NewNVFP4(math32, amax), src)
			requireSameF32(t, numeric.NVFP4{Math: math32, Global: math.Float32frombits(bits)}, src)
			requireSameFP8F32(t, math32, m&1 == 0, src, math.Float32frombits(bits))
			got, want := make([]byte, len(src)/2), make([]byte, len(src)/2)
			changed, bad := numeric.RoundF32(got, src)
			if n, b := numeric.RoundF32Reference(want, src); n != changed || b != bad || string(got) != string(want) {
				t.Fatalf("rounding to BF16 differs from its definition")
			}
			restore()
		}
	})
}
