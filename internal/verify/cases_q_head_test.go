package verify_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/verify"
)

// headTensors are the 15 of a dense head.
var headTensors = []string{
	"mtp.fc.weight", "mtp.norm.weight", "mtp.pre_fc_norm_embedding.weight", "mtp.pre_fc_norm_hidden.weight",
	"mtp.layers.0.input_layernorm.weight", "mtp.layers.0.post_attention_layernorm.weight",
	"mtp.layers.0.self_attn.q_proj.weight", "mtp.layers.0.self_attn.k_proj.weight", "mtp.layers.0.self_attn.v_proj.weight", "mtp.layers.0.self_attn.o_proj.weight",
	"mtp.layers.0.self_attn.q_norm.weight", "mtp.layers.0.self_attn.k_norm.weight",
	"mtp.layers.0.mlp.gate_proj.weight", "mtp.layers.0.mlp.up_proj.weight", "mtp.layers.0.mlp.down_proj.weight",
}

func TestQ01APromisedHeadThatIsNotThereIsListedWhole(t *testing.T) {
	f := whole(t)
	f.rename(drop("mtp."))
	r := lint(t, f, verify.Options{})
	only(t, r, "head-missing")
	says(t, r, "head-missing", append(headTensors, "promises 1 MTP layer", "0 of 15 tensors present", "--donor")...)

	f.set("text_config.mtp_num_hidden_layers", 0)
	clean(t, lint(t, f, verify.Options{}))
	only(t, lint(t, f, command(t, drafting)), "serve-headless")

	f = whole(t)
	delete(f.tensors, "mtp.layers.0.self_attn.q_norm.weight")
	r = lint(t, f, verify.Options{})
	only(t, r, "head-missing")
	says(t, r, "head-missing", "14 of 15", "q_norm")
}

func TestQ03AHeadIgnoredPartByPartIsWholeAndWarnedOf(t *testing.T) {
	f := linear(t)
	f.ignore(dropping("mtp"))
	for _, name := range headTensors {
		if module, ok := strings.CutSuffix(name, ".weight"); ok && !strings.Contains(name, "norm") {
			f.ignore(adding(module))
		}
	}
	r := lint(t, f, verify.Options{})
	only(t, r, "head-portability?")
	says(t, r, "head-portability", "mtp.layers.0.self_attn.qkv_proj", "mtp.layers.0.mlp.gate_up_proj")

	f.ignore(adding("mtp.layers.0.self_attn.qkv_proj", "mtp.layers.0.mlp.gate_up_proj"))
	clean(t, lint(t, f, verify.Options{}))
}

func TestQ05AnUncoveredFcIsNamed(t *testing.T) {
	f := linear(t)
	f.ignore(dropping("mtp"))
	f.ignore(adding(`re:.*mtp\.layers.*`))
	r := lint(t, f, verify.Options{})
	only(t, r, "head-not-ignored")
	if single(t, r, "head-not-ignored").Subject != "mtp.fc" {
		t.Errorf("%v", r.Findings)
	}
	says(t, r, "head-not-ignored", `"re:.*mtp.*"`, "(mtp.fc)", "quantization_config.ignore")

	f.ignore(adding("mtp.fc"))
	clean(t, lint(t, f, verify.Options{}))
}

func TestQ06ExclusionsThatDoNotReachTheHeadAreNamed(t *testing.T) {
	f := inModelOpt(t)
	f.set(exclude, append(without(f, "mtp"), "lm_head"))
	r := lint(t, f, verify.Options{})
	only(t, r, "head-not-ignored")
	says(t, r, "head-not-ignored", `"mtp*"`, "quantization_config.ignore", "mtp.layers.0")

	f.set(exclude, append(without(f, "mtp"), "mtp*"))
	clean(t, lint(t, f, verify.Options{}))
}

func TestQ06BuildsThatIgnoreTheExclusionsAreToldOf(t *testing.T) {
	f := uniform(t)
	r := lint(t, f, verify.Options{Engine: "vllm@0.19"})
	says(t, r, "engine-too-old", "0.20", "do not reach the drafter", "#38832")
	clean(t, lint(t, f, verify.Options{Engine: "vllm@0.21"}))
	f.rename(drop("mtp."))
	f.set("text_config.mtp_num_hidden_layers", 0)
	for _, x := range lint(t, f, verify.Options{Engine: "vllm@0.19"}).Findings {
		if x.Rule == "engine-too-old" {
			t.Errorf("without a head: %s", x)
		}
	}
}

func TestQ06TheSameHoldsInTheFileOfModelOpt(t *testing.T) {
	f := uniform(t)
	f.del("quantization_config")
	path := filepath.Join(f.dir, "hf_quant_config.json")
	edit(t, path, "quantization.exclude_modules", without(withFile(t), "mtp"))
	r := lint(t, f, verify.Options{})
	only(t, r, "head-not-ignored", "quant-config-missing?")
	says(t, r, "head-not-ignored", `"mtp*"`, "hf_quant_config.json.quantization.exclude_modules")
}

// The drafter reads the same embeddings and lm_head; a head that drafts from the reverse, quantized tensors under an exclusion,
// stops at the first shape as well.
func TestQ06TheReverseIsNamedToo(t *testing.T) {
	f := linear(t)
	f.toFP8("mtp.layers.0.mlp.down_proj")
	r := lint(t, f, verify.Options{})
	only(t, r, "head-quantized")
	says(t, r, "head-quantized", "mtp.layers.0.mlp.down_proj", "restore the head")
}

func TestQ18WhatIsQuantizedAndExcludedIsNamedWithTwoRepairs(t *testing.T) {
	f := inModelOpt(t)
	f.fp4("lm_head")
	r := lint(t, f, verify.Options{})
	only(t, r, "lm-head-state")
	says(t, r, "lm-head-state", "NVFP4", "unquantized", "quantization_config.ignore", "source")

	// vllm-project/compressed-tensors#712: ignored modules that were packed all the same
	f = copyOf(t, "default")
	f.ignore(adding(down0))
	r = lint(t, f, verify.Options{})
	only(t, r, "config-contradiction")
	says(t, r, "config-contradiction", down0, fmt.Sprintf("%q", down0), "take it out of quantization_config.ignore", "from the source")
}
