package model

import (
	"slices"
	"strconv"
)

// qwen35 is the dense Qwen3.5 family (Qwen3.5, 3.6 and 3.8): gated attention in every fourth layer, gated delta nets in
// the others, a head of 15 tensors under "mtp.".
//
// Sources: transformers 009e78d6, models/qwen3_5/modeling_qwen3_5.py; vLLM 017e9f4448, models/qwen3_5.py,
// qwen3_5_mtp.py and qwen3_next.py.
type qwen35 struct{}

func (qwen35) name() string          { return "qwen3_5" }
func (qwen35) textModelType() string { return "qwen3_5_text" }
func (qwen35) supported() error      { return nil }

func (qwen35) head(*Config, string) headLayout { return tailHead("mtp_num_hidden_layers") }

func (q qwen35) read(c *Config, text *fields) {
	q.readCommon(c, text)
	c.Intermediate = text.positive("intermediate_size", maxWidth)
}

func (q qwen35) layout(c *Config, textPrefix string, headLayers int64) *layout {
	return q.layoutWith(c, textPrefix, headLayers, denseMLP(c))
}

func (q qwen35) headSizes() []headSize {
	return append(q.headAttentionSizes(), headSize{"mtp.layers.0.mlp.gate_proj.weight", 0, "intermediate_size"})
}

func (qwen35) headAttentionSizes() []headSize {
	const layer = "mtp.layers.0.self_attn."
	return []headSize{
		{"mtp.fc.weight", 0, "hidden_size"},
		{layer + "q_norm.weight", 0, "head_dim"},
		{layer + "o_proj.weight", 1, "num_attention_heads x head_dim"},
		{layer + "k_proj.weight", 0, "num_key_value_heads x head_dim"},
		{layer + "q_proj.weight", 0, "rows of q_proj (attn_output_gate doubles them)"},
	}
}

// readCommon reads what the dense and the mixture-of-experts configuration share. Absent fields take the defaults of
// transformers' Qwen3_5TextConfig (008e5743) where saved configurations are known to lack them.
func (qwen35) readCommon(c *Config, text *fields) {
	c.Hidden = text.positive("hidden_size", maxHidden)
	c.Layers = text.positive("num_hidden_layers", maxLayers)
	c.Vocab = text.positive("vocab_size", maxVocab)
	c.Heads = text.positive("num_attention_heads", maxHeads)
	c.KVHeads = text.positive("num_key_value_heads", maxHeads)
	c.HeadDim = text.optional("head_dim", maxHeadDim, 256)
	c.LinearKeyHeads = text.positive("linear_num_key_heads", maxHeads)
	c.LinearValHeads = text.positive("linear_num_value_heads", maxHeads)
	c.LinearKeyDim = text.positive("linear_key_head_dim", maxHeadDim)
	c.LinearValDim = text.positive("linear_value_head_dim", maxHeadDim)
	c.ConvKernel = text.optional("linear_conv_kernel_dim", maxSmall, 4)
	c.AttentionBias = text.boolean("attention_bias", false)
	c.QKVBias = text.boolean("qkv_bias", false)
	c.AttnOutputGate = text.boolean("attn_output_gate", true)
	readLayerTypes(c, text)
}

const (
	linearAttention = "linear_attention"
	fullAttention   = "full_attention"
)

// readLayerTypes takes layer_types as it is, or derives it: layer i is full attention when i+1 is a multiple of
// full_attention_interval (4 when absent).
func readLayerTypes(c *Config, text *fields) {
	interval := text.optional("full_attention_interval", maxLayers, 4)
	types := text.texts("layer_types")
	if types == nil {
		if c.Layers > 0 && interval > 0 {
			c.LayerTypes = make([]string, c.Layers)
			for i := range c.LayerTypes {
				c.LayerTypes[i] = linearAttention
				if int64(i+1)%interval == 0 {
					c.LayerTypes[i] = fullAttention
				}
			}
		}
		return
	}
	for _, t := range types {
		if t != linearAttention && t != fullAttention {
			v, _ := text.get("layer_types")
			text.complain("layer_types", "entries "+linearAttention+" or "+fullAttention, v)
			return
		}
	}
	if c.HeadLayers > 0 && int64(len(types)) == c.Layers+c.HeadLayers {
		types = types[:c.Layers] // a saver that counts the head's layers in (layer-list tells it)
	}
	if c.Layers > 0 && int64(len(types)) != c.Layers {
		text.note("layer_types", "want one entry for each of the "+strconv.FormatInt(c.Layers, 10)+" layers of num_hidden_layers, got "+strconv.Itoa(len(types)))
		return
	}
	c.LayerTypes = types
}

// layoutWith puts the tables of the family together around one kind of MLP.
func (q qwen35) layoutWith(c *Config, textPrefix string, headLayers int64, mlp []slot) *layout {
	full := slices.Concat(layerNorms(c), attention(c), mlp)
	linear := slices.Concat(layerNorms(c), deltaNet(c), mlp)
	body := section{
		prefix: textPrefix + "layers.", layered: true, count: c.Layers,
		slots: func(i int64) []slot {
			if c.LayerTypes[i] == fullAttention {
				return full
			}
			return linear
		},
		all: slices.Concat(layerNorms(c), attention(c), deltaNet(c), mlp),
	}
	h, v := c.Hidden, c.Vocab
	sections := slices.Concat(
		visionSections(c.Tower),
		[]section{
			body,
			tableOf(textPrefix, false, 1, "", []slot{
				{path: "embed_tokens.weight", role: RoleEmbedding, shape: []int64{v, h}},
				{path: "norm.weight", role: RoleNorm, shape: []int64{h}},
			}),
			tableOf("mtp.layers.", true, headLayers, RoleHead, full),
			tableOf("mtp.", false, 1, RoleHead, headGlobals(c, headLayers == 0)),
			tableOf("", false, 1, "", []slot{
				{path: "lm_head.weight", role: RoleLMHead, linear: true, shape: []int64{v, h}, optional: c.TieEmbeddings},
			}),
		})
	return newLayout(c, textPrefix, sections)
}

// headGlobals is the head outside its layers; fc takes the embedding in columns 0 … H-1 and the hidden state in the rest.
// Without a layer there is no head: none makes the names known but expects none of them.
func headGlobals(c *Config, none bool) []slot {
	h := c.Hidden
	return []slot{
		{path: "fc.weight", linear: true, shape: []int64{h, 2 * h}, optional: none},
		{path: "pre_fc_norm_embedding.weight", shape: []int64{h}, optional: none},
		{path: "pre_fc_norm_hidden.weight", shape: []int64{h}, optional: none},
		{path: "norm.weight", shape: []int64{h}, optional: none},
	}
}

func layerNorms(c *Config) []slot {
	return []slot{
		{path: "input_layernorm.weight", role: RoleNorm, shape: []int64{c.Hidden}},
		{path: "post_attention_layernorm.weight", role: RoleNorm, shape: []int64{c.Hidden}},
	}
}

// attention is gated full attention: q_proj holds query and gate, interleaved per head, so it is twice as high.
func attention(c *Config) []slot {
	h, d, kv := c.Hidden, c.HeadDim, c.KVHeads*c.HeadDim
	q := c.Heads * d
	if c.AttnOutputGate {
		q *= 2
	}
	const fused = "self_attn.qkv_proj"
	linear := func(name, fused string, out, in int64) []slot {
		return []slot{
			{path: "self_attn." + name + ".weight", role: RoleAttention, linear: true, fused: fused, shape: []int64{out, in}},
			{path: "self_attn." + name + ".bias", role: RoleAttention, fused: fused, shape: []int64{out}, optional: !c.AttentionBias && !(c.QKVBias && fused != "")},
		}
	}
	return slices.Concat(
		linear("q_proj", fused, q, h),
		linear("k_proj", fused, kv, h),
		linear("v_proj", fused, kv, h),
		linear("o_proj", "", h, c.Heads*d),
		[]slot{
			{path: "self_attn.q_norm.weight", role: RoleNorm, shape: []int64{d}},
			{path: "self_attn.k_norm.weight", role: RoleNorm, shape: []int64{d}},
		})
}

// deltaNet is the gated delta net. A_log and linear_attn.norm are F32 in Qwen3.5 and BF16 in Qwen3.6 releases, both of
// which the default dtypes allow.
func deltaNet(c *Config) []slot {
	h, conv, value, n := c.Hidden, c.ConvDim(), c.ValueDim(), c.LinearValHeads
	const qkvz, ba = "linear_attn.in_proj_qkvz", "linear_attn.in_proj_ba"
	return []slot{
		{path: "linear_attn.in_proj_qkv.weight", role: RoleLinearAttention, linear: true, fused: qkvz, shape: []int64{conv, h}},
		{path: "linear_attn.in_proj_z.weight", role: RoleLinearAttention, linear: true, fused: qkvz, shape: []int64{value, h}},
		{path: "linear_attn.in_proj_b.weight", role: RoleLinearGate, linear: true, fused: ba, shape: []int64{n, h}},
		{path: "linear_attn.in_proj_a.weight", role: RoleLinearGate, linear: true, fused: ba, shape: []int64{n, h}},
		{path: "linear_attn.conv1d.weight", role: RoleConv, shape: []int64{conv, 1, c.ConvKernel}},
		{path: "linear_attn.A_log", role: RoleState, shape: []int64{n}},
		{path: "linear_attn.dt_bias", role: RoleState, shape: []int64{n}},
		{path: "linear_attn.norm.weight", role: RoleNorm, shape: []int64{c.LinearValDim}},
		{path: "linear_attn.out_proj.weight", role: RoleLinearAttention, linear: true, shape: []int64{h, value}},
	}
}

func denseMLP(c *Config) []slot {
	h, f := c.Hidden, c.Intermediate
	const fused = "mlp.gate_up_proj"
	return []slot{
		{path: "mlp.gate_proj.weight", role: RoleMLP, linear: true, fused: fused, shape: []int64{f, h}},
		{path: "mlp.up_proj.weight", role: RoleMLP, linear: true, fused: fused, shape: []int64{f, h}},
		{path: "mlp.down_proj.weight", role: RoleMLP, linear: true, shape: []int64{h, f}},
	}
}
