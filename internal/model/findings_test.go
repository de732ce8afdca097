package model_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
)

func TestTheFixturesAreJudgedAsTheyAre(t *testing.T) {
	only(t, open(t, fixtures+"tiny").Findings)
	only(t, open(t, fixtures+"moe").Findings)
	only(t, open(t, fixtures+"tiny-finetune").Findings, "error head-missing")
	only(t, like(t, "tiny").open().Findings) // the same headers over zeros
}

func has(part string) func(string) bool {
	return func(name string) bool { return strings.Contains(name, part) }
}

// One thing is broken at a time, and exactly the rule for it speaks.
func TestEachFaultIsFoundByItsRule(t *testing.T) {
	const layer1 = "model.language_model.layers.1."
	for _, c := range []struct {
		what string
		make func(f *folder)
		want string
		says []string
	}{
		{"the head is gone (vllm#35548)", func(f *folder) { f.dropPrefix("mtp.") },
			"error head-missing", []string{"config promises 1 MTP layer; 0 of 15 tensors present", "mtp.fc.weight, ", "mtp.pre_fc_norm_hidden.weight", "--donor BASE"}},
		{"the head has a hole", func(f *folder) { f.dropPrefix("mtp.fc.") },
			"error head-missing", []string{"14 of 15 tensors present, missing: mtp.fc.weight"}},
		{"the head stands under model.", func(f *folder) { f.rename("mtp.", "model.mtp.") },
			"error head-misplaced", []string{"model.mtp.fc.weight", `15 tensors of the head stand under "model.mtp."`}},
		{"the head stands under model.language_model.", func(f *folder) { f.rename("mtp.", "model.language_model.mtp.") },
			"error head-misplaced", []string{`"model.language_model.mtp."`}},
		{"the head stands under language_model.", func(f *folder) { f.rename("mtp.", "language_model.mtp.") },
			"error head-misplaced", []string{`rename the prefix "language_model.mtp." to "mtp."`}},
		{"the promise is absent", func(f *folder) { f.unset("text_config.mtp_num_hidden_layers") },
			"warning head-promise", []string{"text_config.mtp_num_hidden_layers", "the key is absent, but 15 tensors"}},
		{"the promise is 0", func(f *folder) { f.set("text_config.mtp_num_hidden_layers", 0) },
			"error head-promise", []string{"the key says 0, but 15 tensors"}},
		{"neither promise nor head", func(f *folder) { f.set("text_config.mtp_num_hidden_layers", 0).dropPrefix("mtp.") },
			"info head-promise", []string{"no head is promised and none is stored"}},

		{"a whole layer is lost (AReaL#1403)", func(f *folder) { f.dropPrefix(layer1) },
			"error tensor-missing", []string{layer1, "1 of 4 layers are missing as a whole (14 tensors): 1"}},
		{"several layers are lost", func(f *folder) { f.dropPrefix(layer1).dropPrefix("model.language_model.layers.2.") },
			"error tensor-missing", []string{"2 of 4 layers", "(28 tensors): 1-2"}},
		{"one kind is lost everywhere", func(f *folder) { f.drop(has(".A_log")) },
			"error tensor-missing", []string{"3 of 6 tensors of role state are missing: model.language_model.layers.0.linear_attn.A_log, "}},
		{"the vision tower is lost", func(f *folder) { f.dropPrefix("model.visual.") },
			"error tensor-missing", []string{"the whole vision tower is missing (33 tensors)"}},
		{"a part of the tower is lost", func(f *folder) { f.dropPrefix("model.visual.merger.norm.") },
			"error tensor-missing", []string{"2 of 33 tensors of role vision"}},
		{"something nobody reads", func(f *folder) {
			f.add("model.language_model.layers.0.mlp.extra.weight", "BF16", 4).add("model.language_model.layers.2.mlp.extra.weight", "BF16", 4)
		},
			"error tensor-unexpected", []string{"2 tensors of the kind model.language_model.layers.N.mlp.extra.weight"}},
		{"a layer too many", func(f *folder) { f.add("model.language_model.layers.4.input_layernorm.weight", "BF16", 128) },
			"error tensor-unexpected", []string{"layers.4.input_layernorm.weight"}},
		{"a head layer too many", func(f *folder) { f.add("mtp.layers.1.input_layernorm.weight", "BF16", 128) },
			"error tensor-unexpected", []string{"mtp.layers.1."}},
		{"a rotary buffer", func(f *folder) { f.add("model.language_model.layers.3.self_attn.rotary_emb.inv_freq", "F32", 4) },
			"warning tensor-unexpected", []string{"that nothing reads"}},
		{"another shape", func(f *folder) { f.add("model.language_model.embed_tokens.weight", "BF16", 2050, 128) },
			"error tensor-shape", []string{"stored as [2050 128], config.json makes it [2048 128]"}},
		{"a packed shape without a quantization", func(f *folder) { f.add("mtp.layers.0.mlp.up_proj.weight", "U8", 384, 128) },
			"error tensor-dtype", []string{"mtp.layers.0.mlp.up_proj.weight", "stored as U8"}},

		{"flattened names (Impromptu-VLA#52)", func(f *folder) { f.rename("model.language_model.", "model.") },
			"error layout-prefix", []string{`55 of 89 tensors`, `"model." where "model.language_model." is expected`, `rename the prefix "model." to "model.language_model."`, "leave mtp.*"}},
		{"tripled names (llm-compressor#2568)", func(f *folder) {
			f.rename("model.language_model.", "model.language_model.language_model.language_model.")
		},
			"error layout-prefix", []string{`"model.language_model.language_model.language_model." where "model.language_model."`}},
		{"some names doubled, the tower bare", func(f *folder) {
			f.rename(layer1, "model.language_model.language_model.layers.1.").rename("model.visual.", "visual.")
		},
			"error layout-prefix", []string{`"model.language_model.language_model." to "model.language_model." (14 tensors), "" to "model." (33 tensors)`}},
		{"names of an adapter wrapper", func(f *folder) { f.rename("lm_head.", "base_model.model.lm_head.") },
			"error layout-prefix", []string{`rename the prefix "base_model.model." to "" (1 tensor)`}},
		{"text-only under the wrapper class (vllm#36607)", func(f *folder) {
			f.dropPrefix("model.visual.").unset("vision_config").set("model_type", "qwen3_5_text")
		},
			"error text-only-vision", []string{"the class is Qwen3_5ForConditionalGeneration", `model_type is "qwen3_5_text"`, "no model.visual.*", "Qwen3_5ForCausalLM"}},
		{"text-only under the wrapper class, with a vision_config", func(f *folder) { f.dropPrefix("model.visual.").set("model_type", "qwen3_5_text") },
			"error text-only-vision", []string{"with a vision_config"}},
		{"the wrong model_type inside", func(f *folder) { f.set("text_config.model_type", "qwen3_text") },
			"error arch-unknown", []string{"text_config.model_type", `builds only "qwen3_5_text"`}},

		{"untied without an output layer", func(f *folder) { f.dropPrefix("lm_head.") },
			"error lm-head-tied", []string{"lm_head.weight is missing", "to true if the model was trained tied, or take"}},
		{"tied, with a copy", func(f *folder) { f.tie(true, true) },
			"info lm-head-tied", []string{"16 of its 2048 rows were compared and equal"}},
		{"tied, with another matrix", func(f *folder) { f.tie(true, true).fill(1, has("lm_head.")) },
			"error lm-head-tied", []string{"differs from the embedding (row 0)"}},
		{"tied, with a matrix of another size", func(f *folder) { f.tie(true, true).add("lm_head.weight", "BF16", 100, 128) },
			"error lm-head-tied", []string{"lm_head.weight (BF16 [100 128])"}},
		{"the two flags differ", func(f *folder) { f.tie(false, true) },
			"error lm-head-tied", []string{"text_config says false and the top level says true"}},

		{"a nested dtype lies (LlamaFactory#7401)", func(f *folder) { f.set("vision_config.torch_dtype", "float32") },
			"warning dtype-lies", []string{"vision_config.torch_dtype", "the field says float32, 100% of its bytes are BF16"}},
		{"no dtype at all", func(f *folder) { f.unset("dtype") },
			"warning dtype-lies", []string{"no dtype field", `write "dtype": "bfloat16"`}},
		{"two rotary bases (vllm#42624)", func(f *folder) { f.set("text_config.rope_theta", 500000) },
			"error rope-moved", []string{"text_config.rope_theta says 500000 and text_config.rope_parameters.rope_theta says 10000.0"}},
		{"a quantization", func(f *folder) {
			f.set("quantization_config.quant_method", "compressed-tensors").set("quantization_config.format", "mixed-precision")
		},
			"info already-quantized", []string{"quant_method compressed-tensors, format mixed-precision"}},
		{"scales without a quantization (Model-Optimizer#261)", func(f *folder) {
			f.add("mtp.fc.weight_packed", "U8", 128, 128).add("mtp.fc.weight_scale", "U8", 128, 16).drop(func(n string) bool { return n == "mtp.fc.weight" })
		},
			"error quant-config-missing", []string{"2 tensors like mtp.fc.weight_packed look like compressed-tensors"}},
		{"scales with another tool's config", func(f *folder) {
			f.add("mtp.fc.weight", "U8", 128, 128).add("mtp.fc.weight_scale_2", "F32").files["hf_quant_config.json"] = "{}"
		},
			"warning quant-config-missing", []string{"look like modelopt", "hf_quant_config.json is there"}},
	} {
		f := like(t, "tiny")
		c.make(f)
		t.Run(c.what, func(t *testing.T) {
			f.t = t
			m := f.open()
			only(t, m.Findings, c.want)
			if _, rule, ok := strings.Cut(c.want, " "); ok {
				says(t, m.Findings, rule, c.says...)
			}
		})
	}
}

// tie sets both flags.
func (f *folder) tie(inner, outer bool) *folder {
	return f.set("text_config.tie_word_embeddings", inner).set("tie_word_embeddings", outer)
}

func TestFaultsOfFilesBecomeFindingsOneToOne(t *testing.T) {
	dir := like(t, "tiny").write()
	shard := filepath.Join(dir, "model-00002-of-00002.safetensors")
	data, err := os.ReadFile(shard)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(shard, data[:len(data)-1], 0o666); err != nil {
		t.Fatal(err)
	}
	m := open(t, dir)
	if len(m.Findings) == 0 || m.Findings[0].Rule != "file-truncated" || m.Findings[0].Severity != playbook.Error ||
		!strings.HasPrefix(m.Findings[0].Subject, "model-00002-of-00002.safetensors") || m.Findings[0].Fix == "" {
		t.Errorf("%v", m.Findings)
	}
}

func TestAVisionConfigWithoutATowerClassIsNotBuilt(t *testing.T) {
	m := flat(t).add("model.visual.pos_embed.weight", "BF16", 64, 64).open()
	only(t, m.Findings, "error tensor-unexpected")
}

func TestATowerWithoutAVisionConfigIsUnexpected(t *testing.T) {
	m := like(t, "tiny").unset("vision_config").open()
	for _, f := range m.Findings {
		if f.Rule != "tensor-unexpected" {
			t.Errorf("%v", f)
		}
	}
	if len(m.Findings) != 8 {
		t.Errorf("%d findings, want the first seven kinds and a last one for the rest", len(m.Findings))
	}
	says(t, m.Findings[7:], "tensor-unexpected", "and 13 more kinds with 17 tensors")
}

func TestTheTextOnlyClassReadsBothSpellings(t *testing.T) {
	f := flat(t).rename("model.", "model.language_model.")
	m := f.open()
	only(t, m.Findings, "warning layout-prefix")
	says(t, m.Findings, "layout-prefix", "2026-08-06")
	if e := expects(m, "model.language_model.norm.weight"); e == nil {
		t.Error("the names that are stored are not the ones expected")
	}
}

func TestACopyUnderTheWrongPrefixBesideTheRightOneIsUnexpected(t *testing.T) {
	only(t, like(t, "tiny").add("model.norm.weight", "BF16", 128).open().Findings, "error tensor-unexpected")
}

func TestQuantizedSpellingsStandForTheirWeights(t *testing.T) {
	f := like(t, "tiny").set("quantization_config.quant_method", "compressed-tensors")
	f.set("quantization_config.ignore", []string{"re:.*mtp.*", "lm_head"})
	for _, name := range f.names() {
		if strings.Contains(name, "language_model") && strings.Contains(name, "mlp.") {
			module := strings.TrimSuffix(name, ".weight")
			shape := f.tensors[name].shape
			delete(f.tensors, name)
			f.add(module+".weight_packed", "U8", shape[0], shape[1]/2)
			f.add(module+".weight_scale", "F8_E4M3", shape[0], shape[1]/16)
			f.add(module+".weight_global_scale", "F32", 1)
		}
	}
	m := f.open()
	only(t, m.Findings, "info already-quantized")
	if !m.Head.Ignored || m.Head.Quantized {
		t.Errorf("head %+v", m.Head)
	}
	if want := open(t, fixtures+"tiny").Report().Parameters; m.Report().Parameters != want {
		t.Errorf("%d parameters, want the %d of the unquantized model", m.Report().Parameters, want)
	}
}

func TestAQuantizedHeadIsSeen(t *testing.T) {
	m := like(t, "tiny").set("quantization_config.quant_method", "fp8").add("mtp.fc.weight", "F8_E4M3", 128, 256).add("mtp.fc.weight_scale", "F32", 1).open()
	if !m.Head.Quantized || m.Head.Present != 15 {
		t.Errorf("%+v", m.Head)
	}
	only(t, m.Findings, "info already-quantized")
}

func TestOpenRefusesAFolderThatIsNoCheckpoint(t *testing.T) {
	dir := t.TempDir()
	if _, err := model.Open(dir); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(flatConfig), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := model.Open(dir); err == nil || !strings.Contains(err.Error(), "safetensors") {
		t.Errorf("%v", err)
	}
}
