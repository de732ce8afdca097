package main

import "fmt"

// nvfp4AVX2 codes 8 blocks a turn, as nvfp4AVX512 does 16.
func nvfp4AVX2(p *program, peer string, rule scaleRule, of element) {
	p.kernel("nvfp4"+peer+of.tag()+"AVX2", nvfp4Signature, 32, 48, fmt.Sprintf(scaleComment, 8, of))
	p.op(`
		MOVQ codes+0(FP), R8
		MOVQ scales+8(FP), R9
		MOVQ src+16(FP), R10
		MOVQ groups+24(FP), R11
		XORQ R12, R12
		VPBROADCASTD %s, Y15
		VPBROADCASTD %s, Y14
		VBROADCASTSS %s, Y12
		VBROADCASTSS %s, Y11
		VPXOR Y10, Y10, Y10`,
		p.word(exponentBits), p.word(magnitudeBits), p.float(6), p.float(1))
	if of == bf16 {
		p.op("VPBROADCASTD %s, Y13", p.word(0x7fff7fff))
	}
	p.op("group:")
	if of == f32 {
		p.blockMaximaF32AVX2()
	} else {
		p.blockMaximaAVX2()
	}
	p.op(`
		VBROADCASTSS divisor+36(FP), Y1
		VDIVPS Y1, Y0, Y1
		VBROADCASTSS %s, Y4`, p.float(448))
	if rule == scaleModelopt {
		p.note("p = m/divisor; 0 -> 1; NaN and what is above -> 448; at least 2^-9")
		p.op(`
			VCMPPS $0, Y10, Y1, Y2
			VBLENDVPS Y2, Y11, Y1, Y1
			VMINPS Y4, Y1, Y1
			VBROADCASTSS %s, Y4
			VMAXPS Y4, Y1, Y1
			VBROADCASTSS global+32(FP), Y5`, p.float(0x1p-9))
	} else {
		p.note("s = global * bf(m/6); NaN and what is above -> 448")
		p.op(`
			VPSRLD $16, Y1, Y2
			VPBROADCASTD %s, Y3
			VPAND Y3, Y2, Y2
			VPBROADCASTD %s, Y3
			VPADDD Y3, Y1, Y1
			VPADDD Y2, Y1, Y1
			VPBROADCASTD %s, Y3
			VPAND Y3, Y1, Y1
			VBROADCASTSS global+32(FP), Y5
			VMULPS Y5, Y1, Y1
			VMINPS Y4, Y1, Y1`, p.word(1), p.word(0x7fff), p.word(0xffff0000))
	}
	p.note("Y3: value of the E4M3 scale, Y2: its code in the low byte")
	p.op(`
		VBROADCASTSS %s, Y2
		VMAXPS Y2, Y1, Y2
		VPAND Y15, Y2, Y2
		VPBROADCASTD %s, Y3
		VPADDD Y3, Y2, Y3
		VADDPS Y3, Y1, Y1
		VPSRLD $%d, Y2, Y2
		VPADDD Y2, Y1, Y2
		VSUBPS Y3, Y1, Y3`, p.float(0x1p-6), p.word(e4m3Magic), e4m3Shift)
	if rule == scaleCT {
		p.note("zero -> 0.125")
		p.op(`
			VCMPPS $0, Y10, Y3, Y4
			VBROADCASTSS %s, Y6
			VBLENDVPS Y4, Y6, Y3, Y3
			VPBROADCASTD %s, Y6
			VBLENDVPS Y4, Y6, Y2, Y2`, p.float(0.125), p.word(0x20))
	}
	p.op(`
		VPSHUFB %s, Y2, Y2
		VEXTRACTI128 $1, Y2, X4
		VPUNPCKLDQ X4, X2, X2
		VMOVQ X2, (R9)`, p.bytes(lowBytes(4, 0, 4, 8, 12)...))
	if rule == scaleModelopt {
		p.op("VMULPS Y5, Y3, Y3")
	} else {
		p.op("VDIVPS Y5, Y3, Y3")
	}
	p.note("collapsed: m is not zero, but m/loc rounds to code 0")
	p.op(`
		VMOVUPS Y3, 0(SP)
		VDIVPS Y3, Y0, Y1
		VBROADCASTSS %s, Y2
		VCMPPS $2, Y2, Y1, Y1
		VPCMPEQD Y10, Y0, Y0
		VPANDN Y1, Y0, Y0
		VMOVMSKPS Y0, AX
		POPCNTL AX, AX
		ADDQ AX, R12
		VPBROADCASTD %s, Y9
		VPBROADCASTD %s, Y8
		VPBROADCASTD %s, Y7
		VPBROADCASTD %s, Y6`, p.float(0.25), p.word(e2m1Magic), p.word(7), p.word(8), p.word(1|16<<16))
	p.note("one block a turn; BX: its scale")
	p.op("MOVQ SP, BX\nMOVQ $8, CX\nblocks:\nVBROADCASTSS (BX), Y5")
	p.elementsAVX2(0, 0, of)
	p.elementsAVX2(2, 1, of)
	p.note("words of two codes, then bytes in the order of the elements")
	p.op(`
		VPACKUSDW Y2, Y0, Y0
		VPMADDWD Y6, Y0, Y0
		VPSHUFB %s, Y0, Y0
		VEXTRACTI128 $1, Y0, X1
		VPUNPCKLWD X1, X0, X0
		VMOVQ X0, (R8)
		ADDQ $%d, R10
		ADDQ $8, R8
		ADDQ $4, BX
		DECQ CX
		JNZ blocks
		ADDQ $8, R9
		DECQ R11
		JNZ group
		MOVQ R12, collapsed+40(FP)`, p.bytes(lowBytes(4, 0, 4, 8, 12)...), 16*of.size())
	p.ret()
}

// blockMaximaAVX2 leaves the float32 of each of 8 blocks' largest magnitude in Y0; Y13 drops signs.
func (p *program) blockMaximaAVX2() {
	p.note("Y0: the largest magnitude of 8 blocks")
	for r := range 8 {
		p.op("VPAND %d(R10), Y13, Y%d", 32*r, r)
	}
	for _, pair := range maximaRounds {
		a, b := pair[0], pair[1]
		p.op(`
			VPUNPCKLWD Y%[2]d, Y%[1]d, Y8
			VPUNPCKHWD Y%[2]d, Y%[1]d, Y9
			VPMAXUW Y9, Y8, Y%[1]d`, a, b)
	}
	p.op(`
		VEXTRACTI128 $1, Y0, X1
		VPMAXUW X1, X0, X0
		VPMOVZXWD X0, Y0
		VPSLLD $16, Y0, Y0`)
}

// lowBytes is a VPSHUFB mask that moves the bytes at from to the front of each 128-bit lane and clears
// the rest.
func lowBytes(n int, from ...uint8) []uint8 {
	var mask []uint8
	for range 2 {
		mask = append(mask, from[:n]...)
		for range 16 - n {
			mask = append(mask, 0x80)
		}
	}
	return mask
}

// elementsAVX2 codes one half of a block into dword lanes of register t; Y1, Y3 and Y4 are spent.
func (p *program) elementsAVX2(t, half int, of element) {
	if of == f32 {
		p.op("VMOVUPS %d(R10), Y%d", 32*half, t)
	} else {
		p.op("VPMOVZXWD %[2]d(R10), Y%[1]d\nVPSLLD $16, Y%[1]d, Y%[1]d", t, 16*half)
	}
	p.op(`
		VDIVPS Y5, Y%[1]d, Y4
		VPAND Y14, Y4, Y%[1]d
		VMINPS Y12, Y%[1]d, Y%[1]d
		VMAXPS Y11, Y%[1]d, Y1
		VPAND Y15, Y1, Y1
		VCMPPS $1, Y10, Y4, Y4
		VPAND Y7, Y4, Y4
		VPSRLD $%[2]d, Y1, Y3
		VPADDD Y9, Y1, Y1
		VADDPS Y1, Y%[1]d, Y%[1]d
		VPADDD Y3, Y%[1]d, Y%[1]d
		VPAND Y8, Y%[1]d, Y%[1]d
		VPOR Y4, Y%[1]d, Y%[1]d`, t, e2m1Shift)
}
