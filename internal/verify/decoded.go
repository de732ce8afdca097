package verify

import (
	"fmt"
	"math"
	"slices"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// Largest relative mean squared error of one tensor that its coding can explain. More means that codes, scales or
// tensors were mixed up, not that the numbers are coarse.
//
// NVFP4: a block of 16 is coded as E2M1 times a scale; let its largest value be 6 in units of the scale. The value of a
// half step between neighbours is lost at most: 1 between 4 and 6, 0.5 between 2 and 4, 0.25 below. The worst block has
// one 6 and fifteen values at such a midpoint: 15·1²/(6²+15·5²) = 0.036, 15·0.5²/(6²+15·2.5²) = 0.029,
// 15·0.25²/(6²+15·0.25²) = 0.025. Rounding the scale to E4M3 moves the 6 to at most 6.4, which is clipped: 0.16 more of
// at least 36, so 0.004. Together 0.040. Searched scales lower it. Trained weights give 0.008 to 0.009; swapped nibbles
// give about 2, scales of other blocks 0.1 and more. Blocks whose scale is subnormal are coarser, but they are at least
// 28,672 times smaller than the largest block.
//
// FP8: E4M3 has 3 bits of mantissa, so half a step is at most 1/16 of the value: 1/256 = 0.0039, and 0.0044 with the
// second rounding over BF16. Trained weights give 0.0007.
// Both bounds hold for every row as well, where scales are not subnormal, so rows are judged one by one too.
const (
	boundNVFP4 = 0.05
	boundFP8   = 0.005
)

// mostClipped is how far the largest weight may lie above what the global scale can express (448 times 6 times the
// multiplier). compressed-tensors rounds its divisor to BF16 twice, so up to 2^-8 and 2^-8: under 1 %.
const mostClipped = 1.02

// decodable says how a module's tensors are decoded for a source weight [out, in]; ok is false when a part is missing,
// of another dtype or shape.
func decodable(s *model.Tensor, shape []int64, p parts, k kind) (scheme dialect.Scheme, in int64, ok bool) {
	if len(shape) != 2 || !float(s) && s.Dtype() != safetensors.F8E4M3 {
		return "", 0, false
	}
	out, in := shape[0], shape[1]
	is := func(attr string, d safetensors.Dtype, shapes ...[]int64) bool {
		t := p[attr]
		return t != nil && t.Dtype() == d && slices.ContainsFunc(shapes, func(x []int64) bool { return slices.Equal(x, t.Shape()) })
	}
	if k.fp4() {
		n := k.spelling()
		ok := in%16 == 0 && is(n.codes, safetensors.U8, []int64{out, in / 2}) &&
			is("weight_scale", safetensors.F8E4M3, []int64{out, in / 16}) && is(n.global, safetensors.F32, []int64{1}, []int64{})
		return dialect.NVFP4W4A16, in, ok
	}
	scale := p["weight_scale"]
	if !is("weight", safetensors.F8E4M3, shape) || scale == nil || !float(scale) {
		return "", 0, false
	}
	switch {
	case slices.Equal(scale.Shape(), []int64{out, 1}), out > 1 && slices.Equal(scale.Shape(), []int64{out}):
		return dialect.FP8Channel, in, true
	case scale.Ref.Tensor.Elements() == 1 && len(scale.Shape()) < 2:
		return dialect.FP8Tensor, in, true
	}
	return "", 0, false
}

// decoded compares some rows of a quantized weight with its source.
func (j *judge) decoded(it item, at span, b *buffers) (outcome, error) {
	width := width(it.reads())
	src, err := it.load(at.off*it.in, at.n*it.in, b)
	if err != nil {
		return outcome{}, err
	}
	dst := b.floats(at.n * it.in)
	module := it.module
	stored := raw{}
	if err := it.kind.spelling().dialect.Decode(dst, module, it.scheme, it.in, at.off, at.n, stored.listen(j.read)); err != nil {
		return outcome{}, err
	}
	o := outcome{rows: at.n, exact: j.exactly(it)}
	if o.exact {
		o.again(j, it, at, src, stored)
	}
	for r := range at.n {
		row, source := dst[r*it.in:(r+1)*it.in], src[r*it.in*width:(r+1)*it.in*width]
		amax := o.row(j, it, at.off+r, row, source)
		if o.exact {
			continue
		}
		var scales []byte
		if it.kind.fp4() {
			scales = stored[module+".weight_scale"][r*it.in/16 : (r+1)*it.in/16]
		}
		o.wide(it, at.off+r, row, source, scales, j.divisor(module), amax)
	}
	return o, nil
}

// row judges one decoded row against its source, of which it returns the largest magnitude.
func (o *outcome) row(j *judge, it item, n int64, row []float32, source []byte) float32 {
	d := it.reads()
	e := difference(row, source, d)
	amax := largest(d, source)
	o.err.Merge(e)
	switch {
	case it.isGate(n):
		o.gate.Merge(e)
	case it.gated > 0:
		o.query.Merge(e)
	}
	o.amax = max(o.amax, amax)
	floor := j.floor(it, n)
	if amax > 0 && amax >= floor && zero(row) {
		if o.zeroRows == 0 {
			o.zeroAt = n
		}
		o.zeroRows++
		return amax
	}
	if mse := e.RelativeMSE(); amax >= j.coarse(it) && !(mse <= bound(it.kind)) {
		if o.farRows == 0 {
			o.farAt, o.farMSE = n, mse
		}
		o.farRows++
	}
	if !it.kind.fp4() {
		return amax
	}
	width := int64(len(source)) / max(1, it.in)
	o.blocks += it.in / 16
	for i := int64(0); i < it.in; i += 16 {
		if !zero(row[i : i+16]) {
			continue
		}
		if most := largest(d, source[i*width:(i+16)*width]); most > 0 {
			if o.collapsed == 0 || most < o.faintest {
				o.faintest = most
			}
			o.collapsed++
		}
	}
	return amax
}

// read is the dialect's way to the folder's bytes.
func (j *judge) read(name string, p []byte, off int64) (safetensors.Dtype, error) {
	t, ok := j.m.Lookup(name)
	if !ok {
		return "", fmt.Errorf("tensor %s is not in the folder", name)
	}
	if len(p) == 0 {
		return t.Dtype(), nil
	}
	return t.Dtype(), t.ReadAt(p, off)
}

// floor is the largest value that may honestly become zero, with room for rounding. NVFP4: a quarter of the smallest
// scale that a quantizer writes for a block that underflows (0.125, compressed-tensors; modelopt's is smaller). FP8 per
// tensor: half of E4M3's smallest step. FP8 per channel codes the largest value of a row as 448, so nothing may.
func (j *judge) floor(it item, row int64) float32 {
	switch module := it.module; it.scheme {
	case dialect.NVFP4W4A16:
		if g := j.divisor(module); g > 0 {
			return 1.05 * 0.25 * 0.125 / g
		}
	case dialect.FP8Tensor:
		var p [4]byte
		if t, ok := j.m.Lookup(module + ".weight_scale"); ok && t.ReadAt(p[:t.Bytes()], 0) == nil {
			return 1.05 * floatAt(t.Dtype(), p[:]) / 1024
		}
	}
	return 0
}

// coarse is the largest value of a row below which the row's own error says nothing: its scales may be subnormal. NVFP4:
// rows whose largest value is at least 1/448 of the group's lie 64 times inside the window of 28,672. FP8 per channel
// has a scale for each row; per tensor only the tensor as a whole is judged.
func (j *judge) coarse(it item) float32 {
	switch it.scheme {
	case dialect.NVFP4W4A16:
		if g := j.divisor(it.module); g > 0 {
			return 2688 / 448 / g
		}
	case dialect.FP8Channel:
		return 0
	}
	return float32(math.Inf(1))
}

func bound(k kind) float64 {
	if k.fp4() {
		return boundNVFP4
	}
	return boundFP8
}

func zero(values []float32) bool {
	for _, v := range values {
		if v != 0 {
			return false
		}
	}
	return true
}

// largest is the largest magnitude of source values.
func largest(d safetensors.Dtype, p []byte) float32 {
	var most float32
	if d == safetensors.BF16 {
		most, _ = numeric.AmaxBF16(p)
		return most
	}
	width := 2
	if d == safetensors.F32 {
		width = 4
	}
	for i := 0; i+width <= len(p); i += width {
		if v := floatAt(d, p[i:]); v > most {
			most = v
		} else if -v > most {
			most = -v
		}
	}
	return most
}

// difference sums the differences of one row. BF16 sources take the fast path of package numeric.
func difference(row []float32, source []byte, d safetensors.Dtype) (e numeric.Error) {
	if d == safetensors.BF16 {
		e.AddBF16(row, source)
		return e
	}
	width := len(source) / max(1, len(row))
	for i, v := range row {
		ref := float64(floatAt(d, source[i*width:]))
		diff := float64(v) - ref
		e.SumSq += diff * diff
		e.SumRef += ref * ref
		if a := math.Abs(diff); a > e.MaxAbs {
			e.MaxAbs = a
		}
		e.N++
	}
	return e
}

// outcome judges one tensor. wrong collects modules whose values are too far off to be coding.
func (j *judge) outcome(it *item, o *outcome, wrong map[string]bool) error {
	j.report.BytesIdentical += o.equal
	if it.stored != nil {
		return j.keptOutcome(it, o)
	}
	j.codedOutcome(it, o, wrong)
	return nil
}

// keptOutcome judges a tensor that was not quantized.
func (j *judge) keptOutcome(it *item, o *outcome) error {
	s, name := it.source, it.stored.Name
	switch {
	case o.differ > 0 && it.recast():
		j.differs(s, it.stored, fmt.Sprintf("it is stored as %s, the source has %s, and %d of its %d values differ, the first at index %d",
			it.stored.Dtype(), s.Dtype(), o.differ, it.stored.Ref.Tensor.Elements(), o.at))
	case o.differ > 0:
		j.differs(s, it.stored, fmt.Sprintf("%d of its %d bytes differ from the source, the first at byte %d", o.differ, it.stored.Bytes(), o.at))
	case it.recast() && it.stored.Dtype() == safetensors.BF16:
		j.notes.join(string(s.Dtype()), playbook.New("kept-rounded", name,
			fmt.Sprintf("it is stored as BF16, the source has %s: %d of its %d values were rounded, to nearest, the others are equal", s.Dtype(), o.rounded, it.stored.Ref.Tensor.Elements()),
			"nothing: a server that computes in BF16 rounds the same values"))
	case it.recast():
		j.notes.join(string(it.stored.Dtype()), playbook.New("kept-widened", name,
			fmt.Sprintf("it is stored as %s, the source has %s; all its values are equal", it.stored.Dtype(), s.Dtype()),
			"nothing, or store it as the source has it to save the bytes"))
	}
	like, err := it.likeSource(o.values)
	if err != nil {
		return err
	}
	if o.differ == 0 && !o.values.filled {
		like = ", as in the source"
	}
	j.keptValues(it.stored, o.values, like)
	return nil
}

// codedOutcome judges a quantized one.
func (j *judge) codedOutcome(it *item, o *outcome, wrong map[string]bool) {
	s, name := it.source, it.name()
	module := it.module
	mse, bound := o.err.RelativeMSE(), bound(it.kind)
	far := !(mse <= bound)
	if far {
		wrong[module] = true
	}
	if finite(mse) {
		if j.roles[s.Role] == nil {
			j.roles[s.Role] = &numeric.Error{}
		}
		j.roles[s.Role].Merge(o.err)
		j.halves(it, o)
	}
	if far && slices.Contains(j.suspects, module) {
		j.faulty[module] = true // the source confirms the suspicion of an inverted scale, which then is the finding
		j.blameModule(module)
	}
	if j.faulty[module] {
		return
	}
	clipped := float32(0)
	if g := j.divisor(module); it.kind.fp4() && g > 0 {
		clipped = o.amax * g / 2688
	}
	if o.zeroRows > 0 || o.collapsed > 0 || o.farRows > 0 || far || clipped > mostClipped {
		j.blameModule(module)
	}
	switch {
	case o.zeroRows > 0:
		j.notes.join("", playbook.New("zero-row", name,
			fmt.Sprintf("%d of %d rows are zero throughout although the source's are not, the first is row %d", o.zeroRows, it.rows, o.zeroAt),
			"quantize the module again from the source"))
	case o.collapsed > 0:
		delete(j.subnormal, module)
		ratio := ""
		if g := j.divisor(module); g > 0 {
			ratio = fmt.Sprintf(" (largest value of the group %.4g, of the faintest such block %.4g: a ratio of %.3g, and up to 28,672 goes well)",
				2688/g, o.faintest, 2688/g/o.faintest)
		}
		j.notes.join("zero", playbook.New("block-collapsed", name,
			fmt.Sprintf("%d of %d blocks are zero throughout although the source's are not%s", o.collapsed, o.blocks, ratio),
			"keep the tensor (and its fused partners) in BF16 or FP8, or repair the outlier in the source").As(playbook.Error))
	case far:
		j.notes.join(it.kind.String(), playbook.New("error-bound", name,
			fmt.Sprintf("its relative mean squared error is %.4g, %s explains at most %g: codes, scales or tensors are mixed up", mse, it.kind, bound),
			"quantize the module again from the source, or name the source that it was made from"))
	case o.farRows > 0:
		j.notes.join(it.kind.String()+" rows", playbook.New("error-bound", name,
			fmt.Sprintf("%d of %d rows are farther from the source than %s explains (%g), the first is row %d with %.4g", o.farRows, o.rows, it.kind, bound, o.farAt, o.farMSE),
			"quantize the module again from the source, or name the source that it was made from"))
	case clipped > mostClipped:
		j.notes.join("", playbook.New("scale-clips", name,
			fmt.Sprintf("its largest value is %.4g, and the stored global scale leaves room up to %.4g: what is above is cut off", o.amax, o.amax/clipped),
			"quantize the group again with the largest value of all its members"))
	case o.exact && o.unalike > 0:
		j.codesDiffer(it, o)
	case !o.exact:
		j.tooWide(it, o)
	}
	if o.exact && o.unalike == 0 && clipped <= mostClipped {
		j.amaxes[module], j.schemes[module] = o.amax, it.scheme
	}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// suspected tells of inverted global scales and of blocks outside the window, once it is known what the source says.
func (j *judge) suspected(wrong map[string]bool) {
	for _, module := range j.suspects {
		name, g := module+".weight_global_scale", j.globals[module+".weight_global_scale"]
		how := fmt.Sprintf("as a divisor that means a largest weight of %.4g, as modelopt's multiplier one of %.4g", 2688/g, 2688*g)
		if m, ok := j.globals[module+".weight_scale_2"]; ok {
			name, g = module+".weight_scale_2", m
			how = fmt.Sprintf("as a multiplier that means a largest weight of %.4g, as compressed-tensors' divisor one of %.4g", 2688*g, 2688/g)
		}
		f := playbook.New("scale-inverted", name, fmt.Sprintf("it is %v; %s", g, how),
			"store the reciprocal: compressed-tensors divides by 2688/amax, modelopt multiplies by amax/2688")
		if wrong[module] {
			f = f.As(playbook.Error)
			f.Message += "; decoded so, the weights are not the source's"
		}
		j.notes.join("", f)
	}
	for i := range j.m.Tensors {
		module := moduleName(j.m.Tensors[i].Name)
		n, ok := j.subnormal[module]
		if !ok || j.faulty[module] {
			continue
		}
		delete(j.subnormal, module)
		j.notes.join("window", playbook.New("block-collapsed", module+".weight_scale",
			fmt.Sprintf("%d of %d blocks lie more than 28,672 times below the largest value of their group, the faintest about %.0f times: their scales are subnormal and coarse", n.some, n.of, n.ratio()),
			"keep the tensor (and its fused partners) in BF16 or FP8, or repair the outlier in the source").As(playbook.Warning))
	}
}
