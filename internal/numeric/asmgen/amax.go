package main

const amaxSignature = "(src *byte, groups int) (bits uint16)"

// lastMax reduces the eight words of X0 to the kernel's result. VPHMINPOSUW finds a minimum, so the
// words are inverted on the way in and out.
func (p *program) lastMax() {
	p.op(`
		VPCMPEQW X1, X1, X1
		VPXOR X1, X0, X0
		VPHMINPOSUW X0, X0
		VPXOR X1, X0, X0
		VMOVD X0, AX
		MOVW AX, bits+16(FP)`)
	p.ret()
}

func amaxAVX512(p *program) {
	p.kernel("amaxAVX512", amaxSignature, 0, 18, "Largest BF16 magnitude of groups of 256 bytes, as an integer.")
	p.op(`
		MOVQ src+0(FP), SI
		MOVQ groups+8(FP), CX
		VPBROADCASTD %s, Z4`, p.word(0x7fff7fff))
	for i := range 4 {
		p.op("VPXORQ Z%d, Z%d, Z%d", i, i, i)
	}
	p.op("loop:")
	for i := range 4 {
		p.op("VPANDQ %d(SI), Z4, Z%d\nVPMAXUW Z%d, Z%d, Z%d", 64*i, 5+i, 5+i, i, i)
	}
	p.op(`
		ADDQ $256, SI
		DECQ CX
		JNZ loop
		VPMAXUW Z1, Z0, Z0
		VPMAXUW Z3, Z2, Z2
		VPMAXUW Z2, Z0, Z0
		VEXTRACTI64X4 $1, Z0, Y1
		VPMAXUW Y1, Y0, Y0
		VEXTRACTI128 $1, Y0, X1
		VPMAXUW X1, X0, X0`)
	p.lastMax()
}

func amaxAVX2(p *program) {
	p.kernel("amaxAVX2", amaxSignature, 0, 18, "Largest BF16 magnitude of groups of 256 bytes, as an integer.")
	p.op(`
		MOVQ src+0(FP), SI
		MOVQ groups+8(FP), CX
		VPBROADCASTD %s, Y4`, p.word(0x7fff7fff))
	for i := range 4 {
		p.op("VPXOR Y%d, Y%d, Y%d", i, i, i)
	}
	p.op("loop:")
	for i := range 8 {
		p.op("VPAND %d(SI), Y4, Y%d\nVPMAXUW Y%d, Y%d, Y%d", 32*i, 5+i, 5+i, i%4, i%4)
	}
	p.op(`
		ADDQ $256, SI
		DECQ CX
		JNZ loop
		VPMAXUW Y1, Y0, Y0
		VPMAXUW Y3, Y2, Y2
		VPMAXUW Y2, Y0, Y0
		VEXTRACTI128 $1, Y0, X1
		VPMAXUW X1, X0, X0`)
	p.lastMax()
}
