package model_test

import (
	"strings"
	"testing"

	"seatsmith/internal/model"
)

// sketched are checkpoints of structure-only families, as their publishers spell them; head is the head's part.
var sketched = []struct {
	title, family, layout, config, body, head string
	present                                   int
}{
	{"DeepSeek-V3", "deepseek_v3", "inline model.layers.2.", `{"architectures":["DeepseekV3ForCausalLM"],"model_type":"deepseek_v3","num_nextn_predict_layers":1,"n_routed_experts":2,` + sizes + `}`,
		bodyOfTwoLayers + latent("0") + latent("1") + strings.ReplaceAll(mlpOfTwoLayers, "*", "0") + deepseekRouted("1") + lmHead,
		inlineHead("model.layers.2.") + latent("2") + deepseekRouted("2"), 6},
	{"GLM-4.6", "glm4_moe", "inline model.layers.2.", `{"architectures":["Glm4MoeForCausalLM"],"model_type":"glm4_moe","num_nextn_predict_layers":1,"n_routed_experts":2,` + sizes + `}`,
		bodyOfTwoLayers + attentionOfTwoLayers + strings.ReplaceAll(mlpOfTwoLayers, "*", "0") + deepseekRouted("1") + lmHead,
		inlineHead("model.layers.2."), 6},
	{"MiMo-7B", "mimo", "nested model.mtp_layers.", `{"architectures":["MiMoForCausalLM"],"model_type":"mimo","num_nextn_predict_layers":1,` + sizes + `}`,
		bodyOfTwoLayers + attentionOfTwoLayers + qkvBiases + mlpOfTwoLayers + lmHead, `
model.mtp_layers.0.token_layernorm.weight 32 head
model.mtp_layers.0.hidden_layernorm.weight 32 head
model.mtp_layers.0.input_proj.weight 32x64 head
model.mtp_layers.0.final_layernorm.weight 32 head
model.mtp_layers.0.input_layernorm.weight 32 head
model.mtp_layers.0.post_attention_layernorm.weight 32 head` + decoderInHead("model.mtp_layers.0.", attentionOfTwoLayers+qkvBiases+mlpOfTwoLayers), 16},
	{"MiMo-V2, whose configuration promises nothing", "mimo_v2", "nested model.mtp.", `{"architectures":["MiMoV2FlashForCausalLM"],"model_type":"mimo_v2_flash",` + sizes + `}`,
		bodyOfTwoLayers + attentionOfTwoLayers + mlpOfTwoLayers + lmHead, nestedHead("model.mtp.layers.0.") + nestedHead("model.mtp.layers.1."), 12},
	{"Nemotron-H", "nemotron_h", "tail mtp.", `{"architectures":["NemotronHForCausalLM"],"model_type":"nemotron_h","num_nextn_predict_layers":1,` + sizes + `}`, `
backbone.embeddings.weight 96x32 embedding
backbone.norm_f.weight 32 norm
backbone.layers.*.norm.weight 32 norm
backbone.layers.0.mixer.A_log 4 state
backbone.layers.1.mixer.up_proj.weight 48x32 mlp` + lmHead, `
mtp.layers.0.norm.weight 32 head
mtp.layers.0.enorm.weight 32 head
mtp.layers.1.final_layernorm.weight 32 head`, 1},
	{"MiniMax", "minimax_m3", "nested language_model.model.mtp.", `{"architectures":["MiniMaxM3SparseForConditionalGeneration"],"text_config":{"num_mtp_modules":1,` + sizes + `}}`,
		strings.ReplaceAll(bodyOfTwoLayers+attentionOfTwoLayers, "model.", "language_model.model.") + `
language_model.lm_head.weight 96x32 lm_head
language_model.model.layers.0.block_sparse_moe.experts.*.w1.weight 16x32 expert gate_up_proj
language_model.model.layers.0.block_sparse_moe.gate.weight 2x32 router`,
		strings.NewReplacer("pre_mlp_layernorm", "transformer_layer.input_layernorm", "0.input_layernorm", "0.transformer_layer.post_attention_layernorm").Replace(nestedHead("language_model.model.mtp.layers.0.")) + `
language_model.model.mtp.layers.0.transformer_layer.self_attn.q_proj.weight 32x32 head qkv_proj`, 4},
	{"gpt-oss", "gpt_oss", "none", `{"architectures":["GptOssForCausalLM"],"model_type":"gpt_oss","num_local_experts":2,` + sizes + `}`,
		bodyOfTwoLayers + attentionOfTwoLayers + qkvBiases + gptOssRest + lmHead + `
model.layers.*.mlp.experts.gate_up_proj 2x32x96 expert
model.layers.*.mlp.experts.down_proj 2x48x32 expert`, "", 0},
	{"Gemma 4", "gemma4", "own repository …-assistant", `{"architectures":["Gemma4ForCausalLM"],"model_type":"gemma4_text",` + sizes + `}`, bodyOfTwoLayers + attentionOfTwoLayers + lmHead, "", 0},
}

const gptOssRest = `
model.layers.*.self_attn.o_proj.bias 32 attention
model.layers.*.self_attn.sinks 4 attention
model.layers.*.mlp.router.weight 2x32 router
model.layers.*.mlp.router.bias 2 router
model.layers.*.mlp.experts.gate_up_proj_bias 2x96 expert
model.layers.*.mlp.experts.down_proj_bias 2x32 expert`

// decoderInHead is the parts of a decoder layer under the prefix of a layer of the head.
func decoderInHead(prefix, parts string) string {
	var b strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(strings.ReplaceAll(parts, "model.layers.*.", prefix)), "\n") {
		words := strings.Fields(line)
		words[2] = "head"
		b.WriteString("\n" + strings.Join(words, " "))
	}
	return b.String()
}

func latent(layer string) string {
	return strings.ReplaceAll(`
model.layers.L.self_attn.q_a_proj.weight 8x32 attention fused_qkv_a_proj
model.layers.L.self_attn.kv_a_proj_with_mqa.weight 12x32 attention fused_qkv_a_proj
model.layers.L.self_attn.q_a_layernorm.weight 8 norm
model.layers.L.self_attn.o_proj.weight 32x32 attention`, "L", layer)
}

func deepseekRouted(layer string) string {
	return strings.ReplaceAll(`
model.layers.L.mlp.gate.weight 2x32 router
model.layers.L.mlp.gate.e_score_correction_bias 2 router
model.layers.L.mlp.experts.*.gate_proj.weight 16x32 expert gate_up_proj
model.layers.L.mlp.experts.*.up_proj.weight 16x32 expert gate_up_proj
model.layers.L.mlp.experts.*.down_proj.weight 32x16 expert
model.layers.L.mlp.shared_experts.down_proj.weight 32x16 shared_expert`, "L", layer)
}

func inlineHead(layer string) string {
	return strings.ReplaceAll(`
L.enorm.weight 32 head
L.hnorm.weight 32 head
L.eh_proj.weight 32x64 head
L.shared_head.norm.weight 32 head
L.shared_head.head.weight 96x32 head
L.input_layernorm.weight 32 head
L.post_attention_layernorm.weight 32 head`, "L.", layer)
}

func nestedHead(layer string) string {
	return strings.ReplaceAll(`
L.enorm.weight 32 head
L.hnorm.weight 32 head
L.eh_proj.weight 32x64 head
L.input_layernorm.weight 32 head
L.pre_mlp_layernorm.weight 32 head
L.final_layernorm.weight 32 head`, "L.", layer)
}

func TestOfAStructureOnlyFamilyNamesAndHeadAreKnown(t *testing.T) {
	for _, c := range sketched {
		t.Run(c.title, func(t *testing.T) {
			f, lines := build(t, c.config, c.body+c.head)
			m := f.open()
			if !m.StructureOnly() || m.Family != c.family || m.Head.Layout != c.layout || m.Head.Present != c.present || len(m.Head.Missing) > 0 {
				t.Errorf("structure only %v, family %q, head %+v", m.StructureOnly(), m.Family, m.Head)
			}
			for _, finding := range m.Findings {
				t.Errorf("a clean checkpoint gives %s", finding)
			}
			for i := range m.Tensors {
				tn := &m.Tensors[i]
				want := lines[tn.Name][2]
				if strings.HasPrefix(tn.Name, "model.layers.2.") {
					want = "head" // a whole decoder layer behind the last one of the body
				}
				fused := ""
				if words := lines[tn.Name]; len(words) > 3 {
					fused = tn.Module[:strings.LastIndexByte(tn.Module, '.')+1] + words[3]
				}
				if string(tn.Role) != want || tn.Fused != fused {
					t.Errorf("%s: role %s, fused %q; want %s, %q", tn.Name, tn.Role, tn.Fused, want, fused)
				}
			}
		})
	}
}

// The commonest accident in every layout: the head is promised and was dropped (Q01).
func TestQ01APromisedHeadIsMissedInEveryLayout(t *testing.T) {
	for _, c := range sketched {
		if c.head == "" || c.family == "mimo_v2" {
			continue // nothing promises it
		}
		t.Run(c.title, func(t *testing.T) {
			f, _ := build(t, c.config, c.body)
			only(t, f.open().Findings, "error head-missing")
		})
	}
}

// vllm-project/vllm#34888: GLM-OCR's configuration says 0 although the head is stored.
func TestAHeadThatNothingPromisesIsToldInEveryLayout(t *testing.T) {
	for _, c := range sketched {
		if c.head == "" || c.family == "mimo_v2" {
			continue
		}
		t.Run(c.title, func(t *testing.T) {
			config := strings.NewReplacer(`_layers":1,`, `_layers":0,`, `modules":1,`, `modules":0,`).Replace(c.config)
			f, _ := build(t, config, c.body+c.head)
			only(t, f.open().Findings, "error head-promise")
		})
	}
}

func TestADonorsHeadIsLaidOverAStructureOnlyBody(t *testing.T) {
	for _, c := range sketched {
		if c.head == "" {
			continue
		}
		t.Run(c.title, func(t *testing.T) {
			body, _ := build(t, c.config, c.body)
			whole, _ := build(t, c.config, c.body+c.head)
			donor, err := model.OpenDonor(whole.write())
			if err != nil {
				t.Fatal(err)
			}
			view, err := model.Overlay(body.open(), donor)
			if err != nil {
				t.Fatal(err)
			}
			for _, finding := range view.Findings {
				if finding.Severity == "error" {
					t.Error(finding)
				}
			}
			if view.Head.Present != c.present {
				t.Errorf("%+v", view.Head)
			}
			for i := range view.Tensors {
				if tn := &view.Tensors[i]; (tn.Role == model.RoleHead) != (tn.Origin == model.Donor) {
					t.Errorf("%s is the %s's", tn.Name, tn.Origin)
				}
			}
		})
	}
}

// In the inline layout the head's names move with the number of layers: of a deeper model it would be a layer of the body.
func TestADonorOfAnotherDepthIsAStrangerInTheInlineLayout(t *testing.T) {
	c := sketched[0]
	body, _ := build(t, c.config, c.body)
	deeper, _ := build(t, strings.Replace(c.config, `"num_hidden_layers":2`, `"num_hidden_layers":3`, 1), c.body+c.head)
	donor, err := model.OpenDonor(deeper.write())
	if err != nil {
		t.Fatal(err)
	}
	view, err := model.Overlay(body.open(), donor)
	if err != nil {
		t.Fatal(err)
	}
	says(t, view.Findings, "donor-stranger", "num_hidden_layers is 3 (the body's 2)")
}

func TestADrafterOfItsOwnIsNamed(t *testing.T) {
	for arch, want := range map[string]string{
		"LlamaForCausalLMEagle3": "an EAGLE drafter", "DFlashLagunaForCausalLM": "a DFlash drafter", "Step3p5MTP": "an MTP head that stands alone",
	} {
		m := like(t, "tiny").set("architectures.0", arch).open()
		says(t, m.Findings, "arch-unknown", want)
	}
}
