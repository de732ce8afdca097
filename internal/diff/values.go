package diff

import (
	"encoding/binary"
	"math"

	"seatsmith/internal/numeric"
	"seatsmith/internal/safetensors"
)

// sum is what the values of a range add up to: squared differences, squared values of the base, and how many values of the body
// are NaN or Inf.
type sum struct {
	sq, ref float64
	bad     int64 // body: NaN and infinities; base likewise in badBase
	badBase int64
}

func (s *sum) merge(o sum) {
	s.sq += o.sq
	s.ref += o.ref
	s.bad += o.bad
	s.badBase += o.badBase
}

// relative is ‖body - base‖ / ‖base‖, NaN when it is no finite number.
func (s sum) relative() float64 {
	r := math.Sqrt(s.sq / s.ref)
	if s.ref == 0 || math.IsInf(r, 0) {
		return math.NaN()
	}
	return r
}

// measure compares values, all widened to float32 exactly, with d = body - base in float64. BF16 bases go through
// numeric's kernels, which fix the order of the additions; others add up in order. equal says that every value is the
// same number: +0 and -0 are, a NaN equals a NaN.
func measure(body, base safetensors.Dtype, x, y []byte, b *buffers) (s sum, equal bool) {
	n := len(y) / int(width(base))
	v := b.floats(0, n)
	widen(body, v, x, b)
	if base == safetensors.BF16 {
		var e numeric.Error
		e.AddBF16(v, y)
		s.sq, s.ref = e.SumSq, e.SumRef
		if finite(s.sq) && finite(s.ref) {
			return s, s.sq == 0
		}
	}
	w := b.floats(1, n)
	widen(base, w, y, b)
	return addFloats(v, w)
}

// addFloats is the plain comparison. A pair with a value that is not finite is counted and left out of the sums.
func addFloats(v, w []float32) (s sum, equal bool) {
	equal = true
	for i, a := range v {
		p, q := float64(a), float64(w[i])
		if finite(p) && finite(q) {
			d := p - q
			s.sq += float64(d * d)
			s.ref += float64(q * q)
			equal = equal && d == 0
			continue
		}
		if !finite(p) {
			s.bad++
		}
		if !finite(q) {
			s.badBase++
		}
		equal = equal && (p == q || p != p && q != q)
	}
	return s, equal
}

// widen turns stored values into float32; every one of the three types fits exactly.
func widen(d safetensors.Dtype, dst []float32, src []byte, b *buffers) {
	switch d {
	case safetensors.BF16:
		src = src[:2*len(dst)]
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
		return
	case safetensors.F16:
		if cap(b.wide) < 4*len(dst) {
			b.wide = make([]byte, 4*len(dst))
		}
		numeric.WidenF16(b.wide[:4*len(dst)], src)
		src = b.wide
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func finite(f float64) bool { return f-f == 0 }
