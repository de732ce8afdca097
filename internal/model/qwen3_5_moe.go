package model

// qwen35moe is the mixture-of-experts sister of qwen35: the same attention, delta nets, vision tower and head around
// routed experts and one shared expert, in every layer. Official releases store the experts of a layer as two 3-D tensors
// without ".weight", the 397B and most quantized repositories one tensor per expert; the server reads both, so both are
// expected, layer by layer as stored. The head has 19 tensors with fused experts.
//
// Sources: transformers 0960594c, models/qwen3_5_moe/modular_qwen3_5_moe.py; vLLM 017e9f4448, models/qwen3_5.py and
// layers/fused_moe.
type qwen35moe struct{ dense qwen35 }

func (qwen35moe) name() string          { return "qwen3_5_moe" }
func (qwen35moe) textModelType() string { return "qwen3_5_moe_text" }

func (qwen35moe) supported() error { return nil }

func (q qwen35moe) head(c *Config, textPrefix string) headLayout { return q.dense.head(c, textPrefix) }

func (q qwen35moe) read(c *Config, text *fields) {
	q.dense.readCommon(c, text)
	c.Experts = text.positive("num_experts", maxExperts)
	c.ExpertsPerToken = text.positive("num_experts_per_tok", maxExperts)
	c.ExpertIntermediate = text.positive("moe_intermediate_size", maxWidth)
	c.SharedIntermediate = text.positive("shared_expert_intermediate_size", maxWidth)
}

func (q qwen35moe) layout(c *Config, textPrefix string, headLayers int64) *layout {
	return q.dense.layoutWith(c, textPrefix, headLayers, expertMLP(c))
}

func (q qwen35moe) headSizes() []headSize {
	return append(q.dense.headAttentionSizes(),
		headSize{"mtp.layers.0.mlp.gate.weight", 0, "num_experts"},
		headSize{"mtp.layers.0.mlp.shared_expert.gate_proj.weight", 0, "shared_expert_intermediate_size"},
		headSize{"mtp.layers.0.mlp.experts.down_proj", 2, "moe_intermediate_size"},
		headSize{"mtp.layers.0.mlp.experts.0.down_proj.weight", 1, "moe_intermediate_size"})
}

// expertMLP lists both ways to store the routed experts. The router and the gate of the shared expert are built without a
// quantization config; the fused spelling of gate and up is per expert, because they share one global scale.
func expertMLP(c *Config) []slot {
	h, e, m, ms := c.Hidden, c.Experts, c.ExpertIntermediate, c.SharedIntermediate
	const shared, each = "mlp.shared_expert.gate_up_proj", "mlp.experts.N.gate_up_proj"
	out := []slot{
		{path: "mlp.gate.weight", role: RoleRouter, shape: []int64{e, h}},
		{path: "mlp.experts.gate_up_proj", role: RoleExpert, linear: true, shape: []int64{e, 2 * m, h}, variant: allExperts},
		{path: "mlp.experts.down_proj", role: RoleExpert, linear: true, shape: []int64{e, h, m}, variant: allExperts},
		{path: "mlp.experts.N.gate_proj.weight", role: RoleExpert, linear: true, fused: each, shape: []int64{m, h}, variant: perExpert},
		{path: "mlp.experts.N.up_proj.weight", role: RoleExpert, linear: true, fused: each, shape: []int64{m, h}, variant: perExpert},
		{path: "mlp.experts.N.down_proj.weight", role: RoleExpert, linear: true, shape: []int64{h, m}, variant: perExpert},
	}
	if ms == 0 {
		return out
	}
	return append(out, []slot{
		{path: "mlp.shared_expert.gate_proj.weight", role: RoleSharedExpert, linear: true, fused: shared, shape: []int64{ms, h}},
		{path: "mlp.shared_expert.up_proj.weight", role: RoleSharedExpert, linear: true, fused: shared, shape: []int64{ms, h}},
		{path: "mlp.shared_expert.down_proj.weight", role: RoleSharedExpert, linear: true, shape: []int64{h, ms}},
		{path: "mlp.shared_expert_gate.weight", role: RoleRouter, shape: []int64{1, h}},
	}...)
}
