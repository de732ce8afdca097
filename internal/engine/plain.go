package engine

import (
	"fmt"

	"github.com/tidwall/gjson"
)

// flat reads the config.json of the families whose keys stand at the top level (vLLM 017e9f4448, models/qwen3_next.py,
// llama.py, mistral.py, qwen2.py, qwen3.py, qwen3_moe.py; transformers_utils/configs/qwen3_next.py; defaults of the others
// are those of the configuration classes of transformers 4.57).
func (a *Arch) flat(r *numbers) {
	def := classes[a.Class].defaults
	get := func(key string, limit int64) int64 { return r.get(key, def[key], limit) }
	a.Vocab, a.Hidden, a.Intermediate = get("vocab_size", maxSize), get("hidden_size", maxSize), get("intermediate_size", maxSize)
	a.Heads = get("num_attention_heads", maxSize)
	if a.KVHeads = get("num_key_value_heads", maxSize); a.KVHeads == 0 { // silent, and no default: as many as heads
		a.KVHeads = a.Heads
	}
	if a.HeadDim = get("head_dim", maxSize); a.Heads > 0 && (a.HeadDim == 0 || a.Family == Qwen2) {
		a.HeadDim = a.Hidden / a.Heads
	}
	if a.Heads < 1 {
		r.keep(fmt.Errorf("num_attention_heads %d: the server divides by it", a.Heads))
	}
	a.TieEmbeddings = r.flag("tie_word_embeddings", false)
	layers := get("num_hidden_layers", maxLayers)
	switch a.Family {
	case Llama:
		a.oBias = r.flag("attention_bias", false) || r.flag("bias", false)
		a.qkvBias = r.flag("qkv_bias", a.oBias)
		a.mlpBias = r.flag("mlp_bias", false)
	case Qwen2:
		a.qkvBias, a.qkNorm = true, r.flag("qk_norm", false)
	case Qwen3, Qwen3MoE:
		a.qkvBias, a.qkNorm = r.flag("attention_bias", false), true
	case Qwen3Next:
		a.next(r, get)
	}
	if a.Family == Qwen3MoE || a.Family == Qwen3Next {
		a.mixture(r, get, layers)
	}
	if layers*(a.Experts+1) > maxSlots || a.MTPLayers*(a.Experts+1) > maxSlots {
		r.keep(fmt.Errorf("num_hidden_layers %d with num_experts %d is more than can be judged", layers, a.Experts))
		return
	}
	if a.Family == Qwen3Next {
		a.layerTypes(r, layers)
		return
	}
	for range layers {
		a.LayerTypes = append(a.LayerTypes, "full_attention")
	}
}

// next reads what only Qwen3-Next has.
func (a *Arch) next(r *numbers, get func(string, int64) int64) {
	a.KeyHeads, a.ValueHeads = get("linear_num_key_heads", maxSize), get("linear_num_value_heads", maxSize)
	a.KeyDim, a.ValueDim = r.get("linear_key_head_dim", 128, maxSize), r.get("linear_value_head_dim", 128, maxSize)
	a.Conv = r.get("linear_conv_kernel_dim", 4, maxSize)
	a.AttnGate, a.qkvBias, a.layerScale = r.flag("attn_output_gate", true), r.flag("qkv_bias", false), r.flag("layer_scale", false)
	a.MTPLayers = r.get("num_nextn_predict_layers", 1, maxLayers)
}

// mixture reads which layers hold experts. The classes stop when none does ("No … layer found in the model.layers").
func (a *Arch) mixture(r *numbers, get func(string, int64) int64, layers int64) {
	a.Experts = get("num_experts", maxExperts)
	a.ExpertFF = get("moe_intermediate_size", maxSize)
	a.SharedFF = get("shared_expert_intermediate_size", maxSize)
	a.step = r.get("decoder_sparse_step", 1, maxLayers)
	r.v.Get("mlp_only_layers").ForEach(func(_, v gjson.Result) bool {
		a.denseLayers = append(a.denseLayers, v.Int())
		return true
	})
	if a.step == 0 {
		r.keep(fmt.Errorf("decoder_sparse_step 0: the server divides by it"))
		return
	}
	for i := range layers {
		if a.sparse(i) {
			a.MoE = true
			return
		}
	}
	r.keep(fmt.Errorf("num_experts %d, decoder_sparse_step %d and mlp_only_layers leave no layer with experts, and class %s stops without one", a.Experts, a.step, a.Class))
}

// plain lists the modules of the families without linear attention and vision.
func (b *builder) plain() {
	a := b.a
	b.param("model.embed_tokens.weight", a.Vocab, a.Hidden)
	b.param("model.norm.weight", a.Hidden)
	for i := range a.LayerTypes {
		p := fmt.Sprintf("model.layers.%d.", i)
		b.param(p+"input_layernorm.weight", a.Hidden)
		b.param(p+"post_attention_layernorm.weight", a.Hidden)
		b.plainAttention(p + "self_attn.")
		if !a.MoE || !a.sparse(int64(i)) {
			b.mlp(p+"mlp.", p+"mlp.", Body, a.Intermediate)
			continue
		}
		b.linear(p, p, "mlp.gate", "ReplicatedLinear", Router, a.Experts, a.Hidden, false)
		if a.SharedFF > 0 {
			b.param(p+"mlp.shared_expert_gate.weight", 1, a.Hidden)
			b.mlp(p+"mlp.shared_expert.", p+"mlp.shared_expert.", Body, a.SharedFF)
		}
		b.experts(p+"mlp.experts", p+"mlp.experts", Body)
	}
	b.lmHead("lm_head", LMHead)
}

func (b *builder) plainAttention(p string) {
	a := b.a
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	b.fused(p, p, "qkv_proj", qkvClass, Body, a.Hidden,
		Shard{Name: "q_proj", Out: q, Bias: a.qkvBias}, Shard{Name: "k_proj", Out: kv, Bias: a.qkvBias}, Shard{Name: "v_proj", Out: kv, Bias: a.qkvBias})
	b.linear(p, p, "o_proj", rowClass, Body, a.Hidden, q, a.oBias)
	if a.qkNorm {
		b.param(p+"q_norm.weight", a.HeadDim)
		b.param(p+"k_norm.weight", a.HeadDim)
	}
}
