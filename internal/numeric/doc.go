// Package numeric turns BF16, F16, F32 and FP8 weights into NVFP4 and FP8 bytes, and back, bit for bit as the tools do
// that a server's users already trust.
//
// # Words
//
// A block is 16 consecutive elements of a row; an NVFP4 block shares one E4M3 scale. Codes are E2M1
// values, two to a byte, the first in the low nibble. The global scale is one float32 per tensor, or
// per group of tensors that a server fuses. A Math names whose roundings happen on the way: modelopt
// on CUDA, modelopt on a CPU, or compressed-tensors. An amax is the largest magnitude of whatever
// shares a scale.
//
// # Order of calls
//
//	amax, bad := numeric.AmaxBF16(weight)         // per tensor; take the maximum over a fused group
//	q := numeric.NewNVFP4(numeric.Modelopt, amax)
//	q.EncodeBF16(codes, scales, tile)             // any whole number of blocks, in any order
//	numeric.DecodeNVFP4(values, codes, scales, q.Divisor())
//	e.AddBF16(values, tile)                       // how far it is off
//
// FP8 goes the same way: AmaxBF16 of a row or a tensor, FP8Scale, EncodeFP8BF16, DecodeFP8.
//
// A weight of another dtype takes the same way as float32: WidenF16 and WidenE4M3 make float32 of F16 and of scaled E4M3,
// then AmaxF32, EncodeF32 and EncodeFP8F32. There is one formula for all dtypes, and no detour through BF16: equal values
// give equal bytes, and values that BF16 would merge stay apart. RoundF32 is for tensors that are kept, as BF16.
//
// A tensor for which q.Extreme() is true is beyond the format; its caller should leave it alone. For a
// checkpoint in modelopt's spelling DecodeNVFP4Multiplier replaces DecodeNVFP4.
//
// # Reference and levels
//
// Each inner loop exists several times: as a plain definition (EncodeBF16Reference and its unexported
// companions), which is what to read and what the peers' bytes are compared with; in Go with tables; and
// in AVX2 and AVX-512 assembly, written by asmgen. A level is one set of them; the best that the machine
// has is chosen when the program starts. Levels differ in speed only: every result is equal bit for
// bit, the float64 sums of Error included.
//
// # What it refuses to know
//
// Names, shapes, files and dialects. It works on flat slices of whole blocks; who shares a global
// scale, and under which name the scale is stored, is decided elsewhere. It does not refuse NaN or
// infinite weights, it only reports them (AmaxBF16, FirstNonFiniteBF16 and its like for tensors that
// are kept) and promises what happens if they are coded all
// the same: no scale is ever NaN, infinite or zero.
//
// # Rounding
//
// Every float32 operation here is one IEEE 754 operation, rounded to nearest, ties to even, with
// subnormals kept. Products are written float32(x*y) so that no compiler fuses them with an addition;
// results do not depend on the platform.
//
// # Slices
//
// BF16 and float32 input is little-endian bytes at any alignment. The lengths of the slices of one call must
// match as documented; a mismatch is a mistake of the calling code, not of any input, and panics with
// a message that gives the lengths, as indexing out of range does.
//
// # Concurrency
//
// All functions are pure: no state is kept between calls, so any number of goroutines may work on
// disjoint destinations.
package numeric
