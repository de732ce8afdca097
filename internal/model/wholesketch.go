package model

import (
	"slices"

	"github.com/tidwall/gjson"

	"seatsmith/internal/safetensors"
)

// wholeTables is the part of a structure-only family whose every name and shape is certain: then absence, surplus and
// wrong shapes are told as they are of any other family. It is nil where the configuration lacks a size.
type wholeTables struct {
	layer func(i int64) []slot // what layer i of the body holds
	all   []slot               // what any layer may hold
	head  []slot               // the decoder layer inside a layer of the head
}

// latentSizes are the widths of multi-head latent attention.
type latentSizes struct {
	query, keys      int64 // q_lora_rank (0: the query is not compressed), kv_lora_rank
	plain, rope      int64 // qk_nope_head_dim, qk_rope_head_dim
	value            int64 // v_head_dim
	indexHeads, wide int64 // index_n_heads, index_head_dim of the sparse indexer; 0 without one
	indexEvery       int64 // index_topk_freq
	indexOffset      int64 // index_skip_topk_offset
	indexUnsure      bool  // which layers have an indexer is said in a way that is not read here
}

// routing says which layers are mixtures, and of what.
type routing struct {
	first, step int64 // first_k_dense_replace, moe_layer_freq
	shared      int64 // n_shared_experts
	correction  bool  // the router has an e_score_correction_bias for certain
	qkNorm      bool  // use_qk_norm
}

func readRouting(c *Config, text *fields) {
	c.Heads = text.optional("num_attention_heads", maxHeads, 0)
	c.Intermediate = text.optional("intermediate_size", maxWidth, 0)
	c.ExpertIntermediate = text.optional("moe_intermediate_size", maxWidth, 0)
	c.routing.first, _ = text.count("first_k_dense_replace", maxLayers)
	c.routing.step = text.optional("moe_layer_freq", maxLayers, 1)
	c.routing.shared, _ = text.count("n_shared_experts", maxSmall)
	c.routing.correction = text.text("topk_method") == "noaux_tc"
}

// readLatent reads what DeepSeek-V3, GLM-4.7-Flash and GLM-5 share. The keys of the indexer are those that vLLM 017e9f4448
// asks for (models/deepseek_v2.py): a layer without an indexer uses the choice of the one before.
func readLatent(c *Config, text *fields) {
	readRouting(c, text)
	l := &c.latent
	l.query = text.optional("q_lora_rank", maxWidth, 0)
	l.keys = text.optional("kv_lora_rank", maxWidth, 0)
	l.plain = text.optional("qk_nope_head_dim", maxHeadDim, 0)
	l.rope = text.optional("qk_rope_head_dim", maxHeadDim, 0)
	l.value = text.optional("v_head_dim", maxHeadDim, 0)
	if !text.has("index_topk") {
		return
	}
	l.indexHeads = text.optional("index_n_heads", maxHeads, 0)
	l.wide = text.optional("index_head_dim", maxHeadDim, 0)
	l.indexEvery = text.optional("index_topk_freq", maxLayers, 1)
	l.indexOffset = 2
	if v, ok := text.get("index_skip_topk_offset"); ok && v.Type == gjson.Number {
		l.indexOffset = v.Int()
	}
	l.indexUnsure = text.has("index_topk_pattern") || text.has("indexer_types")
}

// builds reports whether layer i of the body has an indexer of its own.
func (l *latentSizes) builds(i int64) bool {
	return l.wide > 0 && l.indexHeads > 0 && max(i-l.indexOffset+1, 0)%l.indexEvery == 0
}

// latentWhole lists a family with latent attention.
func latentWhole(c *Config) *wholeTables {
	l, h := &c.latent, c.Heads
	if slices.Contains([]int64{h, l.keys, l.plain, l.rope, l.value}, 0) || !c.mixes() {
		return nil
	}
	const joined = "self_attn.fused_qkv_a_proj"
	matrix := func(name, fused string, out, in int64) slot {
		return slot{path: "self_attn." + name + ".weight", role: RoleAttention, linear: true, fused: fused, shape: []int64{out, in}}
	}
	query := []slot{matrix("q_proj", "", h*(l.plain+l.rope), c.Hidden)}
	fused := ""
	if l.query > 0 {
		fused = joined
		query = []slot{
			matrix("q_a_proj", fused, l.query, c.Hidden),
			matrix("q_b_proj", "", h*(l.plain+l.rope), l.query),
			{path: "self_attn.q_a_layernorm.weight", role: RoleNorm, shape: []int64{l.query}},
		}
	}
	attention := append(query,
		matrix("kv_a_proj_with_mqa", fused, l.keys+l.rope, c.Hidden),
		matrix("kv_b_proj", "", h*(l.plain+l.value), l.keys),
		matrix("o_proj", "", c.Hidden, h*l.value),
		slot{path: "self_attn.kv_a_layernorm.weight", role: RoleNorm, shape: []int64{l.keys}})
	indexer := []slot{
		{path: "self_attn.indexer.wq_b.weight", role: RoleOther, shape: []int64{l.indexHeads * l.wide, l.query}},
		{path: "self_attn.indexer.wk.weight", role: RoleOther, shape: []int64{l.wide, c.Hidden}},
		{path: "self_attn.indexer.weights_proj.weight", role: RoleOther, shape: []int64{l.indexHeads, c.Hidden}},
		{path: "self_attn.indexer.k_norm.weight", role: RoleNorm, shape: []int64{l.wide}},
		{path: "self_attn.indexer.k_norm.bias", role: RoleNorm, shape: []int64{l.wide}},
	}
	if l.wide == 0 || l.indexHeads == 0 {
		indexer = nil
	}
	built, shipped := indexer, optionalSlots(indexer)
	if l.indexUnsure {
		built = shipped
	}
	return mixture(c, func(i int64) []slot {
		if l.builds(i) {
			return slices.Concat(attention, built)
		}
		return slices.Concat(attention, shipped)
	}, slices.Concat(attention, built), shipped)
}

// splitWhole lists GLM-4.5 to 4.7: q, k, v and o, with biases and norms where the configuration says so.
func splitWhole(c *Config) *wholeTables {
	if slices.Contains([]int64{c.Heads, c.KVHeads, c.HeadDim}, 0) || !c.mixes() {
		return nil
	}
	d := decoder{qkNorm: c.routing.qkNorm}
	attention := d.attention(c)
	return mixture(c, func(int64) []slot { return attention }, attention, nil)
}

// mixes reports whether the sizes of the MLPs and experts are all there.
func (c *Config) mixes() bool {
	return c.Intermediate > 0 && c.ExpertIntermediate > 0 && c.Experts > 0
}

// mixture puts attention, norms, and an MLP or routed experts together. The layer in the head is a mixture with inHead for
// its attention; spare is what a layer may hold beside what it is built of.
func mixture(c *Config, attention func(i int64) []slot, inHead, spare []slot) *wholeTables {
	dense, routed := slices.Concat(layerNorms(c), denseMLP(c)), slices.Concat(layerNorms(c), routedMLP(c))
	rest := func(i int64) []slot {
		if i >= c.routing.first && i%c.routing.step == 0 {
			return routed
		}
		return dense
	}
	return &wholeTables{
		layer: func(i int64) []slot { return slices.Concat(rest(i), attention(i)) },
		all:   slices.Concat(routed, denseMLP(c), inHead, spare),
		head:  slices.Concat(routed, inHead),
	}
}

// routedMLP is the mixture of DeepSeek and GLM: one tensor per expert and projection, one MLP for all shared experts.
func routedMLP(c *Config) []slot {
	h, m := c.Hidden, c.ExpertIntermediate
	s := m * c.routing.shared
	const each, shared = "mlp.experts.N.gate_up_proj", "mlp.shared_experts.gate_up_proj"
	none := s == 0
	return []slot{
		{path: "mlp.gate.weight", role: RoleRouter, shape: []int64{c.Experts, h}},
		{path: "mlp.gate.e_score_correction_bias", role: RoleRouter, shape: []int64{c.Experts}, optional: !c.routing.correction},
		{path: "mlp.experts.N.gate_proj.weight", role: RoleExpert, linear: true, fused: each, shape: []int64{m, h}, variant: oneByOne},
		{path: "mlp.experts.N.up_proj.weight", role: RoleExpert, linear: true, fused: each, shape: []int64{m, h}, variant: oneByOne},
		{path: "mlp.experts.N.down_proj.weight", role: RoleExpert, linear: true, shape: []int64{h, m}, variant: oneByOne},
		{path: "mlp.shared_experts.gate_proj.weight", role: RoleSharedExpert, linear: true, fused: shared, shape: []int64{s, h}, optional: none},
		{path: "mlp.shared_experts.up_proj.weight", role: RoleSharedExpert, linear: true, fused: shared, shape: []int64{s, h}, optional: none},
		{path: "mlp.shared_experts.down_proj.weight", role: RoleSharedExpert, linear: true, shape: []int64{h, s}, optional: none},
	}
}

// readGLM4: the router's correction is built whatever the configuration says (vLLM 017e9f4448, models/glm4_moe.py).
func readGLM4(c *Config, text *fields) {
	readRouting(c, text)
	c.KVHeads = text.optional("num_key_value_heads", maxHeads, c.Heads)
	width := int64(0)
	if c.Heads > 0 {
		width = c.Hidden / c.Heads
	}
	c.HeadDim = text.optional("head_dim", maxHeadDim, width)
	c.AttentionBias = text.boolean("attention_bias", false)
	c.routing.qkNorm = text.boolean("use_qk_norm", false)
	c.routing.correction = true
}

func readGLM4Lite(c *Config, text *fields) {
	readLatent(c, text)
	c.routing.correction = true
}

// readMiMo: a Qwen2 body, whose query, key and value have biases.
func readMiMo(c *Config, text *fields) {
	c.Heads = text.optional("num_attention_heads", maxHeads, 0)
	c.KVHeads = text.optional("num_key_value_heads", maxHeads, c.Heads)
	width := int64(0)
	if c.Heads > 0 {
		width = c.Hidden / c.Heads
	}
	c.HeadDim = text.optional("head_dim", maxHeadDim, width)
	c.Intermediate = text.optional("intermediate_size", maxWidth, 0)
}

func mimoWhole(c *Config) *wholeTables {
	if slices.Contains([]int64{c.Heads, c.KVHeads, c.HeadDim, c.Intermediate}, 0) {
		return nil
	}
	layer := slices.Concat(layerNorms(c), qwen2.attention(c), denseMLP(c))
	return &wholeTables{layer: func(int64) []slot { return layer }, all: layer, head: layer}
}

// readGptOss: every projection has a bias and every head a sink (vLLM 017e9f4448, models/gpt_oss.py).
func readGptOss(c *Config, text *fields) {
	readMiMo(c, text)
	c.mxfp4 = gjson.GetBytes(c.Quantization, "quant_method").Str == "mxfp4"
}

// gptOssWhole lists the experts as blocks of 16 bytes, 32 codes of 4 bits, with one scale each, or unquantized with the
// inner dimension first, as the quantization config says. Gate and up stand in alternate rows.
func gptOssWhole(c *Config) *wholeTables {
	if slices.Contains([]int64{c.Heads, c.KVHeads, c.HeadDim, c.Intermediate, c.Experts}, 0) {
		return nil
	}
	const block = 32
	h, m, e := c.Hidden, c.Intermediate, c.Experts
	layer := slices.Concat(layerNorms(c), decoder{qkvBias: true, oBias: true}.attention(c), []slot{
		{path: "self_attn.sinks", role: RoleAttention, shape: []int64{c.Heads}},
		{path: "mlp.router.weight", role: RoleRouter, shape: []int64{e, h}},
		{path: "mlp.router.bias", role: RoleRouter, shape: []int64{e}},
		{path: "mlp.experts.gate_up_proj_bias", role: RoleExpert, shape: []int64{e, 2 * m}},
		{path: "mlp.experts.down_proj_bias", role: RoleExpert, shape: []int64{e, h}},
		{path: "mlp.experts.gate_up_proj", role: RoleExpert, shape: []int64{e, h, 2 * m}, optional: c.mxfp4, foreign: c.mxfp4},
		{path: "mlp.experts.down_proj", role: RoleExpert, shape: []int64{e, m, h}, optional: c.mxfp4, foreign: c.mxfp4},
		{path: "mlp.experts.gate_up_proj_blocks", role: RoleExpert, shape: []int64{e, 2 * m, h / block, block / 2}, optional: !c.mxfp4, foreign: !c.mxfp4, dtypes: bytesOnly},
		{path: "mlp.experts.gate_up_proj_scales", role: RoleExpert, shape: []int64{e, 2 * m, h / block}, optional: !c.mxfp4, foreign: !c.mxfp4, dtypes: bytesOnly},
		{path: "mlp.experts.down_proj_blocks", role: RoleExpert, shape: []int64{e, h, m / block, block / 2}, optional: !c.mxfp4, foreign: !c.mxfp4, dtypes: bytesOnly},
		{path: "mlp.experts.down_proj_scales", role: RoleExpert, shape: []int64{e, h, m / block}, optional: !c.mxfp4, foreign: !c.mxfp4, dtypes: bytesOnly},
	})
	for i := range layer {
		if layer[i].path == "self_attn.o_proj.bias" {
			layer[i].optional = false
		}
	}
	return &wholeTables{layer: func(int64) []slot { return layer }, all: layer}
}

// bytesOnly are the types of codes and scales that are no floats to their reader.
var bytesOnly = []safetensors.Dtype{safetensors.U8}
