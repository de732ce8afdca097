package model

import "slices"

// decoder is the plain transformer decoder that Llama, Mistral, Qwen2, Qwen3 and Qwen3-MoE share: full attention and one
// gated MLP (or a router over experts) in every layer, flat names below "model.", no head. What differs is a row of this
// table.
//
// Sources: vLLM 017e9f4448, models/llama.py, mistral.py, qwen2.py, qwen3.py, qwen3_moe.py.
type decoder struct {
	id       string
	headDim  int64 // of an absent head_dim; 0: hidden_size / num_attention_heads
	qkvBias  bool  // q, k and v have biases whatever the configuration says
	oBias    bool  // attention_bias gives o_proj one too
	mlpBias  bool  // mlp_bias is read
	qkNorm   bool  // q_norm and k_norm, one per head dimension
	experts  bool  // routed experts without a shared one
	elastics bool  // num_key_value_heads may be absent: as many as query heads
}

var (
	llama    = decoder{id: "llama", oBias: true, mlpBias: true, elastics: true}
	mistral  = decoder{id: "mistral", oBias: true, elastics: true}
	qwen2    = decoder{id: "qwen2", qkvBias: true}
	qwen3    = decoder{id: "qwen3", headDim: 128, qkNorm: true}
	qwen3moe = decoder{id: "qwen3_moe", headDim: 128, qkNorm: true, experts: true}
)

func (d decoder) name() string { return d.id }

// textModelType is not asked: the classes build the same layers for every model_type.
func (decoder) textModelType() string { return "" }

func (decoder) supported() error { return nil }

// head: none of these families has one of its own. EAGLE and DFlash drafters for them are repositories apart.
func (decoder) head(*Config, string) headLayout { return headLayout{kind: headNone} }

func (decoder) headSizes() []headSize { return nil }

func (d decoder) read(c *Config, text *fields) {
	c.Hidden = text.positive("hidden_size", maxHidden)
	c.Layers = text.positive("num_hidden_layers", maxLayers)
	c.Vocab = text.positive("vocab_size", maxVocab)
	c.Heads = text.positive("num_attention_heads", maxHeads)
	if d.elastics {
		c.KVHeads = text.optional("num_key_value_heads", maxHeads, c.Heads)
	} else {
		c.KVHeads = text.positive("num_key_value_heads", maxHeads)
	}
	width := d.headDim
	if width == 0 && c.Heads > 0 {
		width = max(1, c.Hidden/c.Heads)
	}
	c.HeadDim = text.optional("head_dim", maxHeadDim, width)
	c.AttentionBias = !d.qkvBias && text.boolean("attention_bias", false)
	c.biasesRead = true
	c.mlpBias = d.mlpBias && text.boolean("mlp_bias", false)
	if !d.experts {
		c.Intermediate = text.positive("intermediate_size", maxWidth)
		return
	}
	readExperts(c, text)
}

// readExperts reads the sizes of routed experts, and which layers are dense all the same.
func readExperts(c *Config, text *fields) {
	c.Experts = text.positive("num_experts", maxExperts)
	c.ExpertsPerToken = text.positive("num_experts_per_tok", maxExperts)
	c.ExpertIntermediate = text.positive("moe_intermediate_size", maxWidth)
	c.denseLayers = text.indexes("mlp_only_layers", c.Layers)
	if step := text.optional("decoder_sparse_step", maxLayers, 1); step > 1 {
		for i := range c.Layers {
			if (i+1)%step != 0 {
				c.denseLayers = append(c.denseLayers, i)
			}
		}
	}
	if len(c.denseLayers) > 0 {
		c.Intermediate = text.positive("intermediate_size", maxWidth)
	}
}

func (d decoder) layout(c *Config, textPrefix string, _ int64) *layout {
	common := slices.Concat(layerNorms(c), d.attention(c))
	dense, routed := d.mlp(c), []slot(nil)
	if d.experts {
		routed = expertMLP(c)
	}
	body := mixedLayers(textPrefix, c, func(int64) []slot { return common }, common, dense, routed)
	h, v := c.Hidden, c.Vocab
	return newLayout(c, textPrefix, []section{
		body,
		tableOf(textPrefix, false, 1, "", []slot{
			{path: "embed_tokens.weight", role: RoleEmbedding, shape: []int64{v, h}},
			{path: "norm.weight", role: RoleNorm, shape: []int64{h}},
		}),
		tableOf("", false, 1, "", []slot{
			{path: "lm_head.weight", role: RoleLMHead, linear: true, shape: []int64{v, h}, optional: c.TieEmbeddings},
		}),
	})
}

// mixedLayers is a body whose layers have an MLP or routed experts (routed nil: only MLPs). attention tells what a layer
// holds besides, all what any layer may.
func mixedLayers(textPrefix string, c *Config, attention func(i int64) []slot, all, dense, routed []slot) section {
	type key struct {
		first *slot
		dense bool
	}
	known := map[key][]slot{}
	every := slices.Concat(all, dense, routed)
	if routed != nil && len(c.denseLayers) == 0 {
		every = slices.Concat(all, routed)
	}
	return section{
		prefix: textPrefix + "layers.", layered: true, count: c.Layers, all: every,
		slots: func(i int64) []slot {
			a := attention(i)
			isDense := routed == nil || slices.Contains(c.denseLayers, i)
			k := key{&a[0], isDense}
			if s, ok := known[k]; ok {
				return s
			}
			mlp := routed
			if isDense {
				mlp = dense
			}
			known[k] = slices.Concat(a, mlp)
			return known[k]
		},
	}
}

func (d decoder) attention(c *Config) []slot {
	h, q, kv := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	const fused = "self_attn.qkv_proj"
	bias := d.qkvBias || c.AttentionBias
	linear := func(name, fused string, out, in int64, bias bool) []slot {
		return []slot{
			{path: "self_attn." + name + ".weight", role: RoleAttention, linear: true, fused: fused, shape: []int64{out, in}},
			{path: "self_attn." + name + ".bias", role: RoleAttention, fused: fused, shape: []int64{out}, optional: !bias},
		}
	}
	out := slices.Concat(
		linear("q_proj", fused, q, h, bias),
		linear("k_proj", fused, kv, h, bias),
		linear("v_proj", fused, kv, h, bias),
		linear("o_proj", "", h, q, d.oBias && c.AttentionBias))
	if d.qkNorm {
		out = append(out,
			slot{path: "self_attn.q_norm.weight", role: RoleNorm, shape: []int64{c.HeadDim}},
			slot{path: "self_attn.k_norm.weight", role: RoleNorm, shape: []int64{c.HeadDim}})
	}
	return out
}

func (d decoder) mlp(c *Config) []slot {
	out := denseMLP(c)
	if !d.mlpBias {
		return out
	}
	const fused = "mlp.gate_up_proj"
	return append(out,
		slot{path: "mlp.gate_proj.bias", role: RoleMLP, fused: fused, shape: []int64{c.Intermediate}, optional: !c.mlpBias},
		slot{path: "mlp.up_proj.bias", role: RoleMLP, fused: fused, shape: []int64{c.Intermediate}, optional: !c.mlpBias},
		slot{path: "mlp.down_proj.bias", role: RoleMLP, shape: []int64{c.Hidden}, optional: !c.mlpBias})
}
