package numeric_test

import (
	"encoding/binary"
	"math"
	"testing"

	"seatsmith/internal/numeric"

	"pgregory.net/rapid"
)

var maths = []numeric.Math{numeric.Modelopt, numeric.ModeloptCPU, numeric.CT}

// words makes little-endian BF16 bytes.
func words(w ...uint16) []byte {
	var b []byte
	for _, u := range w {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}

func finitePositive(f float32) bool { return f > 0 && f <= math.MaxFloat32 }

func TestGlobalScalesAreFiniteAndPositiveForEveryAmax(t *testing.T) {
	for _, m := range maths {
		for u := range 1 << 16 {
			q := numeric.NewNVFP4(m, numeric.BF16ToFloat32(uint16(u)))
			if !finitePositive(q.Global) || !finitePositive(q.Divisor()) || !finitePositive(q.Multiplier()) {
				t.Fatalf("%v, amax %#04x: global %v, divisor %v, multiplier %v", m, u, q.Global, q.Divisor(), q.Multiplier())
			}
			if s := numeric.FP8Scale(m, true, numeric.BF16ToFloat32(uint16(u))); !finitePositive(s) {
				t.Fatalf("%v, row amax %#04x: fp8 scale %v", m, u, s)
			}
			if s := numeric.FP8Scale(m, false, numeric.BF16ToFloat32(uint16(u))); !finitePositive(s) {
				t.Fatalf("%v, tensor amax %#04x: fp8 scale %v", m, u, s)
			}
		}
		for _, amax := range []float32{0, -1, float32(math.NaN()), float32(math.Inf(1)), math.SmallestNonzeroFloat32} {
			if q := numeric.NewNVFP4(m, amax); q.Global != 1 {
				t.Errorf("%v, amax %v: global %v, want 1", m, amax, q.Global)
			}
		}
	}
}

func TestDivisorAndMultiplierAreTheSameScaleInBothSpellings(t *testing.T) {
	for _, m := range maths {
		for u := range 1 << 15 {
			amax := numeric.BF16ToFloat32(uint16(u))
			q := numeric.NewNVFP4(m, amax)
			native, other := q.Multiplier(), q.Divisor()
			if m == numeric.CT {
				native, other = other, native
			}
			if native != q.Global {
				t.Fatalf("%v: the native spelling of %v is %v", m, q.Global, native)
			}
			if product := float64(native) * float64(other); !q.Extreme() && math.Abs(product-1) > 0x1p-23 {
				t.Fatalf("%v, amax %v: %v times %v is not 1", m, amax, native, other)
			}
			ordinary, tiny := amax > 3.2e-35 && amax < 3.3e38, q.Global != 1 && amax < 3.1e-35
			if ordinary && q.Extreme() || tiny && !q.Extreme() {
				t.Fatalf("%v, amax %v: extreme is %v", m, amax, q.Extreme())
			}
		}
	}
}

func TestTheReciprocalsAreThoseThatTorchUsesOnCUDA(t *testing.T) {
	if g := numeric.NewNVFP4(numeric.Modelopt, 1).Global; math.Float32bits(g) != 0x39c30c31 {
		t.Errorf("1/2688 is %#08x", math.Float32bits(g))
	}
	if s := numeric.FP8Scale(numeric.Modelopt, false, 1); math.Float32bits(s) != 0x3b124925 {
		t.Errorf("1/448 is %#08x", math.Float32bits(s))
	}
}

// Per arithmetic: what a block of zeros and a block below the scale's range get.
func TestZeroAndUnderflowingBlocksGetTheirPeersScales(t *testing.T) {
	src := make([]byte, 3*32)
	binary.LittleEndian.PutUint16(src, 0x3f80)      // block 0: 1
	binary.LittleEndian.PutUint16(src[64:], 0x8001) // block 2: the smallest negative
	for _, m := range maths {
		q := numeric.NewNVFP4(m, 1)
		codes, scales, collapsed := encodeNVFP4(numeric.NVFP4.EncodeBF16Reference, q, src)
		zero, under := uint8(0x38), uint8(0x01)
		if m == numeric.CT {
			zero, under = 0x20, 0x20
		}
		if scales[1] != zero || scales[2] != under {
			t.Errorf("%v: scales % x", m, scales)
		}
		if codes[0] != 0x07 || codes[8] != 0 || codes[16] != 0x08 {
			t.Errorf("%v: codes % x", m, codes)
		}
		if collapsed != 1 {
			t.Errorf("%v: %d blocks collapsed, want the last", m, collapsed)
		}
	}
}

func TestNaNAndInfinityNeverReachAScale(t *testing.T) {
	for _, m := range maths {
		for _, bad := range []uint16{0x7f80, 0xff80, 0x7fc0, 0xffff, 0x7f81} {
			src := make([]byte, 32)
			copy(src, words(bad, 0x3f80, bad))
			for _, q := range []numeric.NVFP4{numeric.NewNVFP4(m, 1), {Math: m}, {Math: m, Global: float32(math.NaN())}} {
				codes, scales, _ := encodeNVFP4(numeric.NVFP4.EncodeBF16Reference, q, src)
				want := uint8(7)
				if bad == 0xff80 {
					want = 15
				}
				if scales[0] != 0x7e || codes[0]&15 != want {
					t.Errorf("%v, element %#04x: scale %#02x, code %d", m, bad, scales[0], codes[0]&15)
				}
			}
		}
	}
}

// A larger magnitude never gets a smaller code, and a sign only sets the sign bit.
func TestNVFP4KeepsOrderAndSign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(maths).Draw(t, "math")
		src := make([]byte, 32)
		for i := range 16 {
			binary.LittleEndian.PutUint16(src[2*i:], rapid.Uint16Range(0, 0x7f7f).Draw(t, "w"))
		}
		amax, _ := numeric.AmaxBF16(src)
		q := numeric.NewNVFP4(m, max(amax, 1e-30))
		codes, _, _ := encodeNVFP4(numeric.NVFP4.EncodeBF16Reference, q, src)
		negated := make([]byte, 32)
		for i := range 16 {
			binary.LittleEndian.PutUint16(negated[2*i:], binary.LittleEndian.Uint16(src[2*i:])|0x8000)
		}
		mirror, _, _ := encodeNVFP4(numeric.NVFP4.EncodeBF16Reference, q, negated)
		code := func(c []byte, i int) uint8 { return c[i/2] >> (i % 2 * 4) & 15 }
		for i := range 16 {
			if code(mirror, i)&7 != code(codes, i) {
				t.Fatalf("element %d: %d, negated %d", i, code(codes, i), code(mirror, i))
			}
			for j := range 16 {
				wi, wj := binary.LittleEndian.Uint16(src[2*i:]), binary.LittleEndian.Uint16(src[2*j:])
				if wi < wj && code(codes, i) > code(codes, j) {
					t.Fatalf("%#04x has code %d, the larger %#04x has %d", wi, code(codes, i), wj, code(codes, j))
				}
			}
		}
	})
}

func TestMismatchedLengthsPanicWithTheLengths(t *testing.T) {
	calls := map[string]func(){
		"part of a block": func() { numeric.NVFP4{}.EncodeBF16(make([]byte, 8), make([]byte, 1), make([]byte, 30)) },
		"too few codes":   func() { numeric.NVFP4{}.EncodeBF16(make([]byte, 7), make([]byte, 1), make([]byte, 32)) },
		"too many scales": func() { numeric.NVFP4{}.EncodeBF16Reference(make([]byte, 8), make([]byte, 2), make([]byte, 32)) },
		"half of an fp8":  func() { numeric.EncodeFP8BF16(numeric.CT, true, make([]byte, 2), make([]byte, 3), 1) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			call()
		})
	}
}
