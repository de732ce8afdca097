package verify

import "seatsmith/internal/engine"

// expertTensors checks the two 3-D tensors that hold all experts of a layer, the unquantized form.
func (j *judge) expertTensors(l *engine.Linear, i int) {
	if len(l.Shards) < 3 {
		return
	}
	n, gate, down := int64(len(l.Shards)/3), l.Shards[0], l.Shards[2]
	for _, e := range []struct {
		attr  string
		shape []int64
	}{{"gate_up_proj", []int64{n, 2 * gate.Out, gate.In}}, {"down_proj", []int64{n, down.Out, down.In}}} {
		if t := j.fusedExperts[i][e.attr]; t != nil {
			j.exact(t, engine.Need{Suffix: t.Suffix, Dtypes: plainDtypes, Shapes: [][]int64{e.shape}})
		}
	}
}
