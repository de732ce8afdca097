package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// checked is a key of a pydantic model: whether it must be there, and what its value must be.
type checked struct {
	required bool
	want     string
	ok       func(gjson.Result) bool
}

// model holds an object against a model's fields; unknown keys are refused unless loose.
func model(v gjson.Result, fields map[string]checked, loose bool) error {
	if !v.IsObject() {
		return fmt.Errorf("want an object, found %s", orNull(v))
	}
	have := v.Map()
	for _, key := range sorted(fields) {
		f := fields[key]
		switch value, there := have[key]; {
		case !there && f.required:
			return fmt.Errorf("%s is missing", key)
		case there && !f.ok(value):
			return fmt.Errorf("%s %s: want %s", key, orNull(value), f.want)
		}
	}
	for _, key := range sorted(have) {
		if _, known := fields[key]; !known && !loose {
			return fmt.Errorf("key %q is not known, and unknown keys are refused", key)
		}
	}
	return nil
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func isText(v gjson.Result) bool { return v.Type == gjson.String }

func isBool(v gjson.Result) bool { _, ok := laxBool(v); return ok }

func isInt(v gjson.Result) bool { _, ok := laxInt(v); return ok }

func isNumber(v gjson.Result) bool {
	_, err := strconv.ParseFloat(strings.TrimSpace(v.Str), 64)
	return v.Type == gjson.Number || v.IsBool() || v.Type == gjson.String && err == nil
}

func orNone(ok func(gjson.Result) bool) func(gjson.Result) bool {
	return func(v gjson.Result) bool { return null(v) || ok(v) }
}

func textOrTexts(v gjson.Result) bool { return isText(v) || stringList(v) }

// The models of compressed-tensors 0.18: config/base.py SparsityCompressionConfig (extra keys are passed over),
// transform/transform_scheme.py and transform_args.py (extra keys are refused).
var (
	sparsityFields = map[string]checked{
		"format":             {true, "a name", isText},
		"targets":            {false, "a list of names or null", orNone(stringList)},
		"ignore":             {false, "a list of names or null", orNone(stringList)},
		"global_sparsity":    {false, "a number or null", orNone(isNumber)},
		"sparsity_structure": {false, "a name or null", orNone(isText)},
	}
	transformFields = map[string]checked{
		"type":          {true, "a name", isText},
		"apply":         {false, "a list", gjson.Result.IsArray},
		"randomize":     {false, "true or false", isBool},
		"requires_grad": {false, "true or false", isBool},
		"head_dim":      {false, "a whole number or null", orNone(isInt)},
		"precision":     {false, "the name of a torch dtype", func(v gjson.Result) bool { _, ok := dtypeName(v); return ok }},
	}
	transformArgs = map[string]checked{
		"targets":  {true, "a name or a list of names", textOrTexts},
		"location": {true, "one of input, weight_input, weight_output, output, k_cache, q_attn", isLocation},
		"inverse":  {false, "true or false", isBool},
		"ignore":   {false, "a name or a list of names", textOrTexts},
	}
)

func isLocation(v gjson.Result) bool {
	return isText(v) && slices.Contains([]string{"input", "weight_input", "weight_output", "output", "k_cache", "q_attn"}, v.Str)
}

// sparsity is _parse_sparsity_config: an empty value of any type is passed over.
func (r *reader) sparsity(v gjson.Result) {
	if falsy(v) {
		return
	}
	if err := model(v, sparsityFields, true); err != nil {
		r.refuse(".sparsity_config", "%v", err)
	} else if len(v.Get("targets").Array()) > 0 {
		r.refuse(".sparsity_config", "targets are not empty: sparsity was removed, the server refuses the checkpoint")
	}
}

// transform is TransformConfig.model_validate: an empty value of any type is passed over.
func (r *reader) transform(v gjson.Result) {
	if falsy(v) {
		return
	}
	const where = ".transform_config"
	groups := checked{true, "an object", gjson.Result.IsObject}
	if err := model(v, map[string]checked{"config_groups": groups}, false); err != nil {
		r.refuse(where, "%v", err)
		return
	}
	v.Get("config_groups").ForEach(func(k, g gjson.Result) bool {
		r.q.Transform = true
		at := where + ".config_groups." + k.String()
		if err := model(g, transformFields, false); err != nil {
			r.refuse(at, "%v", err)
			return true
		}
		for i, a := range g.Get("apply").Array() {
			if err := model(a, transformArgs, false); err != nil {
				r.refuse(fmt.Sprintf("%s.apply[%d]", at, i), "%v", err)
			}
		}
		return true
	})
}
