package main

const (
	errorSignature = "(sums *errorSums, decoded *float32, src *byte, groups int)"
	errorComment   = "Adds groups of 8 elements to the partial sums: lane i takes element i. No FMA: products round first."
)

func (p *program) errorEntry(level string) {
	p.kernel("error"+level, errorSignature, 0, 32, errorComment)
	p.op(`
		MOVQ sums+0(FP), DI
		MOVQ decoded+8(FP), SI
		MOVQ src+16(FP), DX
		MOVQ groups+24(FP), CX`)
}

func errorAVX512(p *program) {
	p.errorEntry("AVX512")
	p.op(`
		VMOVUPD 0(DI), Z0
		VMOVUPD 64(DI), Z1
		VMOVUPD 128(DI), Z2
		VPTERNLOGQ $0xff, Z3, Z3, Z3
		VPSRLQ $1, Z3, Z3
		loop:
		VCVTPS2PD (SI), Z4
		VPMOVZXWD (DX), Y5
		VPSLLD $16, Y5, Y5
		VCVTPS2PD Y5, Z5
		VSUBPD Z5, Z4, Z4
		VMULPD Z4, Z4, Z6
		VADDPD Z6, Z0, Z0
		VMULPD Z5, Z5, Z5
		VADDPD Z5, Z1, Z1
		VPANDQ Z3, Z4, Z4
		VMAXPD Z2, Z4, Z2
		ADDQ $32, SI
		ADDQ $16, DX
		DECQ CX
		JNZ loop
		VMOVUPD Z0, 0(DI)
		VMOVUPD Z1, 64(DI)
		VMOVUPD Z2, 128(DI)`)
	p.ret()
}

func errorAVX2(p *program) {
	p.errorEntry("AVX2")
	for i := range 6 {
		p.op("VMOVUPD %d(DI), Y%d", 32*i, i)
	}
	p.op("VPCMPEQQ Y15, Y15, Y15\nVPSRLQ $1, Y15, Y15\nloop:")
	for h := range 2 {
		p.op(`
			VCVTPS2PD %[4]d(SI), Y6
			VPMOVZXWD %[5]d(DX), X7
			VPSLLD $16, X7, X7
			VCVTPS2PD X7, Y7
			VSUBPD Y7, Y6, Y6
			VMULPD Y6, Y6, Y8
			VADDPD Y8, Y%[1]d, Y%[1]d
			VMULPD Y7, Y7, Y7
			VADDPD Y7, Y%[2]d, Y%[2]d
			VPAND Y15, Y6, Y6
			VMAXPD Y%[3]d, Y6, Y%[3]d`, h, 2+h, 4+h, 16*h, 8*h)
	}
	p.op(`
		ADDQ $32, SI
		ADDQ $16, DX
		DECQ CX
		JNZ loop`)
	for i := range 6 {
		p.op("VMOVUPD Y%d, %d(DI)", i, 32*i)
	}
	p.ret()
}
