package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/engine"
)

// small configurations of the flat families; numbers are made up so that no two widths agree by chance.
const (
	llamaConfig = `{"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":96,"hidden_size":64,"intermediate_size":112,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"rms_norm_eps":1e-5}`
	qwen2Config = `{"architectures":["Qwen2ForCausalLM"],"model_type":"qwen2","vocab_size":96,"hidden_size":64,"intermediate_size":112,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"tie_word_embeddings":true}`
	qwen3Config = `{"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3","vocab_size":96,"hidden_size":64,"intermediate_size":112,"num_hidden_layers":1,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32}`
	moeConfig   = `{"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe","vocab_size":96,"hidden_size":64,"intermediate_size":112,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32,"num_experts":2,"num_experts_per_tok":1,"moe_intermediate_size":48,"mlp_only_layers":[0]}`
	nextConfig  = `{"architectures":["Qwen3NextForCausalLM"],"model_type":"qwen3_next","vocab_size":96,"hidden_size":64,"intermediate_size":112,"num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32,
		"linear_num_key_heads":2,"linear_num_value_heads":4,"linear_key_head_dim":16,"linear_value_head_dim":16,"num_experts":2,"num_experts_per_tok":1,"moe_intermediate_size":48,"shared_expert_intermediate_size":80}`
)

// modules lists what the server asks of one layer, shortened.
func modules(s *engine.Server, layer string) []string {
	var out []string
	for _, l := range s.Linears {
		if !strings.Contains(l.Runtime, layer) {
			continue
		}
		var shards []string
		for _, sh := range l.Shards[:min(3, len(l.Shards))] {
			name := fmt.Sprintf("%s %dx%d", sh.Name[strings.Index(sh.Name, layer)+len(layer):], sh.Out, sh.In)
			if sh.Bias {
				name += "+bias"
			}
			shards = append(shards, name)
		}
		out = append(out, l.Class+" "+l.Runtime[strings.Index(l.Runtime, layer)+len(layer):]+" <- "+strings.Join(shards, ", "))
	}
	return out
}

func TestModulesOfTheFlatFamilies(t *testing.T) {
	for _, c := range []struct {
		name, config, layer string
		want                []string
	}{
		{"Llama", llamaConfig, "layers.0.", []string{
			"QKVParallelLinear self_attn.qkv_proj <- self_attn.q_proj 64x64, self_attn.k_proj 32x64, self_attn.v_proj 32x64",
			"RowParallelLinear self_attn.o_proj <- self_attn.o_proj 64x64",
			"MergedColumnParallelLinear mlp.gate_up_proj <- mlp.gate_proj 112x64, mlp.up_proj 112x64",
			"RowParallelLinear mlp.down_proj <- mlp.down_proj 64x112",
		}},
		{"Llama with biases", strings.Replace(llamaConfig, `"rms`, `"attention_bias":true,"mlp_bias":true,"rms`, 1), "layers.1.", []string{
			"QKVParallelLinear self_attn.qkv_proj <- self_attn.q_proj 64x64+bias, self_attn.k_proj 32x64+bias, self_attn.v_proj 32x64+bias",
			"RowParallelLinear self_attn.o_proj <- self_attn.o_proj 64x64+bias",
			"MergedColumnParallelLinear mlp.gate_up_proj <- mlp.gate_proj 112x64+bias, mlp.up_proj 112x64+bias",
			"RowParallelLinear mlp.down_proj <- mlp.down_proj 64x112+bias",
		}},
		{"Qwen2 has biases on q, k and v", qwen2Config, "layers.0.", []string{
			"QKVParallelLinear self_attn.qkv_proj <- self_attn.q_proj 64x64+bias, self_attn.k_proj 32x64+bias, self_attn.v_proj 32x64+bias",
			"RowParallelLinear self_attn.o_proj <- self_attn.o_proj 64x64",
			"MergedColumnParallelLinear mlp.gate_up_proj <- mlp.gate_proj 112x64, mlp.up_proj 112x64",
			"RowParallelLinear mlp.down_proj <- mlp.down_proj 64x112",
		}},
		{"Qwen3 has a width of heads of its own", qwen3Config, "layers.0.", []string{
			"QKVParallelLinear self_attn.qkv_proj <- self_attn.q_proj 128x64, self_attn.k_proj 64x64, self_attn.v_proj 64x64",
			"RowParallelLinear self_attn.o_proj <- self_attn.o_proj 64x128",
			"MergedColumnParallelLinear mlp.gate_up_proj <- mlp.gate_proj 112x64, mlp.up_proj 112x64",
			"RowParallelLinear mlp.down_proj <- mlp.down_proj 64x112",
		}},
		{"Qwen3 MoE: a dense layer", moeConfig, "layers.0.mlp.", []string{
			"MergedColumnParallelLinear gate_up_proj <- gate_proj 112x64, up_proj 112x64",
			"RowParallelLinear down_proj <- down_proj 64x112",
		}},
		{"Qwen3 MoE: the router is built with the quantization config", moeConfig, "layers.1.mlp.", []string{
			"ReplicatedLinear gate <- gate 2x64",
			"RoutedExperts experts <- experts.0.gate_proj 48x64, experts.0.up_proj 48x64, experts.0.down_proj 64x48",
		}},
		{"Qwen3-Next: one stored matrix per input projection", nextConfig, "layers.0.linear_attn.", []string{
			"MergedColumnParallelLinear in_proj_qkvz <- in_proj_qkvz 192x64",
			"MergedColumnParallelLinear in_proj_ba <- in_proj_ba 8x64",
			"RowParallelLinear out_proj <- out_proj 64x64",
		}},
		{"Qwen3-Next: the head", nextConfig, "mtp.layers.0.", []string{
			"QKVParallelLinear self_attn.qkv_proj <- self_attn.q_proj 256x64, self_attn.k_proj 64x64, self_attn.v_proj 64x64",
			"RowParallelLinear self_attn.o_proj <- self_attn.o_proj 64x128",
			"MergedColumnParallelLinear mlp.shared_expert.gate_up_proj <- mlp.shared_expert.gate_proj 80x64, mlp.shared_expert.up_proj 80x64",
			"RowParallelLinear mlp.shared_expert.down_proj <- mlp.shared_expert.down_proj 64x80",
			"RoutedExperts mlp.experts <- mlp.experts.0.gate_proj 48x64, mlp.experts.0.up_proj 48x64, mlp.experts.0.down_proj 64x48",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := build(t, engine.Default, []byte(c.config), true)
			if got := modules(s, c.layer); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if got := keys(t, []byte(c.config)); len(got) > 0 {
				t.Errorf("values that are good are told of: %v", got)
			}
		})
	}
}

func TestNamesOfTheFlatFamiliesHaveTheirPlaces(t *testing.T) {
	for _, c := range []struct {
		config, name string
		fate         engine.Fate
	}{
		{llamaConfig, "model.layers.1.self_attn.k_proj.weight", engine.InLinear},
		{llamaConfig, "model.layers.1.mlp.up_proj.weight_packed", engine.InLinear},
		{llamaConfig, "lm_head.weight", engine.InLinear},
		{llamaConfig, "model.norm.weight", engine.InParam},
		{llamaConfig, "model.layers.2.mlp.up_proj.weight", engine.NoPlace},
		{llamaConfig, "model.layers.0.self_attn.q_norm.weight", engine.NoPlace},
		{llamaConfig, "mtp.fc.weight", engine.NoPlace}, // only classes with a head skip it
		{llamaConfig, "model.language_model.norm.weight", engine.NoPlace},
		{llamaConfig, "model.layers.0.self_attn.k_scale", engine.CacheScale},
		{qwen2Config, "lm_head.weight", engine.Skipped}, // tied
		{qwen3Config, "model.layers.0.self_attn.q_norm.weight", engine.InParam},
		{moeConfig, "model.layers.1.mlp.gate.weight", engine.InLinear},
		{moeConfig, "model.layers.1.mlp.experts.1.up_proj.weight_scale_2", engine.InLinear},
		{moeConfig, "model.layers.1.mlp.experts.gate_up_proj", engine.InExperts},
		{moeConfig, "model.layers.1.mlp.experts.2.up_proj.weight", engine.NoPlace},
		{nextConfig, "model.layers.0.linear_attn.in_proj_qkvz.weight", engine.InLinear},
		{nextConfig, "model.layers.0.linear_attn.in_proj_qkv.weight", engine.NoPlace},
		{nextConfig, "mtp.layers.0.mlp.gate.weight", engine.InParam},
		{nextConfig, "mtp.fc.weight", engine.InLinear},
		{nextConfig, "lm_head.weight", engine.InParam},
		{nextConfig, "lm_head.weight_packed", engine.NoPlace}, // built without the quantization config
	} {
		s := build(t, engine.Default, []byte(c.config), true)
		if got := s.Place(c.name); got.Fate != c.fate {
			t.Errorf("%s: %s has fate %d (%s), want %d", s.Arch.Class, c.name, got.Fate, got.Runtime, c.fate)
		}
	}
}

func TestEveryShardHasTheNameThatThePlaceAnswers(t *testing.T) {
	for _, config := range []string{llamaConfig, qwen2Config, qwen3Config, moeConfig, nextConfig} {
		s := build(t, engine.Default, []byte(config), true)
		for i, l := range s.Linears {
			for k, sh := range l.Shards {
				got := s.Place(sh.Name + ".weight_scale")
				if s.Arch.TieEmbeddings && l.Place == engine.LMHead {
					continue
				}
				if got.Fate != engine.InLinear || got.Linear != i || got.Shard != k {
					t.Errorf("%s: %s: %+v, want linear %d, shard %d", s.Arch.Class, sh.Name, got, i, k)
				}
			}
		}
		for i, p := range s.Params {
			if got := s.Place(p.Name); got.Fate != engine.InParam || got.Param != i {
				t.Errorf("%s: %s: %+v, want parameter %d", s.Arch.Class, p.Name, got, i)
			}
		}
	}
}

func TestOnlyClassesWithAHeadBuildOne(t *testing.T) {
	for config, want := range map[string]string{llamaConfig: "", qwen3Config: "", moeConfig: "", nextConfig: "Qwen3NextMTP", string(fixture(t, "moe")): "Qwen3_5MoeMTP"} {
		s := build(t, engine.Default, []byte(config), true)
		if s.DrafterClass() != want || s.Drafter != (want != "") {
			t.Errorf("%s: drafter %q (%v), want %q", s.Arch.Class, s.DrafterClass(), s.Drafter, want)
		}
	}
}

// A class whose loader is not simulated is told apart from one that the server does not have.
func TestClassesThatAreNotSimulatedAreNamed(t *testing.T) {
	e, _ := engine.Parse(engine.Default)
	for class, registered := range map[string]bool{
		"Glm4MoeForCausalLM": true, "GlmMoeDsaForCausalLM": true, "DeepseekV3ForCausalLM": true, "MiMoForCausalLM": true, "NemotronHForCausalLM": true,
		"MiniMaxM3SparseForConditionalGeneration": true, "GptOssForCausalLM": true, "Gemma4ForConditionalGeneration": true,
		"Qwen9ForCausalLM": false, "Qwen3_5MTP": false, "#": false, "that": false, "": false,
	} {
		_, err := engine.Build(e, []byte(fmt.Sprintf(`{"architectures":[%q]}`, class)), true)
		var named *engine.ClassError
		if !errors.As(err, &named) || named.Registered != registered {
			t.Errorf("%q: %v, want registered %v", class, err, registered)
		}
	}
}

func TestFlatConfigsThatStopTheServer(t *testing.T) {
	e, _ := engine.Parse(engine.Default)
	for _, c := range []struct{ config, path, raw, want string }{
		{moeConfig, "decoder_sparse_step", `0`, "divides by it"},
		{moeConfig, "decoder_sparse_step", `3`, "no layer with experts"},
		{moeConfig, "num_experts", `0`, "no layer with experts"},
		{nextConfig, "layer_types", `["full_attention"]`, "layer_types has 1 entries"},
		{llamaConfig, "num_attention_heads", `0`, "divides by it"},
		{llamaConfig, "num_hidden_layers", `99999`, "out of range"},
	} {
		if _, err := engine.Build(e, set(t, []byte(c.config), c.path, c.raw), true); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %s: %v, want %q", c.path, c.raw, err, c.want)
		}
	}
}

// llm-compressor's usual recipe for such models: every Linear but lm_head and the router.
func TestAUsualRecipeResolvesOnTheFlatFamilies(t *testing.T) {
	for _, config := range []string{llamaConfig, qwen2Config, qwen3Config, moeConfig} {
		_, res := server(t, []byte(config), oneGroup(quoted("Linear"), quoted("lm_head", `re:.*mlp\.gate$`)))
		for name, r := range res {
			plain := name == "lm_head" || strings.HasSuffix(name, ".mlp.gate")
			if plain != (r.State == engine.Unquantized) || r.State == engine.Refused {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
	// without the second entry the server would look for a quantized router
	_, res := server(t, []byte(moeConfig), oneGroup(quoted("Linear"), quoted("lm_head")))
	if res["model.layers.1.mlp.gate"].State != engine.Quantized {
		t.Error("the router of Qwen3 MoE follows the config")
	}
}
