package numeric

import "golang.org/x/sys/cpu"

func machineLevels() []level {
	l := []level{goLevel}
	x := cpu.X86
	if x.HasAVX2 && x.HasPOPCNT {
		l = append(l, level{
			name:    "avx2",
			amax:    func(src []byte) uint16 { return amaxBy(amaxAVX2, src) },
			amaxF32: func(src []byte) uint32 { return amaxF32By(amaxF32AVX2, src) },
			nvfp4: func(q NVFP4, codes, scales, src []byte) int {
				return nvfp4By(nvfp4ModeloptAVX2, nvfp4CTAVX2, 8, blockSource, q, codes, scales, src)
			},
			nvfp4F32: func(q NVFP4, codes, scales, src []byte) int {
				return nvfp4By(nvfp4ModeloptF32AVX2, nvfp4CTF32AVX2, 8, blockSourceF32, q, codes, scales, src)
			},
			fp8: func(dst, src []byte, divisor float32, round bool) {
				fp8By(fp8AVX2, fp8RoundedAVX2, dst, src, divisor, round)
			},
			fp8F32: func(dst, src []byte, divisor float32, round bool) {
				fp8F32By(fp8F32AVX2, fp8RoundedF32AVX2, dst, src, divisor, round)
			},
			widenF16:  func(dst, src []byte) { widenF16By(widenF16AVX2, dst, src) },
			widenE4M3: func(dst, src []byte, scale float32) { widenE4M3By(widenE4M3AVX2, dst, src, scale) },
			roundF32:  func(dst, src []byte) (int64, uint32) { return roundF32By(roundF32AVX2, dst, src) },
			decode: func(dst []float32, codes, scales []byte, multiplier float32) {
				if len(scales) > 0 {
					decodeAVX2(&dst[0], &codes[0], &scales[0], len(scales), multiplier, &e4m3Values)
				}
			},
			errors: func(p *errorSums, decoded []float32, src []byte) { errorsBy(errorAVX2, p, decoded, src) },
		})
		if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512DQ {
			l = append(l, level{
				name:    "avx512",
				amax:    func(src []byte) uint16 { return amaxBy(amaxAVX512, src) },
				amaxF32: func(src []byte) uint32 { return amaxF32By(amaxF32AVX512, src) },
				nvfp4: func(q NVFP4, codes, scales, src []byte) int {
					return nvfp4By(nvfp4ModeloptAVX512, nvfp4CTAVX512, 16, blockSource, q, codes, scales, src)
				},
				nvfp4F32: func(q NVFP4, codes, scales, src []byte) int {
					return nvfp4By(nvfp4ModeloptF32AVX512, nvfp4CTF32AVX512, 16, blockSourceF32, q, codes, scales, src)
				},
				fp8: func(dst, src []byte, divisor float32, round bool) {
					fp8By(fp8AVX512, fp8RoundedAVX512, dst, src, divisor, round)
				},
				fp8F32: func(dst, src []byte, divisor float32, round bool) {
					fp8F32By(fp8F32AVX512, fp8RoundedF32AVX512, dst, src, divisor, round)
				},
				widenF16:  func(dst, src []byte) { widenF16By(widenF16AVX512, dst, src) },
				widenE4M3: func(dst, src []byte, scale float32) { widenE4M3By(widenE4M3AVX512, dst, src, scale) },
				roundF32:  func(dst, src []byte) (int64, uint32) { return roundF32By(roundF32AVX512, dst, src) },
				decode: func(dst []float32, codes, scales []byte, multiplier float32) {
					if len(scales) > 0 {
						decodeAVX512(&dst[0], &codes[0], &scales[0], len(scales), multiplier, &e4m3Values)
					}
				},
				errors: func(p *errorSums, decoded []float32, src []byte) { errorsBy(errorAVX512, p, decoded, src) },
			})
		}
	}
	return l
}

func amaxBy(kernel func(*byte, int) uint16, src []byte) uint16 {
	const group = 256
	n := len(src) / group
	if n == 0 {
		return amaxBits(src)
	}
	return max(kernel(&src[0], n), amaxBits(src[n*group:]))
}

func amaxF32By(kernel func(*byte, int) uint32, src []byte) uint32 {
	const group = 256
	n := len(src) / group
	if n == 0 {
		return amaxBitsF32(src)
	}
	return max(kernel(&src[0], n), amaxBitsF32(src[n*group:]))
}

type nvfp4Kernel = func(codes, scales, src *byte, groups int, global, divisor float32) int

// nvfp4By codes whole groups of blocks, each of so many bytes, in place and the rest in a padded copy: a block of zeros
// does not count as collapsed.
func nvfp4By(modelopt, ct nvfp4Kernel, group, block int, q NVFP4, codes, scales, src []byte) (collapsed int) {
	const most = 16 // blocks in a group
	kernel, divisor := modelopt, float32(6*q.Global)
	if q.Math == CT {
		kernel, divisor = ct, 6
	}
	whole := len(scales) / group
	if whole > 0 {
		collapsed = kernel(&codes[0], &scales[0], &src[0], whole, q.Global, divisor)
	}
	if done := whole * group; done < len(scales) {
		var s [most * blockSourceF32]byte
		var c [most * blockCodes]byte
		var f [most]byte
		copy(s[:], src[done*block:])
		collapsed += kernel(&c[0], &f[0], &s[0], 1, q.Global, divisor)
		copy(codes[done*blockCodes:], c[:])
		copy(scales[done:], f[:])
	}
	return collapsed
}

type fp8Kernel = func(dst, src *byte, groups int, divisor float32)

func fp8By(plain, rounded fp8Kernel, dst, src []byte, divisor float32, round bool) {
	const group = 32
	kernel := plain
	if round {
		kernel = rounded
	}
	n := len(dst) / group
	if n > 0 {
		kernel(&dst[0], &src[0], n, divisor)
	}
	encodeFP8Go(dst[n*group:], src[2*n*group:], divisor, round)
}

func fp8F32By(plain, rounded fp8Kernel, dst, src []byte, divisor float32, round bool) {
	const group = 32
	kernel := plain
	if round {
		kernel = rounded
	}
	n := len(dst) / group
	if n > 0 {
		kernel(&dst[0], &src[0], n, divisor)
	}
	encodeFP8F32Go(dst[n*group:], src[4*n*group:], divisor, round)
}

func errorsBy(kernel func(*errorSums, *float32, *byte, int), p *errorSums, decoded []float32, src []byte) {
	n := len(decoded) / errorLanes
	if n > 0 {
		kernel(p, &decoded[0], &src[0], n)
	}
	p.addGo(decoded[n*errorLanes:], src[2*n*errorLanes:])
}

const widenGroup = 16 // values

func widenF16By(kernel func(dst, src *byte, groups int), dst, src []byte) {
	n := len(src) / (2 * widenGroup)
	if n > 0 {
		kernel(&dst[0], &src[0], n)
	}
	widenF16Go(dst[4*n*widenGroup:], src[2*n*widenGroup:])
}

func widenE4M3By(kernel func(dst, src *byte, groups int, scale float32), dst, src []byte, scale float32) {
	n := len(src) / widenGroup
	if n > 0 {
		kernel(&dst[0], &src[0], n, scale)
	}
	widenE4M3Go(dst[4*n*widenGroup:], src[n*widenGroup:], scale)
}

func roundF32By(kernel func(dst, src *byte, groups int) (int, uint32), dst, src []byte) (int64, uint32) {
	n := len(src) / (4 * widenGroup)
	if n == 0 {
		return roundF32Go(dst, src)
	}
	a, x := kernel(&dst[0], &src[0], n)
	b, y := roundF32Go(dst[2*n*widenGroup:], src[4*n*widenGroup:])
	return int64(a) + b, max(x, y)
}
