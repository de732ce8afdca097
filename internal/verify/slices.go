package verify

import (
	"fmt"
	"strings"

	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
)

// Sources hold the routed experts of a layer in two stacks, gate_up_proj [E, 2I, H] (of each expert first the rows of its
// gate, then those of up) and down_proj [E, H, I]; servers read quantized experts one by one. Each expert's tensors are
// compared with their slice of the stack (vLLM 017e9f4448, layers/fused_moe/routed_experts.py load_weights: chunk(2, dim=1)).

// perExpert says whether the experts of a stack are stored one by one.
func (j *judge) perExpert(s *model.Tensor) bool {
	prefix := moduleName(s.Name) + ".0."
	for _, p := range projections(s) {
		if _, ok := j.modules[prefix+p]; ok {
			return true
		}
	}
	return false
}

// projections are what a stack holds of each expert, in order; nil for a tensor that is no stack.
func projections(s *model.Tensor) []string {
	shape := s.Shape()
	switch {
	case len(shape) != 3:
	case strings.HasSuffix(s.Name, ".gate_up_proj") && shape[1]%2 == 0:
		return []string{"gate_proj", "up_proj"}
	case strings.HasSuffix(s.Name, ".down_proj"):
		return []string{"down_proj"}
	}
	return nil
}

// experts pairs every slice of a stack with the expert's own tensors.
func (j *judge) experts(s *model.Tensor) []item {
	names, shape := projections(s), s.Shape()
	rows, in := shape[1]/int64(len(names)), shape[2]
	var out []item
	begin := int64(0)
	for e := range shape[0] {
		for _, p := range names {
			module := fmt.Sprintf("%s.%d.%s", moduleName(s.Name), e, p)
			it := item{source: s, module: module, begin: begin, rows: rows, in: in, eight: j.eights[s.Name]}
			begin += rows * in
			have := j.modules[module]
			k := kindOf(have)
			scheme, _, fits := decodable(s, []int64{rows, in}, have, k)
			stored := have["weight"]
			switch {
			case (k.fp4() || k == fp8) && fits:
				it.scheme, it.kind = scheme, k
			case k == plain && stored.Ref.Tensor.Elements() == rows*in && (float(s) || it.eight != nil):
				it.stored, it.kind = stored, plain
				j.looked[stored.Name] = true
			case k == absent || j.condemned[module] || j.notes.told(module+".weight", "tensor-missing", "tensor-shape"):
				continue // the server's list of tensors tells of it
			default:
				j.skip("comparison of "+generic(module)+": its form is not one that is decoded here", true)
				continue
			}
			out = append(out, it)
		}
	}
	return out
}

// name is the weight that a finding is about: the source's name, or the expert's own.
func (it *item) name() string { return it.module + ".weight" }

// gatedHead is the head size of a q_proj whose rows are, head by head, a query and its output gate (attn_output_gate;
// vLLM 017e9f4448, models/qwen3_next.py Qwen3NextAttention.forward: view(heads, 2*head_dim), chunk), 0 for any other.
func (j *judge) gatedHead(module string) int64 {
	if j.srv == nil || !j.srv.Arch.AttnGate || !strings.HasSuffix(module, ".self_attn.q_proj") {
		return 0
	}
	return j.srv.Arch.HeadDim
}

// isGate says whether a row of a gated q_proj is one of the gate's.
func (it *item) isGate(row int64) bool { return it.gated > 0 && row%(2*it.gated) >= it.gated }

// halves adds the error of a gated q_proj to the sums of its two halves: noise in the gate costs far more than noise in
// the query, and one number for both hides it (NVIDIA/Model-Optimizer#2091).
func (j *judge) halves(it *item, o *outcome) {
	if it.gated == 0 {
		return
	}
	if j.gates == nil {
		j.gates = map[string]*numeric.Error{"q_proj.query": {}, "q_proj.gate": {}}
	}
	j.gates["q_proj.gate"].Merge(o.gate)
	j.gates["q_proj.query"].Merge(o.query)
}
