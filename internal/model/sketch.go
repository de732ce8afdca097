package model

import (
	"fmt"
	"slices"
)

// sketch is a family of which names, roles and the head's layout are certain, and not what a server's class does with all
// of it: a structure-only family. Its tables list what is known; shapes only where they follow from one number of the
// configuration; absence is told only of what every checkpoint of the family has. A name that no table knows is "other",
// and counted as unread. Where every name and shape of a family is certain (whole), it is judged like any other.
//
// Sources: vLLM 017e9f4448, below model_executor/models: deepseek_v2.py, deepseek_mtp.py, glm4_moe.py, glm4_moe_mtp.py,
// glm4_moe_lite.py, mimo.py, mimo_mtp.py, mimo_v2.py, mimo_v2_mtp.py, nemotron_h.py, nemotron_h_mtp.py, gpt_oss.py,
// gemma4_mtp.py; and models/minimax_m3/nvidia.
type sketch struct {
	id         string
	textPrefix string // "model." unless the class is wrapped or named otherwise
	embedding  string // below it
	norm       string // the last one, below it; "" when it is not certain
	layerStem  string // "layers."
	norms      []string
	parts      func(c *Config) []slot // what a layer may hold; nothing of it is expected
	sizes      func(c *Config, text *fields)
	whole      func(c *Config) *wholeTables // takes the place of norms and parts where it is not nil
	layout_    func(c *Config, textPrefix string) headLayout
	headLayer  func(c *Config) []slot // what a layer of the head holds beside parts; expected unless optional
	inner      func(c *Config) []slot // what a layer of the head may hold in place of parts
	headRest   []slot                 // the head outside its layers
	refusal    string                 // why it is not quantized, "" when its certain modules can be
}

func (s sketch) name() string        { return s.id }
func (sketch) textModelType() string { return "" }
func (sketch) headSizes() []headSize { return nil }

func (s sketch) head(c *Config, textPrefix string) headLayout { return s.layout_(c, textPrefix) }

func (s sketch) supported() error {
	if s.refusal == "" {
		return nil
	}
	return fmt.Errorf("family %s: %s", s.id, s.refusal)
}

// read takes the numbers that every one of these configurations has; a mixture calls its experts by one of three names.
func (s sketch) read(c *Config, text *fields) {
	c.Hidden = text.positive("hidden_size", maxHidden)
	c.Layers = text.positive("num_hidden_layers", maxLayers)
	c.Vocab = text.positive("vocab_size", maxVocab)
	c.biasesRead = true
	for _, key := range []string{"n_routed_experts", "num_local_experts", "num_experts"} {
		if text.has(key) {
			c.Experts = text.optional(key, maxExperts, 0)
			break
		}
	}
	if s.sizes != nil {
		s.sizes(c, text)
	}
}

func (s sketch) layout(c *Config, textPrefix string, headLayers int64) *layout {
	h := c.Hidden
	head := s.layout_(c, textPrefix)
	var layer []slot
	for _, n := range s.norms {
		layer = append(layer, slot{path: n, role: RoleNorm, shape: []int64{h}})
	}
	layer = append(layer, s.parts(c)...)
	inHead := layer
	var whole *wholeTables
	if s.whole != nil {
		whole = s.whole(c)
	}
	if s.inner != nil {
		inHead = s.inner(c)
	}
	if whole != nil {
		layer, inHead = whole.all, whole.head
	}
	sections := []section{}
	if head.grafts() {
		own := s.headLayer(c)
		if head.kind == headInline || whole != nil {
			own = slices.Concat(own, inHead)
		} else {
			own = slices.Concat(own, optionalSlots(inHead))
		}
		sec := tableOf(head.layers, true, headLayers, RoleHead, once(own))
		sec.first = head.first
		sections = append(sections, sec)
		if len(s.headRest) > 0 || head.kind != headInline {
			sections = append(sections, tableOf(head.prefix(), false, 1, RoleHead, optionalSlots(s.headRest)))
		}
	}
	body := tableOf(textPrefix+s.layerStem, true, c.Layers, "", layer)
	if whole != nil {
		body.slots = whole.layer
	}
	if head.kind == headInline {
		body.limit = c.Layers
	}
	globals := []slot{{path: s.embedding, role: RoleEmbedding, shape: []int64{c.Vocab, h}}}
	if s.norm != "" {
		globals = append(globals, slot{path: s.norm, role: RoleNorm, shape: []int64{h}})
	}
	sections = append(sections, body, tableOf(textPrefix, false, 1, "", globals))
	for _, tower := range []string{"model.visual.", "visual.", "vision_tower.", "model.vision_tower.", "vision_model."} {
		sections = append(sections, tableOf(tower, false, 1, RoleVision, nil))
	}
	lmHead := slot{path: "lm_head.weight", role: RoleLMHead, linear: true, shape: []int64{c.Vocab, h}, optional: c.TieEmbeddings}
	if textPrefix == "language_model.model." {
		lmHead.path = "language_model.lm_head.weight"
	}
	sections = append(sections, tableOf("", false, 1, "", []slot{lmHead}))
	l := newLayout(c, textPrefix, sections)
	l.partial, l.spares = whole == nil, true
	return l
}

// once keeps the first slot of each path.
func once(in []slot) []slot {
	seen := map[string]bool{}
	return slices.DeleteFunc(in, func(s slot) bool {
		again := seen[s.path]
		seen[s.path] = true
		return again
	})
}

func optionalSlots(in []slot) []slot {
	out := slices.Clone(in)
	for i := range out {
		out[i].optional = true
	}
	return out
}

// may is a slot that is known and not expected, of a shape that does not follow from one number.
func may(path string, role Role, linear bool, fused string) slot {
	return slot{path: path, role: role, linear: linear, fused: fused, optional: true}
}

// splitAttention is q, k, v and o as most families store them.
func splitAttention(*Config) []slot {
	const fused = "self_attn.qkv_proj"
	out := []slot{may("self_attn.o_proj.weight", RoleAttention, true, "")}
	for _, n := range []string{"q_proj", "k_proj", "v_proj"} {
		out = append(out, may("self_attn."+n+".weight", RoleAttention, true, fused), may("self_attn."+n+".bias", RoleAttention, false, fused))
	}
	return append(out, may("self_attn.q_norm.weight", RoleNorm, false, ""), may("self_attn.k_norm.weight", RoleNorm, false, ""))
}

// latentAttention is DeepSeek's multi-head latent attention, with the sparse indexer of V3.2 and GLM-5. The server joins
// the two first projections into one.
func latentAttention(*Config) []slot {
	const fused = "self_attn.fused_qkv_a_proj"
	return []slot{
		may("self_attn.q_proj.weight", RoleAttention, true, ""),
		may("self_attn.q_a_proj.weight", RoleAttention, true, fused),
		may("self_attn.kv_a_proj_with_mqa.weight", RoleAttention, true, fused),
		may("self_attn.q_b_proj.weight", RoleAttention, true, ""),
		may("self_attn.kv_b_proj.weight", RoleAttention, true, ""),
		may("self_attn.o_proj.weight", RoleAttention, true, ""),
		may("self_attn.q_a_layernorm.weight", RoleNorm, false, ""),
		may("self_attn.kv_a_layernorm.weight", RoleNorm, false, ""),
		may("self_attn.indexer.wq_b.weight", RoleOther, false, ""),
		may("self_attn.indexer.wk.weight", RoleOther, false, ""),
		may("self_attn.indexer.weights_proj.weight", RoleOther, false, ""),
		may("self_attn.indexer.k_norm.weight", RoleNorm, false, ""),
		may("self_attn.indexer.k_norm.bias", RoleNorm, false, ""),
	}
}

// deepseekMLP is an MLP in the first layers, and routed with shared experts in the others.
func deepseekMLP(*Config) []slot {
	const mlp, each, shared = "mlp.gate_up_proj", "mlp.experts.N.gate_up_proj", "mlp.shared_experts.gate_up_proj"
	return []slot{
		may("mlp.gate_proj.weight", RoleMLP, true, mlp),
		may("mlp.up_proj.weight", RoleMLP, true, mlp),
		may("mlp.down_proj.weight", RoleMLP, true, ""),
		may("mlp.gate.weight", RoleRouter, false, ""),
		may("mlp.gate.e_score_correction_bias", RoleRouter, false, ""),
		may("mlp.experts.N.gate_proj.weight", RoleExpert, true, each),
		may("mlp.experts.N.up_proj.weight", RoleExpert, true, each),
		may("mlp.experts.N.down_proj.weight", RoleExpert, true, ""),
		may("mlp.shared_experts.gate_proj.weight", RoleSharedExpert, true, shared),
		may("mlp.shared_experts.up_proj.weight", RoleSharedExpert, true, shared),
		may("mlp.shared_experts.down_proj.weight", RoleSharedExpert, true, ""),
	}
}

// deepseekHead is a whole decoder layer with two norms and a projection before it and a norm behind it. The embedding and
// the lm_head in it are copies that some publishers leave out or fill with placeholders (vllm-project/vllm#57532).
func deepseekHead(c *Config) []slot {
	h := c.Hidden
	return []slot{
		{path: "enorm.weight", shape: []int64{h}},
		{path: "hnorm.weight", shape: []int64{h}},
		{path: "eh_proj.weight", linear: true, shape: []int64{h, 2 * h}},
		{path: "shared_head.norm.weight", shape: []int64{h}},
		{path: "shared_head.head.weight", shape: []int64{c.Vocab, h}, optional: true},
		{path: "embed_tokens.weight", shape: []int64{c.Vocab, h}, optional: true},
	}
}

func joined(lists ...func(*Config) []slot) func(*Config) []slot {
	return func(c *Config) []slot {
		var out []slot
		for _, f := range lists {
			out = append(out, f(c)...)
		}
		return out
	}
}
