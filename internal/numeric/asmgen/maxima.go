package main

const amaxF32Signature = "(src *byte, groups int) (bits uint32)"

const amaxF32Comment = "Largest float32 magnitude of groups of 256 bytes, as an integer."

// amaxF32AVX512 is amaxAVX512 for float32, whose magnitudes have the order of their bits too.
func amaxF32AVX512(p *program) {
	p.kernel("amaxF32AVX512", amaxF32Signature, 0, 20, amaxF32Comment)
	p.op("MOVQ src+0(FP), SI\nMOVQ groups+8(FP), CX\nVPBROADCASTD %s, Z4", p.word(magnitudeBits))
	for i := range 4 {
		p.op("VPXORQ Z%d, Z%d, Z%d", i, i, i)
	}
	p.op("loop:")
	for i := range 4 {
		p.op("VPANDD %d(SI), Z4, Z%d\nVPMAXUD Z%d, Z%d, Z%d", 64*i, 5+i, 5+i, i, i)
	}
	p.op(`
		ADDQ $256, SI
		DECQ CX
		JNZ loop
		VPMAXUD Z1, Z0, Z0
		VPMAXUD Z3, Z2, Z2
		VPMAXUD Z2, Z0, Z0
		VEXTRACTI64X4 $1, Z0, Y1
		VPMAXUD Y1, Y0, Y0`)
	p.lastMaxF32(16)
}

func amaxF32AVX2(p *program) {
	p.kernel("amaxF32AVX2", amaxF32Signature, 0, 20, amaxF32Comment)
	p.op("MOVQ src+0(FP), SI\nMOVQ groups+8(FP), CX\nVPBROADCASTD %s, Y4", p.word(magnitudeBits))
	for i := range 4 {
		p.op("VPXOR Y%d, Y%d, Y%d", i, i, i)
	}
	p.op("loop:")
	for i := range 8 {
		p.op("VPAND %d(SI), Y4, Y%d\nVPMAXUD Y%d, Y%d, Y%d", 32*i, 5+i, 5+i, i%4, i%4)
	}
	p.op(`
		ADDQ $256, SI
		DECQ CX
		JNZ loop
		VPMAXUD Y1, Y0, Y0
		VPMAXUD Y3, Y2, Y2
		VPMAXUD Y2, Y0, Y0`)
	p.lastMaxF32(16)
}

// lastMaxF32 reduces the eight dwords of Y0 to the kernel's result called bits.
func (p *program) lastMaxF32(at int) {
	p.op(`
		VEXTRACTI128 $1, Y0, X1
		VPMAXUD X1, X0, X0
		VPSHUFD $0x4e, X0, X1
		VPMAXUD X1, X0, X0
		VPSHUFD $0xb1, X0, X1
		VPMAXUD X1, X0, X0
		VMOVD X0, AX
		MOVL AX, bits+%d(FP)`, at)
	p.ret()
}

// smallestNaN stands for every NaN among block maxima: a larger payload could carry into the sign when it is rounded to
// BF16. Inf, one below, stays.
const smallestNaN = exponentBits + 1

// dwordRounds are the pairs of four registers that meet, such that the dwords of a lane end in the order of the registers;
// the first of a pair takes the result.
var dwordRounds = [][2]int{{0, 2}, {1, 3}, {0, 1}}

// blockMaximaF32AVX512 leaves the largest magnitude of 16 blocks of float32 in Z0. A block is a register; interleaving by
// dwords leaves four blocks in each 128-bit lane, then lanes meet.
func (p *program) blockMaximaF32AVX512() {
	p.note("Z0: the largest magnitude of 16 blocks")
	for r := range 16 {
		p.op("VPANDD %d(R10), Z28, Z%d", 64*r, r)
	}
	for four := 0; four < 16; four += 4 {
		for _, pair := range dwordRounds {
			p.op(`
				VPUNPCKLDQ Z%[2]d, Z%[1]d, Z16
				VPUNPCKHDQ Z%[2]d, Z%[1]d, Z17
				VPMAXUD Z17, Z16, Z%[1]d`, four+pair[0], four+pair[1])
		}
	}
	for _, pair := range [][2]int{{0, 4}, {8, 12}, {0, 8}} {
		p.op(`
			VSHUFI32X4 $0x88, Z%[2]d, Z%[1]d, Z16
			VSHUFI32X4 $0xdd, Z%[2]d, Z%[1]d, Z17
			VPMAXUD Z17, Z16, Z%[1]d`, pair[0], pair[1])
	}
	p.op("VPMINUD.BCST %s, Z0, Z0", p.word(smallestNaN))
}

// blockMaximaF32AVX2 leaves the largest magnitude of 8 blocks of float32 in Y0.
func (p *program) blockMaximaF32AVX2() {
	p.note("Y0: the largest magnitude of 8 blocks")
	for r := range 8 {
		p.op("VPAND %[2]d(R10), Y14, Y%[1]d\nVPAND %[3]d(R10), Y14, Y8\nVPMAXUD Y8, Y%[1]d, Y%[1]d", r, 64*r, 64*r+32)
	}
	for four := 0; four < 8; four += 4 {
		for _, pair := range dwordRounds {
			p.op(`
				VPUNPCKLDQ Y%[2]d, Y%[1]d, Y8
				VPUNPCKHDQ Y%[2]d, Y%[1]d, Y9
				VPMAXUD Y9, Y8, Y%[1]d`, four+pair[0], four+pair[1])
		}
	}
	p.op(`
		VPERM2I128 $0x20, Y4, Y0, Y8
		VPERM2I128 $0x31, Y4, Y0, Y9
		VPMAXUD Y9, Y8, Y0
		VPBROADCASTD %s, Y8
		VPMINUD Y8, Y0, Y0`, p.word(smallestNaN))
}
