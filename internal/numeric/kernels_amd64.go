package numeric

//go:generate go run ./asmgen -dir .

// The kernels are written by asmgen. Each takes whole groups, at least one; the wrappers in
// dispatch_amd64.go see to the rest.

//go:noescape
func amaxAVX512(src *byte, groups int) (bits uint16)

//go:noescape
func amaxAVX2(src *byte, groups int) (bits uint16)

//go:noescape
func nvfp4ModeloptAVX512(codes, scales, src *byte, groups int, global, divisor float32) (collapsed int)

//go:noescape
func nvfp4CTAVX512(codes, scales, src *byte, groups int, global, divisor float32) (collapsed int)

//go:noescape
func nvfp4ModeloptAVX2(codes, scales, src *byte, groups int, global, divisor float32) (collapsed int)

//go:noescape
func nvfp4CTAVX2(codes, scales, src *byte, groups int, global, divisor float32) (collapsed int)

//go:noescape
func fp8AVX512(dst, src *byte, groups int, divisor float32)

//go:noescape
func fp8RoundedAVX512(dst, src *byte, groups int, divisor float32)

//go:noescape
func fp8AVX2(dst, src *byte, groups int, divisor float32)

//go:noescape
func fp8RoundedAVX2(dst, src *byte, groups int, divisor float32)

//go:noescape
func decodeAVX512(dst *float32, codes, scales *byte, blocks int, multiplier float32, e4m3 *[256]float32)

//go:noescape
func decodeAVX2(dst *float32, codes, scales *byte, blocks int, multiplier float32, e4m3 *[256]float32)

//go:noescape
func errorAVX512(sums *errorSums, decoded *float32, src *byte, groups int)

//go:noescape
func errorAVX2(sums *errorSums, decoded *float32, src *byte, groups int)

//go:noescape
func amaxF32AVX512(src *byte, groups int) (bits uint32)

//go:noescape
func nvfp4ModeloptF32AVX512(codes, scales, src *byte, groups int, global, divisor float32) (collapsed int)

//go:noescape
func nvfp4CTF32AVX512(codes, scales, src *byte, groups int, global, divisor float32) (collapsed int)

//go:noescape
func fp8F32AVX512(dst, src *byte, groups int, divisor float32)

//go:noescape
func fp8RoundedF32AVX512(dst, src *byte, groups int, divisor float32)

//go:noescape
func amaxF32AVX2(src *byte, groups int) (bits uint32)

//go:noescape
func nvfp4ModeloptF32AVX2(codes, scales, src *byte, groups int, global, divisor float32) (collapsed int)

//go:noescape
func nvfp4CTF32AVX2(codes, scales, src *byte, groups int, global, divisor float32) (collapsed int)

//go:noescape
func fp8F32AVX2(dst, src *byte, groups int, divisor float32)

//go:noescape
func fp8RoundedF32AVX2(dst, src *byte, groups int, divisor float32)

//go:noescape
func widenF16AVX512(dst, src *byte, groups int)

//go:noescape
func widenE4M3AVX512(dst, src *byte, groups int, scale float32)

//go:noescape
func roundF32AVX512(dst, src *byte, groups int) (changed int, bits uint32)

//go:noescape
func widenF16AVX2(dst, src *byte, groups int)

//go:noescape
func widenE4M3AVX2(dst, src *byte, groups int, scale float32)

//go:noescape
func roundF32AVX2(dst, src *byte, groups int) (changed int, bits uint32)
