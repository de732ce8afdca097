package dialect_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"seatsmith/internal/dialect"
	"seatsmith/internal/numeric"
)

func TestInputScalesFollowThePeers(t *testing.T) {
	ct, mo := dialect.CompressedTensors(), dialect.ModelOpt()
	third := math.Float32frombits(0x39C30C31) // fl(1/2688)
	for _, c := range []struct {
		d      dialect.Dialect
		scheme dialect.Scheme
		math   numeric.Math
		amax   float32
		want   float32
	}{
		{mo, dialect.NVFP4W4A4, numeric.Modelopt, 21, 21 * third},
		{mo, dialect.NVFP4W4A4, numeric.ModeloptCPU, 21, float32(21) / 2688},
		{ct, dialect.NVFP4W4A4, numeric.ModeloptCPU, 21, 1 / (float32(21) / 2688)},
		{ct, dialect.NVFP4W4A4, numeric.CT, 0.74609375, 3616}, // 0x3f3f; one rounding less would give 3600
		{ct, dialect.NVFP4W4A4, numeric.CT, 0.7461, 3616},     // read as the BF16 that the peer saw
		{mo, dialect.NVFP4W4A4, numeric.CT, 0.74609375, float32(1) / 3616},
		{mo, dialect.FP8Tensor, numeric.ModeloptCPU, 21, float32(21) / 448},
		{ct, dialect.FP8Tensor, numeric.ModeloptCPU, 21, float32(21) / 448},
	} {
		if got, err := c.d.InputScale(c.scheme, c.math, c.amax); err != nil || got != c.want {
			t.Errorf("%s %s %s of %v: %v, %v, want %v", c.d.Name(), c.scheme, c.math, c.amax, got, err, c.want)
		}
	}
}

func TestNoInputScaleIsInfiniteZeroOrNaN(t *testing.T) { // Q10
	schemes := []dialect.Scheme{dialect.NVFP4W4A4, dialect.FP8Tensor}
	for _, d := range []dialect.Dialect{dialect.CompressedTensors(), dialect.ModelOpt()} {
		for _, s := range schemes {
			for _, amax := range []float32{0, -1, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0x1p-149} {
				if v, err := d.InputScale(s, numeric.Modelopt, amax); err == nil {
					t.Errorf("%s %s: an amax of %v gives %v", d.Name(), s, amax, v)
				}
			}
		}
		if _, err := d.InputScale(dialect.NVFP4W4A16, numeric.Modelopt, 1); err == nil || !strings.Contains(err.Error(), "no input scale") {
			t.Errorf("%s: nvfp4-w4a16 has an input scale: %v", d.Name(), err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		amax := math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
		m := rapid.SampledFrom([]numeric.Math{numeric.Modelopt, numeric.ModeloptCPU, numeric.CT}).Draw(t, "math")
		s := rapid.SampledFrom(schemes).Draw(t, "scheme")
		d := rapid.SampledFrom([]dialect.Dialect{dialect.CompressedTensors(), dialect.ModelOpt()}).Draw(t, "dialect")
		v, err := d.InputScale(s, m, amax)
		if err == nil && !(v > 0 && 1/v > 0 && !math.IsInf(float64(v), 0) && !math.IsInf(float64(1/v), 0)) {
			t.Fatalf("an amax of %v gives %v", amax, v)
		}
		if err == nil && s == dialect.NVFP4W4A4 {
			if n := dialect.NativeInput(m, amax); n != v && n != 1/v && v != 1/n {
				t.Fatalf("the native scale of %v is %v, stored is %v", amax, n, v)
			}
		}
	})
}
