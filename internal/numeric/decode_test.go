package numeric_test

import (
	"math"
	"strings"
	"testing"

	"seatsmith/internal/numeric"
)

// Every pair of code and scale, against the three operations written out.
func TestDecodeMultipliesInTheServersOrder(t *testing.T) {
	var codes, scales []byte
	for s := range 256 {
		for i := range 8 {
			codes = append(codes, uint8(2*i|(2*i+1)<<4)) // codes 0 to 15
		}
		scales = append(scales, uint8(s))
	}
	dst := make([]float32, 256*16)
	for _, divisor := range []float32{3616, 1, 5.3e-31, 1e38, 0x1p-126, math.MaxFloat32} {
		for name, decode := range map[string]func(){
			"divisor":    func() { numeric.DecodeNVFP4(dst, codes, scales, divisor) },
			"multiplier": func() { numeric.DecodeNVFP4Multiplier(dst, codes, scales, 1/divisor) },
		} {
			decode()
			r := float32(1) / divisor
			for i, got := range dst {
				want := numeric.E2M1ToFloat32(uint8(i%16)) * float32(numeric.E4M3ToFloat32(uint8(i/16))*r)
				if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
					t.Fatalf("%s %v, scale %#02x, code %d: got %v, want %v", name, divisor, i/16, i%16, got, want)
				}
			}
		}
	}
}

func TestDecodeFP8MultipliesEveryCode(t *testing.T) {
	codes, dst := make([]byte, 256), make([]float32, 256)
	for c := range codes {
		codes[c] = uint8(c)
	}
	numeric.DecodeFP8(dst, codes, 0.0123)
	for c, got := range dst {
		want := numeric.E4M3ToFloat32(uint8(c)) * 0.0123
		if got != want && (got == got || want == want) {
			t.Errorf("code %#02x: got %v, want %v", c, got, want)
		}
	}
}

// What the peers lose on the trained model, and so do we: the figures of every quantized Linear
// together. A swapped nibble or an inverted scale gives an error near or above 1.
func TestDecodedWeightsAreCloseToTheirSource(t *testing.T) {
	g := readGoldens(t)
	for _, m := range maths {
		var nvfp4, fp8 numeric.Error
		for _, tensor := range g.tensors(t, "mo.nvfp4_hf", "weight") {
			src := g.weights[tensor].data
			amax, _ := numeric.AmaxBF16(src)
			q := numeric.NewNVFP4(m, amax)
			codes, scales, _ := encodeNVFP4(numeric.NVFP4.EncodeBF16Reference, q, src)
			values := make([]float32, len(src)/2)
			numeric.DecodeNVFP4(values, codes, scales, q.Divisor())
			nvfp4.AddBF16(values, src)
			bytes8, scale8 := encodeFP8(m, false, src, 1)
			numeric.DecodeFP8(values, bytes8, scale8[0])
			fp8.AddBF16(values, src)
		}
		t.Logf("%v: relative squared error NVFP4 %.6f, FP8 %.6f", m, nvfp4.RelativeMSE(), fp8.RelativeMSE())
		if r := nvfp4.RelativeMSE(); r < 0.006 || r > 0.010 {
			t.Errorf("%v: NVFP4 %v", m, r)
		}
		if r := fp8.RelativeMSE(); r < 0.0004 || r > 0.0010 {
			t.Errorf("%v: FP8 %v", m, r)
		}
	}
}

func TestDecodingMismatchedLengthsPanics(t *testing.T) {
	calls := map[string]func(){
		"half a block":     func() { numeric.DecodeNVFP4(make([]float32, 8), make([]byte, 4), nil, 1) },
		"too few scales":   func() { numeric.DecodeNVFP4(make([]float32, 16), make([]byte, 8), nil, 1) },
		"fp8":              func() { numeric.DecodeFP8(make([]float32, 3), make([]byte, 4), 1) },
		"source and error": func() { new(numeric.Error).AddBF16(make([]float32, 3), make([]byte, 4)) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text, ok := recover().(string); !ok || !strings.HasPrefix(text, "numeric: ") {
					t.Errorf("panic %q", text)
				}
			}()
			call()
		})
	}
}
