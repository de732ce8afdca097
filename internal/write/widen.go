package write

import (
	"encoding/binary"
	"fmt"
	"math"

	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/safetensors"
)

// scales is how an FP8 source is scaled: its tensor is a row of matrices [out, in], each cut into blocks that have one
// scale each; the scales lie as [matrix, row of blocks, block].
type scales struct {
	ref     safetensors.Ref
	origin  model.Origin
	out, in int64
	block   [2]int64
	down    int64 // rows of blocks in a matrix
	across  int64 // blocks in a row of them
}

// findScale finds the scales of an FP8 source and checks that they are as many as its blocks.
func (c *check) findScale(w *work) error {
	s := w.item.SourceScale
	t, ok := c.view.Lookup(s.Name)
	switch {
	case !ok:
		return fmt.Errorf("the source has no tensor %s to scale it by: make the plan again", s.Name)
	case t.Dtype() != s.Dtype || t.Origin != s.Origin:
		return fmt.Errorf("planned with scales %s of the %s, the source has %s of the %s in %s: make the plan again", s.Dtype, s.Origin, t.Dtype(), t.Origin, s.Name)
	case s.Dtype != safetensors.F32 && s.Dtype != safetensors.BF16:
		return fmt.Errorf("scales of dtype %s (%s) are not known; F32 and BF16 are", s.Dtype, s.Name)
	case s.Block[0] < 1 || s.Block[1] < 1:
		return fmt.Errorf("blocks of %v have no element", s.Block)
	}
	v := &scales{ref: t.Ref, origin: t.Origin, out: 1, in: 1}
	shape := w.ref.Tensor.Shape
	if n := len(shape); n > 0 {
		v.in = shape[n-1]
		if n > 1 {
			v.out = shape[n-2]
		}
	}
	v.block = [2]int64{min(s.Block[0], max(v.out, 1)), min(s.Block[1], max(v.in, 1))} // a block may be larger than the matrix
	v.down, v.across = (v.out+v.block[0]-1)/v.block[0], (v.in+v.block[1]-1)/v.block[1]
	if v.out*v.in > 0 {
		if want := count(shape) / (v.out * v.in) * v.down * v.across; count(t.Shape()) != want {
			return fmt.Errorf("scales %s are %v; blocks of %v of %v need %d: make the plan again", s.Name, t.Shape(), s.Block, shape, want)
		}
	}
	w.scale = v
	return nil
}

// at is the index of the scale of element e of the source tensor, and how many elements from e on have the same.
func (s *scales) at(e int64) (index, run int64) {
	matrix, e := e/(s.out*s.in), e%(s.out*s.in)
	row, col := e/s.in, e%s.in
	index = (matrix*s.down+row/s.block[0])*s.across + col/s.block[1]
	if s.across == 1 { // to the end of the last row that shares it
		last := min((row/s.block[0]+1)*s.block[0], s.out)
		return index, last*s.in - e
	}
	return index, min(s.in-col, s.block[1]-col%s.block[1])
}

// read fetches the scales of elements [e, e+n); the first of them has the index that is returned with them. bad is the
// index of the first that is NaN, infinite, zero or negative, -1 when there is none.
func (s *scales) read(e, n int64) (values []float32, first, bad int64, err error) {
	first, _ = s.at(e)
	first -= first % s.across // a tile may begin at any column
	last, _ := s.at(e + n - 1)
	last += s.across - last%s.across
	width := int64(4)
	if s.ref.Tensor.Dtype == safetensors.BF16 {
		width = 2
	}
	raw := make([]byte, (last-first)*width)
	if err := s.ref.ReadAt(raw, first*width); err != nil {
		return nil, 0, 0, err
	}
	values, bad = make([]float32, last-first), -1
	for i := range values {
		if width == 2 {
			values[i] = numeric.BF16ToFloat32(binary.LittleEndian.Uint16(raw[2*i:]))
		} else {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		if v := values[i]; bad < 0 && !(v > 0 && v <= math.MaxFloat32) {
			bad = first + int64(i)
		}
	}
	return values, first, bad, nil
}

// sight is what was seen in a tile: its largest magnitude, and what makes it impossible to code.
type sight struct {
	amax     float32
	bad      int     // element of the tile that is the first NaN or Inf, -1
	value    float32 // of it
	badScale int64   // index of the first unusable scale of an FP8 source, -1
	changed  int64   // values that another dtype could not hold
}

var nothingBad = sight{bad: -1, badScale: -1}

// load makes the tile's source what the codes are made from: BF16 as it is, and float32 of everything else. ok is false when
// the scales of an FP8 source cannot be used; what is wrong with them is then in the sight.
func (p *production) load(t *tile, w *work, src []byte, b *buffers) (data []byte, seen sight, ok bool, err error) {
	seen = nothingBad
	switch w.item.Dtype {
	case safetensors.BF16, safetensors.F32:
		return src, seen, true, nil
	case safetensors.F16:
		data = b.wide[:2*t.n]
		numeric.WidenF16(data, src)
		return data, seen, true, nil
	}
	data = b.wide[:4*t.n]
	if t.n == 0 {
		return data, seen, true, nil
	}
	e := w.item.Begin + t.off
	values, first, bad, err := w.scale.read(e, t.n)
	if err != nil {
		return nil, seen, false, fmt.Errorf("reading tensor %s of %s: %w", w.item.SourceScale.Name, w.scale.ref.File.Path, err)
	}
	if bad >= 0 {
		seen.badScale, seen.value = bad, values[bad-first]
		return nil, seen, false, nil
	}
	for i := int64(0); i < t.n; {
		index, run := w.scale.at(e + i)
		run = min(run, t.n-i)
		numeric.WidenE4M3(data[4*i:4*(i+run)], src[i:i+run], values[index-first])
		i += run
	}
	return data, seen, true, nil
}

// look scans data for its largest magnitude and its first NaN or Inf.
func (w *work) look(data []byte) sight {
	s := nothingBad
	if w.wide() {
		s.amax, s.bad = numeric.AmaxF32(data)
	} else {
		s.amax, s.bad = numeric.AmaxBF16(data)
	}
	s.value = w.valueAt(data, s.bad)
	return s
}

// valueAt is element i of data, 0 when i is negative.
func (w *work) valueAt(data []byte, i int) float32 {
	switch {
	case i < 0:
		return 0
	case w.wide():
		return math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return numeric.BF16ToFloat32(binary.LittleEndian.Uint16(data[2*i:]))
}
