package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// stored is one quantized module as it lies in a checkpoint: its parts by the last component of their names.
type stored struct {
	module string
	weight *model.Tensor // the one that carries the codes
	parts  map[string]*model.Tensor
	scheme dialect.Scheme
	shape  []int64 // of the weight before it was quantized: [out, in]
}

// The two dialects, as --dialect and the record name them.
const (
	compressedTensors = "compressed-tensors"
	modelopt          = "modelopt"
)

// quantBlock is what a checkpoint says of its own quantization.
type quantBlock struct {
	dialect string
	raw     gjson.Result // the block of config.json, or "quantization" of hf_quant_config.json
	nested  bool         // it is hf_quant_config.json that says it
}

// readBlock finds the dialect of a quantized checkpoint: quant_method of config.json decides, as for the server;
// hf_quant_config.json counts only where config.json has no block (vLLM 017e9f4448, transformers_utils/config.py).
func readBlock(config []byte, nested []byte) (quantBlock, bool) {
	if q := gjson.GetBytes(config, "quantization_config"); q.IsObject() {
		switch method := q.Get("quant_method").Str; {
		case method == compressedTensors:
			return quantBlock{dialect: compressedTensors, raw: q}, true
		case strings.HasPrefix(method, modelopt):
			return quantBlock{dialect: modelopt, raw: q}, true
		}
		return quantBlock{raw: q}, false
	}
	if q := gjson.GetBytes(nested, "quantization"); q.IsObject() {
		return quantBlock{dialect: modelopt, raw: q, nested: true}, true
	}
	return quantBlock{}, false
}

// weightOnly says whether the block declares that NVFP4 activations stay as they are: then a stored input scale is a
// leftover that nobody reads.
func (q quantBlock) weightOnly(module string) bool {
	if q.dialect == modelopt {
		algo := q.raw.Get("quant_algo").Str
		if own := q.layer(module); own != "" {
			algo = own
		}
		return strings.EqualFold(algo, "W4A16_NVFP4")
	}
	inputs, fours := false, false
	q.raw.Get("config_groups").ForEach(func(_, g gjson.Result) bool {
		if g.Get("weights.num_bits").Int() == 4 {
			fours = true
			inputs = inputs || g.Get("input_activations").IsObject()
		}
		return true
	})
	return fours && !inputs
}

// layer is the algorithm of a module under MIXED_PRECISION, "" when none is named.
func (q quantBlock) layer(module string) string {
	algo := ""
	q.raw.Get("quantized_layers").ForEach(func(name, v gjson.Result) bool {
		if name.Str == module {
			algo = v.Get("quant_algo").Str
		}
		return algo == ""
	})
	return algo
}

// cache names what the block says of the key/value cache, "" when nothing.
func (q quantBlock) cache() string {
	for _, key := range []string{"kv_cache_scheme", "kv_cache_quant_algo"} {
		if v := q.raw.Get(key); v.Exists() && v.Type != gjson.Null && v.Str != "" || v.IsObject() {
			return key
		}
	}
	return ""
}

// gatherStored finds the quantized modules of a checkpoint and their schemes, by what is stored. What no scheme of this
// program describes is noted by name; such a module has no scheme.
func gatherStored(tensors []model.Tensor, q quantBlock, notes *notes) map[string]*stored {
	out := map[string]*stored{}
	for i := range tensors {
		t := &tensors[i]
		at := strings.LastIndexByte(t.Name, '.')
		if at < 0 {
			continue
		}
		module := t.Name[:at]
		if t.Suffix == "weight_packed" || t.Suffix == "weight" && (t.Dtype() == safetensors.U8 || t.Dtype() == safetensors.F8E4M3) {
			s := out[module]
			if s == nil {
				s = &stored{module: module, parts: map[string]*model.Tensor{}}
				out[module] = s
			}
			s.weight = t
		}
	}
	for i := range tensors {
		t := &tensors[i]
		if at := strings.LastIndexByte(t.Name, '.'); at >= 0 {
			if s := out[t.Name[:at]]; s != nil && t.Suffix != "bias" {
				s.parts[t.Suffix] = t
			}
		}
	}
	for _, module := range slices.SortedFunc(maps.Keys(out), safetensors.NaturalCompare) {
		s := out[module]
		if why := s.recognize(q); why != "" {
			s.scheme = ""
			notes.at(s.module, playbook.New("convert-inexpressible", "", why, "quantize the module again from the unquantized checkpoint, in the dialect that you want"))
		}
	}
	return out
}

// recognize finds the scheme of a module; why is what stands against it, "" when the scheme is known.
func (s *stored) recognize(q quantBlock) (why string) {
	shape := s.weight.Shape()
	if len(shape) != 2 {
		return fmt.Sprintf("its codes have shape %v; only matrices can be converted", shape)
	}
	allowed := []string{s.weight.Suffix, "weight_scale"}
	switch {
	case s.weight.Dtype() == safetensors.U8:
		global, input := "weight_scale_2", "input_scale"
		if q.dialect == compressedTensors {
			global, input = "weight_global_scale", "input_global_scale"
		}
		if s.parts["weight_scale"] == nil || s.parts[global] == nil {
			return fmt.Sprintf("4-bit codes without %s and weight_scale: the %s dialect reads both", global, q.dialect)
		}
		s.shape = []int64{shape[0], 2 * shape[1]}
		s.scheme = dialect.NVFP4W4A16
		if s.parts[input] != nil && !q.weightOnly(s.module) {
			s.scheme = dialect.NVFP4W4A4
		}
		if d := s.parts["weight_scale"].Dtype(); d != safetensors.F8E4M3 {
			return fmt.Sprintf("its block scales are %s, and NVFP4 has F8_E4M3", d)
		}
		allowed = append(allowed, global, input)
	default:
		scale := s.parts["weight_scale"]
		if s.parts["weight_scale_inv"] != nil || scale == nil {
			return "block FP8 (one scale per block of the weight, weight_scale_inv): only scales per tensor and per row have a form in the other dialect"
		}
		s.shape = slices.Clone(shape)
		switch n := elements(scale.Shape()); {
		case n == 1 && (len(scale.Shape()) < 2 || shape[0] != 1):
			s.scheme = dialect.FP8Tensor
			if s.parts["input_scale"] == nil {
				return "FP8 with one scale and no input_scale: it is scaled at run time, which only the other dialect's per-channel form knows"
			}
		case n == shape[0]:
			s.scheme = dialect.FP8Channel
		default:
			return fmt.Sprintf("block FP8: weight_scale has shape %v; only scales per tensor and per row have a form in the other dialect", scale.Shape())
		}
		allowed = append(allowed, "input_scale")
	}
	for _, name := range slices.Sorted(maps.Keys(s.parts)) {
		if !slices.Contains(allowed, name) {
			return fmt.Sprintf("beside its codes stands %s.%s, which has no form in the other dialect", s.module, name)
		}
	}
	return ""
}

// part is the tensor of a quantized module that holds a part of its value.
func (s *stored) part(p dialect.Part, from string) *model.Tensor {
	switch p {
	case dialect.PartCodes:
		return s.weight
	case dialect.PartBlockScale, dialect.PartScale:
		return s.parts["weight_scale"]
	case dialect.PartGlobalScale:
		if from == compressedTensors {
			return s.parts["weight_global_scale"]
		}
		return s.parts["weight_scale_2"]
	case dialect.PartInputScale:
		if from == compressedTensors && s.scheme.NVFP4() {
			return s.parts["input_global_scale"]
		}
		return s.parts["input_scale"]
	}
	return nil
}
