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

// unit is the weights that the server builds as one module, which has one scheme: a fused group, the routed experts of a
// layer, or one Linear by itself. Who shares a global scale is another question: each expert has its own.
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
		case together(t.Module, t.Fused) == "":
			out = append(out, &unit{members: []int{i}})
		default:
			present[t.Module] = true
			name := together(t.Module, t.Fused)
			u := groups[name]
			if u == nil {
				u = &unit{fused: name}
				groups[name] = u
				out = append(out, u)
			}
			u.members = append(u.members, i)
		}
	}
	for _, e := range expected {
		if name := together(e.Module, e.Fused); e.Linear && name != "" && groups[name] != nil && !present[e.Module] {
			groups[name].absent = append(groups[name].absent, e.Module)
		}
	}
	for _, u := range out {
		slices.SortFunc(u.absent, safetensors.NaturalCompare)
	}
	return out
}

// together names what the server builds of a module and others, "" when it builds it alone.
func together(module, fused string) string {
	if experts := routed(module); experts != "" {
		return experts
	}
	return fused
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
	asked, refused := dialect.BF16, false
	for _, i := range u.members {
		if c := choices[i]; c.scheme.Quantized() {
			asked = c.scheme
		}
		switch dtype := tensors[i].Dtype(); {
		case dtype != safetensors.BF16 && dtype != safetensors.F16 && dtype != safetensors.F32 && dtype != safetensors.F8E4M3: // see dtypes
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
		if in := width(&tensors[u.members[0]]); asked.NVFP4() && in%32 != 0 {
			notes.at(u.name(tensors), playbook.New("width-kernel", "", fmt.Sprintf("in is %d, and %d mod 32 = %d; kernels pad such widths, and some padded wrongly", in, in, in%32),
				"compare the served output with a run under --linear-backend marlin, or keep the module with a rule of scheme bf16"))
		}
		return
	}
	u.takeBack(tensors, choices, notes, fmt.Sprintf("%s cannot be served here: %s", asked, problem), next)
}

// takeBack keeps the unit and says why: a role rule that meets what cannot be keeps the whole unit, an explicit name rule
// is refused, because somebody asked for exactly that.
func (u *unit) takeBack(tensors []model.Tensor, choices []choice, notes *notes, why, next string) {
	explicit := slices.ContainsFunc(u.members, func(i int) bool { return choices[i].scheme.Quantized() && choices[i].byName })
	switch {
	case explicit:
		notes.at(u.name(tensors), playbook.New("scheme-unservable", "", why+"; a rule names it, so it is refused", next))
	case u.fused != "":
		notes.at(u.name(tensors), playbook.New("plan-kept", "", why+"; the whole fused group stays BF16", next))
	default:
		notes.at(u.name(tensors), playbook.New("plan-kept", "", why+"; it stays BF16", next))
	}
	u.keep(choices, "kept: "+why)
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
			if routed(m) != "" {
				leaves[i] = m
			}
		}
		return fmt.Sprintf("the server fuses it with %s, which the checkpoint lacks", listedAnd(leaves)), "complete the checkpoint"
	}
	first := choices[u.members[0]].scheme
	if slices.ContainsFunc(u.members, func(i int) bool { return choices[i].scheme != first }) {
		return fmt.Sprintf("%s, and the server gives all of them one scheme", describe(tensors, choices, u.members)), "give all of them the same scheme"
	}
	for _, i := range u.members {
		t := &tensors[i]
		shape := t.Shape()
		if !stacked(t) && (len(shape) != 2 || shape[0] <= 0 || shape[1] <= 0) {
			return fmt.Sprintf("%s has shape %v, which is no matrix", leaf(t.Module), shape), "keep it with a rule of scheme bf16"
		}
		if in := width(t); first.NVFP4() && in%16 != 0 {
			return fmt.Sprintf("in of %s is %d, and %d mod 16 = %d", leaf(t.Module), in, in, in%16), "use fp8 for it, or keep it with a rule of scheme bf16"
		}
	}
	return "", ""
}

func leaf(module string) string { return module[strings.LastIndexByte(module, '.')+1:] }

// width is the number of inputs of a weight: the last dimension of a matrix, and of stacked matrices.
func width(t *model.Tensor) int64 {
	shape := t.Shape()
	return shape[len(shape)-1]
}

// listedAnd joins a few names with "and".
func listedAnd(names []string) string {
	if len(names) > 4 {
		return listed(names, 3)
	}
	return strings.Join(names, " and ")
}
