package verify_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// checks are broken inputs, each named after the check of docs/references.md that it fails, and every rule that tells of
// it. A row without rules is the nearest good input.
var checks = []struct {
	id, name, rules, text string
	make                  func(t *testing.T) *folder // nil: the default recipe
	do                    func(f *folder)
	after                 func(t *testing.T, dir string)
	host                  verify.Host
	engine, command       string
	source                bool
}{
	{id: "C01", name: "a class that nobody registers", rules: "arch-unknown", make: whole, do: func(f *folder) { f.set("architectures", []string{"Qwen3_5ForEverything"}) }},
	{id: "C01", name: "a model_type of another class", rules: "arch-unknown", text: "qwen3_5_text", make: whole, do: func(f *folder) { f.set("text_config.model_type", "qwen3_5_moe_text") }},

	{id: "C02", name: "flat names under the wrapper", rules: "layout-prefix", make: whole, do: func(f *folder) { f.rename(replacing("model.language_model.", "model.")) }},
	{id: "C02", name: "the text-only class before it was registered", rules: "engine-too-old", text: "0.27", make: flatHeadless, engine: "vllm@0.26"},
	{id: "C02", name: "the text-only class since", make: flatHeadless, engine: "vllm@0.27"},

	{id: "C03", name: "the head of a text-only class before its drafter", rules: "engine-too-old", text: "0.28", make: textOnly, engine: "vllm@0.27"},
	{id: "C03", name: "the head of a text-only class since", make: textOnly, engine: "vllm@0.28"},

	{id: "C04", name: "a shard that is not there", rules: "shard-missing", make: whole, after: func(t *testing.T, dir string) { remove(t, shard(t, dir, 0)) }},
	{id: "C04", name: "a tensor in two shards", rules: "stale-copy", after: func(t *testing.T, dir string) { duplicate(t, dir, "model.language_model.norm.weight") }},
	{id: "C04", name: "the head only in a file that the index leaves out", rules: "head-missing shard-leftover?", text: "mtp.safetensors", make: whole, do: func(f *folder) { f.rename(drop("mtp.")) }, after: sidecar},

	{id: "C05", name: "a norm lost", rules: "tensor-missing", text: "input_layernorm", make: whole, do: func(f *folder) { delete(f.tensors, layer0+"input_layernorm.weight") }},
	{id: "C05", name: "a scale lost", rules: "tensor-missing", text: "memory holds", do: func(f *folder) { delete(f.tensors, down0+".weight_scale") }},

	{id: "C06", name: "an orphan scale", rules: "tensor-unexpected", do: func(f *folder) {
		f.add("mtp.fc.weight", "mtp.fc.weight_scale", safetensors.F32, []int64{128, 1}, make([]byte, 512))
		for i := range f.get("mtp.fc.weight_scale").data {
			f.get("mtp.fc.weight_scale").data[i] = 0x3F
		}
	}},
	{id: "C06", name: "weight_shape", rules: "tensor-unexpected", do: func(f *folder) {
		f.add(down0+".weight_packed", down0+".weight_shape", "I64", []int64{2}, make([]byte, 16))
	}},
	{id: "C06", name: "the head under the model", rules: "head-misplaced", make: whole, do: func(f *folder) { f.rename(replacing("mtp.", "model.mtp.")) }},

	{id: "C07", name: "block scales as bytes", rules: "tensor-dtype", do: func(f *folder) { f.get(down0 + ".weight_scale").dtype = safetensors.U8 }},
	{id: "C07", name: "a norm as integers", rules: "tensor-dtype", make: whole, do: func(f *folder) { f.get(layer0 + "input_layernorm.weight").dtype = "I16" }},

	{id: "C08", name: "codes turned over", rules: "tensor-shape", do: func(f *folder) { f.get(down0 + ".weight_packed").shape = []int64{192, 128} }},
	{id: "C08", name: "two global scales", rules: "tensor-shape", do: func(f *folder) {
		x := f.get(down0 + ".weight_global_scale")
		x.shape, x.data = []int64{2}, append(x.data, x.data...)
	}},
	{id: "C08", name: "a scalar without a dimension", do: func(f *folder) { f.get(down0 + ".weight_global_scale").shape = []int64{} }},

	{id: "C09", name: "gate and up apart", rules: "fused-scale", do: double(up0)},
	{id: "C09", name: "q apart", rules: "fused-scale gated-q-fp4?", make: allLinear, do: double(attn3 + "q_proj")},
	{id: "C09", name: "in_proj_z apart", rules: "fused-scale gated-q-fp4?", text: "in_proj_qkv", make: allLinear, do: double(layer0 + "linear_attn.in_proj_z")},
	{id: "C09", name: "one expert's up apart", rules: "fused-scale", text: "experts.5", make: mixture, do: double("model.language_model.layers.1.mlp.experts.5.up_proj")},
	{id: "C09", name: "down is no partner", do: func(f *folder) {
		x := f.get(down0 + ".weight_global_scale")
		x.data = f32(f32At(x.data) * 1.5)
	}},

	{id: "C10", name: "an input scale lost", rules: "scale-missing", make: activations, do: func(f *folder) { delete(f.tensors, down0+".input_global_scale") }},
	{id: "C10", name: "an input scale of zero", rules: "scale-bad", make: activations, do: badScale(0)},
	{id: "C10", name: "a block scale of NaN", rules: "scale-bad", do: func(f *folder) { f.get(down0 + ".weight_scale").data[7] = 0x7F }},
	{id: "C10", name: "a row of block scales of zero over codes", rules: "scale-bad", text: "silences", do: func(f *folder) { clear(f.get(down0 + ".weight_scale").data[:24]) }},

	{id: "C11", name: "a width of 392", rules: "width-group", text: "392 mod 16 = 8", make: func(t *testing.T) *folder { return withWidth(t, 392) }},
	{id: "C11", name: "a width of 24 on each rank", rules: "tp-split width-group", text: "24 mod 16 = 8", host: verify.Host{TP: 16}},
	{id: "C12", name: "a width of 400", rules: "width-kernel?", make: func(t *testing.T) *folder { return withWidth(t, 400) }},
	{id: "C12", name: "a width of 176 on each rank", rules: "width-kernel?", text: "176", make: func(t *testing.T) *folder { return withWidth(t, 352) }, host: verify.Host{TP: 2}},
	{id: "C12", name: "a height of 96", rules: "width-kernel?", text: "96", make: narrow, engine: "vllm@0.23"},

	{id: "C13", name: "a tensor of the head lost", rules: "head-missing", text: "14 of 15", make: whole, do: func(f *folder) { delete(f.tensors, "mtp.norm.weight") }},
	{id: "C13", name: "an expert tensor of the head lost", rules: "head-missing", text: "18 of 19", make: moe, do: func(f *folder) { delete(f.tensors, "mtp.layers.0.mlp.experts.down_proj") }},
	{id: "C13", name: "the head inside language_model", rules: "head-misplaced", make: whole, do: func(f *folder) { f.rename(replacing("mtp.", "language_model.mtp.")) }},
	{id: "C13", name: "the key absent", rules: "head-promise?", make: whole, do: func(f *folder) { f.del("text_config.mtp_num_hidden_layers") }},
	{id: "C13", name: "a count of 0 beside a head", rules: "head-promise", make: whole, do: func(f *folder) { f.set("text_config.mtp_num_hidden_layers", 0) }},
	{id: "C13", name: "a count of 0 and no head", make: unpromised},

	{id: "C14", name: "a head that a target selects", rules: "head-not-ignored", make: fp8Linear, do: func(f *folder) { f.ignore(dropping("mtp")) }},
	{id: "C14", name: "a quantized head that is ignored", rules: "head-quantized", do: func(f *folder) { f.toFP8("mtp.fc") }},
	{id: "C15", name: "the layers covered, fc not", rules: "head-not-ignored", text: "mtp.fc", make: fp8Linear, do: func(f *folder) { f.ignore(dropping("mtp")); f.ignore(adding(`re:.*mtp\.layers.*`)) }},
	{id: "C15", name: "the same in modelopt, whose fc is built unquantized", make: inModelOpt, do: func(f *folder) { f.set(exclude, append(without(f, "mtp"), "mtp.layers.0*")) }},

	{id: "C16", name: "lm_head covered for the target only", rules: "lm-head-state", text: "language_model.lm_head", do: func(f *folder) { f.ignore(dropping("lm_head")); f.set(group0+"targets.-1", "lm_head") }},
	{id: "C16", name: "lm_head stored otherwise", rules: "lm-head-state", do: func(f *folder) { f.toFP8("lm_head") }},

	{id: "C17", name: "q alone ignored", rules: "fused-partial", make: fp8Linear, do: func(f *folder) { f.ignore(adding(attn3 + "q_proj")) }},
	{id: "C17", name: "a wildcard on one shard", rules: "fused-partial", make: fp8Linear, do: func(f *folder) { f.ignore(adding(`re:.*layers\.3\.self_attn\.k_proj$`)) }},
	{id: "C17", name: "a pattern in modelopt", rules: "ignore-dead? protected-quantized", text: "no patterns that start re:", make: inModelOpt, do: func(f *folder) {
		f.set(exclude, append(without(f, "visual"), "re:.*visual.*"))
	}},
	{id: "C17", name: "a glob in compressed-tensors", rules: "ignore-dead?", do: func(f *folder) { f.ignore(adding("*.layers.0.mlp*")) }},
	{id: "C17", name: "a parent", rules: "ignore-dead?", do: func(f *folder) { f.ignore(adding(layer0 + "mlp")) }},
	{id: "C17", name: "a pattern for names on the disk", rules: "ignore-dead?", do: func(f *folder) { f.ignore(adding(`re:^model\.language_model\.layers\.0\.mlp.*`)) }},

	{id: "C18", name: "an exclusion inside other names", rules: "ignore-overreach?", text: "in_proj_b", make: inModelOpt, do: func(f *folder) {
		f.set(exclude, append(without(f, ""), "model.language_model.layers.0.linear_attn.in_proj_"))
	}},

	{id: "C19", name: "the tower", rules: "protected-quantized", make: fp8Linear, do: func(f *folder) { f.ignore(dropping("visual")) }},
	{id: "C19", name: "in_proj_a and in_proj_b", rules: "protected-quantized", make: fp8Linear, do: func(f *folder) { f.ignore(dropping("in_proj_a")); f.ignore(dropping("in_proj_b")) }},
	{id: "C19", name: "a router", rules: "protected-quantized", make: mixture, do: func(f *folder) { f.toFP8("model.language_model.layers.0.mlp.gate") }},
	{id: "C19", name: "the embedding", rules: "protected-quantized", do: func(f *folder) { f.toFP8("model.language_model.embed_tokens") }},

	{id: "C20", name: "no method", rules: "quant-method", make: inModelOpt, do: func(f *folder) { f.del("quantization_config.quant_method"); f.del("quantization_config.producer") }},
	{id: "C20", name: "weight-only in the other file alone", rules: "quant-config-missing", text: "W4A16_NVFP4", make: withFile, do: func(f *folder) { f.del("quantization_config") }},
	{id: "C20", name: "groups of 32", rules: "config-args", make: inModelOpt, do: func(f *folder) { f.set("quantization_config.group_size", 32) }},
	{id: "C20", name: "the nested form without its keys", rules: "config-args quant-config-missing?", text: "kv_cache_quant_algo", make: uniform, do: func(f *folder) {
		f.del("quantization_config")
		edit(f.t, filepath.Join(f.dir, "hf_quant_config.json"), "quantization", map[string]any{"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": []string{"mtp*"}})
	}},

	{id: "C21", name: "two lists", rules: "quant-files-differ", make: withFile, do: func(f *folder) {
		edit(f.t, filepath.Join(f.dir, "hf_quant_config.json"), "quantization.exclude_modules", []string{"lm_head"})
	}},

	{id: "C22", name: "nothing listed", rules: "config-args", text: "quantized_layers", make: mixed, do: func(f *folder) { f.set("quantization_config.quantized_layers", map[string]any{}) }},
	{id: "C22", name: "two algorithms in a fused group", rules: "fused-partial", text: "gate_up_proj", make: mixed, do: func(f *folder) {
		f.set("quantization_config.quantized_layers."+strings.ReplaceAll(up0, ".", `\.`)+".quant_algo", "FP8")
	}},
	{id: "C22", name: "an algorithm that nobody knows", rules: "config-contradiction", text: "passes over", make: mixed, do: func(f *folder) {
		f.set("quantization_config.quantized_layers."+strings.ReplaceAll(down0, ".", `\.`)+".quant_algo", "NVFP9")
	}},

	{id: "C23", name: "a group of another size", rules: "config-args", text: "group_size", do: func(f *folder) { f.set(group0+"weights.group_size", 32) }},
	{id: "C23", name: "FP8 without a format of its own", rules: "config-args", text: "float-quantized", do: func(f *folder) { f.del(group1 + "format") }},

	{id: "C24", name: "experts of the head by their parent", rules: "head-not-ignored ignore-dead?", text: "experts", make: mixture, do: func(f *folder) {
		f.ignore(dropping("mtp"))
		f.ignore(adding("mtp.fc", "re:mtp.*self_attn.*", "re:mtp.*shared_expert.*", "mtp.layers.0.mlp.experts"))
	}},
	{id: "C24", name: "experts of the head by their names", make: mixture, do: func(f *folder) {
		f.ignore(dropping("mtp"))
		f.ignore(adding("mtp.fc", "re:mtp.*self_attn.*", "re:mtp.*shared_expert.*"))
		for _, s := range []string{"gate", "up", "down"} {
			f.ignore(adding("mtp.layers.0.mlp.experts.0." + s + "_proj"))
		}
	}},

	{id: "C25", name: "a divisor below 1", rules: "scale-inverted?", do: invert(down0)},
	{id: "C25", name: "a multiplier above 1", rules: "scale-inverted?", make: inModelOpt, do: func(f *folder) { x := f.get(down0 + ".weight_scale_2"); x.data = f32(1 / f32At(x.data)) }},
	{id: "C25", name: "a divisor below 1, decoded and compared", rules: "native-scale scale-inverted", source: true, do: invert(down0)},

	{id: "C26", name: "a cache without scales", rules: "kv-scale-missing?", do: func(f *folder) { f.cacheScheme() }},
	{id: "C27", name: "a folder named after another method", rules: "path-trap", make: func(t *testing.T) *folder {
		f := whole(t)
		f.dir = rename(t, f.dir, "tiny-dFlash")
		return f
	}},
	{id: "C27", name: "a command that names such a path", rules: "serve-args", text: "dspark", make: whole, command: strings.Replace(drafting, "/m ", "/models/dspark-x ", 1)},

	{id: "C28", name: "no number of drafted tokens", rules: "serve-args", text: "num_speculative_tokens", make: whole, command: `/m --no-enable-prefix-caching --speculative-config '{"method":"mtp"}'`},
	{id: "C28", name: "five of them", rules: "serve-args?", make: whole, command: strings.Replace(drafting, "tokens\":1", "tokens\":5", 1)},
	{id: "C29", name: "prefix caching not said", rules: "serve-args?", text: "#53912", make: whole, command: strings.Replace(drafting, "--no-enable-prefix-caching ", "", 1)},
	{id: "C29", name: "prefix caching off", make: whole, command: drafting},

	{id: "C30", name: "FP4 activations on sm_90", rules: "scheme-gpus?", make: activations, host: verify.Host{GPU: "sm_90"}},
	{id: "C30", name: "weight-only on sm_90", host: verify.Host{GPU: "sm_90"}},
	{id: "C30", name: "below sm_75", rules: "gpu-unfit", host: verify.Host{GPU: "sm_70"}},
	{id: "C30", name: "a CPU", rules: "gpu-unfit", host: verify.Host{GPU: "cpu"}},
	{id: "C30", name: "an XPU", rules: "gpu-unfit", host: verify.Host{GPU: "xpu"}},

	{id: "C31", name: "a card that is too small", rules: "gpu-memory", host: verify.Host{Memory: 1 << 20}},
	{id: "C32", name: "builds that misread what is not listed", rules: "modelopt-since?", make: mixed, engine: "vllm@0.25"},
	{id: "C33", name: "one bit of the head", rules: "head-bytes", text: "mtp.fc.weight", source: true, do: func(f *folder) { f.get("mtp.fc.weight").data[100] ^= 1 }},
	{id: "C34", name: "a server that drafts", make: whole, command: drafting},
}

func allLinear(t *testing.T) *folder { return copyOf(t, "nvfp4-all-linear") }

func activations(t *testing.T) *folder { return w4a4(t) }

// flatHeadless is the text-only fixture without its head.
func flatHeadless(t *testing.T) *folder {
	f := textOnly(t)
	f.rename(drop("mtp."))
	f.set("mtp_num_hidden_layers", 0)
	return f
}

// moe is the unquantized mixture.
func moe(t *testing.T) *folder {
	dir := filepath.Join(t.TempDir(), "moe")
	if err := os.CopyFS(dir, os.DirFS("../../testdata/moe")); err != nil {
		t.Fatal(err)
	}
	return load(t, dir)
}

func TestEachCheckIsFailedByItsOwnInput(t *testing.T) {
	source := open(t)
	for _, c := range checks {
		t.Run(c.id+" "+c.name, func(t *testing.T) {
			if c.make == nil {
				c.make = quant0
			}
			f := c.make(t)
			if c.do != nil {
				c.do(f)
			}
			f.save()
			if c.after != nil {
				c.after(t, f.dir)
			}
			o := verify.Options{Host: c.host, Engine: c.engine}
			if c.command != "" {
				o.Serve = command(t, c.command).Serve
			}
			var r *verify.Report
			if c.source {
				o.Source = source
				r = judge(t, f.dir, o)
			} else {
				r = doctor(t, f.dir, o)
			}
			only(t, r, strings.Fields(c.rules)...)
			said := ""
			for _, x := range r.Findings {
				said += x.String() + "\n"
			}
			if !strings.Contains(said, c.text) {
				t.Errorf("%q is not said: %s", c.text, said)
			}
		})
	}
}

// Every check that docs/references.md explains has an input here, and every input's check is explained there.
func TestEveryCheckHasAnInput(t *testing.T) {
	text := string(readFile(t, "../../docs/references.md"))
	explained := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\* \*\*(C\d\d)\*\*`).FindAllStringSubmatch(text, -1) {
		explained[m[1]] = true
	}
	tried := map[string]bool{}
	for _, c := range checks {
		tried[c.id] = true
	}
	for i := 1; i <= 34; i++ {
		if id := fmt.Sprintf("C%02d", i); !explained[id] || !tried[id] {
			t.Errorf("%s: explained %t, tried %t", id, explained[id], tried[id])
		}
	}
	if len(tried) != len(explained) || !slices.Equal(slices.Sorted(maps.Keys(tried)), slices.Sorted(maps.Keys(explained))) {
		t.Errorf("%d checks are tried and %d explained", len(tried), len(explained))
	}
}
