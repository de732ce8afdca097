package numeric_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"seatsmith/internal/numeric"

	"pgregory.net/rapid"
)

// eachLevel runs a test once with every implementation that this machine has.
func eachLevel(t *testing.T, test func(t *testing.T)) {
	for _, name := range numeric.LevelNames() {
		t.Run(name, func(t *testing.T) {
			defer numeric.UseLevel(name)()
			test(t)
		})
	}
	if n := len(numeric.LevelNames()); n < 3 {
		t.Logf("NOT CHECKED: this machine has %d of 3 levels", n)
	}
}

// requireSameNVFP4 codes src both ways and fails at the first byte that differs.
func requireSameNVFP4(t testing.TB, q numeric.NVFP4, src []byte) {
	t.Helper()
	wantCodes, wantScales, want := encodeNVFP4(numeric.NVFP4.EncodeBF16Reference, q, src)
	codes, scales, got := encodeNVFP4(numeric.NVFP4.EncodeBF16, q, src)
	if i := firstDifference(scales, wantScales); i >= 0 {
		t.Fatalf("%v, global %v: scale %d of block % x is %#02x, the reference has %#02x", q.Math, q.Global, i, src[32*i:][:32], scales[i], wantScales[i])
	}
	if i := firstDifference(codes, wantCodes); i >= 0 {
		t.Fatalf("%v, global %v: code byte %d of block % x (scale %#02x) is %#02x, the reference has %#02x",
			q.Math, q.Global, i%8, src[i/8*32:][:32], scales[i/8], codes[i], wantCodes[i])
	}
	if got != want {
		t.Fatalf("%v, global %v: %d blocks collapsed, the reference counts %d", q.Math, q.Global, got, want)
	}
	for i, s := range scales {
		if s == 0 || s&0x80 != 0 || s == 0x7f {
			t.Fatalf("%v, global %v: scale %d is %#02x", q.Math, q.Global, i, s)
		}
	}
}

// noise is n random bytes at a random alignment.
func noise(r *rapid.T, n int) []byte {
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
	b := make([]byte, n+64)
	for i := range b {
		b[i] = uint8(random.Uint32())
	}
	offset := rapid.IntRange(0, 63).Draw(r, "offset")
	return b[offset : offset+n : offset+n]
}

func TestEveryLevelEqualsThePeers(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		compareNVFP4(t, numeric.NVFP4.EncodeBF16)
		compareFP8(t)
	})
}

// globals reach from the smallest global scale to the largest, with ordinary weights between.
var globals = []float32{3616, 1, 0x1.0p-12, 2.78e-4, 1.3e35, 7.9e-36, 0x1p-126, 0x1p-149, 0x1p-140, math.MaxFloat32, 3e-41}

// Every BF16 value as an element beside a fixed largest one, and as the largest itself.
func TestEveryLevelCodesEveryValueBesideEveryKindOfAmax(t *testing.T) {
	anchors := []uint16{0, 1, 0x7f, 0x80, 0x3f3f, 0x3f80, 0x4000, 0x3c80, 0x33d7, 0x3a83, 0x7f7f, 0x7f80, 0x7fc0, 0x0150, 0x5a5a}
	eachLevel(t, func(t *testing.T) {
		for k, anchor := range anchors {
			var src []byte
			for u := 0; u < 1<<16; u += 15 {
				block := make([]uint16, 16)
				for i := range block {
					block[i] = uint16(u + i)
				}
				block[u/15%16] = anchor
				src = append(src, words(block...)...)
			}
			for j, g := range globals {
				for i, m := range maths {
					if (i+j+k)%3 == 0 || anchor == 0x3f3f || g == 3616 || g == 2.78e-4 {
						requireSameNVFP4(t, numeric.NVFP4{Math: m, Global: g}, src)
					}
				}
			}
		}
	})
}

// Every BF16 value alone in its block.
func TestEveryLevelScalesABlockOfEveryAmax(t *testing.T) {
	src := make([]byte, 32<<16)
	for u := range 1 << 16 {
		binary.LittleEndian.PutUint16(src[32*u+2*(u%16):], uint16(u))
	}
	eachLevel(t, func(t *testing.T) {
		for i, g := range globals {
			requireSameNVFP4(t, numeric.NVFP4{Math: maths[i%3], Global: g}, src)
			requireSameNVFP4(t, numeric.NVFP4{Math: maths[(i+2)%3], Global: g}, src)
		}
	})
}

// Quotients on both sides of every E2M1 threshold, for every scale code: the float32 nearest to
// threshold times scale, and its BF16 neighbours.
func TestEveryLevelRoundsAlikeAroundEveryThreshold(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, m := range maths {
			q := numeric.NewNVFP4(m, 0.74609375)
			perBlock := q.Multiplier()
			var src []byte
			for c := 1; c < 0x7f; c++ {
				loc := numeric.E4M3ToFloat32(uint8(c)) * perBlock
				for _, thresholds := range [][]float32{{0.25, 0.75, 1.25, 1.75}, {2.5, 3.5, 5}} {
					block := make([]uint16, 16)
					block[0] = numeric.BF16FromFloat32(6 * loc)
					for i, threshold := range thresholds {
						u := numeric.BF16FromFloat32(threshold * loc)
						copy(block[1+3*i:], []uint16{u, u + 1, (u - 1) | 0x8000})
					}
					src = append(src, words(block...)...)
				}
			}
			requireSameNVFP4(t, q, src)
		}
	})
}

func TestEveryLevelTakesAnyLengthAndAlignment(t *testing.T) {
	buffer := make([]byte, 40*32+64)
	for i := range len(buffer) / 2 {
		binary.LittleEndian.PutUint16(buffer[2*i:], uint16(0x3c00+i*2654435761>>7&0x83ff))
	}
	eachLevel(t, func(t *testing.T) {
		for blocks := range 41 {
			for _, offset := range []int{0, 1, 2, 7, 31, 33} {
				src := buffer[offset : offset+32*blocks]
				for _, m := range maths {
					requireSameNVFP4(t, numeric.NewNVFP4(m, 0.3), src)
				}
			}
		}
	})
}

func TestEveryLevelEqualsTheReferenceOnRandomBlocks(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			src := noise(r, 32*rapid.IntRange(0, 60).Draw(r, "blocks"))
			if rapid.Bool().Draw(r, "ordinary") { // exponents near 1
				for i := range len(src) / 2 {
					src[2*i+1] = src[2*i+1]&0x83 | 0x3c
				}
			}
			q := numeric.NVFP4{
				Math:   rapid.SampledFrom(maths).Draw(r, "math"),
				Global: math.Float32frombits(rapid.Uint32().Draw(r, "global")),
			}
			requireSameNVFP4(t, q, src)
		})
	})
}

// Every BF16 value with every rounding rule and scales from one end to the other.
func TestEveryLevelCodesEveryValueAsFP8(t *testing.T) {
	src := make([]byte, 1<<17)
	for u := range 1 << 16 {
		binary.LittleEndian.PutUint16(src[2*u:], uint16(u))
	}
	got, want := make([]byte, 1<<16), make([]byte, 1<<16)
	eachLevel(t, func(t *testing.T) {
		for _, scale := range []float32{1, 0x1p-7, 0.00223214, 3e-3, 0.4999, 7.5e35, 1e-38, 0x1p-149, 0x1p-140, math.MaxFloat32, 0, float32(math.NaN())} {
			for _, m := range maths {
				for _, channel := range []bool{true, false} {
					numeric.EncodeFP8BF16Reference(m, channel, want, src, scale)
					numeric.EncodeFP8BF16(m, channel, got, src, scale)
					if i := firstDifference(got, want); i >= 0 {
						t.Fatalf("%v channel %v, scale %v: %#04x gives %#02x, the reference %#02x", m, channel, scale, i, got[i], want[i])
					}
					for u, c := range got {
						if finite := u&0x7f80 != 0x7f80; finite && c&0x7f == 0x7f {
							t.Fatalf("%v channel %v, scale %v: %#04x became NaN", m, channel, scale, u)
						}
					}
				}
			}
		}
	})
}

func TestEveryLevelTakesAnyLengthOfFP8(t *testing.T) {
	src := make([]byte, 2*200+3)
	for i := range src {
		src[i] = uint8(i*97 + i>>3)
	}
	eachLevel(t, func(t *testing.T) {
		for n := range 200 {
			for offset := range 3 {
				got, want := bytes.Repeat([]byte{0xaa}, n+1), bytes.Repeat([]byte{0xaa}, n+1)
				numeric.EncodeFP8BF16Reference(numeric.CT, true, want[:n], src[offset:offset+2*n], 3e-3)
				numeric.EncodeFP8BF16(numeric.CT, true, got[:n], src[offset:offset+2*n], 3e-3)
				if i := firstDifference(got, want); i >= 0 {
					t.Fatalf("byte %d of %d at offset %d: %#02x, want %#02x", i, n, offset, got[i], want[i])
				}
			}
		}
	})
}

func TestEveryLevelDecodesAlike(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		TestDecodeMultipliesInTheServersOrder(t)
		rapid.Check(t, func(r *rapid.T) {
			blocks := rapid.IntRange(0, 40).Draw(r, "blocks")
			codes, scales := noise(r, 8*blocks), noise(r, blocks)
			multiplier := math.Float32frombits(rapid.Uint32().Draw(r, "multiplier"))
			got, want := make([]float32, 16*blocks), make([]float32, 16*blocks)
			numeric.DecodeNVFP4Reference(want, codes, scales, multiplier)
			numeric.DecodeNVFP4Multiplier(got, codes, scales, multiplier)
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
					r.Fatalf("element %d: %v, want %v", i, got[i], want[i])
				}
			}
		})
	})
}

func TestEveryLevelSumsTheSameError(t *testing.T) {
	same := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b }
	eachLevel(t, func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			n := rapid.IntRange(0, 300).Draw(r, "elements")
			src, wild := noise(r, 2*n), noise(r, 4*n)
			decoded := make([]float32, n)
			for i := range decoded {
				src[2*i+1] = src[2*i+1]&0x83 | 0x3c // exponents near 1
				decoded[i] = numeric.BF16ToFloat32(binary.LittleEndian.Uint16(src[2*i:])) * 1.0625
				switch {
				case wild[4*i] < 8:
					decoded[i] = math.Float32frombits(binary.LittleEndian.Uint32(wild[4*i:]))
				case wild[4*i] < 12:
					decoded[i] = float32(math.NaN())
				}
			}
			want := numeric.AddBF16Reference(decoded, src[:2*n])
			var got numeric.Error
			got.AddBF16(decoded, src[:2*n])
			if !same(got.SumSq, want.SumSq) || !same(got.SumRef, want.SumRef) || got.MaxAbs != want.MaxAbs || got.N != want.N {
				r.Fatalf("got %+v, want %+v", got, want)
			}
		})
	})
}

func TestEveryLevelFindsTheSameAmax(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		TestAmaxFindsTheLargestAtAnyPlaceAndAlignment(t)
		TestAmaxEqualsItsDefinitionOnAnyBytes(t)
		TestAmaxReportsTheFirstBadValueAndTheLargestFiniteOne(t)
	})
}
