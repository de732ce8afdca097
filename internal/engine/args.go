package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Args is one block of quantization arguments ("weights", "input_activations"), validated as the QuantizationArgs model
// of compressed-tensors 0.18 does (src/compressed_tensors/quantization/quant_args.py; a pydantic model in lax mode that
// forbids unknown keys).
type Args struct {
	NumBits    int64
	Type       string // "int" | "float"
	Symmetric  bool
	GroupSize  int64 // 0 when null
	Strategy   string
	Block      [2]int64 // zero unless strategy is "block"
	Dynamic    string   // "false" | "true" | "local"
	ScaleDtype string   // without "torch."
	Unknown    []string // keys that compressed-tensors 0.18 does not know and so refuses

	grouped  bool // group_size is not null
	actorder bool // activation order "group" (or its alias "dynamic")
	zpDtype  bool // zp_dtype is given
}

func (a *Args) String() string {
	if a == nil {
		return "none"
	}
	return fmt.Sprintf("num_bits %d, type %s, strategy %s, group_size %d, symmetric %v, dynamic %s",
		a.NumBits, a.Type, a.Strategy, a.GroupSize, a.Symmetric, a.Dynamic)
}

var (
	strategies = []string{"tensor", "channel", "group", "block", "token", "tensor_group", "attn_head"}
	actorders  = []string{"group", "weight", "dynamic", "static"}
)

// parseArgs reads a block. The error is what the model's validators refuse.
func parseArgs(v gjson.Result) (*Args, error) {
	if !v.IsObject() {
		return nil, fmt.Errorf("want an object, found %s", orNull(v))
	}
	a := &Args{NumBits: 8, Type: "int", Symmetric: true, Dynamic: "false"}
	var err error
	v.ForEach(func(k, v gjson.Result) bool {
		err = a.field(k.String(), v)
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	return a, a.check()
}

// field reads one key.
func (a *Args) field(key string, v gjson.Result) error {
	want := func(ok bool, what string) error {
		if ok {
			return nil
		}
		return fmt.Errorf("%s %s: want %s", key, orNull(v), what)
	}
	ok := false
	switch key {
	case "num_bits":
		a.NumBits, ok = laxInt(v)
		return want(ok, "a whole number")
	case "type":
		a.Type = strings.ToLower(v.Str)
		return want(a.Type == "int" || a.Type == "float", `"int" or "float"`)
	case "symmetric":
		a.Symmetric, ok = laxBool(v)
		return want(ok, "true or false")
	case "group_size":
		if a.grouped = !null(v); !a.grouped {
			a.GroupSize = 0
			return nil
		}
		if a.GroupSize, ok = laxInt(v); v.Type == gjson.String { // compared with -1 before it is converted
			ok = false
		}
		return want(ok && a.GroupSize >= -1, "a whole number, at least -1, or null")
	case "strategy":
		a.Strategy = strings.ToLower(v.Str)
		return want(null(v) || slices.Contains(strategies, a.Strategy), "one of "+strings.Join(strategies, ", "))
	case "block_structure":
		return a.block(v)
	case "dynamic":
		b, isBool := laxBool(v)
		switch {
		case v.Type == gjson.String:
			a.Dynamic = strings.ToLower(v.Str)
			return want(a.Dynamic == "local", `false, true or "local"`)
		case isBool:
			a.Dynamic = strconv.FormatBool(b)
			return nil
		}
		return want(false, `false, true or "local"`)
	case "actorder":
		if a.actorder = v.Type == gjson.True; v.Type == gjson.String {
			s := strings.ToLower(v.Str)
			a.actorder = s == "group" || s == "dynamic"
			return want(slices.Contains(actorders, s), "one of "+strings.Join(actorders, ", "))
		}
		_, isBool := laxBool(v)
		return want(null(v) || isBool, "one of "+strings.Join(actorders, ", "))
	case "scale_dtype":
		if null(v) {
			a.ScaleDtype = ""
			return nil
		}
		a.ScaleDtype, ok = dtypeName(v)
		return want(ok, "the name of a torch dtype, or null")
	case "zp_dtype":
		_, ok = dtypeName(v)
		a.zpDtype = ok
		return want(ok || null(v), "the name of a torch dtype, or null")
	case "observer":
		return want(null(v) || v.Type == gjson.String, "a name or null")
	case "observer_kwargs":
		return want(v.IsObject(), "an object")
	}
	a.Unknown = append(a.Unknown, key)
	return nil
}

// check is validate_model_after: it infers a strategy that is not given and refuses combinations.
func (a *Args) check() error {
	if a.Strategy == "" {
		switch {
		case !a.grouped:
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
	case a.actorder && !needsGroup:
		return fmt.Errorf("actorder \"group\" needs strategy group or tensor_group, not %s", a.Strategy)
	case a.Type == "float" && a.NumBits != 4 && a.NumBits != 8 && !a.zpDtype: // the default of zp_dtype follows from it
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

// block is validate_block_structure: a list of two positive whole numbers, null, or the old spelling "128x128".
func (a *Args) block(v gjson.Result) error {
	a.Block = [2]int64{}
	if null(v) {
		return nil
	}
	var sides []string
	switch {
	case v.Type == gjson.String:
		sides = strings.Split(v.Str, "x")
	case v.IsArray():
		for _, e := range v.Array() {
			sides = append(sides, e.Raw) // 128.0 is no int there
		}
	}
	if len(sides) != 2 {
		return fmt.Errorf("block_structure %s: want [rows, cols]", orNull(v))
	}
	for i, s := range sides {
		n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 32)
		if err != nil || n <= 0 {
			return fmt.Errorf("block_structure %s: want [rows, cols], two positive whole numbers", orNull(v))
		}
		a.Block[i] = n
	}
	return nil
}

// orNull prints a JSON value for a message: on one line, shortened.
func orNull(v gjson.Result) string {
	if v.Raw == "" {
		return "nothing"
	}
	s := v.Raw
	if one := v.Get("@ugly").Raw; one != "" {
		s = one
	}
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}
