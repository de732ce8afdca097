package numeric_test

import (
	"encoding/binary"
	"math"
	"testing"

	"seatsmith/internal/numeric"

	"pgregory.net/rapid"
)

// floats is little-endian float32 bytes.
func floats(v ...float32) []byte {
	b := make([]byte, 4*len(v))
	for i, f := range v {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(f))
	}
	return b
}

// widened is BF16 bytes as float32 bytes.
func widened(src []byte) []byte {
	out := make([]byte, 2*len(src))
	for i := range len(src) / 2 {
		copy(out[4*i+2:], src[2*i:2*i+2])
	}
	return out
}

// requireSameF32 codes float32 bytes with the reference and with the active level.
func requireSameF32(t testing.TB, q numeric.NVFP4, src []byte) {
	t.Helper()
	n := len(src) / 64
	wantCodes, wantScales := make([]byte, 8*n), make([]byte, n)
	codes, scales := make([]byte, 8*n), make([]byte, n)
	want := q.EncodeF32Reference(wantCodes, wantScales, src)
	got := q.EncodeF32(codes, scales, src)
	if i := firstDifference(scales, wantScales); i >= 0 {
		t.Fatalf("%v, global %v: scale %d of block % x is %#02x, the reference has %#02x", q.Math, q.Global, i, src[64*i:][:64], scales[i], wantScales[i])
	}
	if i := firstDifference(codes, wantCodes); i >= 0 {
		t.Fatalf("%v, global %v: code byte %d of block % x (scale %#02x) is %#02x, the reference has %#02x",
			q.Math, q.Global, i%8, src[i/8*64:][:64], scales[i/8], codes[i], wantCodes[i])
	}
	if got != want {
		t.Fatalf("%v, global %v: %d blocks collapsed, the reference counts %d", q.Math, q.Global, got, want)
	}
}

// requireSameFP8F32 is the same for FP8.
func requireSameFP8F32(t testing.TB, m numeric.Math, channel bool, src []byte, scale float32) {
	t.Helper()
	got, want := make([]byte, len(src)/4), make([]byte, len(src)/4)
	numeric.EncodeFP8F32Reference(m, channel, want, src, scale)
	numeric.EncodeFP8F32(m, channel, got, src, scale)
	if i := firstDifference(got, want); i >= 0 {
		t.Fatalf("%v channel %v, scale %v: % x gives %#02x, the reference %#02x", m, channel, scale, src[4*i:4*i+4], got[i], want[i])
	}
}

func TestEveryLevelCodesFloat32AsTheReferenceDoes(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			src := noise(r, 64*rapid.IntRange(0, 60).Draw(r, "blocks"))
			if rapid.Bool().Draw(r, "ordinary") { // exponents near 1
				for i := range len(src) / 4 {
					src[4*i+3] = src[4*i+3]&0x83 | 0x3c
				}
			}
			m := rapid.SampledFrom(maths).Draw(r, "math")
			requireSameF32(t, numeric.NVFP4{Math: m, Global: math.Float32frombits(rapid.Uint32().Draw(r, "global"))}, src)
			amax, _ := numeric.AmaxF32(src)
			requireSameF32(t, numeric.NewNVFP4(m, amax), src)
			for _, channel := range []bool{true, false} {
				requireSameFP8F32(t, m, channel, src, numeric.FP8Scale(m, channel, amax))
				requireSameFP8F32(t, m, channel, src, math.Float32frombits(rapid.Uint32().Draw(r, "scale")))
			}
		})
	})
}

// Every exponent and both signs, with mantissas around the middle of two BF16 values and NaNs whose payload would carry.
func TestEveryLevelCodesFloat32OfEveryMagnitude(t *testing.T) {
	var src []byte
	for top := range uint32(1 << 9) {
		for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0x3fffff, 0x400000, 0x7f7fff, 0x7f8000, 0x7fffff, 0x2aaaaa, 0x555555, 0x600000, 0x5fffff, 0x200000, 0x200001} {
			src = append(src, floats(math.Float32frombits(top<<23|low))...)
		}
	}
	interleaved := make([]byte, len(src)) // so that blocks hold values of many magnitudes
	for i := range len(src) / 4 {
		copy(interleaved[4*(i*37%(len(src)/4)):], src[4*i:4*i+4])
	}
	eachLevel(t, func(t *testing.T) {
		for _, s := range [][]byte{src, interleaved} {
			for _, m := range maths {
				for _, g := range globals {
					requireSameF32(t, numeric.NVFP4{Math: m, Global: g}, s)
				}
				for _, scale := range []float32{1, 0x1p-7, 0.00223214, 7.5e35, 1e-38, 0x1p-149, math.MaxFloat32} {
					requireSameFP8F32(t, m, true, s, scale)
					requireSameFP8F32(t, m, false, s, scale)
				}
			}
		}
	})
}

// Quotients at, just below and just above every threshold of E2M1, by one float32 step.
func TestFloat32WeightsAreNotRoundedToBF16OnTheWay(t *testing.T) {
	q := numeric.NVFP4{Math: numeric.ModeloptCPU, Global: 1.0 / 448} // a block of largest value 6 has divisor 1
	block := []float32{6, 0.75, 0.75000006, 0.74999994, 2.5, 2.5000002, 2.4999998, 5, 5.0000005, 4.9999995, -0.25, -0.25000003, 0.25, 0.25000003, 3.5, 3.4999998}
	want := []uint8{7, 2, 2, 1, 4, 5, 4, 6, 7, 6, 8, 9, 0, 1, 6, 5}
	eachLevel(t, func(t *testing.T) {
		codes, scales := make([]byte, 8), make([]byte, 1)
		q.EncodeF32(codes, scales, floats(block...))
		if scales[0] != 0x7e {
			t.Fatalf("scale %#02x", scales[0])
		}
		for i, c := range want {
			if got := codes[i/2] >> (4 * (i % 2)) & 15; got != c {
				t.Errorf("%v has code %d, want %d", block[i], got, c)
			}
		}
	})
}

func TestEqualValuesHaveEqualCodesWhateverTheirDtype(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			src := noise(r, 32*rapid.IntRange(0, 40).Draw(r, "blocks"))
			for i := range len(src) / 2 {
				if rapid.Bool().Draw(r, "wild") {
					break
				}
				src[2*i+1] = src[2*i+1]&0x83 | 0x3c
			}
			wide := widened(src)
			amax, bad := numeric.AmaxBF16(src)
			if a, b := numeric.AmaxF32(wide); a != amax || b != bad {
				r.Fatalf("amax %v, bad %d; of float32 %v, %d", amax, bad, a, b)
			}
			n := len(src) / 32
			for _, m := range maths {
				q := numeric.NewNVFP4(m, amax)
				codes, scales, lost := encodeNVFP4(numeric.NVFP4.EncodeBF16, q, src)
				codes32, scales32 := make([]byte, 8*n), make([]byte, n)
				lost32 := q.EncodeF32(codes32, scales32, wide)
				if string(codes) != string(codes32) || string(scales) != string(scales32) || lost != lost32 {
					r.Fatalf("%v: float32 gives other NVFP4 bytes than BF16", m)
				}
				for _, channel := range []bool{true, false} {
					scale := numeric.FP8Scale(m, channel, amax)
					a, b := make([]byte, 16*n), make([]byte, 16*n)
					numeric.EncodeFP8BF16(m, channel, a, src, scale)
					numeric.EncodeFP8F32(m, channel, b, wide, scale)
					if string(a) != string(b) {
						r.Fatalf("%v: float32 gives other FP8 bytes than BF16", m)
					}
				}
			}
		})
	})
}

func TestEveryLevelTakesAnyLengthOfFloat32(t *testing.T) {
	buffer := make([]byte, 64*40+8)
	for i := range len(buffer) / 4 {
		binary.LittleEndian.PutUint32(buffer[4*i:], 0x3c000000+uint32(i)*2654435761>>7&0x83ffffff)
	}
	eachLevel(t, func(t *testing.T) {
		for n := range 41 {
			for _, offset := range []int{0, 1, 7} {
				src := buffer[offset : offset+64*n]
				for _, m := range maths {
					requireSameF32(t, numeric.NewNVFP4(m, 0.3), src)
				}
				requireSameFP8F32(t, numeric.CT, true, src[:len(src)-4*min(n, 3)], 3e-3)
			}
		}
		for n := range 300 {
			values := make([]float32, n)
			for i := range values {
				values[i] = -float32(i%7) * 0.1
			}
			for at := range values {
				values[at] -= 40
				if got, bad := numeric.AmaxF32(append(floats(values...), 1, 2, 3)[:4*n]); got != -values[at] || bad != -1 {
					t.Fatalf("%d values, the largest at %d: %v, %d", n, at, got, bad)
				}
				values[at] += 40
			}
		}
	})
}

func TestAmaxOfFloat32AndFP16SkipsAndReportsNonFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	eachLevel(t, func(t *testing.T) {
		values := make([]float32, 200)
		values[150], values[70], values[199] = nan, -inf, -3
		if amax, bad := numeric.AmaxF32(floats(values...)); amax != 3 || bad != 70 {
			t.Errorf("float32: %v, %d", amax, bad)
		}
		halves := make([]uint16, 200)
		halves[70], halves[150], halves[3] = 0xfc00, 0x7e00, 0xfbff
		if amax, bad := numeric.AmaxF16(words(halves...)); amax != 65504 || bad != 70 {
			t.Errorf("F16: %v, %d", amax, bad)
		}
		if amax, bad := numeric.AmaxF16(words(0x8001, 0x0003)); amax != 3*0x1p-24 || bad != -1 {
			t.Errorf("F16 subnormals: %v, %d", amax, bad)
		}
	})
}
