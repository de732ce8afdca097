package numeric_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"seatsmith/internal/numeric"
)

// benchTile makes ordinary weights: normally distributed with deviation 0.02.
func benchTile(bytes int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	src := make([]byte, bytes)
	for i := range len(src) / 2 {
		binary.LittleEndian.PutUint16(src[2*i:], numeric.BF16FromFloat32(float32(random.NormFloat64()*0.02)))
	}
	return src
}

// A tile that stays in a core's cache, as a writer's does, and one that does not.
var tiles = []struct {
	name  string
	bytes int
}{{"1MiB", 1 << 20}, {"32MiB", 32 << 20}}

// perLevel measures f in bytes of BF16 source per second, beside a plain copy of the same bytes.
func perLevel(b *testing.B, f func(src []byte)) {
	for _, tile := range tiles {
		src := benchTile(tile.bytes)
		dst := make([]byte, len(src))
		b.Run("copy/"+tile.name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				copy(dst, src)
			}
		})
		for _, level := range numeric.LevelNames() {
			b.Run(level+"/"+tile.name, func(b *testing.B) {
				defer numeric.UseLevel(level)()
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					f(src)
				}
			})
		}
	}
}

func BenchmarkAmax(b *testing.B) {
	perLevel(b, func(src []byte) { numeric.AmaxBF16(src) })
}

func BenchmarkNVFP4(b *testing.B) {
	for _, m := range maths[1:] {
		b.Run(m.String(), func(b *testing.B) {
			codes, scales := make([]byte, 8<<20), make([]byte, 1<<20)
			q := numeric.NewNVFP4(m, 0.1)
			encode := func(e encoder) func(src []byte) {
				return func(src []byte) { e(q, codes[:len(src)/4], scales[:len(src)/32], src) }
			}
			src := benchTile(1 << 20)
			b.Run("reference/1MiB", func(b *testing.B) {
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					encode(numeric.NVFP4.EncodeBF16Reference)(src)
				}
			})
			perLevel(b, encode(numeric.NVFP4.EncodeBF16))
		})
	}
}

func BenchmarkFP8(b *testing.B) {
	dst := make([]byte, 16<<20)
	for _, m := range maths[1:] {
		b.Run(m.String(), func(b *testing.B) {
			src := benchTile(1 << 20)
			b.Run("reference/1MiB", func(b *testing.B) {
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					numeric.EncodeFP8BF16Reference(m, true, dst[:len(src)/2], src, 0.0002)
				}
			})
			perLevel(b, func(src []byte) { numeric.EncodeFP8BF16(m, true, dst[:len(src)/2], src, 0.0002) })
		})
	}
}

// Bytes per second of these two are those of the BF16 source that the values stand for.
func BenchmarkDecodeNVFP4(b *testing.B) {
	values, codes, scales := make([]float32, 16<<20), benchTile(8<<20), make([]byte, 1<<20)
	for i := range scales {
		scales[i] = uint8(0x60 + i%30)
	}
	perLevel(b, func(src []byte) {
		numeric.DecodeNVFP4(values[:len(src)/2], codes[:len(src)/4], scales[:len(src)/32], 3616)
	})
}

func BenchmarkError(b *testing.B) {
	values := make([]float32, 16<<20)
	perLevel(b, func(src []byte) {
		var e numeric.Error
		e.AddBF16(values[:len(src)/2], src)
	})
}

func BenchmarkDecodeFP8(b *testing.B) {
	values, codes := make([]float32, 1<<19), benchTile(1<<19)
	b.SetBytes(1 << 20)
	for b.Loop() {
		numeric.DecodeFP8(values, codes, 0.0002)
	}
}

func BenchmarkFirstNonFinite(b *testing.B) {
	for _, s := range scans {
		b.Run(s.name, func(b *testing.B) {
			src := make([]byte, 1<<20) // finite in every format
			for i := range src {
				src[i] = 0x3b
			}
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				s.first(src)
			}
		})
	}
}

// perLevelF32 is perLevel for a float32 source; bytes per second are those of the source, four per weight.
func perLevelF32(b *testing.B, f func(src []byte)) {
	src := widened(benchTile(1 << 19))
	for _, level := range numeric.LevelNames() {
		b.Run(level, func(b *testing.B) {
			defer numeric.UseLevel(level)()
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				f(src)
			}
		})
	}
}

func BenchmarkAmaxF32(b *testing.B) {
	perLevelF32(b, func(src []byte) { numeric.AmaxF32(src) })
}

func BenchmarkNVFP4F32(b *testing.B) {
	for _, m := range maths[1:] {
		codes, scales := make([]byte, 1<<17), make([]byte, 1<<14)
		q := numeric.NewNVFP4(m, 0.1)
		b.Run(m.String(), func(b *testing.B) {
			perLevelF32(b, func(src []byte) { q.EncodeF32(codes, scales, src) })
		})
	}
}

func BenchmarkFP8F32(b *testing.B) {
	dst := make([]byte, 1<<18)
	for _, m := range maths[1:] {
		b.Run(m.String(), func(b *testing.B) {
			perLevelF32(b, func(src []byte) { numeric.EncodeFP8F32(m, true, dst, src, 0.0002) })
		})
	}
}

// BenchmarkWiden measures the ways between formats, in source bytes per second.
func BenchmarkWiden(b *testing.B) {
	src := benchTile(1 << 20)
	dst := make([]byte, 4<<20)
	for name, f := range map[string]func(){
		"F16":         func() { numeric.WidenF16(dst[:2<<20], src) },
		"E4M3":        func() { numeric.WidenE4M3(dst, src, 0.002) },
		"F32-to-BF16": func() { numeric.RoundF32(dst[:1<<19], src) },
	} {
		for _, level := range numeric.LevelNames() {
			b.Run(name+"/"+level, func(b *testing.B) {
				defer numeric.UseLevel(level)()
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					f()
				}
			})
		}
	}
}
