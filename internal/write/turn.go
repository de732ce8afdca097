package write

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
)

// turn stores the reciprocal of one number, or the number that the plan knows it to be the reciprocal of, and records the
// native one: reciprocals of reciprocals are not always what they began as.
func (p *production) turn(t *tile, w *work, src []byte) error {
	stored := math.Float32frombits(binary.LittleEndian.Uint32(src))
	if !(stored > 0 && stored <= math.MaxFloat32) {
		t.u.seen(t, sight{bad: 0, value: stored, badScale: -1})
		return nil
	}
	turned := numeric.TurnScale(stored)
	native := turned
	if (p.math == numeric.CT) != (p.plan.Dialect == dialect.CompressedTensors().Name()) {
		native = stored // the source has the form of the arithmetic
	}
	if n := w.item.Native; n != nil {
		if numeric.TurnScale(*n) != stored {
			return &Refusal{Findings: []playbook.Finding{playbook.New("native-differs", w.item.Source,
				fmt.Sprintf("the tensor holds %v, and the record says that it is the reciprocal of %v, which is %v", stored, *n, numeric.TurnScale(*n)),
				"the tensor or the record was changed by somebody: quantize again, or take the record away and convert with plain reciprocals")}}
		}
		turned, native = *n, *n
	}
	module := w.item.Source[:max(strings.LastIndexByte(w.item.Source, '.'), 0)]
	o := w.item.Outputs[0]
	if o.Part == dialect.PartInputScale {
		module += plan.InputNative
	}
	p.native(module, native)
	return p.put(o.Name, binary.LittleEndian.AppendUint32(nil, math.Float32bits(turned)), 0)
}

// putInputs stores the input scales, which the plan knows.
func (p *production) putInputs() error {
	for _, w := range p.sh.works {
		o, ok := w.out[dialect.PartInputScale]
		if !ok || w.item.Action != plan.Quantize {
			continue
		}
		if err := p.put(o.Name, binary.LittleEndian.AppendUint32(nil, math.Float32bits(*w.item.InputScale)), 0); err != nil {
			return err
		}
		if w.item.Native != nil {
			p.native(w.module+plan.InputNative, *w.item.Native)
		}
	}
	return nil
}

// widens says whether some work needs a buffer for float32.
func (c *check) widens() bool {
	for _, sh := range c.shards {
		for _, w := range sh.works {
			if w.wide() && w.width < 4 {
				return true
			}
		}
	}
	return false
}

// casts counts those of the shard, by role. A widened FP8 tensor is not among them: nearly every product of code and scale
// is rounded.
func (p *production) casts() map[string]model.Rounded {
	found := map[string]model.Rounded{}
	for _, u := range p.units {
		if w := u.works[0]; w.item.Action == plan.Cast {
			c := found[string(w.item.Role)]
			found[string(w.item.Role)] = model.Rounded{Tensors: c.Tensors + 1, Values: c.Values + w.elements(), Changed: c.Changed + u.scans[0].changed}
		}
	}
	return found
}

// rounded adds up what all shards counted.
func (r *run) rounded() map[string]model.Rounded {
	sum := map[string]model.Rounded{}
	for _, l := range r.done {
		for role, c := range l.Casts {
			s := sum[role]
			sum[role] = model.Rounded{Tensors: s.Tensors + c.Tensors, Values: s.Values + c.Values, Changed: s.Changed + c.Changed}
		}
	}
	return sum
}

// tellCasts tells what was rounded, and makes a finding of what changed.
func (r *run) tellCasts() []playbook.Finding {
	sum := r.rounded()
	var out []playbook.Finding
	for _, role := range slices.Sorted(maps.Keys(sum)) {
		c := sum[role]
		r.report.emit("cast", map[string]any{"role": role, "tensors": c.Tensors, "values": c.Values, "changed": c.Changed})
		if c.Changed > 0 {
			out = append(out, playbook.New("cast-changed", "role "+role,
				fmt.Sprintf("%d of %d values in %d kept tensors changed when they were rounded to BF16", c.Changed, c.Values, c.Tensors), ""))
		}
	}
	return out
}
