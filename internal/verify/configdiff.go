package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// mostChanges is how many differences one finding spells out, mostValue how much of a value.
const (
	mostChanges = 6
	mostValue   = 60
)

// change is one path at which two JSON values differ. Absent values are "".
type change struct{ path, was, is string }

func (c change) String() string {
	switch {
	case c.was == "":
		return fmt.Sprintf("%s is added (%s)", c.path, c.is)
	case c.is == "":
		return fmt.Sprintf("%s is gone (was %s)", c.path, c.was)
	}
	return fmt.Sprintf("%s is %s (was %s)", c.path, c.is, c.was)
}

// configChanged holds config.json, without its quantization block, against the source's. The order of keys and white
// space do not matter. With a record the values must be equal as they are written, 1e-06 is not 0.000001: the writer
// copies them. Other tools read the file and write it anew, so without a record added keys, another spelling of equal
// numbers and the keys of mayDiffer are a warning; a value that changed and a key that is gone stay errors.
func (j *judge) configChanged() error {
	mine := j.config
	if j.quant != nil {
		out, err := sjson.DeleteBytes(bytes.Clone(mine), j.quant.Key)
		if err != nil {
			return fmt.Errorf("config.json: %w", err)
		}
		mine = out
	}
	source := j.o.Source.ConfigJSON()
	if q := gjson.GetBytes(source, "quantization_config"); q.Exists() && (q.Type == gjson.Null || j.eights != nil) { // some exports say null of what is not quantized; FP8 is read and left behind
		out, err := sjson.DeleteBytes(source, "quantization_config")
		if err != nil {
			return fmt.Errorf("config.json of the source: %w", err)
		}
		source = out
	}
	was, err := jsonValue(source)
	if err != nil {
		return fmt.Errorf("config.json of the source: %w", err)
	}
	is, err := jsonValue(mine)
	if err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	var wrong, odd []change
	for _, c := range changes("", was, is) {
		if j.rounds(c) {
			continue
		}
		if j.record == nil && (c.was == "" || sameNumber(c.was, c.is) || mayDiffer(c, was, is)) {
			odd = append(odd, c)
		} else {
			wrong = append(wrong, c)
		}
	}
	const fix = "take config.json from the source and keep only its quantization_config"
	if len(wrong) > 0 {
		j.blameConfig()
		j.add(playbook.New("config-changed", "config.json", "it differs from the source's, so the server computes another model from the same weights: "+spelled(wrong), fix))
	}
	if len(odd) > 0 {
		j.add(playbook.New("config-changed", "config.json", "it differs from the source's as files do that another tool wrote anew: "+spelled(odd), fix).As(playbook.Warning))
	}
	return nil
}

// mayDiffer are keys that transformers writes anew and that change no model: its own version, where the model was loaded
// from, and the element type under its old or new name with the same value.
func mayDiffer(c change, was, is any) bool {
	dot := strings.LastIndexByte(c.path, '.')
	parent, key := "", c.path
	if dot >= 0 {
		parent, key = c.path[:dot], c.path[dot+1:]
	}
	switch key {
	case "transformers_version", "_name_or_path":
		return true
	case "torch_dtype", "dtype":
		a, b := member(was, parent), member(is, parent)
		x, y := dtypeOf(a), dtypeOf(b)
		return x != "" && x == y
	}
	return false
}

// rounds says whether a change is that of the element type of a source of which most is wider than BF16: what is kept of it
// is rounded to BF16 (kept-rounded), and the field says what is there now.
func (j *judge) rounds(c change) bool {
	key := c.path[strings.LastIndexByte(c.path, '.')+1:]
	if key != "dtype" && key != "torch_dtype" || c.is != `"bfloat16"` || !strings.Contains(c.was, "float") && !strings.Contains(c.was, "half") {
		return false
	}
	var wide, bf16 int64
	for i := range j.o.Source.Tensors {
		switch t := &j.o.Source.Tensors[i]; t.Dtype() {
		case safetensors.BF16:
			bf16 += t.Bytes()
		case safetensors.F16, safetensors.F32:
			wide += t.Bytes()
		}
	}
	return wide > bf16
}

// dtypeOf is the element type of a configuration under either name, where it has one.
func dtypeOf(m map[string]any) string {
	a, aok := m["dtype"].(string)
	b, bok := m["torch_dtype"].(string)
	switch {
	case aok && bok && a != b:
		return ""
	case aok:
		return a
	}
	return b
}

// member finds an object by its path.
func member(v any, path string) map[string]any {
	m, _ := v.(map[string]any)
	for path != "" && m != nil {
		key, rest, _ := strings.Cut(path, ".")
		m, _ = m[key].(map[string]any)
		path = rest
	}
	return m
}

func spelled(list []change) string {
	var out []string
	for _, c := range list {
		out = append(out, c.String())
	}
	return listed(out, mostChanges)
}

// jsonValue reads JSON with its numbers as they are written.
func jsonValue(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

// changes lists where two values differ, in the order of the paths. Lists are compared as a whole.
func changes(path string, was, is any) []change {
	a, aok := was.(map[string]any)
	b, bok := is.(map[string]any)
	if !aok || !bok {
		if x, y := compactJSON(was), compactJSON(is); x != y {
			return []change{{path, x, y}}
		}
		return nil
	}
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	var out []change
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		at := k
		if path != "" {
			at = path + "." + k
		}
		x, xok := a[k]
		y, yok := b[k]
		switch {
		case !xok:
			out = append(out, change{at, "", compactJSON(y)})
		case !yok:
			out = append(out, change{at, compactJSON(x), ""})
		default:
			out = append(out, changes(at, x, y)...)
		}
	}
	return out
}

// compactJSON spells a value: objects with sorted keys, numbers as they were written.
func compactJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

// sameNumber says whether two spellings are one number, exactly.
func sameNumber(a, b string) bool {
	if len(a) > mostValue || len(b) > mostValue {
		return false
	}
	x, xok := new(big.Rat).SetString(a)
	y, yok := new(big.Rat).SetString(b)
	return xok && yok && x.Cmp(y) == 0
}
