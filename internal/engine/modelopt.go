package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// ModelOpt is a quantization block of NVIDIA's modelopt as the server comes to read it (vLLM 017e9f4448,
// layers/quantization/modelopt.py ModelOptQuantConfigBase.from_config and its subclasses).
type ModelOpt struct {
	Algo      string   // quant_algo in upper case: "NVFP4", "W4A16_NVFP4", "FP8", "MIXED_PRECISION" …
	GroupSize int64    // weights that share a block scale, for the NVFP4 algorithms; 16 when none is given
	Exclude   []string // ignore (flat form) or exclude_modules (nested form)
	KV        string   // upper-cased algorithm of the key/value cache, "" for none
	Nested    bool     // the arguments stand in an object "quantization", as modelopt's own file has them
	Layers    []ModelOptLayer
}

// ModelOptLayer is one entry of quantized_layers: the algorithm of a module, or of all that is below it.
type ModelOptLayer struct {
	Name string
	Algo string // upper case
}

// Names of quant_method as the server comes to understand them.
const (
	ModelOptFP8   = "modelopt"
	ModelOptFP4   = "modelopt_fp4"
	ModelOptMX    = "modelopt_mxfp8"
	ModelOptMixed = "modelopt_mixed"
)

// FileModelOpt is the file in which older modelopt versions put their block, and newer ones a copy of it.
const FileModelOpt = "hf_quant_config.json"

const mixedAlgo = "MIXED_PRECISION"

// quantAlgos is QUANT_ALGOS.
var quantAlgos = []string{"FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4", "W4A16_NVFP4", "MXFP8", mixedAlgo}

// algoOf is _extract_modelopt_quant_algo.
func algoOf(block gjson.Result) string {
	if inner := block.Get("quantization"); inner.Exists() {
		if !inner.IsObject() {
			return ""
		}
		block = inner
	}
	return strings.ToUpper(plainText(block.Get("quant_algo")))
}

// plainText is str() of a value that json.load read, as far as a name of an algorithm can be one: null is "None".
func plainText(v gjson.Result) string {
	if v.Exists() && v.Type == gjson.Null {
		return "None"
	}
	return v.String()
}

// override is what the classes' override_quantization_method make of a block whose quant_method starts "modelopt", asked
// in the order of ModelConfig._verify_quantization (config/model.py). Without an answer the method stays as written.
func override(method, algo string) string {
	switch {
	case !strings.HasPrefix(method, "modelopt"):
	case algo == "FP8":
		return ModelOptFP8
	case strings.Contains(algo, "FP4"):
		return ModelOptFP4
	case strings.Contains(algo, "MXFP8"):
		return ModelOptMX
	case algo == mixedAlgo:
		return ModelOptMixed
	}
	return method
}

// modelopt reads the arguments of a block. file is the text of hf_quant_config.json, empty when there is none.
func (r *reader) modelopt(block gjson.Result, file []byte) {
	q := r.q
	if q.Method == ModelOptMixed && !block.Get("quantized_layers").Exists() {
		if block = r.fallback(file); !block.Exists() {
			return
		}
	}
	m := &ModelOpt{GroupSize: 16}
	args, list := block, "ignore"
	if inner := block.Get("quantization"); inner.Exists() {
		if m.Nested = true; !inner.IsObject() {
			r.refuse(".quantization", "want an object, found %s (\"Expected 'quantization' to be a dictionary in config\")", orNull(inner))
			return
		}
		args, list = inner, "exclude_modules"
	}
	at := func(key string) string {
		if m.Nested {
			return ".quantization." + key
		}
		return "." + key
	}
	algo := args.Get("quant_algo")
	if q.Method == ModelOptMX && !m.Nested && falsy(algo) { // ModelOptMxFp8Config.from_config: a form of other makers
		m.Algo, q.ModelOpt = "MXFP8", m
		m.Exclude = r.names(".ignored_layers", block.Get("ignored_layers"))
		return
	}
	if falsy(algo) {
		r.refuse(at("quant_algo"), "it is missing (\"Missing 'quant_algo' in quantization config\")")
		return
	}
	m.Algo = strings.ToUpper(algo.String())
	r.modeloptCache(m, args, at)
	before := len(r.problems)
	switch v := args.Get(list); {
	case v.Exists() && !v.IsArray():
		r.refuse(at(list), "want a list, found %s (\"exclude_modules must be a list\")", orNull(v))
	default:
		m.Exclude = r.names(at(list), v)
	}
	group := r.groupSize(m, args.Get("group_size"), at("group_size"))
	if !slices.Contains(quantAlgos, m.Algo) {
		r.refuse(at("quant_algo"), "%s is none of the algorithms that the server knows: %s", orNull(algo), strings.Join(quantAlgos, ", "))
	} else {
		r.modeloptClass(m, args, at, group)
	}
	if q.ModelOpt = m; len(r.problems) == before && q.Method != ModelOptFP8 && q.Method != ModelOptMX && m.GroupSize != 16 && m.hasFP4() {
		r.refuse(at("group_size"), "%d: the server's NVFP4 kernels know groups of 16 only", m.GroupSize)
	}
	q.Broken = slices.ContainsFunc(r.problems, func(p Problem) bool { return p.Serious })
	if m.KV != "" {
		q.KV = &KVScheme{Strategy: "tensor"}
	}
}

// fallback is the second half of get_quant_config: a mixed block without its list is read from modelopt's own file.
func (r *reader) fallback(file []byte) gjson.Result {
	switch doc := gjson.ParseBytes(file); {
	case len(file) == 0:
		r.refuse(".quantized_layers", "it is missing, and there is no %s that has it (\"Cannot find the config file for modelopt_mixed\")", FileModelOpt)
	case !gjson.ValidBytes(file) || !doc.IsObject():
		r.refuse(".quantized_layers", "it is missing, and %s is not a JSON object", FileModelOpt)
	case text(doc.Get("producer.name")) != "modelopt":
		r.refuse(".quantized_layers", "it is missing, and the producer that %s names is not modelopt (\"Unsupported quantization config found for modelopt_mixed\")", FileModelOpt)
	default:
		r.q.Key = FileModelOpt
		return doc
	}
	r.q.Broken = true
	return gjson.Result{}
}

// modeloptCache reads the key/value cache's algorithm: a name in the nested form, a scheme in the flat one, where
// everything but 8-bit float counts as none.
func (r *reader) modeloptCache(m *ModelOpt, args gjson.Result, at func(string) string) {
	if m.Nested {
		switch v := args.Get("kv_cache_quant_algo"); {
		case null(v):
		case v.Type != gjson.String:
			r.refuse(at("kv_cache_quant_algo"), "want a name or null, found %s (\"kv_cache_quant_algo must be a string\")", orNull(v))
		default:
			m.KV = strings.ToUpper(v.Str)
		}
		return
	}
	if v := args.Get("kv_cache_scheme"); text(v.Get("type")) == "float" && v.Get("num_bits").Type == gjson.Number && v.Get("num_bits").Num == 8 {
		m.KV = "FP8"
	}
}

// groupSize reads a whole number as Python's int() takes one. given is false where none is written.
func (r *reader) groupSize(m *ModelOpt, v gjson.Result, where string) (given bool) {
	if null(v) {
		return false
	}
	n := int64(v.Num)
	ok := v.Type == gjson.Number || v.IsBool()
	if v.Type == gjson.String {
		n, ok = laxInt(v)
		ok = ok && !strings.Contains(v.Str, ".")
	} else if v.Type == gjson.True {
		n = 1
	}
	if !ok || n < 1 {
		r.refuse(where, "%s: want a whole number above 0 (\"group_size must be an integer\")", orNull(v))
		return true
	}
	m.GroupSize = n
	return true
}

// modeloptClass is _from_config of the class that the method names.
func (r *reader) modeloptClass(m *ModelOpt, args gjson.Result, at func(string) string, group bool) {
	fp8 := m.Algo == "FP8" || m.Algo == "FP8_PER_CHANNEL_PER_TOKEN" || m.Algo == "FP8_PB_WO"
	require := func(keys ...string) {
		for _, k := range keys {
			if m.Nested && !args.Get(k).Exists() {
				r.refuse(at(k), "it is missing, and %s needs it in the nested form (\"%s quantization requires the following fields in hf_quant_config.json\")", m.Algo, m.Algo)
			}
		}
	}
	switch r.q.Method {
	case ModelOptFP8:
		if !fp8 {
			r.refuse(at("quant_algo"), "%s is no algorithm of method modelopt (\"Unsupported ModelOpt FP8 quant_algo for vLLM\")", m.Algo)
		}
	case ModelOptFP4:
		if m.Algo != "NVFP4" && m.Algo != "W4A16_NVFP4" {
			r.refuse(at("quant_algo"), "%s is no algorithm of method modelopt_fp4 (\"Unsupported ModelOpt NVFP4 quant_algo\")", m.Algo)
			return
		}
		require("group_size", "kv_cache_quant_algo", "exclude_modules")
	case ModelOptMX:
		if m.Algo != "MXFP8" {
			r.refuse(at("quant_algo"), "%s is no algorithm of method modelopt_mxfp8 (\"MXFP8 quantization requires a serialized checkpoint\")", m.Algo)
			return
		}
		require("kv_cache_quant_algo", "exclude_modules")
	case ModelOptMixed:
		r.layers(m, args.Get("quantized_layers"), at("quantized_layers"), group)
	}
}

// layers reads quantized_layers.
func (r *reader) layers(m *ModelOpt, v gjson.Result, where string, group bool) {
	switch {
	case falsy(v):
		r.refuse(where, "it is missing or empty (\"MIXED_PRECISION quant_algo requires a non-empty 'quantized_layers' mapping\")")
		return
	case !v.IsObject():
		r.refuse(where, "want an object, found %s", orNull(v))
		return
	}
	v.ForEach(func(k, info gjson.Result) bool {
		algo := info.Get("quant_algo")
		if !info.IsObject() || algo.Type != gjson.String {
			r.refuse(fmt.Sprintf("%s.%s", where, k.String()), "want an object with a quant_algo, found %s: the server stops when it looks for one", orNull(info))
			return true
		}
		l := ModelOptLayer{Name: k.String(), Algo: strings.ToUpper(algo.Str)}
		if fp4Algo(l.Algo) && !group { // the first of them says it for all
			group = true
			if g := info.Get("group_size"); g.Exists() {
				r.groupSize(m, g, fmt.Sprintf("%s.%s.group_size", where, k.String()))
			}
		}
		m.Layers = append(m.Layers, l)
		return true
	})
}

func fp4Algo(algo string) bool { return algo == "NVFP4" || algo == "W4A16_NVFP4" }

func (m *ModelOpt) hasFP4() bool {
	return fp4Algo(m.Algo) || slices.ContainsFunc(m.Layers, func(l ModelOptLayer) bool { return fp4Algo(l.Algo) })
}

// scheme is the linear method that the class of an algorithm builds; ok is false for an algorithm that a mixed block
// passes over without a word.
func (m *ModelOpt) scheme(algo string, routed bool) (s Scheme, ok bool) {
	s.ModelOpt = true
	switch algo {
	case "NVFP4":
		s.Kind = W4A4
	case "W4A16_NVFP4":
		s.Kind = W4A16
	case "FP8":
		s.Kind, s.Strategy, s.Static = FP8, "tensor", true
	case "MXFP8":
		return Scheme{Kind: Other, Name: "MXFP8 of modelopt", ModelOpt: true}, true
	case "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO":
		if m.Algo == mixedAlgo {
			return Scheme{}, false
		}
		s.Kind, s.Strategy = FP8, "channel"
		if algo == "FP8_PB_WO" {
			s.Strategy, s.Block = "block", [2]int64{128, 128}
		}
		if routed { // there is one class for a mixture's experts, ModelOptFp8MoEMethod
			s.Strategy, s.Block, s.Static = "tensor", [2]int64{}, true
		}
	default:
		return Scheme{}, false
	}
	return s, true
}
