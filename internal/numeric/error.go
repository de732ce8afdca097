package numeric

import (
	"fmt"
	"math"
)

// Error sums squared differences and squared source values, and keeps the largest difference. The
// zero Error is ready to use. All sums are float64.
type Error struct {
	SumSq, SumRef, MaxAbs float64
	N                     int64
}

// errorLanes is how many partial sums one call of AddBF16 keeps. It is part of the definition: it fixes
// the order of the additions, so that every dispatch level gives the same float64.
const errorLanes = 8

// AddBF16 compares decoded values with their BF16 source, two bytes per value.
//
// With d = decoded - source in float64 (one rounding), SumSq grows by the sum of d*d and SumRef by the
// sum of source*source. Element i of the call goes to partial sum i mod 8, each product is rounded
// before it is added, and the eight sums are added as ((0+4)+(2+6))+((1+5)+(3+7)). So one call has one
// result on every machine; calls in another order, or cut at other places, may differ in the last bits.
//
// A NaN or Inf on either side shows as NaN or Inf in the sums. MaxAbs ignores NaN. It panics when the
// lengths do not match.
func (e *Error) AddBF16(decoded []float32, src []byte) {
	if len(src) != 2*len(decoded) {
		panic(fmt.Sprintf("numeric: %d decoded values cannot be compared with %d source bytes", len(decoded), len(src)))
	}
	var p errorSums
	active.errors(&p, decoded, src)
	e.SumSq += p.tree(p.sq)
	e.SumRef += p.tree(p.ref)
	for _, m := range p.most {
		e.MaxAbs = max(e.MaxAbs, m)
	}
	e.N += int64(len(decoded))
}

// errorSums are the partial results of one call, by lane. Assembly writes them: the layout is fixed.
type errorSums struct {
	sq, ref, most [errorLanes]float64
}

// add is the plain definition of the partial sums.
func (p *errorSums) add(decoded []float32, src []byte) {
	for i, v := range decoded {
		w, lane := float64(loadBF16(src, i)), i%errorLanes
		d := float64(v) - w
		p.sq[lane] += float64(d * d)
		p.ref[lane] += float64(w * w)
		if a := math.Abs(d); a > p.most[lane] {
			p.most[lane] = a
		}
	}
}

// addGo is the fastest form of add in plain Go: eight independent chains. decoded starts at lane 0.
func (p *errorSums) addGo(decoded []float32, src []byte) {
	for ; len(decoded) >= errorLanes; decoded, src = decoded[errorLanes:], src[2*errorLanes:] {
		v, s := decoded[:errorLanes], src[:2*errorLanes]
		for lane := range errorLanes {
			w := float64(loadBF16(s, lane))
			d := float64(v[lane]) - w
			p.sq[lane] += float64(d * d)
			p.ref[lane] += float64(w * w)
			if a := math.Abs(d); a > p.most[lane] {
				p.most[lane] = a
			}
		}
	}
	p.add(decoded, src)
}

func (p *errorSums) tree(s [errorLanes]float64) float64 {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

// Merge adds what another Error holds. Merging in a fixed order gives a fixed result.
func (e *Error) Merge(o Error) {
	e.SumSq += o.SumSq
	e.SumRef += o.SumRef
	e.MaxAbs = max(e.MaxAbs, o.MaxAbs)
	e.N += o.N
}

// RelativeMSE is SumSq/SumRef; 0 when both are 0, +Inf when only SumRef is 0.
func (e Error) RelativeMSE() float64 {
	if e.SumRef == 0 {
		if e.SumSq == 0 {
			return 0
		}
		return math.Inf(1)
	}
	return e.SumSq / e.SumRef
}
