package verify_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"seatsmith/internal/model"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// put sets a path of config.json to raw JSON.
func put(path, raw string) func(f *folder) {
	return func(f *folder) { f.set(path, json.RawMessage(raw)) }
}

// move takes the quantization block to other keys.
func move(keys ...string) func(f *folder) {
	return func(f *folder) {
		block := json.RawMessage(gjson.GetBytes(f.config, "quantization_config").Raw)
		f.del("quantization_config")
		for _, k := range keys {
			f.set(k, block)
		}
	}
}

// twoSpellings names down_proj of layer 0 in both groups, as it is on disk and as the server calls it.
func twoSpellings(nvfp4Last bool) func(f *folder) {
	return func(f *folder) {
		first, last := group0, group1
		if nvfp4Last {
			first, last = group1, group0
		}
		groups := gjson.GetBytes(f.config, "quantization_config.config_groups")
		f.del("quantization_config.config_groups")
		for _, g := range [][3]string{{"a", first, down0}, {"b", last, "language_model.model.layers.0.mlp.down_proj"}} {
			raw := groups.Get(strings.TrimSuffix(strings.TrimPrefix(g[1], "quantization_config.config_groups."), ".")).Raw
			f.set("quantization_config.config_groups."+g[0], json.RawMessage(raw))
			f.set("quantization_config.config_groups."+g[0]+".targets", append([]string{g[2]}, texts(gjson.Get(raw, "targets"))...))
		}
	}
}

func texts(v gjson.Result) []string {
	var out []string
	for _, e := range v.Array() {
		out = append(out, e.Str)
	}
	return out
}

const quant = "quantization_config."

// What the server refuses, or reads otherwise than it is written, when it reads the block (vLLM 017e9f4448,
// compressed_tensors.py from_config and _normalize_quantization_config; compressed-tensors 0.18 quant_args.py).
var fooledBlock = []fooled{
	{name: "ignore null", rules: "config-args", text: "null is no list", do: put(quant+"ignore", `null`)},
	{name: "format of the FP8 group empty", rules: "config-args", text: "group_1", do: put(group1+"format", `""`)},
	{name: "format of the FP8 group a number", rules: "config-args", text: "group_1", do: put(group1+"format", `7`)},
	{name: "format of the FP8 group empty, the top level's float-quantized", rules: "config-args", text: "group_1", do: func(f *folder) {
		f.set(quant+"format", "float-quantized")
		f.set(group1+"format", "")
	}},
	{name: "format of the FP8 group a number, the top level's float-quantized", rules: "config-args", text: "group_1", do: func(f *folder) {
		f.set(quant+"format", "float-quantized")
		f.set(group1+"format", 7)
	}},
	{name: "format of the FP8 group null, the top level's float-quantized", rules: "", do: func(f *folder) {
		f.set(quant+"format", "float-quantized")
		f.set(group1+"format", nil)
	}},
	{name: "scale_dtype junk", rules: "config-args", text: "scale_dtype", do: put(group0+"weights.scale_dtype", `"junk"`)},
	{name: "scale_dtype torch.nope", rules: "config-args", text: "torch.nope", do: put(group0+"weights.scale_dtype", `"torch.nope"`)},
	{name: "zp_dtype junk", rules: "config-args", text: "zp_dtype", do: put(group0+"weights.zp_dtype", `"junk"`)},
	{name: "actorder junk", rules: "config-args", text: "actorder", do: put(group0+"weights.actorder", `"junk"`)},
	{name: "actorder group on channels", rules: "config-args", text: "actorder", do: put(group1+"weights.actorder", `"group"`)},
	{name: "observer a number", rules: "config-args", text: "observer 5", do: put(group0+"weights.observer", `5`)},
	{name: "observer_kwargs null", rules: "config-args", text: "observer_kwargs", do: put(group0+"weights.observer_kwargs", `null`)},
	{name: "observer_kwargs a list", rules: "config-args", text: "observer_kwargs", do: put(group0+"weights.observer_kwargs", `[1]`)},
	{name: "block_structure in the old spelling on channels", rules: "config-args", text: "block_structure", do: put(group1+"weights.block_structure", `"1x1"`)},
	{name: "transform_config a list", rules: "config-args", text: "transform_config", do: put(quant+"transform_config", `[1]`)},
	{name: "transform_config a text", rules: "config-args", text: "transform_config", do: put(quant+"transform_config", `"x"`)},
	{name: "transform_config without a type", rules: "config-args", text: "type is missing", do: put(quant+"transform_config", `{"config_groups":{"a":{}}}`)},
	{name: "transform_config without groups", rules: "", do: put(quant+"transform_config", `{"config_groups":{}}`)},
	{name: "sparsity_config without a format", rules: "config-args", text: "format is missing", do: put(quant+"sparsity_config", `{"foo":1}`)},
	{name: "sparsity_config with targets", rules: "config-args", text: "removed", do: put(quant+"sparsity_config", `{"format":"sparse-24","targets":["Linear"]}`)},
	{name: "sparsity_config that says nothing", rules: "", do: put(quant+"sparsity_config", `{"format":"dense"}`)},
	{name: "empty activations of another type", rules: "", do: put(group0+"input_activations", `[]`)},

	{name: "signed by modelopt as NVFP4", rules: "quant-method", text: "modelopt_fp4", do: func(f *folder) {
		f.set(quant+"producer", map[string]string{"name": "modelopt"})
		f.set(quant+"quantization", map[string]string{"quant_algo": "NVFP4"})
	}},
	{name: "signed by modelopt as FP8", rules: "quant-method", text: "takes it for modelopt;", do: func(f *folder) {
		f.set(quant+"producer", map[string]string{"name": "modelopt"})
		f.set(quant+"quantization", map[string]string{"quant_algo": "fp8"})
	}},
	{name: "signed by modelopt the old way", rules: "quant-method", text: "modelopt_fp4", do: put(quant+"quantization", `{"modelopt_quant_config":{},"quant_algo":"NVFP4"}`)},
	{name: "signed by modelopt with an unknown algorithm", rules: "config-args", text: "W4A8_AWQ", do: func(f *folder) {
		f.set(quant+"producer", map[string]string{"name": "modelopt"})
		f.set(quant+"quantization", map[string]string{"quant_algo": "W4A8_AWQ"})
	}},
	{name: "producer modelopt without an algorithm", rules: "", do: put(quant+"producer", `{"name":"modelopt"}`)},
	{name: "producer a text", rules: "config-args", text: "producer", do: put(quant+"producer", `"x"`)},
	{name: "producer null", rules: "config-args", text: "producer", do: put(quant+"producer", `null`)},
	{name: "method in capitals", rules: "quant-method?", text: "letter for letter", do: put(quant+"quant_method", `"Compressed-Tensors"`)},
	{name: "method with an underscore", rules: "quant-method?", text: "letter for letter", do: put(quant+"quant_method", `"compressed_tensors"`)},
	{name: "method in capitals, and a fault beside it", rules: "quant-method? config-args", text: "group_size", do: func(f *folder) {
		f.set(quant+"quant_method", "Compressed-Tensors")
		f.set(group0+"weights.group_size", 32)
	}},
	{name: "method that nobody knows", rules: "quant-method", text: "banana", do: put(quant+"quant_method", `"banana"`)},
	{name: "method a number", rules: "quant-method", do: put(quant+"quant_method", `4`)},

	{name: "block as compression_config", rules: "", do: move("compression_config")},
	{name: "block as compression_config inside text_config", rules: "quant-method", text: "does not look here", do: move("text_config.compression_config")},
	{name: "method and arguments from two blocks", rules: "quant-method?", text: "two blocks", do: move("compression_config", "text_config.quantization_config")},
	{name: "two targets that are one name, FP8 last", rules: "config-contradiction groups-overlap?", text: "comes last", do: twoSpellings(false)},
	{name: "two targets that are one name, NVFP4 last", rules: "groups-overlap?", text: "comes last", do: twoSpellings(true)},
}

func TestABlockThatTheServerReadsOtherwiseIsNotGood(t *testing.T) { expectFooled(t, fooledBlock) }

// also makes other faults beside a pattern.
func also(pattern string, faults ...func(f *folder)) func(f *folder) {
	return func(f *folder) {
		f.ignore(adding(pattern))
		for _, do := range faults {
			do(f)
		}
	}
}

var (
	strayScale = func(f *folder) {
		f.add(down0+".weight_packed", down0+".weight_scale_2", "F32", []int64{1}, f32(1))
	}
	byteScales = func(f *folder) {
		f.get(strings.Replace(down0, "layers.0", "layers.1", 1) + ".weight_scale").dtype = "U8"
	}
	lostScale = func(f *folder) { delete(f.tensors, out0+".weight_scale") }
)

// A pattern that cannot be run here says nothing about the tensors of the modules that it may match, and nothing at all
// about those that it surely does not.
var fooledPatterns = func() []fooled {
	list := []fooled{
		{name: "look-ahead that matches nothing", rules: "ignore-dead?", do: also(`re:(?!x)y`)},
		{name: "look-ahead that matches nothing, three faults beside it", rules: "ignore-dead? tensor-unexpected tensor-dtype tensor-missing",
			do: also(`re:(?!x)y`, strayScale, byteScales, lostScale)},
		{name: "look-ahead that may match all", rules: "pattern-unjudged?", do: also(`re:(?!.*nothing).*`)},
		{name: "look-ahead that may match all, three faults beside it", rules: "pattern-unjudged? tensor-unexpected tensor-dtype tensor-missing",
			do: also(`re:(?!.*nothing).*`, strayScale, byteScales, lostScale)},
		{name: "look-ahead that may match all, a stray tensor", rules: "pattern-unjudged? tensor-unexpected", do: also(`re:(?!.*nothing).*`, strayScale)},
		{name: "look-ahead that may match all, modelopt's spelling", rules: "pattern-unjudged? config-contradiction", do: also(`re:(?!.*nothing).*`, func(f *folder) {
			x := f.get(down0 + ".weight_packed")
			delete(f.tensors, down0+".weight_packed")
			f.tensors[down0+".weight"] = x
			f.tensors[down0+".weight_scale_2"] = f.get(down0 + ".weight_global_scale")
			delete(f.tensors, down0+".weight_global_scale")
		})},
		{name: "look-ahead that may match all, FP8 where a group says NVFP4", rules: "pattern-unjudged? config-contradiction",
			do: also(`re:(?!.*nothing).*`, func(f *folder) { f.restore(down0); f.toFP8(down0) })},
		{name: "look-ahead that may match a module, plain where a group says FP8", rules: "pattern-unjudged?",
			do: also(`re:(?!x).*layers\.0\.linear_attn\.out_proj`, func(f *folder) { f.restore(out0) })},
		{name: "look-ahead that cannot match a module, plain where a group says FP8", rules: "pattern-unjudged? config-contradiction",
			do: also(`re:(?!x).*layers\.1\.linear_attn\.out_proj`, func(f *folder) { f.restore(out0) })},
		{name: "look-ahead that may match lm_head", rules: "pattern-unjudged?", do: func(f *folder) {
			f.ignore(dropping("lm_head"))
			f.ignore(adding(`re:(?!x).*lm_head`))
		}},
		{name: "look-ahead that may match lm_head, stored as no group says", rules: "pattern-unjudged? lm-head-state", do: func(f *folder) {
			f.ignore(dropping("lm_head"))
			f.ignore(adding(`re:(?!x).*lm_head`))
			f.toFP8("lm_head")
		}},
		{name: "look-ahead in a target", rules: "pattern-unjudged?", do: put(group0+"targets.-1", `"re:(?!x).*layers\\.[12]\\.mlp.*"`)},
	}
	for _, bad := range []string{`re:(`, `re:[z-a]`, `re:*x`, `re:\`, `re:(?P<a`, `re:a{2,1}`} {
		list = append(list, fooled{name: bad + " as an ignore entry", rules: "pattern-invalid", text: "regex.error", do: also(bad)},
			fooled{name: bad + " as an ignore entry, three faults beside it", rules: "pattern-invalid tensor-unexpected tensor-dtype tensor-missing", do: also(bad, strayScale, byteScales, lostScale)},
			fooled{name: bad + " as a target", rules: "pattern-invalid", do: func(f *folder) { f.set(group0+"targets.-1", bad) }})
	}
	return list
}()

func TestAPatternThatCannotBeRunHidesNothing(t *testing.T) { expectFooled(t, fooledPatterns) }

const mtpAttn = "mtp.layers.0.self_attn."

// cached stores key/value scales of the one attention layer: each entry is a name below self_attn.
func cached(scheme bool, list ...fooledScale) func(f *folder) {
	return func(f *folder) {
		if scheme {
			f.cacheScheme()
		}
		for _, x := range list {
			f.add(attn3+"o_proj.weight", attn3+x.name, x.dtype, x.shape, x.data)
		}
	}
}

type fooledScale struct {
	name  string
	dtype safetensors.Dtype
	shape []int64
	data  []byte
}

func one(name string, v float32) fooledScale { return fooledScale{name, "F32", []int64{1}, f32(v)} }

// biases turns attention_bias on and stores what it gives the model.
func biases(f *folder) {
	f.set("text_config.attention_bias", true)
	for _, p := range []string{attn3, mtpAttn} {
		for name, n := range map[string]int{"q_proj": 256, "k_proj": 64, "v_proj": 64, "o_proj": 128} {
			beside := "mtp.fc.weight"
			f.add(beside, p+name+".bias", "BF16", []int64{int64(n)}, bytes.Repeat([]byte{0x80, 0x3F}, n))
		}
	}
}

// Tensors that are neither weights nor scales of weights (vLLM 017e9f4448, default_weight_loader,
// CompressedTensorsKVCacheMethod, AutoWeightsLoader).
var fooledBesides = []fooled{
	{name: "cache scale of shape 7", rules: "tensor-shape", text: "[7]", do: cached(false, fooledScale{"k_scale", "F32", []int64{7}, bytes.Repeat(f32(.5), 7)})},
	{name: "cache scale of shape 7 under a scheme", rules: "tensor-shape", do: cached(true, fooledScale{"k_scale", "F32", []int64{7}, bytes.Repeat(f32(.5), 7)}, one("v_scale", .5))},
	{name: "cache scale in I64", rules: "tensor-dtype", text: "I64", do: cached(false, fooledScale{"k_scale", "I64", []int64{1}, make([]byte, 8)})},
	{name: "cache zero point of shape 7", rules: "tensor-shape", do: cached(false, fooledScale{"v_zero_point", "F32", []int64{7}, make([]byte, 28)})},
	{name: "cache scale of the head of shape 2", rules: "tensor-shape", do: func(f *folder) {
		f.add("mtp.fc.weight", mtpAttn+"k_scale", "F32", []int64{2}, append(f32(.5), f32(.5)...))
	}},
	{name: "cache scale under two spellings", rules: "tensor-unexpected", text: "same place", do: cached(false, one("k_scale", .5), one("k_proj.k_scale", 8))},
	{name: "cache scale under two more spellings", rules: "tensor-unexpected", text: "same place", do: cached(false, one("attn.v_scale", .5), one("v_cache.scale", 8))},
	{name: "cache scales as single numbers", rules: "", do: cached(true, fooledScale{"k_scale", "BF16", []int64{1, 1, 1}, []byte{0x00, 0x3D}}, fooledScale{"v_proj.v_scale", "F32", nil, f32(.5)})},
	{name: "cache scales per head", rules: "", do: func(f *folder) {
		cached(true, fooledScale{"k_scale", "F32", []int64{2, 1, 1}, append(f32(.5), f32(.25)...)}, fooledScale{"v_scale", "F32", []int64{2}, append(f32(.5), f32(.25)...)})(f)
		f.set(quant+"kv_cache_scheme.strategy", "attn_head")
	}},
	{name: "cache scales per head, of another number of heads", rules: "tensor-shape", do: func(f *folder) {
		cached(true, fooledScale{"k_scale", "F32", []int64{4, 1, 1}, bytes.Repeat(f32(.5), 4)}, fooledScale{"v_scale", "F32", []int64{2}, append(f32(.5), f32(.25)...)})(f)
		f.set(quant+"kv_cache_scheme.strategy", "attn_head")
	}},
	{name: "scale of the attention that the server does not have", rules: "tensor-unexpected", do: cached(false, one("attn.prob_scale", .5))},
	{name: "attention_bias", rules: "bias-unread", do: biases},
	{name: "attention_bias and qkv_bias", rules: "bias-unread", text: "o_proj", do: func(f *folder) {
		biases(f)
		f.set("text_config.qkv_bias", true)
	}},
}

func TestWhatStandsBesideTheWeightsHasItsTable(t *testing.T) { expectFooled(t, fooledBesides) }

func TestASourceWhoseBiasesTheServerDropsIsRefused(t *testing.T) {
	for _, c := range []struct {
		do   func(f *folder)
		want []string
	}{{biases, []string{"bias-unread"}}, {cached(false, one("k_scale", .5)), []string{"tensor-unexpected"}}} {
		dir := filepath.Join(t.TempDir(), "source")
		if err := os.CopyFS(dir, os.DirFS(donor)); err != nil {
			t.Fatal(err)
		}
		f := load(t, dir)
		c.do(f)
		f.save()
		m, err := model.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		expect(t, verify.Source(m), c.want...)
	}
}

const rope = "text_config.rope_parameters."

func gone(path string) func(f *folder) { return func(f *folder) { f.del(path) } }

// Values that no tensor shows (vLLM 017e9f4448; see package engine, values.go).
var fooledValues = []fooled{
	{name: "hidden_act gelu", rules: "config-values", text: "silu only", do: put("text_config.hidden_act", `"gelu"`)},
	{name: "hidden_act null", rules: "config-values", do: put("text_config.hidden_act", `null`)},
	{name: "model_type missing", rules: "config-values", text: "model_type", do: gone("model_type")},
	{name: "model_type qwen2", rules: "config-values", text: "qwen2", do: put("model_type", `"qwen2"`)},
	{name: "model_type of the mixture", rules: "config-values", text: "qwen3_5_moe", do: put("model_type", `"qwen3_5_moe"`)},
	{name: "model_type of the text model", rules: "config-values", text: "qwen3_5_text", do: put("model_type", `"qwen3_5_text"`)},
	{name: "tower's heads 5", rules: "config-values", text: "num_heads", do: put("vision_config.num_heads", `5`)},
	{name: "tower's heads 0", rules: "config-values", do: put("vision_config.num_heads", `0`)},
	{name: "tower's heads 8", rules: "", do: put("vision_config.num_heads", `8`)},
	{name: "tower's activation unknown", rules: "config-values", do: put("vision_config.hidden_act", `"banana"`)},
	{name: "image token outside the vocabulary", rules: "tokenizer-vocab", text: "image_token_id", do: put("image_token_id", `999999`)},
	{name: "video token outside the vocabulary", rules: "tokenizer-vocab", text: "video_token_id", do: put("video_token_id", `2048`)},
	{name: "vision start negative", rules: "config-values", do: put("vision_start_token_id", `-1`)},
	{name: "vision end missing", rules: "config-values", text: "248054, the default", do: gone("vision_end_token_id")},
	{name: "rope_parameters missing", rules: "config-values", text: "rope_theta", do: gone("text_config.rope_parameters")},
	{name: "rope_parameters null", rules: "config-values", do: put("text_config.rope_parameters", `null`)},
	{name: "rope_parameters in the old keys", rules: "", do: func(f *folder) {
		f.del("text_config.rope_parameters")
		f.set("text_config.rope_theta", 10000)
		f.set("text_config.rope_scaling", json.RawMessage(`{"type":"mrope","mrope_section":[2,1,1]}`))
	}},
	{name: "partial_rotary_factor 0", rules: "config-values", text: "partial_rotary_factor", do: put(rope+"partial_rotary_factor", `0`)},
	{name: "partial_rotary_factor 1.5", rules: "config-values", do: put(rope+"partial_rotary_factor", `1.5`)},
	{name: "partial_rotary_factor 0.5", rules: "config-values", text: "adds up to 4", do: put(rope+"partial_rotary_factor", `0.5`)},
	{name: "mrope_section of another sum", rules: "config-values", text: "12", do: put(rope+"mrope_section", `[4,4,4]`)},
	{name: "mrope_section missing", rules: "config-values?", do: gone(rope + "mrope_section")},
	{name: "rope_type unknown", rules: "config-values", text: "banana", do: put(rope+"rope_type", `"banana"`)},
	{name: "rope_type yarn without its factor", rules: "config-values", text: "factor", do: put(rope+"rope_type", `"yarn"`)},
	{name: "rope_theta missing", rules: "config-values", text: "rope_theta", do: gone(rope + "rope_theta")},
	{name: "rope_theta 0", rules: "config-values", do: put(rope+"rope_theta", `0`)},
	{name: "rms_norm_eps 0", rules: "config-values", do: put("text_config.rms_norm_eps", `0`)},
	{name: "rms_norm_eps negative", rules: "config-values", do: put("text_config.rms_norm_eps", `-1e-6`)},
	{name: "rms_norm_eps below what a float64 holds", rules: "config-values", do: put("text_config.rms_norm_eps", `1e-400`)},
	{name: "rms_norm_eps above what a float64 holds", rules: "config-values", do: put("text_config.rms_norm_eps", `1e999`)},
	{name: "max_position_embeddings 0", rules: "config-values", do: put("text_config.max_position_embeddings", `0`)},
	{name: "value heads that key heads do not divide", rules: "config-values", text: "no multiple", do: func(f *folder) {
		f.set("text_config.linear_num_key_heads", 8)
		f.set("text_config.linear_key_head_dim", 8)
	}},
	{name: "attention in both directions", rules: "config-values", do: put("text_config.is_causal", `false`)},
	{name: "attn_output_gate null", rules: "config-values", do: put("text_config.attn_output_gate", `null`)},
	{name: "output_gate_type unknown", rules: "config-values", do: put("text_config.output_gate_type", `"tanh"`)},
}

func TestValuesThatNoTensorShowsAreJudged(t *testing.T) { expectFooled(t, fooledValues) }
