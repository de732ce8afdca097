package model

import "slices"

// qwen3next is Qwen3-Next: the gated attention, delta nets, experts and head of Qwen3.5's mixture, in flat names, with
// in_proj_qkvz and in_proj_ba stored as one tensor each. A layer may be dense (mlp_only_layers, decoder_sparse_step).
//
// Sources: vLLM 017e9f4448, models/qwen3_next.py, qwen3_next_mtp.py, transformers_utils/configs/qwen3_next.py.
type qwen3next struct{ sister qwen35 }

func (qwen3next) name() string          { return "qwen3_next" }
func (qwen3next) textModelType() string { return "qwen3_next" }
func (qwen3next) supported() error      { return nil }

func (qwen3next) head(*Config, string) headLayout { return tailHead("num_nextn_predict_layers") }

func (q qwen3next) read(c *Config, text *fields) {
	q.sister.readCommon(c, text)
	readExperts(c, text)
	c.SharedIntermediate = text.optional("shared_expert_intermediate_size", maxWidth, 512)
}

func (q qwen3next) headSizes() []headSize {
	return append(q.sister.headAttentionSizes(),
		headSize{"mtp.layers.0.mlp.gate.weight", 0, "num_experts"},
		headSize{"mtp.layers.0.mlp.shared_expert.gate_proj.weight", 0, "shared_expert_intermediate_size"},
		headSize{"mtp.layers.0.mlp.experts.0.down_proj.weight", 1, "moe_intermediate_size"})
}

func (q qwen3next) layout(c *Config, textPrefix string, headLayers int64) *layout {
	full, linear := slices.Concat(layerNorms(c), attention(c)), slices.Concat(layerNorms(c), joinedDeltaNet(c))
	routed := expertMLP(c)
	body := mixedLayers(textPrefix, c, func(i int64) []slot {
		if c.LayerTypes[i] == fullAttention {
			return full
		}
		return linear
	}, slices.Concat(layerNorms(c), attention(c), joinedDeltaNet(c)), denseMLP(c), routed)
	h, v := c.Hidden, c.Vocab
	return newLayout(c, textPrefix, []section{
		body,
		tableOf(textPrefix, false, 1, "", []slot{
			{path: "embed_tokens.weight", role: RoleEmbedding, shape: []int64{v, h}},
			{path: "norm.weight", role: RoleNorm, shape: []int64{h}},
		}),
		tableOf("mtp.layers.", true, headLayers, RoleHead, slices.Concat(full, routed)),
		tableOf("mtp.", false, 1, RoleHead, headGlobals(c, headLayers == 0)),
		tableOf("", false, 1, "", []slot{
			{path: "lm_head.weight", role: RoleLMHead, linear: true, shape: []int64{v, h}, optional: c.TieEmbeddings},
		}),
	})
}

// joinedDeltaNet is deltaNet with its projections stored as the server builds them.
func joinedDeltaNet(c *Config) []slot {
	h := c.Hidden
	out := []slot{
		{path: "linear_attn.in_proj_qkvz.weight", role: RoleLinearAttention, linear: true, shape: []int64{c.ConvDim() + c.ValueDim(), h}},
		{path: "linear_attn.in_proj_ba.weight", role: RoleLinearGate, linear: true, shape: []int64{2 * c.LinearValHeads, h}},
	}
	for _, s := range deltaNet(c) {
		if s.fused == "" {
			out = append(out, s)
		}
	}
	return out
}
