package main

const (
	fp8Signature = "(dst, src *byte, groups int, divisor float32)"
	fp8Comment   = "E4M3 of groups of 32 quotients, "
)

func fp8Rounding(rounded bool) string {
	if rounded {
		return fp8Comment + "each rounded to BF16 first."
	}
	return fp8Comment + "each a float32."
}

func fp8AVX512(p *program, name string, rounded bool, of element) {
	p.kernel(name+of.tag()+"AVX512", fp8Signature, 0, 28, fp8Rounding(rounded))
	p.op(`
		MOVQ dst+0(FP), DI
		MOVQ src+8(FP), SI
		MOVQ groups+16(FP), CX
		VBROADCASTSS divisor+24(FP), Z31
		VPBROADCASTD %s, Z30
		VBROADCASTSS %s, Z29
		VBROADCASTSS %s, Z28
		VPBROADCASTD %s, Z27
		VPBROADCASTD %s, Z26
		VPBROADCASTD %s, Z25
		VPBROADCASTD %s, Z24
		VPBROADCASTD %s, Z23
		VPBROADCASTD %s, Z22
		VPBROADCASTD %s, Z21
		loop:`,
		p.word(magnitudeBits), p.float(448), p.float(0x1p-6), p.word(exponentBits), p.word(e4m3Magic),
		p.word(0x7f), p.word(0x80), p.word(1), p.word(0x7fff), p.word(0x7fff0000))
	for h := range 2 {
		x, a, e, k := 4*h, 4*h+1, 4*h+2, h+1
		if of == f32 {
			p.op("VMOVUPS %d(SI), Z%d", 64*h, x)
		} else {
			p.op("VPMOVZXWD %[2]d(SI), Z%[1]d\nVPSLLD $16, Z%[1]d, Z%[1]d", x, 32*h)
		}
		p.op("VDIVPS Z31, Z%[1]d, Z%[1]d", x)
		if rounded {
			p.note("the quotient itself stays for NaN and sign: rounding could carry a NaN beyond its range")
			p.op(`
				VPSRLD $16, Z%[1]d, Z%[2]d
				VPANDD Z23, Z%[2]d, Z%[2]d
				VPADDD Z22, Z%[2]d, Z%[2]d
				VPADDD Z%[1]d, Z%[2]d, Z%[2]d
				VPANDD Z21, Z%[2]d, Z%[2]d`, x, a)
		} else {
			p.op("VPANDD Z30, Z%d, Z%d", x, a)
		}
		p.op(`
			VMINPS Z29, Z%[2]d, Z%[2]d
			VMAXPS Z28, Z%[2]d, Z%[3]d
			VPANDD Z27, Z%[3]d, Z%[3]d
			VPADDD Z26, Z%[3]d, Z%[6]d
			VADDPS Z%[6]d, Z%[2]d, Z%[2]d
			VPSRLD $%[5]d, Z%[3]d, Z%[3]d
			VPADDD Z%[3]d, Z%[2]d, Z%[2]d
			VCMPPS $3, Z%[1]d, Z%[1]d, K%[4]d
			VMOVDQA32 Z25, K%[4]d, Z%[2]d
			VPSRLD $24, Z%[1]d, Z%[1]d
			VPTERNLOGD $0xf8, Z24, Z%[1]d, Z%[2]d
			VPMOVDB Z%[2]d, %[7]d(DI)`, x, a, e, k, e4m3Shift, 4*h+3, 16*h)
	}
	p.op(`
		ADDQ $%d, SI
		ADDQ $32, DI
		DECQ CX
		JNZ loop`, 32*of.size())
	p.ret()
}

func fp8AVX2(p *program, name string, rounded bool, of element) {
	p.kernel(name+of.tag()+"AVX2", fp8Signature, 0, 28, fp8Rounding(rounded))
	p.op(`
		MOVQ dst+0(FP), DI
		MOVQ src+8(FP), SI
		MOVQ groups+16(FP), CX
		VBROADCASTSS divisor+24(FP), Y15
		VPBROADCASTD %s, Y14
		VBROADCASTSS %s, Y13
		VBROADCASTSS %s, Y12
		VPBROADCASTD %s, Y11
		VPBROADCASTD %s, Y10
		VPBROADCASTD %s, Y9
		VPBROADCASTD %s, Y8
		VPBROADCASTD %s, Y7
		loop:`,
		p.word(magnitudeBits), p.float(448), p.float(0x1p-6), p.word(exponentBits), p.word(e4m3Magic),
		p.word(0x7f), p.word(0x80), p.word(0x7fff))
	for q := range 4 {
		// The quotient is in Y4 and becomes the sign; its code goes to Y0..Y3.
		if of == f32 {
			p.op("VMOVUPS %d(SI), Y4", 32*q)
		} else {
			p.op("VPMOVZXWD %d(SI), Y4\nVPSLLD $16, Y4, Y4", 16*q)
		}
		p.op("VDIVPS Y15, Y4, Y4")
		if rounded {
			p.op(`
				VPSLLD $15, Y4, Y5
				VPSRLD $31, Y5, Y5
				VPADDD Y7, Y5, Y5
				VPADDD Y4, Y5, Y5
				VPSRLD $16, Y5, Y5
				VPSLLD $16, Y5, Y5
				VPAND Y14, Y5, Y%d`, q)
		} else {
			p.op("VPAND Y14, Y4, Y%d", q)
		}
		p.op(`
			VMINPS Y13, Y%[1]d, Y%[1]d
			VMAXPS Y12, Y%[1]d, Y5
			VPAND Y11, Y5, Y5
			VPADDD Y10, Y5, Y6
			VADDPS Y6, Y%[1]d, Y%[1]d
			VPSRLD $%[2]d, Y5, Y5
			VPADDD Y5, Y%[1]d, Y%[1]d
			VCMPPS $3, Y4, Y4, Y5
			VBLENDVPS Y5, Y9, Y%[1]d, Y%[1]d
			VPAND Y9, Y%[1]d, Y%[1]d
			VPSRLD $24, Y4, Y4
			VPAND Y8, Y4, Y4
			VPOR Y4, Y%[1]d, Y%[1]d`, q, e4m3Shift)
	}
	p.note("32 dwords to 32 bytes; packing works by lanes, the permutation restores the order")
	p.op(`
		VPACKUSDW Y1, Y0, Y0
		VPACKUSDW Y3, Y2, Y2
		VPACKUSWB Y2, Y0, Y0
		VMOVDQU %s, Y4
		VPERMD Y0, Y4, Y0
		VMOVDQU Y0, (DI)
		ADDQ $%d, SI
		ADDQ $32, DI
		DECQ CX
		JNZ loop`, p.bytes(0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 6, 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0), 32*of.size())
	p.ret()
}
