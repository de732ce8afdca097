package numeric

// AmaxBF16 returns the largest |value| of src (little-endian BF16 bytes, any alignment) and the
// element index of the first NaN or Inf, -1 if all are finite.
func AmaxBF16(src []byte) (amax float32, bad int) { panic("stub") }

// NVFP4 codes one tensor, or one fused group of tensors that share a global scale.
type NVFP4 struct {
	Math   Math
	Global float32 // native: modelopt weight_scale_2, ct weight_global_scale (g)
}

func NewNVFP4(m Math, amax float32) NVFP4 { panic("stub") }

// Divisor is the value compressed-tensors stores as weight_global_scale (1/weight_scale_2 or g).
func (q NVFP4) Divisor() float32 { panic("stub") }

// Multiplier is the value modelopt stores as weight_scale_2 (ws2 or 1/g).
func (q NVFP4) Multiplier() float32 { panic("stub") }

// EncodeBF16 codes src (n BF16 values, n%16==0): codes gets n/2 bytes, scales n/16 bytes.
// Returns the number of non-zero source blocks whose every code is zero (collapsed blocks).
func (q NVFP4) EncodeBF16(codes, scales, src []byte) (collapsed int) { panic("stub") }

// EncodeBF16Reference is the plain definition of EncodeBF16.
func (q NVFP4) EncodeBF16Reference(codes, scales, src []byte) (collapsed int) { panic("stub") }

// DecodeNVFP4 writes code*scale/divisor as the server's kernels define it for the compressed-tensors spelling.
func DecodeNVFP4(dst []float32, codes, scales []byte, divisor float32) { panic("stub") }

// FP8Scale turns an amax (of a row, or of a tensor when channel is false) into the stored scale.
func FP8Scale(m Math, channel bool, amax float32) float32 { panic("stub") }

// EncodeFP8BF16 codes src (n BF16 values) with one scale into n E4M3 bytes.
func EncodeFP8BF16(m Math, channel bool, dst, src []byte, scale float32) { panic("stub") }

// DecodeFP8 writes value(code)*scale.
func DecodeFP8(dst []float32, src []byte, scale float32) { panic("stub") }

// Error sums squared differences and squared source values, and keeps the largest difference.
type Error struct {
	SumSq, SumRef, MaxAbs float64
	N                     int64
}

// AddBF16 compares decoded values with their BF16 source.
func (e *Error) AddBF16(decoded []float32, src []byte) { panic("stub") }
func (e *Error) Merge(o Error)                         { panic("stub") }

// RelativeMSE is SumSq/SumRef; 0 when both are 0, +Inf when only SumRef is 0.
func (e Error) RelativeMSE() float64 { panic("stub") }
