package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Args is one block of quantization arguments ("weights", "input_activations"), validated as the QuantizationArgs model
// of compressed-tensors 0.18 does (src/compressed_tensors/quantization/quant_args.py).
type Args struct {
	NumBits    int64
	Type       string // "int" | "float"
	Symmetric  bool
	GroupSize  int64 // 0 when null
	Strategy   string
	Block      [2]int64 // zero unless strategy is "block"
	Dynamic    string   // "false" | "true" | "local"
	ScaleDtype string
	Unknown    []string // keys that compressed-tensors 0.18 does not know and so refuses
}

func (a *Args) String() string {
	if a == nil {
		return "none"
	}
	return fmt.Sprintf("num_bits %d, type %s, strategy %s, group_size %d, symmetric %v, dynamic %s",
		a.NumBits, a.Type, a.Strategy, a.GroupSize, a.Symmetric, a.Dynamic)
}

var strategies = []string{"tensor", "channel", "group", "block", "token", "tensor_group", "attn_head"}

// parseArgs reads a block. The error is what the model's validators refuse.
func parseArgs(v gjson.Result) (*Args, error) {
	if !v.IsObject() {
		return nil, fmt.Errorf("want an object, found %s", orNull(v))
	}
	a := &Args{NumBits: 8, Type: "int", Symmetric: true, Dynamic: "false"}
	grouped := false
	var err error
	v.ForEach(func(k, v gjson.Result) bool {
		set := v.Type != gjson.Null
		switch k.String() {
		case "num_bits":
			a.NumBits, err = wantInt("num_bits", v)
		case "type":
			a.Type = strings.ToLower(v.String())
			if a.Type != "int" && a.Type != "float" {
				err = fmt.Errorf("type %s: want \"int\" or \"float\"", orNull(v))
			}
		case "symmetric":
			if a.Symmetric = v.Bool(); !v.IsBool() {
				err = fmt.Errorf("symmetric %s: want true or false", orNull(v))
			}
		case "group_size":
			if grouped = set; set {
				if a.GroupSize, err = wantInt("group_size", v); err == nil && a.GroupSize < -1 {
					err = fmt.Errorf("group_size %d: want at least -1", a.GroupSize)
				}
			}
		case "strategy":
			if a.Strategy = strings.ToLower(v.String()); set && !slices.Contains(strategies, a.Strategy) {
				err = fmt.Errorf("strategy %s: want one of %s", orNull(v), strings.Join(strategies, ", "))
			}
		case "block_structure":
			if set {
				a.Block, err = wantBlock(v)
			}
		case "dynamic":
			switch a.Dynamic = strings.ToLower(v.String()); {
			case v.IsBool():
			case a.Dynamic != "local":
				err = fmt.Errorf("dynamic %s: want false, true or \"local\"", orNull(v))
			}
		case "scale_dtype":
			a.ScaleDtype = v.String()
		case "actorder", "zp_dtype", "observer", "observer_kwargs":
		default:
			a.Unknown = append(a.Unknown, k.String())
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	return a, a.check(grouped)
}

// check is validate_model_after: it infers a strategy that is not given and refuses combinations.
func (a *Args) check(grouped bool) error {
	if a.Strategy == "" {
		switch {
		case !grouped:
			a.Strategy = "tensor"
		case a.GroupSize > 0:
			a.Strategy = "group"
		case a.GroupSize == -1:
			a.Strategy = "channel"
		default:
			return fmt.Errorf("group_size 0 names no strategy")
		}
	}
	needsGroup := a.Strategy == "group" || a.Strategy == "tensor_group"
	switch {
	case a.Strategy == "token" && a.Dynamic == "false":
		return fmt.Errorf("strategy token needs dynamic true")
	case needsGroup && a.GroupSize <= 0:
		return fmt.Errorf("strategy %s needs a positive group_size", a.Strategy)
	case a.GroupSize > 0 && !needsGroup:
		return fmt.Errorf("group_size %d needs strategy group or tensor_group, not %s", a.GroupSize, a.Strategy)
	case a.Strategy == "block" && a.Block[0] == 0:
		return fmt.Errorf("strategy block needs block_structure [rows, cols]")
	case a.Strategy != "block" && a.Block[0] != 0:
		return fmt.Errorf("block_structure needs strategy block, not %s", a.Strategy)
	case a.Dynamic != "false" && !slices.Contains([]string{"token", "tensor", "tensor_group", "group"}, a.Strategy):
		return fmt.Errorf("dynamic %s does not go with strategy %s", a.Dynamic, a.Strategy)
	case a.Dynamic == "local" && a.Strategy != "tensor_group":
		return fmt.Errorf("dynamic \"local\" needs strategy tensor_group, not %s", a.Strategy)
	case a.Type == "float" && a.NumBits != 4 && a.NumBits != 8:
		return fmt.Errorf("num_bits %d: float is 4 or 8 bits", a.NumBits)
	}
	return nil
}

// nvfp4 is _is_nvfp4_format. The string "format" is no part of it.
func (a *Args) nvfp4() bool {
	return a != nil && a.Strategy == "tensor_group" && a.Symmetric && a.GroupSize == 16 && a.Type == "float" && a.NumBits == 4
}

// fp8Weight is the weight's half of _is_fp8_w8a8 and _is_fp8_w8a16. The number of bits is no part of it.
func (a *Args) fp8Weight() bool {
	return a.Type == "float" && a.Symmetric && a.Dynamic == "false" && (a.Strategy == "tensor" || a.Strategy == "channel" || a.Strategy == "block")
}

func wantInt(key string, v gjson.Result) (int64, error) {
	if v.Type != gjson.Number || v.Num != float64(int64(v.Num)) || v.Num < -1e15 || v.Num > 1e15 {
		return 0, fmt.Errorf("%s %s: want a whole number", key, orNull(v))
	}
	return int64(v.Num), nil
}

func wantBlock(v gjson.Result) ([2]int64, error) {
	list := v.Array()
	if !v.IsArray() || len(list) != 2 {
		return [2]int64{}, fmt.Errorf("block_structure %s: want [rows, cols]", orNull(v))
	}
	rows, err := wantInt("block_structure[0]", list[0])
	cols, err2 := wantInt("block_structure[1]", list[1])
	if err != nil || err2 != nil || rows <= 0 || cols <= 0 {
		return [2]int64{}, fmt.Errorf("block_structure %s: want two positive whole numbers", orNull(v))
	}
	return [2]int64{rows, cols}, nil
}

// orNull prints a JSON value for a message, shortened.
func orNull(v gjson.Result) string {
	s := v.Raw
	if s == "" {
		return "nothing"
	}
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return s
}
