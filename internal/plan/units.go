package plan

import (
	"fmt"
	"slices"
	"strings"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// unit is the weights that the server builds as one module: a fused group, or one Linear by itself.
type unit struct {
	fused   string // "" for one by itself
	members []int  // indexes into the sorted tensors
	absent  []string
}

// gather finds the units among the Linear weights, in the order of their first members.
func gather(tensors []model.Tensor, expected []model.Expected) []*unit {
	var out []*unit
	groups := map[string]*unit{}
	present := map[string]bool{}
	for i := range tensors {
		t := &tensors[i]
		switch {
		case !t.Linear:
		case t.Fused == "":
			out = append(out, &unit{members: []int{i}})
		default:
			present[t.Module] = true
			u := groups[t.Fused]
			if u == nil {
				u = &unit{fused: t.Fused}
				groups[t.Fused] = u
				out = append(out, u)
			}
			u.members = append(u.members, i)
		}
	}
	for _, e := range expected {
		if u := groups[e.Fused]; e.Linear && e.Fused != "" && u != nil && !present[e.Module] {
			u.absent = append(u.absent, e.Module)
		}
	}
	for _, u := range out {
		slices.SortFunc(u.absent, safetensors.NaturalCompare)
	}
	return out
}

// name is what findings call the unit.
func (u *unit) name(tensors []model.Tensor) string {
	if u.fused != "" {
		return u.fused
	}
	return tensors[u.members[0]].Module
}

// judge takes back choices that the server cannot serve, for the whole unit at once.
func (u *unit) judge(tensors []model.Tensor, choices []choice, notes *notes) {
	asked, explicit, refused := dialect.BF16, false, false
	for _, i := range u.members {
		if c := choices[i]; c.scheme.Quantized() {
			asked, explicit = c.scheme, explicit || c.byName
		}
		switch dtype := tensors[i].Dtype(); {
		case choices[i].scheme.Quantized() && dtype != safetensors.BF16:
			notes.at(tensors[i].Module, playbook.New("source-dtype", "", fmt.Sprintf("the weight is %s, and this version quantizes BF16 only", dtype),
				"convert the checkpoint to BF16 first, or keep these modules with a rule of scheme bf16"))
			refused = true
		case dtype != safetensors.BF16 && dtype != safetensors.F16 && dtype != safetensors.F32:
			notes.at(tensors[i].Module, playbook.New("source-dtype", "", fmt.Sprintf("the weight is %s, which is no plain float, and nothing says how to read it", dtype),
				"start from the unquantized checkpoint"))
			refused = true
		}
	}
	if refused {
		u.keep(choices, "refused: the source's dtype")
	}
	if refused || !asked.Quantized() {
		return
	}
	problem, next := u.problem(tensors, choices)
	if problem == "" {
		if in := tensors[u.members[0]].Shape()[1]; asked.NVFP4() && in%32 != 0 {
			notes.at(u.name(tensors), playbook.New("width-kernel", "", fmt.Sprintf("in is %d, and %d mod 32 = %d; kernels pad such widths, and some padded wrongly", in, in, in%32),
				"compare the served output with a run under --linear-backend marlin, or keep the module with a rule of scheme bf16"))
		}
		return
	}
	message := fmt.Sprintf("%s cannot be served here: %s", asked, problem)
	if explicit {
		notes.at(u.name(tensors), playbook.New("scheme-unservable", "", message+"; a rule names it, so it is refused", next))
	} else {
		if len(u.members) > 1 {
			message += "; the whole fused group stays BF16"
		} else {
			message += "; it stays BF16"
		}
		notes.at(u.name(tensors), playbook.New("plan-kept", "", message, next))
	}
	u.keep(choices, "kept: "+problem)
}

// keep takes back the choices that quantize.
func (u *unit) keep(choices []choice, reason string) {
	for _, i := range u.members {
		if choices[i].scheme.Quantized() {
			choices[i].scheme, choices[i].reason = dialect.BF16, reason
		}
	}
}

// problem says why the server cannot take what the choices ask, and what to do; "" when it can.
func (u *unit) problem(tensors []model.Tensor, choices []choice) (problem, next string) {
	if len(u.absent) > 0 {
		leaves := make([]string, len(u.absent))
		for i, m := range u.absent {
			leaves[i] = leaf(m)
		}
		return fmt.Sprintf("the server fuses it with %s, which the checkpoint lacks", strings.Join(leaves, " and ")), "complete the checkpoint"
	}
	first := choices[u.members[0]].scheme
	if slices.ContainsFunc(u.members, func(i int) bool { return choices[i].scheme != first }) {
		parts := make([]string, len(u.members))
		for k, i := range u.members {
			parts[k] = leaf(tensors[i].Module) + " is " + string(choices[i].scheme)
		}
		return fmt.Sprintf("%s, and the server gives all of them one scheme", strings.Join(parts, ", ")), "give all of them the same scheme"
	}
	for _, i := range u.members {
		t := &tensors[i]
		shape := t.Shape()
		if len(shape) != 2 || shape[0] <= 0 || shape[1] <= 0 {
			return fmt.Sprintf("%s has shape %v, which is no matrix", leaf(t.Module), shape), "keep it with a rule of scheme bf16"
		}
		if in := shape[1]; first.NVFP4() && in%16 != 0 {
			return fmt.Sprintf("in of %s is %d, and %d mod 16 = %d", leaf(t.Module), in, in, in%16), "use fp8-channel for it, or keep it with a rule of scheme bf16"
		}
	}
	return "", ""
}

func leaf(module string) string { return module[strings.LastIndexByte(module, '.')+1:] }
