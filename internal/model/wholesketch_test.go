package model_test

import (
	"strings"
	"testing"
)

const (
	latentSizes  = sizes + `,"q_lora_rank":8,"kv_lora_rank":10,"qk_nope_head_dim":6,"qk_rope_head_dim":2,"v_head_dim":5`
	expertSizes  = `,"n_routed_experts":2,"moe_intermediate_size":16,"n_shared_experts":2,"first_k_dense_replace":1`
	indexerSizes = `,"index_topk":4,"index_n_heads":3,"index_head_dim":7`
	latentParts  = `
self_attn.q_a_proj.weight 8x32 attention fused_qkv_a_proj
self_attn.q_b_proj.weight 32x8 attention
self_attn.q_a_layernorm.weight 8 norm
self_attn.kv_a_proj_with_mqa.weight 12x32 attention fused_qkv_a_proj
self_attn.kv_b_proj.weight 44x10 attention
self_attn.kv_a_layernorm.weight 10 norm
self_attn.o_proj.weight 32x20 attention`
	indexerParts = `
self_attn.indexer.wq_b.weight 21x8 other
self_attn.indexer.wk.weight 7x32 other
self_attn.indexer.weights_proj.weight 3x32 other
self_attn.indexer.k_norm.weight 7 norm
self_attn.indexer.k_norm.bias 7 norm`
	splitParts = `
self_attn.q_proj.weight 32x32 attention qkv_proj
self_attn.k_proj.weight 16x32 attention qkv_proj
self_attn.v_proj.weight 16x32 attention qkv_proj
self_attn.q_proj.bias 32 attention qkv_proj
self_attn.k_proj.bias 16 attention qkv_proj
self_attn.v_proj.bias 16 attention qkv_proj
self_attn.q_norm.weight 8 norm
self_attn.k_norm.weight 8 norm
self_attn.o_proj.weight 32x32 attention`
	normParts = `
input_layernorm.weight 32 norm
post_attention_layernorm.weight 32 norm`
	denseParts = normParts + `
mlp.gate_proj.weight 48x32 mlp gate_up_proj
mlp.up_proj.weight 48x32 mlp gate_up_proj
mlp.down_proj.weight 32x48 mlp`
	routedParts = normParts + `
mlp.gate.weight 2x32 router
mlp.gate.e_score_correction_bias 2 router
mlp.experts.*.gate_proj.weight 16x32 expert gate_up_proj
mlp.experts.*.up_proj.weight 16x32 expert gate_up_proj
mlp.experts.*.down_proj.weight 32x16 expert
mlp.shared_experts.gate_proj.weight 32x32 shared_expert gate_up_proj
mlp.shared_experts.up_proj.weight 32x32 shared_expert gate_up_proj
mlp.shared_experts.down_proj.weight 32x32 shared_expert`
	headParts = routedParts + `
enorm.weight 32 head
hnorm.weight 32 head
eh_proj.weight 32x64 head
shared_head.norm.weight 32 head`
	globalTensors = `
model.embed_tokens.weight 96x32 embedding
model.norm.weight 32 norm
lm_head.weight 96x32 lm_head`
)

// under puts a prefix before each line; in a head everything is the head's.
func under(prefix string, head bool, parts ...string) string {
	var b strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(strings.Join(parts, "")), "\n") {
		words := strings.Fields(line)
		if head {
			words[2] = "head"
		}
		b.WriteString("\n" + prefix + strings.Join(words, " "))
	}
	return b.String()
}

// wholes are complete checkpoints of structure-only families whose every name and shape is certain, from vLLM's classes:
// layer 0 dense, layer 1 a mixture, and the head.
var wholes = []struct {
	title, family, layout, config, tensors string
}{
	{"DeepSeek-V3", "deepseek_v3", "inline model.layers.2.",
		`{"architectures":["DeepseekV3ForCausalLM"],"model_type":"deepseek_v3","topk_method":"noaux_tc","num_nextn_predict_layers":1,` + latentSizes + expertSizes + `}`,
		globalTensors + under("model.layers.0.", false, latentParts, denseParts) + under("model.layers.1.", false, latentParts, routedParts) +
			under("model.layers.2.", true, latentParts, headParts)},
	{"DeepSeek-V3.2 with its indexer", "deepseek_v3", "inline model.layers.2.",
		`{"architectures":["DeepseekV32ForCausalLM"],"model_type":"deepseek_v32","topk_method":"noaux_tc","num_nextn_predict_layers":1,` + latentSizes + expertSizes + indexerSizes + `}`,
		globalTensors + under("model.layers.0.", false, latentParts, indexerParts, denseParts) + under("model.layers.1.", false, latentParts, indexerParts, routedParts) +
			under("model.layers.2.", true, latentParts, indexerParts, headParts)},
	{"GLM-5, whose layer 1 shares the index of the one before", "glm_moe_dsa", "inline model.layers.2.",
		`{"architectures":["GlmMoeDsaForCausalLM"],"model_type":"glm_moe_dsa","topk_method":"noaux_tc","index_topk_freq":2,"index_skip_topk_offset":1,"num_nextn_predict_layers":1,` + latentSizes + expertSizes + indexerSizes + `}`,
		globalTensors + under("model.layers.0.", false, latentParts, indexerParts, denseParts) + under("model.layers.1.", false, latentParts, routedParts) +
			under("model.layers.2.", true, latentParts, indexerParts, headParts)},
	{"GLM-4.6", "glm4_moe", "inline model.layers.2.",
		`{"architectures":["Glm4MoeForCausalLM"],"model_type":"glm4_moe","attention_bias":true,"use_qk_norm":true,"num_nextn_predict_layers":1,` + sizes + expertSizes + `}`,
		globalTensors + under("model.layers.0.", false, splitParts, denseParts) + under("model.layers.1.", false, splitParts, routedParts) +
			under("model.layers.2.", true, splitParts, headParts)},
	{"GLM-4.7-Flash", "glm4_moe_lite", "inline model.layers.2.",
		`{"architectures":["Glm4MoeLiteForCausalLM"],"model_type":"glm4_moe_lite","num_nextn_predict_layers":1,` + latentSizes + expertSizes + `}`,
		globalTensors + under("model.layers.0.", false, latentParts, denseParts) + under("model.layers.1.", false, latentParts, routedParts) +
			under("model.layers.2.", true, latentParts, headParts)},
	{"gpt-oss as it is released", "gpt_oss", "none",
		`{"architectures":["GptOssForCausalLM"],"model_type":"gpt_oss","quantization_config":{"quant_method":"mxfp4"},"num_local_experts":2,` + strings.Replace(sizes, `"intermediate_size":48`, `"intermediate_size":64`, 1) + `}`,
		globalTensors + `
model.layers.*.input_layernorm.weight 32 norm
model.layers.*.post_attention_layernorm.weight 32 norm` + attentionOfTwoLayers + qkvBiases + strings.Replace(gptOssRest, "2x96", "2x128", 1) + `
model.layers.*.mlp.experts.gate_up_proj_blocks 2x128x1x16 expert
model.layers.*.mlp.experts.gate_up_proj_scales 2x128x1 expert
model.layers.*.mlp.experts.down_proj_blocks 2x32x2x16 expert
model.layers.*.mlp.experts.down_proj_scales 2x32x2 expert`},
}

// bytesOf makes codes and scales of MXFP4 bytes.
func (f *folder) bytesOf() *folder {
	for name, e := range f.tensors {
		if strings.HasSuffix(name, "_blocks") || strings.HasSuffix(name, "_scales") {
			e.dtype = "U8"
			f.tensors[name] = e
		}
	}
	return f
}

func TestAStructureOnlyFamilyIsWholeWhereEverySizeIsKnown(t *testing.T) {
	for _, c := range wholes {
		t.Run(c.title, func(t *testing.T) {
			f, lines := build(t, c.config, c.tensors)
			m := f.bytesOf().open()
			if !m.StructureOnly() || m.Family != c.family || m.Head.Layout != c.layout || len(m.Head.Missing) > 0 {
				t.Errorf("structure only %v, family %q, head %+v", m.StructureOnly(), m.Family, m.Head)
			}
			for _, finding := range m.Findings {
				if finding.Rule != "already-quantized" {
					t.Errorf("a clean checkpoint gives %s", finding)
				}
			}
			if len(m.Expected) != len(m.Tensors) {
				t.Errorf("%d expected of %d tensors", len(m.Expected), len(m.Tensors))
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

func TestOfAWholeFamilyEveryTensorIsMissedAndEveryStrangerTold(t *testing.T) {
	for _, c := range wholes {
		t.Run(c.title, func(t *testing.T) {
			f, lines := build(t, c.config, c.tensors)
			f.bytesOf()
			for name := range lines {
				kept := f.tensors[name]
				delete(f.tensors, name)
				m := f.open()
				found := false
				for _, finding := range m.Findings {
					found = found || strings.Contains(finding.Message+finding.Subject, name) && finding.Severity == "error"
				}
				if !found {
					t.Errorf("without %s: %v", name, m.Findings)
				}
				f.tensors[name] = kept
			}
			m := f.add("model.layers.1.mlp.extra.weight", "BF16", 4).open()
			says(t, m.Findings, "tensor-unexpected", "model.layers.N.mlp.extra.weight")
		})
	}
}

// Publishers leave the copies of embedding and lm_head in the head out, or store them; an indexer that a layer does not
// build is shipped or not. Neither is a fault.
func TestPlaceholdersOfAHeadMayBeThereOrNot(t *testing.T) {
	f, _ := build(t, wholes[2].config, wholes[2].tensors+`
model.layers.2.embed_tokens.weight 96x32 head
model.layers.2.shared_head.head.weight 96x32 head`+under("model.layers.1.", false, indexerParts))
	only(t, f.open().Findings)
}

func TestQ01AHeadWithAHoleIsNamedInTheInlineLayout(t *testing.T) {
	f, _ := build(t, wholes[0].config, wholes[0].tensors)
	m := f.dropPrefix("model.layers.2.mlp.experts.1.").open()
	only(t, m.Findings, "error head-missing")
	says(t, m.Findings, "head-missing", "21 of 24 tensors", "model.layers.2.mlp.experts.1.up_proj.weight")
}
