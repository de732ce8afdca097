package main

const (
	widenSignature = "(dst, src *byte, groups int)"
	e4m3Signature  = "(dst, src *byte, groups int, scale float32)"
	roundSignature = "(dst, src *byte, groups int) (changed int, bits uint32)"

	widenF16Comment = `float32 of groups of 16 values of binary16. The bits move to their place and the exponent gets the other bias; a
subnormal then is 2^-15*(1+m), which twice less 2^-14 is the value: no subnormal float32 slows the loop down.`
	widenE4M3Comment = `float32 of groups of 16 E4M3 codes times scale, as widenF16 does it; a subnormal is 2^-7*(1+m) at first.`
	roundComment     = "BF16 of groups of 16 float32; counts those that change, and returns the largest magnitude as an integer."
)

func widenF16AVX512(p *program) {
	p.kernel("widenF16AVX512", widenSignature, 0, 24, widenF16Comment)
	p.op(`
		MOVQ dst+0(FP), DI
		MOVQ src+8(FP), SI
		MOVQ groups+16(FP), CX
		VPBROADCASTD %s, Z5
		VPBROADCASTD %s, Z6
		VPBROADCASTD %s, Z7
		VPBROADCASTD %s, Z8
		VPBROADCASTD %s, Z9
		VPBROADCASTD %s, Z10
		VBROADCASTSS %s, Z11
		loop:
		VPMOVZXWD (SI), Z0
		VPANDD Z5, Z0, Z1
		VPTESTNMD Z10, Z0, K2
		VPSLLD $13, Z1, Z1
		VPADDD Z6, Z1, Z1
		VPCMPUD $5, Z9, Z1, K1
		VPORD Z7, Z1, K1, Z1
		VADDPS Z1, Z1, K2, Z1
		VSUBPS Z11, Z1, K2, Z1
		VPANDD Z8, Z0, Z0
		VPSLLD $16, Z0, Z0
		VPORD Z0, Z1, Z1
		VMOVDQU32 Z1, (DI)
		ADDQ $32, SI
		ADDQ $64, DI
		DECQ CX
		JNZ loop`, p.word(0x7fff), p.word(112<<23), p.word(exponentBits), p.word(0x8000), p.float(0x1p16), p.word(0x7c00), p.float(0x1p-14))
	p.ret()
}

func widenF16AVX2(p *program) {
	p.kernel("widenF16AVX2", widenSignature, 0, 24, widenF16Comment)
	p.op(`
		MOVQ dst+0(FP), DI
		MOVQ src+8(FP), SI
		MOVQ groups+16(FP), CX
		VPBROADCASTD %s, Y5
		VPBROADCASTD %s, Y6
		VPBROADCASTD %s, Y7
		VPBROADCASTD %s, Y8
		VPBROADCASTD %s, Y9
		VPBROADCASTD %s, Y10
		VBROADCASTSS %s, Y11
		VPXOR Y4, Y4, Y4
		loop:`, p.word(0x7fff), p.word(112<<23), p.word(exponentBits), p.word(0x8000), p.word(0x477fffff), p.word(0x7c00), p.float(0x1p-14))
	for h := range 2 {
		p.op(`
			VPMOVZXWD %d(SI), Y0
			VPAND Y5, Y0, Y1
			VPAND Y10, Y0, Y3
			VPCMPEQD Y4, Y3, Y3
			VPSLLD $13, Y1, Y1
			VPADDD Y6, Y1, Y1
			VPCMPGTD Y9, Y1, Y2
			VPAND Y7, Y2, Y2
			VPOR Y2, Y1, Y1
			VADDPS Y1, Y1, Y2
			VSUBPS Y11, Y2, Y2
			VPBLENDVB Y3, Y2, Y1, Y1
			VPAND Y8, Y0, Y0
			VPSLLD $16, Y0, Y0
			VPOR Y0, Y1, Y1
			VMOVDQU Y1, %d(DI)`, 16*h, 32*h)
	}
	p.op("ADDQ $32, SI\nADDQ $64, DI\nDECQ CX\nJNZ loop")
	p.ret()
}

const plainNaN = 0x7fc00000

func widenE4M3AVX512(p *program) {
	p.kernel("widenE4M3AVX512", e4m3Signature, 0, 28, widenE4M3Comment)
	p.op(`
		MOVQ dst+0(FP), DI
		MOVQ src+8(FP), SI
		MOVQ groups+16(FP), CX
		VBROADCASTSS scale+24(FP), Z7
		VPBROADCASTD %s, Z5
		VPBROADCASTD %s, Z6
		VPBROADCASTD %s, Z8
		VPBROADCASTD %s, Z9
		VPBROADCASTD %s, Z10
		VBROADCASTSS %s, Z11
		loop:
		VPMOVZXBD (SI), Z0
		VPANDD Z5, Z0, Z1
		VPCMPEQD Z5, Z1, K1
		VPTESTNMD Z10, Z0, K2
		VPSLLD $20, Z1, Z1
		VPADDD Z6, Z1, Z1
		VADDPS Z1, Z1, K2, Z1
		VSUBPS Z11, Z1, K2, Z1
		VMULPS Z7, Z1, Z1
		VPANDD Z8, Z0, Z0
		VPSLLD $24, Z0, Z0
		VPXORD Z0, Z1, Z1
		VMOVDQA32 Z9, K1, Z1
		VMOVDQU32 Z1, (DI)
		ADDQ $16, SI
		ADDQ $64, DI
		DECQ CX
		JNZ loop`, p.word(0x7f), p.word(120<<23), p.word(0x80), p.word(plainNaN), p.word(0x78), p.float(0x1p-6))
	p.ret()
}

func widenE4M3AVX2(p *program) {
	p.kernel("widenE4M3AVX2", e4m3Signature, 0, 28, widenE4M3Comment)
	p.op(`
		MOVQ dst+0(FP), DI
		MOVQ src+8(FP), SI
		MOVQ groups+16(FP), CX
		VBROADCASTSS scale+24(FP), Y7
		VPBROADCASTD %s, Y5
		VPBROADCASTD %s, Y6
		VPBROADCASTD %s, Y8
		VPBROADCASTD %s, Y9
		VPBROADCASTD %s, Y10
		VBROADCASTSS %s, Y11
		VPXOR Y4, Y4, Y4
		loop:`, p.word(0x7f), p.word(120<<23), p.word(0x80), p.word(plainNaN), p.word(0x78), p.float(0x1p-6))
	for h := range 2 {
		p.op(`
			VPMOVZXBD %d(SI), Y0
			VPAND Y5, Y0, Y1
			VPCMPEQD Y5, Y1, Y2
			VPAND Y10, Y0, Y3
			VPCMPEQD Y4, Y3, Y3
			VPSLLD $20, Y1, Y1
			VPADDD Y6, Y1, Y1
			VADDPS Y1, Y1, Y12
			VSUBPS Y11, Y12, Y12
			VPBLENDVB Y3, Y12, Y1, Y1
			VMULPS Y7, Y1, Y1
			VPAND Y8, Y0, Y0
			VPSLLD $24, Y0, Y0
			VPXOR Y0, Y1, Y1
			VPBLENDVB Y2, Y9, Y1, Y1
			VMOVDQU Y1, %d(DI)`, 8*h, 32*h)
	}
	p.op("ADDQ $16, SI\nADDQ $64, DI\nDECQ CX\nJNZ loop")
	p.ret()
}

func roundF32AVX512(p *program) {
	p.kernel("roundF32AVX512", roundSignature, 0, 36, roundComment)
	p.op(`
		MOVQ dst+0(FP), DI
		MOVQ src+8(FP), SI
		MOVQ groups+16(FP), CX
		XORQ R12, R12
		VPXORD Z3, Z3, Z3
		VPBROADCASTD %s, Z5
		VPBROADCASTD %s, Z6
		VPBROADCASTD %s, Z7
		VPBROADCASTD %s, Z8
		loop:
		VMOVDQU32 (SI), Z0
		VPANDD Z5, Z0, Z1
		VPMAXUD Z1, Z3, Z3
		VPTESTMD Z6, Z0, K1
		KMOVW K1, AX
		POPCNTL AX, AX
		ADDQ AX, R12
		VPSRLD $16, Z0, Z1
		VPANDD Z7, Z1, Z1
		VPADDD Z0, Z1, Z1
		VPADDD Z8, Z1, Z1
		VPSRLD $16, Z1, Z1
		VPMOVDW Z1, (DI)
		ADDQ $64, SI
		ADDQ $32, DI
		DECQ CX
		JNZ loop
		MOVQ R12, changed+24(FP)
		VEXTRACTI64X4 $1, Z3, Y1
		VPMAXUD Y1, Y3, Y0`, p.word(magnitudeBits), p.word(0xffff), p.word(1), p.word(0x7fff))
	p.lastMaxF32(32)
}

func roundF32AVX2(p *program) {
	p.kernel("roundF32AVX2", roundSignature, 0, 36, roundComment)
	p.op(`
		MOVQ dst+0(FP), DI
		MOVQ src+8(FP), SI
		MOVQ groups+16(FP), CX
		MOVQ CX, R12
		SHLQ $4, R12
		VPXOR Y3, Y3, Y3
		VPXOR Y4, Y4, Y4
		VPBROADCASTD %s, Y5
		VPBROADCASTD %s, Y6
		VPBROADCASTD %s, Y7
		VPBROADCASTD %s, Y8
		loop:`, p.word(magnitudeBits), p.word(0xffff), p.word(1), p.word(0x7fff))
	p.note("R12: values less those that stay")
	for h := range 2 {
		p.op(`
			VMOVDQU %[2]d(SI), Y0
			VPAND Y5, Y0, Y2
			VPMAXUD Y2, Y3, Y3
			VPAND Y6, Y0, Y2
			VPCMPEQD Y4, Y2, Y2
			VMOVMSKPS Y2, AX
			POPCNTL AX, AX
			SUBQ AX, R12
			VPSRLD $16, Y0, Y2
			VPAND Y7, Y2, Y2
			VPADDD Y0, Y2, Y2
			VPADDD Y8, Y2, Y2
			VPSRLD $16, Y2, Y%[1]d`, 9+h, 32*h)
	}
	p.op(`
		VPACKUSDW Y10, Y9, Y9
		VPERMQ $0xd8, Y9, Y9
		VMOVDQU Y9, (DI)
		ADDQ $64, SI
		ADDQ $32, DI
		DECQ CX
		JNZ loop
		MOVQ R12, changed+24(FP)
		VMOVDQA Y3, Y0`)
	p.lastMaxF32(32)
}
