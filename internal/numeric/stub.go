package numeric

// DecodeNVFP4 writes code*scale/divisor as the server's kernels define it for the compressed-tensors spelling.
func DecodeNVFP4(dst []float32, codes, scales []byte, divisor float32) { panic("stub") }

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
