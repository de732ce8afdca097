package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/safetensors"
)

// eight is how an FP8 weight of a source is read: value = code * scale, the scales by blocks of the matrix, in rows of
// blocks. One scale for all of it is one block, one per row a block for each row.
type eight struct {
	scale   *model.Tensor
	in      int64
	block   [2]int64
	across  int64 // blocks in a row of them
	stacked int64 // rows of blocks in one of several stacked matrices
	out     int64 // rows of one matrix
}

// besideEight are the tensors of an FP8 checkpoint that are no weights.
var besideEight = []string{"weight_scale", "weight_scale_inv", "input_scale", "output_scale", "k_scale", "v_scale", "q_scale"}

// readEights says how every FP8 weight of a source is read; ok is false unless the source is quantized to FP8 and to
// nothing else, and each weight has a scale per tensor, per row, or per block of the declared size (128 by 128 if none is).
func readEights(s *model.Model) (all map[string]*eight, ok bool) {
	q := gjson.ParseBytes(s.Config.Quantization)
	sizes := q.Get("weight_block_size")
	switch method := q.Get("quant_method").Str; {
	case method == "fp8", strings.HasPrefix(method, "modelopt") && strings.HasPrefix(strings.ToUpper(q.Get("quant_algo").Str+q.Get("quantization.quant_algo").Str), "FP8"):
	case method == "compressed-tensors":
		q.Get("config_groups").ForEach(func(_, g gjson.Result) bool {
			if b := g.Get("weights.block_structure"); b.IsArray() {
				sizes = b
			}
			return true
		})
	case !q.IsObject() && quantFileFP8(s):
	default:
		return nil, false
	}
	block := [2]int64{128, 128}
	if list := sizes.Array(); len(list) == 2 {
		block = [2]int64{list[0].Int(), list[1].Int()}
	}
	all = map[string]*eight{}
	for i := range s.Tensors {
		t := &s.Tensors[i]
		switch {
		case float(t) && (t.Base == t.Name || slices.Contains(besideEight, t.Suffix)):
			continue
		case t.Dtype() != safetensors.F8E4M3 || t.Base != t.Name:
			return nil, false
		}
		scale, found := s.Lookup(t.Module + ".weight_scale_inv")
		if !found {
			scale, found = s.Lookup(t.Module + ".weight_scale")
		}
		if !found {
			return nil, false
		}
		e := newEight(t, scale, block)
		if e == nil {
			return nil, false
		}
		all[t.Name] = e
	}
	return all, len(all) > 0
}

// quantFileFP8 says whether modelopt's own file, which counts where config.json says nothing, is of FP8.
func quantFileFP8(s *model.Model) bool {
	data, err := s.QuantFile()
	return err == nil && strings.HasPrefix(strings.ToUpper(gjson.GetBytes(data, "quantization.quant_algo").Str), "FP8")
}

// newEight fits a scale to a weight by its shape, nil when it does not fit.
func newEight(t, scale *model.Tensor, block [2]int64) *eight {
	shape, have := t.Shape(), scale.Shape()
	if len(shape) < 2 || t.Ref.Tensor.Elements() == 0 || block[0] < 1 || block[1] < 1 || scale.Dtype() == safetensors.F16 {
		return nil
	}
	e := &eight{scale: scale, out: shape[len(shape)-2], in: shape[len(shape)-1]}
	matrices, n := t.Ref.Tensor.Elements()/(e.out*e.in), scale.Ref.Tensor.Elements()
	down, across := (e.out+block[0]-1)/block[0], (e.in+block[1]-1)/block[1]
	switch {
	case len(have) > 1 && n == matrices*down*across && have[len(have)-1] == across:
		e.block = block
	case n == matrices:
		e.block = [2]int64{e.out, e.in}
	case n == matrices*e.out && (len(have) < 2 || have[len(have)-1] == 1 || len(have) == len(shape)-1):
		e.block = [2]int64{1, e.in}
	default:
		return nil
	}
	e.stacked, e.across = (e.out+e.block[0]-1)/e.block[0], (e.in+e.block[1]-1)/e.block[1]
	return e
}

// index is that of the scale of an element, and how many elements from it on in its row have the same.
func (e *eight) index(at int64) (index, run int64) {
	row, col := at/e.in, at%e.in
	matrix, row := row/e.out, row%e.out
	return (matrix*e.stacked+row/e.block[0])*e.across + col/e.block[1], min(e.in-col, e.block[1]-col%e.block[1])
}

// widen reads n elements from at as float32.
func (e *eight) widen(dst []byte, codes []byte, at int64) error {
	n := int64(len(codes))
	if n == 0 {
		return nil
	}
	first, _ := e.index(at)
	first -= first % e.across
	last, _ := e.index(at + n - 1)
	last += e.across - last%e.across
	w := width(e.scale.Dtype())
	scales := make([]byte, (last-first)*w)
	if err := e.scale.ReadAt(scales, first*w); err != nil {
		return err
	}
	for i := int64(0); i < n; {
		index, run := e.index(at + i)
		run = min(run, n-i)
		numeric.WidenE4M3(dst[4*i:4*(i+run)], codes[i:i+run], floatAt(e.scale.Dtype(), scales[(index-first)*w:]))
		i += run
	}
	return nil
}

// reads is the dtype in which the source's values are compared: BF16 as it is, anything else as float32.
func (it *item) reads() safetensors.Dtype {
	if it.source.Dtype() == safetensors.BF16 {
		return safetensors.BF16
	}
	return safetensors.F32
}

// load reads n elements of the source from element at into the buffer, in the dtype of reads.
func (it *item) load(at, n int64, b *buffers) ([]byte, error) {
	dst := b.bytes(0, n*width(it.reads()))
	at += it.begin
	switch d := it.source.Dtype(); d {
	case safetensors.BF16, safetensors.F32:
		return dst, it.source.ReadAt(dst, at*width(d))
	case safetensors.F16:
		raw := make([]byte, 2*n)
		if err := it.source.ReadAt(raw, 2*at); err != nil {
			return nil, err
		}
		numeric.WidenF16(dst, raw)
		return dst, nil
	}
	if it.eight == nil {
		return nil, fmt.Errorf("%s is %s and has no scale", it.source.Name, it.source.Dtype())
	}
	raw := make([]byte, n)
	if err := it.source.ReadAt(raw, at); err != nil {
		return nil, err
	}
	return dst, it.eight.widen(dst, raw, at)
}
