package write

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"seatsmith/internal/dialect"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
)

// work is one item of the plan with everything that carrying it out needs. What it takes of any rank is [rows, cols] with
// cols its last dimension; a kept one is its bytes.
type work struct {
	item       *plan.Item
	ref        safetensors.Ref
	scale      *scales // of an FP8 source, else nil
	module     string
	rows, cols int64
	width      int64 // of an element of the source in bytes, 1 for formats of less than a byte
	first      int64 // byte of the source tensor at which the item begins
	bytes      int64 // of the source tensor that the item takes
	out        map[dialect.Part]dialect.Output
}

// name of the stored tensor that holds part.
func (w *work) name(part dialect.Part) string { return w.out[part].Name }

// elements is how many the item takes; for formats of less than a byte, its bytes.
func (w *work) elements() int64 { return w.bytes / w.width }

// wide says whether the workers see the source as float32, widened to it if need be, and not as BF16 or plain bytes.
func (w *work) wide() bool {
	return w.item.Action != plan.Keep && w.item.Action != plan.Reciprocal && w.item.Dtype != safetensors.BF16
}

// files are those that the work reads.
func (w *work) files() []*safetensors.File {
	if w.scale != nil && w.scale.ref.File != w.ref.File {
		return []*safetensors.File{w.ref.File, w.scale.ref.File}
	}
	return []*safetensors.File{w.ref.File}
}

// covered checks that the items of each tensor of the view take all of it and nothing twice, unless the plan says that the
// rest is left out, or that the tensor is the scale of one which is quantized again.
func (c *check) covered(p *plan.Plan) error {
	items := make(map[string][]*plan.Item, len(p.Items))
	spare := map[string]bool{}
	for i := range p.Items {
		it := &p.Items[i]
		items[it.Source] = append(items[it.Source], it)
		if it.SourceScale != nil {
			spare[it.SourceScale.Name] = true
		}
	}
	for _, d := range p.Dropped {
		spare[d.Name] = true
	}
	for i := range c.view.Tensors {
		t := &c.view.Tensors[i]
		list := items[t.Name]
		if len(list) == 0 {
			if spare[t.Name] {
				continue
			}
			return fmt.Errorf("tensor %s of the source is in no item of the plan: make the plan again", t.Name)
		}
		slices.SortStableFunc(list, func(a, b *plan.Item) int { return compare(a.Begin, b.Begin) })
		total, at := count(t.Shape()), int64(0)
		for k, it := range list {
			n := count(it.Shape)
			switch {
			case n < 0 || it.Begin < 0 || it.Begin > total || n > total-it.Begin:
				return fmt.Errorf("tensor %s: planned as %v from element %d on, the source has %v: make the plan again", t.Name, it.Shape, it.Begin, t.Shape())
			case it.Begin < at || k > 0 && n == 0:
				return fmt.Errorf("the plan has two items for element %d of tensor %s: make the plan again", it.Begin, t.Name)
			case it.Begin > at && !spare[t.Name]:
				return fmt.Errorf("elements %d to %d of tensor %s are in no item of the plan: make the plan again", at, it.Begin-1, t.Name)
			}
			at = it.Begin + n
		}
		if at < total && !spare[t.Name] {
			return fmt.Errorf("elements %d to %d of tensor %s are in no item of the plan: make the plan again", at, total-1, t.Name)
		}
	}
	return nil
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// count is the number of elements of a shape, -1 when it is not one.
func count(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		if d < 0 || d > 0 && n > math.MaxInt64/64/d {
			return -1
		}
		n *= d
	}
	return n
}

// resolve finds an item's tensor and checks that its outputs are those of its action and scheme, each of the right size.
func (c *check) resolve(p *plan.Plan, it *plan.Item) (*work, error) {
	t, ok := c.view.Lookup(it.Source)
	switch {
	case !ok:
		return nil, errors.New("the source has no such tensor: make the plan again")
	case t.Dtype() != it.Dtype || t.Origin != it.Origin || count(it.Shape) == count(t.Shape()) && !slices.Equal(t.Shape(), it.Shape):
		return nil, fmt.Errorf("planned as %s %v of the %s, the source has %s %v of the %s: make the plan again",
			it.Dtype, it.Shape, it.Origin, t.Dtype(), t.Shape(), t.Origin)
	}
	bits, _ := it.Dtype.Bits()
	n := count(it.Shape) // which covered has compared with the tensor
	if n*bits%8 != 0 || it.Begin*bits%8 != 0 {
		return nil, fmt.Errorf("element %d of %s does not begin on a byte", it.Begin, it.Dtype)
	}
	w := &work{
		item: it, ref: t.Ref, width: max(bits/8, 1), first: it.Begin * bits / 8, bytes: n * bits / 8, rows: 1, cols: 1,
		out: make(map[dialect.Part]dialect.Output, len(it.Outputs)),
	}
	for i, n := range it.Shape {
		if i < len(it.Shape)-1 {
			w.rows *= n
		} else {
			w.cols = n
		}
	}
	for _, o := range it.Outputs {
		if _, twice := w.out[o.Part]; twice {
			return nil, fmt.Errorf("two outputs hold the %s part", o.Part)
		}
		w.out[o.Part] = o
	}
	w.module = t.Module
	if codes := w.name(dialect.PartCodes); codes != "" && it.Action == plan.Quantize {
		for _, suffix := range []string{".weight_packed", ".weight"} {
			if module, ok := strings.CutSuffix(codes, suffix); ok {
				w.module = module
				break
			}
		}
	}
	if len(it.Outputs) == 0 {
		return w, nil
	}
	if it.SourceScale != nil {
		if err := c.findScale(w); err != nil {
			return nil, err
		}
	}
	want, err := w.parts(p.Kind)
	if err != nil {
		return nil, err
	}
	for part, size := range want {
		o, ok := w.out[part]
		if !ok {
			return nil, fmt.Errorf("scheme %s needs an output for the %s part", it.Scheme, part)
		}
		if got, err := outputBytes(o); err != nil || got != size {
			return nil, fmt.Errorf("output %s, %s %v, cannot hold the %s part of %d bytes", o.Name, o.Dtype, o.Shape, part, size)
		}
	}
	if len(w.out) != len(want) {
		for _, o := range it.Outputs {
			if _, ok := want[o.Part]; !ok {
				return nil, fmt.Errorf("output %s holds the %s part, which %s under scheme %s does not make", o.Name, o.Part, it.Action, it.Scheme)
			}
		}
	}
	return w, nil
}

// parts lists what a work stores, with the size of each in bytes, and refuses an action that its source cannot have.
func (w *work) parts(k plan.Kind) (map[dialect.Part]int64, error) {
	it := w.item
	if _, err := dialect.ParseScheme(string(it.Scheme)); err != nil {
		return nil, err
	}
	switch {
	case it.Scheme.Quantized() != (it.Action == plan.Quantize):
		return nil, fmt.Errorf("action %q does not go with scheme %s", it.Action, it.Scheme)
	case (it.Dtype == safetensors.F8E4M3 && (it.Action == plan.Quantize || it.Action == plan.Widen)) != (it.SourceScale != nil):
		return nil, fmt.Errorf("action %q of a %s source: a source scale is there exactly for an FP8 source that is computed with", it.Action, it.Dtype)
	}
	kept := w.out[dialect.PartKept]
	if k == plan.KindGraft && (it.Action == plan.Quantize || it.Action == plan.Reciprocal) {
		return nil, fmt.Errorf("a graft codes nothing, and this is to %s: make the plan again", it.Action)
	}
	switch it.Action {
	case plan.Keep:
		if kept.Dtype != it.Dtype {
			return nil, errors.New("a kept tensor needs one output of its own dtype and as many elements")
		}
		if it.Record != "" && (it.Dtype != safetensors.F32 || w.bytes != 4) {
			return nil, errors.New("only one F32 number goes into the record: make the plan again")
		}
		return map[dialect.Part]int64{dialect.PartKept: w.bytes}, nil
	case plan.Cast, plan.Widen:
		from := []safetensors.Dtype{safetensors.F32, safetensors.F16}
		if it.Action == plan.Widen {
			from = []safetensors.Dtype{safetensors.F8E4M3}
		}
		if !slices.Contains(from, it.Dtype) || kept.Dtype != safetensors.BF16 {
			return nil, fmt.Errorf("action %q makes BF16 of %v, not %s of %s", it.Action, from, kept.Dtype, it.Dtype)
		}
		return map[dialect.Part]int64{dialect.PartKept: 2 * w.elements()}, nil
	case plan.Reciprocal:
		if it.Dtype != safetensors.F32 || w.bytes != 4 || len(it.Outputs) != 1 || it.Outputs[0].Dtype != safetensors.F32 {
			return nil, errors.New("a reciprocal is of one F32 number, and stored as one")
		}
		return map[dialect.Part]int64{it.Outputs[0].Part: 4}, nil
	case plan.Quantize:
		return w.codedParts()
	}
	return nil, fmt.Errorf("this version does not know action %q: make the plan again", it.Action)
}

// codedParts is parts for what is quantized.
func (w *work) codedParts() (map[dialect.Part]int64, error) {
	s := w.item.Scheme
	switch w.item.Dtype {
	case safetensors.BF16, safetensors.F16, safetensors.F32, safetensors.F8E4M3:
	default:
		return nil, fmt.Errorf("this version quantizes BF16, F16, F32 and F8_E4M3 sources, this one is %s: keep it with a name rule of the recipe", w.item.Dtype)
	}
	n := w.rows * w.cols
	scale := w.out[dialect.PartScale].Dtype
	width, _ := scale.Bits()
	var want map[dialect.Part]int64
	switch {
	case s.NVFP4():
		if w.cols%16 != 0 {
			return nil, fmt.Errorf("a row of %d values cannot be cut into blocks of 16", w.cols)
		}
		if g := w.out[dialect.PartGlobalScale].Dtype; g != safetensors.F32 {
			return nil, fmt.Errorf("a global scale is F32, not %q", g)
		}
		want = map[dialect.Part]int64{dialect.PartCodes: n / 2, dialect.PartBlockScale: n / 16, dialect.PartGlobalScale: 4}
	case scale != safetensors.BF16 && scale != safetensors.F32:
		return nil, fmt.Errorf("an FP8 scale is BF16 or F32, not %q", scale)
	case s == dialect.FP8Channel:
		want = map[dialect.Part]int64{dialect.PartCodes: n, dialect.PartScale: w.rows * width / 8}
	default:
		want = map[dialect.Part]int64{dialect.PartCodes: n, dialect.PartScale: width / 8}
	}
	input, stored := w.out[dialect.PartInputScale]
	v := w.item.InputScale
	switch {
	case stored != (v != nil):
		return nil, errors.New("an output for the input scale and its value belong together: make the plan again")
	case stored && (input.Dtype != safetensors.F32 || !(*v > 0) || *v > math.MaxFloat32):
		return nil, fmt.Errorf("the input scale %v for %s %s is not a positive F32 number", *v, input.Dtype, input.Name)
	case stored:
		want[dialect.PartInputScale] = 4
	}
	return want, nil
}

// outputBytes is the size of an output on disk.
func outputBytes(o dialect.Output) (int64, error) {
	bits, ok := o.Dtype.Bits()
	n := count(o.Shape)
	if !ok || n < 0 {
		return 0, fmt.Errorf("dtype %q or shape %v is unknown", o.Dtype, o.Shape)
	}
	return n * bits / 8, nil
}
