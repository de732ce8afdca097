package plan

import (
	"fmt"
	"strconv"
	"strings"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
)

// piece is a weight as it will be quantized: a tensor, or one projection of one expert of a 3-D tensor.
type piece struct {
	module string // of the output, without ".weight"
	fused  string // modules with the same fused spelling share one global scale; "" for none
	begin  int64  // first element of the source tensor
	shape  []int64
}

// expertsPart stands between a layer and the number of a routed expert in names.
const expertsPart = ".experts."

// routed is the name under which the server builds all routed experts of a layer, "" for another module. It builds them as
// one module with one scheme (vLLM 017e9f4448, layers/fused_moe RoutedExperts), however they are stored.
func routed(module string) string {
	if at := strings.Index(module, expertsPart); at >= 0 {
		return module[:at+len(expertsPart)-1]
	}
	return ""
}

// stacked says whether a tensor holds a projection of all routed experts of a layer, stacked: gate_up_proj [E, 2I, H], of
// which the first I rows of each expert are its gate and the others its up projection, or down_proj [E, H, I]
// (vLLM 017e9f4448, layers/fused_moe/routed_experts.py RoutedExperts.load_weights: chunk(2, dim=1)). Other families store
// them transposed or interleaved; only these names and this order are known to be right.
func stacked(t *model.Tensor) bool {
	shape := t.Shape()
	if len(shape) != 3 || shape[0] <= 0 || shape[1] <= 0 || shape[2] <= 0 || t.Module != t.Base {
		return false
	}
	switch leaf(t.Module) {
	case "gate_up_proj":
		return routed(t.Module) != "" && shape[1]%2 == 0
	case "down_proj":
		return routed(t.Module) != ""
	}
	return false
}

// pieces cuts a tensor that is to be quantized into what loaders ask for: per expert gate_proj, up_proj and down_proj. Both
// peers write experts so, and every version of the server reads them so; global and input scales have no stacked form.
func pieces(t *model.Tensor) []piece {
	shape := t.Shape()
	if !stacked(t) {
		return []piece{{module: t.Module, fused: t.Fused, shape: append([]int64{}, shape...)}}
	}
	experts := routed(t.Module)
	rows, width := shape[1], shape[2]
	names := []string{"down_proj"}
	if leaf(t.Module) == "gate_up_proj" {
		names, rows = []string{"gate_proj", "up_proj"}, rows/2
	}
	out := make([]piece, 0, shape[0]*int64(len(names)))
	var begin int64
	for e := range shape[0] {
		prefix := experts + "." + strconv.FormatInt(e, 10) + "."
		for _, name := range names {
			p := piece{module: prefix + name, begin: begin, shape: []int64{rows, width}}
			if len(names) == 2 {
				p.fused = prefix + "gate_up_proj"
			}
			out = append(out, p)
			begin += rows * width
		}
	}
	return out
}

// asked lists the names under which a server asks for a kept module. For experts in one 3-D tensor they are those of the
// first expert, which stand for all of them (vLLM 017e9f4448, CompressedTensorsMoEMethod.get_moe_method; R28); the name of
// the stack itself is asked for by nobody.
func asked(t *model.Tensor) []string {
	if !stacked(t) {
		return []string{t.Module}
	}
	first := routed(t.Module) + ".0."
	if leaf(t.Module) == "gate_up_proj" {
		return []string{first + "gate_proj", first + "up_proj"}
	}
	return []string{first + "down_proj"}
}

// modules lists every Linear for the configuration: quantized experts one by one, kept ones as a server asks for them.
func (src source) modules(tensors []model.Tensor, choices []choice) []dialect.Module {
	var out []dialect.Module
	for i := range tensors {
		t := &tensors[i]
		if !t.Linear {
			if src.plain(t) {
				out = append(out, dialect.Module{Name: t.Module, Scheme: dialect.BF16, Plain: true, Unread: src.unread})
			}
			continue
		}
		m := dialect.Module{Unread: src.unread, Name: t.Module, Fused: t.Fused, Scheme: choices[i].scheme, Head: t.Role == model.RoleHead, Vision: t.Role == model.RoleVision}
		if !m.Scheme.Quantized() {
			for _, name := range asked(t) {
				m.Name = name
				out = append(out, m)
			}
			continue
		}
		for _, piece := range pieces(t) {
			m.Name, m.Fused = piece.module, piece.fused
			out = append(out, m)
		}
	}
	return out
}

// plain says whether a tensor is the weight of a module that other runtimes might take for a Linear: both peers name these
// in their lists. Of a class that nobody read it may be any matrix.
func (src source) plain(t *model.Tensor) bool {
	switch t.Role {
	case model.RoleRouter, model.RoleConv, model.RoleEmbedding:
		return t.Suffix == "weight" && t.Module != ""
	}
	return src.unread && t.Suffix == "weight" && t.Module != "" && len(t.Shape()) == 2
}

// Module is the module whose weight an item quantizes, without ".weight"; for experts that are stacked in the source it is
// the one of the output. It is "" for an item that is not quantized.
func (item *Item) Module() string {
	if !item.Scheme.Quantized() {
		return ""
	}
	for _, o := range item.Outputs {
		if o.Part == dialect.PartCodes {
			return o.Name[:strings.LastIndexByte(o.Name, '.')]
		}
	}
	return ""
}

// describe counts the schemes of many modules: "gate_proj is nvfp4-w4a16, up_proj is bf16" for a few, counts for experts.
func describe(tensors []model.Tensor, choices []choice, members []int) string {
	var parts []string
	if len(members) <= 4 {
		for _, i := range members {
			parts = append(parts, leaf(tensors[i].Module)+" is "+string(choices[i].scheme))
		}
		return strings.Join(parts, ", ")
	}
	count := map[string]int{}
	var order []string
	for _, i := range members {
		k := leaf(tensors[i].Module) + "\x00" + string(choices[i].scheme)
		if count[k] == 0 {
			order = append(order, k)
		}
		count[k]++
	}
	for _, k := range order {
		name, scheme, _ := strings.Cut(k, "\x00")
		parts = append(parts, fmt.Sprintf("%d x %s %s", count[k], name, scheme))
	}
	return strings.Join(parts, ", ")
}
