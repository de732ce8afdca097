package verify

import (
	"context"
	"fmt"
	"slices"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
)

const (
	keptTile   = 1 << 20   // bytes of a kept tensor that are compared at once
	decodeTile = 256 << 10 // values of a quantized weight that are decoded at once (at least one row)
)

// item is a source tensor and how the folder holds it.
type item struct {
	source *model.Tensor
	module string // of the folder: the source's, or one expert's
	begin  int64  // first element of the source tensor: an expert of a stack begins inside
	rows   int64
	stored *model.Tensor // kept: the same tensor
	scheme dialect.Scheme
	kind   kind
	in     int64
	gated  int64  // head size of a q_proj that holds the output gate as well, 0 for any other
	eight  *eight // how an FP8 source is read, nil for any other
}

// recast says whether a kept tensor is stored in another dtype than the source's.
func (it *item) recast() bool { return it.source.Dtype() != it.stored.Dtype() }

// outcome is what a comparison of some rows or bytes found.
type outcome struct {
	equal     int64 // bytes compared and equal
	differ    int64 // kept: bytes that differ (values, where the dtypes do)
	at        int64 // kept: offset (index) of the first
	rounded   int64 // kept: values that are what the source's round to in BF16
	values    values
	err       numeric.Error
	query     numeric.Error // of a gated q_proj: its rows that are no gate
	gate      numeric.Error // and those that are
	rows      int64
	zeroRows  int64
	zeroAt    int64
	blocks    int64
	collapsed int64
	faintest  float32 // smallest of the largest values of the blocks that collapsed, in the source
	farRows   int64   // rows whose own error is more than coding can explain
	farAt     int64
	farMSE    float64
	amax      float32 // largest source value

	exact       bool  // coded again (exact.go); else judged by the wide bounds (wide.go)
	units       int64 // blocks (NVFP4) or rows (FP8) that were compared so
	unalike     int64 // of those, the ones that failed
	unlikeRow   int64 // where the first is
	unlikeBlock int64
	dot         float64 // source times decoded
}

func (o *outcome) merge(p outcome) {
	if o.differ == 0 {
		o.at = p.at
	}
	if o.zeroRows == 0 {
		o.zeroAt = p.zeroAt
	}
	if o.farRows == 0 {
		o.farAt, o.farMSE = p.farAt, p.farMSE
	}
	o.values.merge(p.values)
	if o.unalike == 0 {
		o.unlikeRow, o.unlikeBlock = p.unlikeRow, p.unlikeBlock
	}
	o.exact = o.exact || p.exact
	o.units += p.units
	o.unalike += p.unalike
	o.dot += p.dot
	o.equal += p.equal
	o.differ += p.differ
	o.rounded += p.rounded
	o.err.Merge(p.err)
	o.query.Merge(p.query)
	o.gate.Merge(p.gate)
	o.rows += p.rows
	o.zeroRows += p.zeroRows
	o.blocks += p.blocks
	if p.collapsed > 0 && (o.collapsed == 0 || p.faintest < o.faintest) {
		o.faintest = p.faintest
	}
	o.collapsed += p.collapsed
	o.farRows += p.farRows
	o.amax = max(o.amax, p.amax)
}

// compare holds every tensor of the source against the folder: kept ones byte for byte, quantized ones decoded.
func (j *judge) compare(ctx context.Context) error {
	j.roles = map[model.Role]*numeric.Error{}
	if !j.comparable {
		j.suspected(nil)
		return nil
	}
	items := j.items()
	j.tensors = len(items)
	j.extras()
	var tiles []span
	for i, it := range items {
		switch {
		case it.stored != nil && it.recast():
			tiles = append(tiles, spans(i, it.stored.Ref.Tensor.Elements(), keptTile/4)...)
		case it.stored != nil:
			tiles = append(tiles, spans(i, it.stored.Bytes(), keptTile)...)
		default:
			tiles = append(tiles, spans(i, it.rows, max(1, decodeTile/max(1, it.in)))...)
		}
	}
	results := make([]outcome, len(tiles))
	size := func(i int) int64 {
		if it := items[tiles[i].of]; it.stored == nil {
			return tiles[i].n * it.in * 2
		}
		return tiles[i].n
	}
	err := j.each(ctx, "compare", len(tiles), size, func(i int, b *buffers) error {
		it := items[tiles[i].of]
		var err error
		if it.stored != nil {
			results[i], err = kept(it, tiles[i], b)
		} else {
			results[i], err = j.decoded(it, tiles[i], b)
		}
		return err
	})
	if err != nil {
		return err
	}
	sums := make([]outcome, len(items))
	for i, r := range results {
		sums[tiles[i].of].merge(r)
	}
	wrong := map[string]bool{}
	j.amaxes, j.schemes = map[string]float32{}, map[string]dialect.Scheme{}
	for i := range items {
		if err := j.outcome(&items[i], &sums[i], wrong); err != nil {
			return err
		}
	}
	j.shared()
	j.suspected(wrong)
	return nil
}

// items pairs every source tensor with what the folder made of it.
func (j *judge) items() []item {
	modules := map[string]parts{}
	for i := range j.m.Tensors {
		t := &j.m.Tensors[i]
		name := moduleName(t.Name)
		if modules[name] == nil {
			modules[name] = parts{}
		}
		modules[name][t.Suffix] = t
	}
	j.modules, j.looked = modules, map[string]bool{}
	var out []item
	for i := range j.o.Source.Tensors {
		s := &j.o.Source.Tensors[i]
		if j.eights != nil && slices.Contains(besideEight, s.Suffix) {
			continue
		}
		module := moduleName(s.Name)
		same, ok := j.m.Lookup(s.Name)
		k := absent
		if s.Suffix == "weight" {
			k = kindOf(modules[module])
		}
		switch {
		case k.fp4() || k == fp8:
			if scheme, in, ok := decodable(s, s.Shape(), modules[module], k); ok {
				out = append(out, item{source: s, module: module, rows: s.Shape()[0], gated: j.gatedHead(module), scheme: scheme, kind: k, in: in, eight: j.eights[s.Name]})
			} else if !j.condemned[module] {
				j.skip("comparison of "+generic(s.Name)+": its quantized form is not one that is decoded here", true)
			}
		case k == odd:
			j.skip("comparison of quantized weights that are neither NVFP4 nor FP8", true)
		case ok:
			if !slices.Equal(s.Shape(), same.Shape()) || s.Dtype() != same.Dtype() && !((float(s) || j.eights[s.Name] != nil) && float(same)) {
				if !j.condemned[same.Module] && !j.notes.told(s.Name, "tensor-shape") {
					j.differs(s, same, fmt.Sprintf("it is stored as %s, the source has %s", shapeOf(same), shapeOf(s)))
				}
				continue
			}
			j.looked[same.Name] = true
			out = append(out, item{source: s, module: module, stored: same, kind: plain, eight: j.eights[s.Name]})
		case s.Role == model.RoleExpert && j.perExpert(s):
			out = append(out, j.experts(s)...)
		case !j.missingTold(s.Name):
			j.notes.join(part(s), playbook.New("source-missing", s.Name, "the source has the tensor and the folder does not", "write the checkpoint again from its source"))
		}
	}
	return out
}

func shapeOf(t *model.Tensor) string { return fmt.Sprintf("%s %v", t.Dtype(), t.Shape()) }

// differs notes a kept tensor that is not what the source has.
func (j *judge) differs(s, t *model.Tensor, what string) {
	j.blame(t)
	if s.Role == model.RoleHead {
		j.notes.join("", playbook.New("head-bytes", t.Name, what, "lay the head over again from the donor: drafts are accepted only as often as the head is exact"))
		return
	}
	j.notes.join("", playbook.New("kept-bytes", t.Name, what, "write the checkpoint again from its source, or name the source that it was made from"))
}
