package main

import "fmt"

// nvfp4AVX512 codes 16 blocks a turn: the largest magnitude of each block into one lane each, 16 scales
// at once, then block by block.
func nvfp4AVX512(p *program, peer string, rule scaleRule, of element) {
	p.kernel("nvfp4"+peer+of.tag()+"AVX512", nvfp4Signature, 64, 48, fmt.Sprintf(scaleComment, 16, of))
	p.op(`
		MOVQ codes+0(FP), R8
		MOVQ scales+8(FP), R9
		MOVQ src+16(FP), R10
		MOVQ groups+24(FP), R11
		VBROADCASTSS global+32(FP), Z31
		VBROADCASTSS divisor+36(FP), Z30
		XORQ R12, R12
		VPBROADCASTD %s, Z28
		VBROADCASTSS %s, Z27
		VBROADCASTSS %s, Z26
		VPBROADCASTD %s, Z25
		VPBROADCASTD %s, Z24
		VPBROADCASTD %s, Z23
		VPXORD Z22, Z22, Z22
		VPBROADCASTD %s, Z21`,
		p.word(magnitudeBits), p.float(6), p.float(1),
		p.word(exponentBits), p.word(e2m1Magic), p.word(7), p.word(8))
	if of == bf16 {
		p.op("VPBROADCASTD %s, Z29", p.word(0x7fff7fff))
	}
	p.op("group:")
	if of == f32 {
		p.blockMaximaF32AVX512()
	} else {
		p.blockMaximaAVX512()
	}
	if rule == scaleModelopt {
		p.note("p = m/divisor; 0 -> 1; NaN and what is above -> 448; at least 2^-9")
		p.op(`
			VDIVPS Z30, Z0, Z1
			VCMPPS $0, Z22, Z1, K1
			VMOVAPS Z26, K1, Z1
			VMINPS.BCST %s, Z1, Z1
			VMAXPS.BCST %s, Z1, Z1`, p.float(448), p.float(0x1p-9))
	} else {
		p.note("s = global * bf(m/6); NaN and what is above -> 448")
		p.op(`
			VDIVPS Z30, Z0, Z1
			VPSRLD $16, Z1, Z2
			VPANDD.BCST %s, Z2, Z2
			VPADDD.BCST %s, Z1, Z1
			VPADDD Z2, Z1, Z1
			VPANDD.BCST %s, Z1, Z1
			VMULPS Z31, Z1, Z1
			VMINPS.BCST %s, Z1, Z1`, p.word(1), p.word(0x7fff), p.word(0xffff0000), p.float(448))
	}
	p.note("Z3: value of the E4M3 scale, Z2: its code in the low byte")
	p.op(`
		VMAXPS.BCST %s, Z1, Z2
		VPANDD Z25, Z2, Z2
		VPADDD.BCST %s, Z2, Z3
		VADDPS Z3, Z1, Z1
		VPSRLD $%d, Z2, Z2
		VPADDD Z2, Z1, Z2
		VSUBPS Z3, Z1, Z3`, p.float(0x1p-6), p.word(e4m3Magic), e4m3Shift)
	if rule == scaleCT {
		p.note("zero -> 0.125")
		p.op(`
			VCMPPS $0, Z22, Z3, K1
			VBROADCASTSS %s, K1, Z3
			VPBROADCASTD %s, K1, Z2`, p.float(0.125), p.word(0x20))
	}
	p.op("VPMOVDB Z2, (R9)")
	if rule == scaleModelopt {
		p.op("VMULPS Z31, Z3, Z3")
	} else {
		p.op("VDIVPS Z31, Z3, Z3")
	}
	p.note("collapsed: m is not zero, but m/loc rounds to code 0")
	p.op(`
		VMOVUPS Z3, 0(SP)
		VDIVPS Z3, Z0, Z1
		VPTESTMD Z0, Z0, K1
		VCMPPS.BCST $2, %s, Z1, K1, K2
		KMOVW K2, AX
		POPCNTL AX, AX
		ADDQ AX, R12`, p.float(0.25))
	p.note("four blocks a turn; BX: their scales")
	p.op("MOVQ SP, BX\nMOVQ $4, CX\nblocks:")
	for b := range 4 {
		p.elementsAVX512(b, of)
	}
	p.op(`
		ADDQ $%d, R10
		ADDQ $32, R8
		ADDQ $16, BX
		DECQ CX
		JNZ blocks
		ADDQ $16, R9
		DECQ R11
		JNZ group
		MOVQ R12, collapsed+40(FP)`, 64*of.size())
	p.ret()
}

// blockMaximaAVX512 leaves the float32 of each of 16 blocks' largest magnitude in Z0. Interleaving two
// registers by words and taking the maximum halves what each holds; after three rounds every 128-bit
// lane holds one word for each of the eight registers.
func (p *program) blockMaximaAVX512() {
	p.note("Z0: the largest magnitude of 16 blocks")
	for r := range 8 {
		p.op("VPANDQ %d(R10), Z29, Z%d", 64*r, r)
	}
	for _, pair := range maximaRounds {
		a, b := pair[0], pair[1]
		p.op(`
			VPUNPCKLWD Z%[2]d, Z%[1]d, Z8
			VPUNPCKHWD Z%[2]d, Z%[1]d, Z9
			VPMAXUW Z9, Z8, Z%[1]d`, a, b)
	}
	p.note("lanes 0 and 1 are the even blocks, 2 and 3 the odd ones")
	p.op(`
		VSHUFI64X2 $0xb1, Z0, Z0, Z1
		VPMAXUW Z1, Z0, Z0
		VEXTRACTI64X4 $1, Z0, Y1
		VPUNPCKLWD X1, X0, X2
		VPUNPCKHWD X1, X0, X3
		VINSERTI128 $1, X3, Y2, Y2
		VPMOVZXWD Y2, Z0
		VPSLLD $16, Z0, Z0`)
}

// maximaRounds are the pairs of registers that meet, such that the words end in the order of the
// registers; the first of a pair takes the result.
var maximaRounds = [][2]int{{0, 4}, {2, 6}, {1, 5}, {3, 7}, {0, 2}, {1, 3}, {0, 1}}

// elementsAVX512 codes block b of the four at R10.
func (p *program) elementsAVX512(b int, of element) {
	t, u, v := 3*b, 3*b+1, 3*b+2
	if of == f32 {
		p.op("VMOVUPS %d(R10), Z%d", 64*b, t)
	} else {
		p.op("VPMOVZXWD %[2]d(R10), Z%[1]d\nVPSLLD $16, Z%[1]d, Z%[1]d", t, 32*b)
	}
	p.op(`
		VDIVPS.BCST %[4]d(BX), Z%[1]d, Z%[1]d
		VPANDD Z28, Z%[1]d, Z%[2]d
		VMINPS Z27, Z%[2]d, Z%[2]d
		VMAXPS Z26, Z%[2]d, Z%[3]d
		VPANDD Z25, Z%[3]d, Z%[3]d
		VCMPPS $1, Z22, Z%[1]d, K%[5]d
		VPADDD Z24, Z%[3]d, Z%[1]d
		VADDPS Z%[1]d, Z%[2]d, Z%[2]d
		VPSRLD $%[6]d, Z%[3]d, Z%[3]d
		VPADDD Z%[3]d, Z%[2]d, Z%[2]d
		VPANDD Z23, Z%[2]d, Z%[2]d
		VPORD Z21, Z%[2]d, K%[5]d, Z%[2]d
		VPSRLQ $28, Z%[2]d, Z%[3]d
		VPORQ Z%[3]d, Z%[2]d, Z%[2]d
		VPMOVQB Z%[2]d, %[7]d(R8)`, t, u, v, 4*b, 1+b, e2m1Shift, 8*b)
}
