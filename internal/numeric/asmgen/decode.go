package main

const (
	decodeSignature = "(dst *float32, codes, scales *byte, blocks int, multiplier float32, e4m3 *[256]float32)"
	decodeComment   = "Values of NVFP4 blocks; e4m3 is the table of scale values."
)

// e2m1Table are the bits of the values of codes 0 to 15.
var e2m1Table = [16]uint32{
	0, 0x3f000000, 0x3f800000, 0x3fc00000, 0x40000000, 0x40400000, 0x40800000, 0x40c00000,
	signBit, 0xbf000000, 0xbf800000, 0xbfc00000, 0xc0000000, 0xc0400000, 0xc0800000, 0xc0c00000,
}

// e2m1Values is the address of the first n values.
func (p *program) e2m1Values(n int) string {
	var b []uint8
	for _, v := range e2m1Table[:n] {
		b = append(b, uint8(v), uint8(v>>8), uint8(v>>16), uint8(v>>24))
	}
	return p.bytes(b...)
}

func (p *program) decodeEntry(level string) {
	p.kernel("decode"+level, decodeSignature, 0, 48, decodeComment)
	p.op(`
		MOVQ dst+0(FP), DI
		MOVQ codes+8(FP), SI
		MOVQ scales+16(FP), DX
		MOVQ blocks+24(FP), CX
		VMOVSS multiplier+32(FP), X15
		MOVQ e4m3+40(FP), BX`)
}

func decodeAVX512(p *program) {
	p.decodeEntry("AVX512")
	p.op("VMOVUPS %s, Z14\nloop:", p.e2m1Values(16))
	p.note("qwords of one byte each: b | b<<28 has the low code in the low dword, the high in the high")
	p.op(`
		MOVBLZX (DX), AX
		VMULSS (BX)(AX*4), X15, X0
		VBROADCASTSS X0, Z0
		VMULPS Z0, Z14, Z0
		VPMOVZXBQ (SI), Z1
		VPSLLQ $28, Z1, Z2
		VPORQ Z2, Z1, Z1
		VPERMPS Z0, Z1, Z0
		VMOVUPS Z0, (DI)
		ADDQ $64, DI
		ADDQ $8, SI
		INCQ DX
		DECQ CX
		JNZ loop`)
	p.ret()
}

func decodeAVX2(p *program) {
	p.decodeEntry("AVX2")
	p.op("VMOVUPS %s, Y14\nVPBROADCASTD %s, Y13\nloop:", p.e2m1Values(8), p.word(signBit))
	p.op(`
		MOVBLZX (DX), AX
		VMULSS (BX)(AX*4), X15, X0
		VBROADCASTSS X0, Y0`)
	for h := range 2 {
		p.op(`
			VPMOVZXBQ %[1]d(SI), Y1
			VPSLLQ $28, Y1, Y2
			VPOR Y2, Y1, Y1
			VPERMPS Y14, Y1, Y2
			VPSLLD $28, Y1, Y1
			VPAND Y13, Y1, Y1
			VPXOR Y1, Y2, Y2
			VMULPS Y0, Y2, Y2
			VMOVUPS Y2, %[2]d(DI)`, 4*h, 32*h)
	}
	p.op(`
		ADDQ $64, DI
		ADDQ $8, SI
		INCQ DX
		DECQ CX
		JNZ loop`)
	p.ret()
}
