package numeric

import (
	"encoding/binary"
	"fmt"
)

// DecodeNVFP4 writes the values that a server computes from a compressed-tensors checkpoint, where
// divisor is the stored weight_global_scale. dst has one float32 per element, codes half as many bytes,
// scales a sixteenth. These float32 operations, in this order:
//
//	r = fl(1 / divisor)                  once
//	s = fl(value(scale) * r)             per block
//	v = fl(value(code) * s)              per element
//
// Source: vLLM 017e9f4448 inverts the global scale while it loads (quantization/compressed_tensors/
// schemes/compressed_tensors_w4a4_nvfp4.py process_weights_after_loading, 1.0 / weight_global_scale),
// and multiplies in this order in quantization/utils/nvfp4_emulation_utils.py
// (_dequantize_nvfp4_kernel; break_fp4_bytes and dequantize_to_dtype on a CPU). It then rounds v to the
// model's dtype; this function does not.
//
// Code 8 gives -0 (vLLM's CPU table gives the same, 0 times -1). A NaN scale gives NaN, a divisor of
// zero or NaN what IEEE 754 says: judging what is stored is the caller's work. It panics when the
// lengths do not match.
func DecodeNVFP4(dst []float32, codes, scales []byte, divisor float32) {
	DecodeNVFP4Multiplier(dst, codes, scales, 1/divisor)
}

// DecodeNVFP4Multiplier is [DecodeNVFP4] for a modelopt checkpoint, whose weight_scale_2 vLLM uses as
// stored (quantization/modelopt.py: "no reciprocation"): s = fl(value(scale) * multiplier), then v.
func DecodeNVFP4Multiplier(dst []float32, codes, scales []byte, multiplier float32) {
	checkDecode(len(dst), len(codes), len(scales))
	active.decode(dst, codes, scales, multiplier)
}

// decodeNVFP4Reference is the plain definition of DecodeNVFP4Multiplier.
func decodeNVFP4Reference(dst []float32, codes, scales []byte, multiplier float32) {
	for b, c := range scales {
		s := float32(e4m3Values[c] * multiplier)
		pairs := binary.LittleEndian.Uint64(codes[b*blockCodes:])
		block := dst[b*blockElements:][:blockElements]
		for i := range block {
			block[i] = float32(e2m1Values[pairs>>(4*i)&15] * s)
		}
	}
}

func checkDecode(dst, codes, scales int) {
	if dst%blockElements != 0 || codes != dst/2 || scales != dst/blockElements {
		panic(fmt.Sprintf("numeric: %d NVFP4 values need whole blocks, %d code and %d scale bytes, not %d and %d",
			dst, dst/2, dst/blockElements, codes, scales))
	}
}

// DecodeFP8 writes v = fl(value(code) * scale) for E4M3 codes: dst has one float32 per byte of src. That
// is the weight a server's FP8 product stands for; kernels multiply by the scale after the sum. NaN
// codes give NaN. It panics when the lengths differ.
func DecodeFP8(dst []float32, src []byte, scale float32) {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("numeric: %d FP8 codes cannot fill %d values", len(src), len(dst)))
	}
	for i, c := range src {
		dst[i] = float32(e4m3Values[c] * scale)
	}
}
