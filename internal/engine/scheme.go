package engine

import (
	"fmt"

	"seatsmith/internal/safetensors"
)

// Kind is what the server recognises in a group's arguments.
type Kind uint8

const (
	Plain Kind = iota // not quantized
	W4A4              // NVFP4 weights and activations
	W4A16             // NVFP4 weights, activations as they are
	FP8               // E4M3 weights, per tensor, channel or block
	Other             // recognised by the server, not simulated here
)

// Scheme is a recognised way of storing a linear. The zero value is Plain.
type Scheme struct {
	Kind     Kind
	Strategy string   // FP8: "tensor", "channel", "block"
	Block    [2]int64 // FP8 block: rows, columns
	Static   bool     // FP8: a static input scale is registered
	Name     string   // Other: the server's name for it
	ModelOpt bool     // spelled as modelopt does: weight, weight_scale, weight_scale_2, input_scale
}

func (s Scheme) String() string {
	switch s.Kind {
	case Plain:
		return "unquantized"
	case W4A4:
		return "NVFP4 W4A4"
	case W4A16:
		return "NVFP4 W4A16"
	case FP8:
		if s.Static {
			return "FP8 per " + s.Strategy + " with a static input scale"
		}
		return "FP8 per " + s.Strategy
	}
	return s.Name
}

// NVFP4 says whether weights are stored as E2M1 codes in blocks of 16.
func (s Scheme) NVFP4() bool { return s.Kind == W4A4 || s.Kind == W4A16 }

// MinCapability is the smallest CUDA compute capability (75 is sm_75) that runs the scheme; 0 where every supported card
// does. FP8 below 89 runs too, as FP8 weights with 16-bit activations.
func (s Scheme) MinCapability() int {
	switch s.Kind {
	case W4A4, W4A16, FP8:
		return 75
	}
	return 0
}

// Need is a tensor that the server registers for a shard.
type Need struct {
	Suffix string              // "weight_packed"
	Dtypes []safetensors.Dtype // exact: the loader converts every other one silently, whatever the numbers become
	Shapes [][]int64           // any of these

	Optional bool // a parameter takes the tensor, and its absence changes nothing
}

// Plain tensors may have any of these; the loader converts them to the served dtype, which is what is wanted.
var floats = []safetensors.Dtype{safetensors.BF16, safetensors.F16, safetensors.F32}

var (
	u8     = []safetensors.Dtype{safetensors.U8}
	e4m3   = []safetensors.Dtype{safetensors.F8E4M3}
	f32    = []safetensors.Dtype{safetensors.F32}
	scalar = [][]int64{{1}, {}}
)

// Tensors lists what the server registers for one shard of out × in under the scheme (vLLM 017e9f4448,
// schemes/compressed_tensors_w4a4_nvfp4.py, compressed_tensors_w8a8_fp8.py, fp8_utils.py). Tables of NVFP4 are exact.
// FP8 scales are float32 in the server; BF16 and F16 ones are converted without loss and so are good. A scheme of modelopt
// has its own names, see modelopt.
func (s Scheme) Tensors(out, in int64) []Need {
	if s.ModelOpt && s.Kind != Plain {
		return s.modelopt(out, in)
	}
	switch s.Kind {
	case W4A4, W4A16:
		n := []Need{
			need("weight_packed", u8, []int64{out, in / 2}),
			need("weight_scale", e4m3, []int64{out, in / 16}),
			need("weight_global_scale", f32, scalar...),
		}
		if s.Kind == W4A4 {
			n = append(n, need("input_global_scale", f32, scalar...))
		}
		return n
	case FP8:
		n := []Need{need("weight", e4m3, []int64{out, in})}
		switch s.Strategy {
		case "channel":
			n = append(n, need("weight_scale", floats, []int64{out, 1}))
		case "block":
			n = append(n, need("weight_scale", floats, []int64{ceil(out, s.Block[0]), ceil(in, s.Block[1])}))
		default:
			n = append(n, need("weight_scale", floats, scalar...))
		}
		if s.Static {
			n = append(n, need("input_scale", floats, scalar...))
		}
		return n
	case Other:
		return nil
	}
	return []Need{need("weight", floats, []int64{out, in})}
}

// modelopt lists what the linear methods of modelopt.py register: ModelOptNvFp4LinearMethod, …W4A16LinearMethod (which
// takes an input scale and throws it away), ModelOptFp8LinearMethod, …PcPtLinearMethod (one scale per row, in one
// dimension) and …PbWoLinearMethod (four dimensions).
func (s Scheme) modelopt(out, in int64) []Need {
	switch {
	case s.NVFP4():
		n := []Need{
			need("weight", u8, []int64{out, in / 2}),
			need("weight_scale", e4m3, []int64{out, in / 16}),
			need("weight_scale_2", f32, scalar...),
			need("input_scale", f32, scalar...),
		}
		n[3].Optional = s.Kind == W4A16
		return n
	case s.Kind != FP8:
		return nil
	}
	n := []Need{need("weight", e4m3, []int64{out, in})}
	switch s.Strategy {
	case "channel":
		return append(n, need("weight_scale", floats, []int64{out}))
	case "block":
		return append(n, need("weight_scale", floats, []int64{out / s.Block[0], 1, in / s.Block[1], 1}))
	}
	return append(n, need("weight_scale", floats, scalar...), need("input_scale", floats, scalar...))
}

func need(suffix string, dtypes []safetensors.Dtype, shapes ...[]int64) Need {
	return Need{Suffix: suffix, Dtypes: dtypes, Shapes: shapes}
}

func ceil(n, by int64) int64 { return (n + by - 1) / by }

// SchemeError is the server's refusal of a group's arguments.
type SchemeError struct {
	Group   string
	Message string
}

func (e *SchemeError) Error() string { return "group " + e.Group + ": " + e.Message }

// recognise is _get_scheme_from_parts on a card that runs every scheme.
func (q *Quantization) recognise(g *Group) (Scheme, error) {
	w, in, format := g.Weights, g.Input, q.format(g)
	refuse := func(f string, args ...any) (Scheme, error) {
		return Scheme{}, &SchemeError{g.Name, fmt.Sprintf(f, args...)}
	}
	grouped := w.Strategy == "group" || w.Strategy == "channel"
	static := w.Dynamic == "false"
	switch {
	case w.nvfp4():
		switch {
		case in == nil:
			return Scheme{Kind: W4A16}, nil
		case !in.nvfp4():
			return refuse("NVFP4 weights go with NVFP4 input_activations or none, found %s", in)
		}
		return Scheme{Kind: W4A4}, nil
	case w.Strategy == "group" && w.Symmetric && w.GroupSize == 32 && w.Type == "float" && w.NumBits == 4:
		return other("MXFP4")
	case w.Strategy == "group" && w.Symmetric && w.GroupSize == 32 && w.Type == "float" && w.NumBits == 8 && w.ScaleDtype == "uint8":
		return other("MXFP8")
	case w.Type == "float" && w.NumBits == 4 && w.Strategy == "group" && in != nil && in.NumBits == 8 && in.Strategy == "token":
		return other("W4A8 FP8")
	case w.Type == "int" && static && grouped && (format == "pack-quantized" || format == "int-quantized") && in != nil:
		return other("WNA8 integer")
	case grouped && static && in == nil && format == "pack-quantized":
		return other("WNA16")
	}
	if activationFormat(format) {
		switch {
		case w.fp8Weight() && in != nil && in.Type == "float" && (in.Dynamic != "false" || in.Symmetric && in.Strategy == "tensor"):
			return fp8(w, in.Dynamic == "false", refuse)
		case w.fp8Weight():
			// CompressedTensorsW8A16Fp8: an input scale is registered only for a static input
			return fp8(w, in != nil && in.Dynamic == "false", refuse)
		case in != nil && w.NumBits == 8 && in.NumBits == 8 && w.Symmetric && static:
			return other("W8A8 integer")
		case in != nil && w.NumBits == 4 && in.NumBits == 8 && w.Symmetric && static && in.Dynamic != "false":
			return other("W4A8 integer")
		}
	}
	return refuse("no scheme of the server fits weights (%s), input_activations (%s) and format %q%s", w, in, format, hint(w, format))
}

func fp8(w *Args, static bool, refuse func(string, ...any) (Scheme, error)) (Scheme, error) {
	if w.Strategy == "block" && static {
		return refuse("block FP8 weights do not go with a static input scale")
	}
	return Scheme{Kind: FP8, Strategy: w.Strategy, Block: w.Block, Static: static}, nil
}

func other(name string) (Scheme, error) { return Scheme{Kind: Other, Name: name}, nil }

func hint(w *Args, format string) string {
	switch {
	case w.Type == "float" && w.NumBits == 8 && !activationFormat(format):
		return `; an FP8 group needs its own "format": "float-quantized"`
	case w.Type == "float" && w.NumBits == 4:
		return "; NVFP4 is num_bits 4, type float, strategy tensor_group, group_size 16, symmetric true"
	}
	return ""
}
