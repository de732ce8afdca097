package model_test

import (
	"fmt"
	"strings"
	"testing"

	"seatsmith/internal/model"
)

// written is a checkpoint written down by hand, one line per tensor: name, shape, role, and what the server joins it to.
// "*" in a name stands for 0 and 1.
const (
	bodyOfTwoLayers = `
model.embed_tokens.weight 96x32 embedding
model.norm.weight 32 norm
model.layers.*.input_layernorm.weight 32 norm
model.layers.*.post_attention_layernorm.weight 32 norm`
	attentionOfTwoLayers = `
model.layers.*.self_attn.q_proj.weight 32x32 attention qkv_proj
model.layers.*.self_attn.k_proj.weight 16x32 attention qkv_proj
model.layers.*.self_attn.v_proj.weight 16x32 attention qkv_proj
model.layers.*.self_attn.o_proj.weight 32x32 attention`
	qkvBiases = `
model.layers.*.self_attn.q_proj.bias 32 attention qkv_proj
model.layers.*.self_attn.k_proj.bias 16 attention qkv_proj
model.layers.*.self_attn.v_proj.bias 16 attention qkv_proj`
	qkNorms = `
model.layers.*.self_attn.q_norm.weight 8 norm
model.layers.*.self_attn.k_norm.weight 8 norm`
	mlpOfTwoLayers = `
model.layers.*.mlp.gate_proj.weight 48x32 mlp gate_up_proj
model.layers.*.mlp.up_proj.weight 48x32 mlp gate_up_proj
model.layers.*.mlp.down_proj.weight 32x48 mlp`
	routedOfLayerOne = `
model.layers.1.mlp.gate.weight 2x32 router
model.layers.1.mlp.experts.*.gate_proj.weight 16x32 expert gate_up_proj
model.layers.1.mlp.experts.*.up_proj.weight 16x32 expert gate_up_proj
model.layers.1.mlp.experts.*.down_proj.weight 32x16 expert`
	lmHead = `
lm_head.weight 96x32 lm_head`
	sizes = `"hidden_size":32,"num_hidden_layers":2,"vocab_size":96,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":8,"intermediate_size":48,"torch_dtype":"bfloat16"`
	mixed = `,"num_experts":2,"num_experts_per_tok":1,"moe_intermediate_size":16,"mlp_only_layers":[0]`
)

// qwen3NextByHand: layer 0 a delta net with an MLP, layer 1 gated attention with experts, and a head.
const qwen3NextByHand = bodyOfTwoLayers + `
model.layers.0.linear_attn.in_proj_qkvz.weight 96x32 linear_attention
model.layers.0.linear_attn.in_proj_ba.weight 8x32 linear_attention_gate
model.layers.0.linear_attn.conv1d.weight 64x1x4 conv
model.layers.0.linear_attn.A_log 4 state
model.layers.0.linear_attn.dt_bias 4 state
model.layers.0.linear_attn.norm.weight 8 norm
model.layers.0.linear_attn.out_proj.weight 32x32 linear_attention
model.layers.0.mlp.gate_proj.weight 48x32 mlp gate_up_proj
model.layers.0.mlp.up_proj.weight 48x32 mlp gate_up_proj
model.layers.0.mlp.down_proj.weight 32x48 mlp
model.layers.1.self_attn.q_proj.weight 64x32 attention qkv_proj
model.layers.1.self_attn.k_proj.weight 16x32 attention qkv_proj
model.layers.1.self_attn.v_proj.weight 16x32 attention qkv_proj
model.layers.1.self_attn.o_proj.weight 32x32 attention
model.layers.1.self_attn.q_norm.weight 8 norm
model.layers.1.self_attn.k_norm.weight 8 norm` + routedOfLayerOne + `
model.layers.1.mlp.shared_expert.gate_proj.weight 24x32 shared_expert gate_up_proj
model.layers.1.mlp.shared_expert.up_proj.weight 24x32 shared_expert gate_up_proj
model.layers.1.mlp.shared_expert.down_proj.weight 32x24 shared_expert
model.layers.1.mlp.shared_expert_gate.weight 1x32 router` + lmHead + `
mtp.fc.weight 32x64 head
mtp.pre_fc_norm_embedding.weight 32 head
mtp.pre_fc_norm_hidden.weight 32 head
mtp.norm.weight 32 head
mtp.layers.0.input_layernorm.weight 32 head
mtp.layers.0.post_attention_layernorm.weight 32 head
mtp.layers.0.self_attn.q_proj.weight 64x32 head qkv_proj
mtp.layers.0.self_attn.k_proj.weight 16x32 head qkv_proj
mtp.layers.0.self_attn.v_proj.weight 16x32 head qkv_proj
mtp.layers.0.self_attn.o_proj.weight 32x32 head
mtp.layers.0.self_attn.q_norm.weight 8 head
mtp.layers.0.self_attn.k_norm.weight 8 head
mtp.layers.0.mlp.gate.weight 2x32 head
mtp.layers.0.mlp.experts.*.gate_proj.weight 16x32 head gate_up_proj
mtp.layers.0.mlp.experts.*.up_proj.weight 16x32 head gate_up_proj
mtp.layers.0.mlp.experts.*.down_proj.weight 32x16 head
mtp.layers.0.mlp.shared_expert.gate_proj.weight 24x32 head gate_up_proj
mtp.layers.0.mlp.shared_expert.up_proj.weight 24x32 head gate_up_proj
mtp.layers.0.mlp.shared_expert.down_proj.weight 32x24 head
mtp.layers.0.mlp.shared_expert_gate.weight 1x32 head`

var byHand = []struct {
	title, family, config, tensors, head string
}{
	{"Llama", "llama", `{"architectures":["LlamaForCausalLM"],"model_type":"llama",` + sizes + `}`, bodyOfTwoLayers + attentionOfTwoLayers + mlpOfTwoLayers + lmHead, "none"},
	{"Llama with biases", "llama", `{"architectures":["LlamaForCausalLM"],"model_type":"llama","attention_bias":true,"mlp_bias":true,` + sizes + `}`,
		bodyOfTwoLayers + attentionOfTwoLayers + qkvBiases + mlpOfTwoLayers + lmHead + `
model.layers.*.self_attn.o_proj.bias 32 attention
model.layers.*.mlp.gate_proj.bias 48 mlp gate_up_proj
model.layers.*.mlp.up_proj.bias 48 mlp gate_up_proj
model.layers.*.mlp.down_proj.bias 32 mlp`, "none"},
	{"Mistral", "mistral", `{"architectures":["MistralForCausalLM"],"model_type":"mistral",` + sizes + `}`, bodyOfTwoLayers + attentionOfTwoLayers + mlpOfTwoLayers + lmHead, "none"},
	{"Qwen2, tied", "qwen2", `{"architectures":["Qwen2ForCausalLM"],"model_type":"qwen2","tie_word_embeddings":true,` + sizes + `}`, bodyOfTwoLayers + attentionOfTwoLayers + qkvBiases + mlpOfTwoLayers, "none"},
	{"Qwen3", "qwen3", `{"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3",` + sizes + `}`, bodyOfTwoLayers + attentionOfTwoLayers + qkNorms + mlpOfTwoLayers + lmHead, "none"},
	{"Qwen3 mixture, layer 0 dense", "qwen3_moe", `{"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe",` + sizes + mixed + `}`,
		bodyOfTwoLayers + attentionOfTwoLayers + qkNorms + strings.ReplaceAll(mlpOfTwoLayers, "*", "0") + routedOfLayerOne + lmHead, "none"},
	{"Qwen3-Next", "qwen3_next", `{"architectures":["Qwen3NextForCausalLM"],"model_type":"qwen3_next","num_nextn_predict_layers":1,"shared_expert_intermediate_size":24,
		"layer_types":["linear_attention","full_attention"],"linear_num_key_heads":2,"linear_num_value_heads":4,"linear_key_head_dim":8,"linear_value_head_dim":8,` + sizes + mixed + `}`,
		qwen3NextByHand, "tail mtp."},
}

// build stores what a list says, and gives the lines by name.
func build(t testing.TB, config, list string) (*folder, map[string][]string) {
	f := like(t, "tiny")
	f.config, f.tensors, f.files["tokenizer.json"] = []byte(config), map[string]entry{}, `{"model": {"vocab": {}}}`
	delete(f.files, "preprocessor_config.json")
	lines := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(list), "\n") {
		words := strings.Fields(line)
		for _, i := range []string{"0", "1"} {
			name := strings.ReplaceAll(words[0], "*", i)
			var shape []int64
			for _, s := range strings.Split(words[1], "x") {
				var n int64
				if _, err := fmt.Sscan(s, &n); err != nil {
					t.Fatal(err)
				}
				shape = append(shape, n)
			}
			f.tensors[name] = entry{dtype: "BF16", shape: shape}
			lines[name] = words
		}
	}
	return f, lines
}

func TestEachFamilyIsUnderstoodAsItIsWrittenDownByHand(t *testing.T) {
	for _, c := range byHand {
		t.Run(c.title, func(t *testing.T) {
			f, lines := build(t, c.config, c.tensors)
			m := f.open()
			if m.Family != c.family || m.Head.Layout != c.head || m.Supported() != nil {
				t.Errorf("family %q, head %q, supported %v", m.Family, m.Head.Layout, m.Supported())
			}
			for _, finding := range m.Findings {
				t.Errorf("a clean checkpoint gives %s", finding)
			}
			if len(m.Expected) != len(lines) {
				t.Errorf("%d expected, want %d", len(m.Expected), len(lines))
			}
			for i := range m.Tensors {
				tn := &m.Tensors[i]
				words := lines[tn.Name]
				fused := ""
				if len(words) > 3 {
					fused = tn.Module[:strings.LastIndexByte(tn.Module, '.')+1] + words[3]
				}
				if string(tn.Role) != words[2] || tn.Fused != fused {
					t.Errorf("%s: role %s, fused %q; want %s, %q", tn.Name, tn.Role, tn.Fused, words[2], fused)
				}
			}
		})
	}
}

func TestInEachFamilyEveryTensorIsMissed(t *testing.T) {
	for _, c := range byHand {
		t.Run(c.title, func(t *testing.T) {
			_, lines := build(t, c.config, c.tensors)
			for name := range lines {
				f, _ := build(t, c.config, c.tensors)
				delete(f.tensors, name)
				m := f.open()
				found := false
				for _, finding := range m.Findings {
					found = found || strings.Contains(finding.Message+finding.Subject, name) && finding.Severity == "error"
				}
				if !found {
					t.Errorf("without %s: %v", name, m.Findings)
				}
			}
		})
	}
}

func TestAFamilyWithoutAHeadTakesNone(t *testing.T) {
	f, _ := build(t, byHand[0].config, byHand[0].tensors)
	donor, err := model.OpenDonor(fixtures + "tiny")
	if err != nil {
		t.Fatal(err)
	}
	view, err := model.Overlay(f.open(), donor)
	if err != nil {
		t.Fatal(err)
	}
	only(t, view.Findings, "error donor-headless")
	says(t, view.Findings, "donor-headless", "family llama have no head")
}
