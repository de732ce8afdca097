package engine

import "fmt"

// Place says which kind of module a linear is, for rules that treat kinds apart.
type Place string

const (
	Body       Place = "body"    // projections of the language model
	Gates      Place = "gates"   // linear_attn.in_proj_ba: quantizable to the server, kept at source precision by everyone
	Tower      Place = "vision"  // the vision tower
	Head       Place = "head"    // the drafter's own modules
	LMHead     Place = "lm_head" // as the target asks for it
	LMHeadMTP  Place = "lm_head of the drafter"
	Router     Place = "router" // of Qwen3MoeForCausalLM, which alone builds it with the quantization config
	RoutedMoE  Place = "experts"
	RoutedHead Place = "experts of the head"
)

// Linear is a runtime module that is built with the quantization config.
type Linear struct {
	Runtime string // the prefix that the quantization config is asked
	Class   string // name of its Python class, for targets such as "Linear"
	Place   Place
	Drafter bool    // asked with the drafter's packed mapping
	Shards  []Shard // checkpoint modules that fill it, in the server's order
}

// Fused says whether several checkpoint modules fill the module.
func (l *Linear) Fused() bool { return len(l.Shards) > 1 && !l.Routed() }

// Routed says whether the module is a mixture's experts: shards are gate, up and down of expert 0, then of expert 1 …
func (l *Linear) Routed() bool { return l.Place == RoutedMoE || l.Place == RoutedHead }

// InHead says whether the module belongs to the drafter's own weights (its lm_head is the target's).
func (l *Linear) InHead() bool { return l.Place == Head || l.Place == RoutedHead }

// Shard is a checkpoint module, an out × in matrix.
type Shard struct {
	Name    string // checkpoint name without ".weight"
	Key     string // shard key of the mapper ("q_proj"), "" when the module stands alone
	Out, In int64
	Bias    bool // the module is built with a bias
}

// Param is a tensor that is never quantized.
type Param struct {
	Name  string // checkpoint name
	Shape []int64
}

const (
	qkvClass    = "QKVParallelLinear"
	mergedClass = "MergedColumnParallelLinear"
	columnClass = "ColumnParallelLinear"
	rowClass    = "RowParallelLinear"
	lmHeadClass = "ParallelLMHead"
)

// builder lists the modules of one class as its constructor builds them.
type builder struct {
	a       *Arch
	linears []Linear
	params  []Param
}

func (b *builder) param(name string, shape ...int64) {
	b.params = append(b.params, Param{name, shape})
}

// linear adds a module that one checkpoint module fills. Both prefixes end with a dot.
func (b *builder) linear(runtime, ckpt, name, class string, place Place, out, in int64, bias bool) {
	b.linears = append(b.linears, Linear{Runtime: runtime + name, Class: class, Place: place, Drafter: place == Head,
		Shards: []Shard{{Name: ckpt + name, Out: out, In: in, Bias: bias}}})
}

func (b *builder) fused(runtime, ckpt, name, class string, place Place, in int64, parts ...Shard) {
	for i := range parts {
		parts[i].Key, parts[i].Name, parts[i].In = parts[i].Name, ckpt+parts[i].Name, in
	}
	b.linears = append(b.linears, Linear{Runtime: runtime + name, Class: class, Place: place, Drafter: place == Head, Shards: parts})
}

// language lists the text model. runtime and ckpt are the prefixes of its layers' parent ("language_model.model." and
// "model.language_model.").
func (b *builder) language(runtime, ckpt string) {
	a := b.a
	b.param(ckpt+"embed_tokens.weight", a.Vocab, a.Hidden)
	b.param(ckpt+"norm.weight", a.Hidden)
	for i, kind := range a.LayerTypes {
		b.layer(fmt.Sprintf("%slayers.%d.", runtime, i), fmt.Sprintf("%slayers.%d.", ckpt, i), int64(i), kind, Body)
	}
}

// layer is Qwen3_5DecoderLayer and its parent Qwen3NextDecoderLayer.
func (b *builder) layer(runtime, ckpt string, index int64, kind string, place Place) {
	a := b.a
	b.param(ckpt+"input_layernorm.weight", a.Hidden)
	b.param(ckpt+"post_attention_layernorm.weight", a.Hidden)
	if a.layerScale {
		b.param(ckpt+"attn_layer_scale", 1, 1, a.Hidden)
		b.param(ckpt+"ffn_layer_scale", 1, 1, a.Hidden)
	}
	if kind == "full_attention" {
		b.attention(runtime+"self_attn.", ckpt+"self_attn.", place)
	} else {
		b.delta(runtime+"linear_attn.", ckpt+"linear_attn.")
	}
	if !a.sparse(index) {
		b.mlp(runtime+"mlp.", ckpt+"mlp.", place, a.Intermediate)
		return
	}
	b.param(ckpt+"mlp.gate.weight", a.Experts, a.Hidden)
	b.param(ckpt+"mlp.shared_expert_gate.weight", 1, a.Hidden)
	if a.SharedFF > 0 {
		b.mlp(runtime+"mlp.shared_expert.", ckpt+"mlp.shared_expert.", place, a.SharedFF)
	}
	b.experts(runtime+"mlp.experts", ckpt+"mlp.experts", place)
}

// attention is Qwen3NextAttention: the output gate, where there is one, is stacked into q_proj.
func (b *builder) attention(runtime, ckpt string, place Place) {
	a := b.a
	q := a.Heads * a.HeadDim
	gated := q
	if a.AttnGate {
		gated = 2 * q
	}
	kv := a.KVHeads * a.HeadDim
	b.fused(runtime, ckpt, "qkv_proj", qkvClass, place, a.Hidden,
		Shard{Name: "q_proj", Out: gated, Bias: a.qkvBias}, Shard{Name: "k_proj", Out: kv, Bias: a.qkvBias}, Shard{Name: "v_proj", Out: kv, Bias: a.qkvBias})
	b.linear(runtime, ckpt, "o_proj", rowClass, place, a.Hidden, q, false)
	b.param(ckpt+"q_norm.weight", a.HeadDim)
	b.param(ckpt+"k_norm.weight", a.HeadDim)
}

// delta is QwenGatedDeltaNetAttention. Qwen3-Next has the interleaved layout, where one stored matrix fills each of the
// two input projections. conv1d is built without the quantization config.
func (b *builder) delta(runtime, ckpt string) {
	a := b.a
	key, value := a.KeyHeads*a.KeyDim, a.ValueHeads*a.ValueDim
	if a.Family == Qwen3Next {
		b.linear(runtime, ckpt, "in_proj_qkvz", mergedClass, Body, 2*key+2*value, a.Hidden, false)
		b.linear(runtime, ckpt, "in_proj_ba", mergedClass, Gates, 2*a.ValueHeads, a.Hidden, false)
	} else {
		b.fused(runtime, ckpt, "in_proj_qkvz", mergedClass, Body, a.Hidden, Shard{Name: "in_proj_qkv", Out: 2*key + value}, Shard{Name: "in_proj_z", Out: value})
		b.fused(runtime, ckpt, "in_proj_ba", mergedClass, Gates, a.Hidden, Shard{Name: "in_proj_b", Out: a.ValueHeads}, Shard{Name: "in_proj_a", Out: a.ValueHeads})
	}
	b.linear(runtime, ckpt, "out_proj", rowClass, Body, a.Hidden, value, false)
	b.param(ckpt+"conv1d.weight", 2*key+value, 1, a.Conv)
	b.param(ckpt+"A_log", a.ValueHeads)
	b.param(ckpt+"dt_bias", a.ValueHeads)
	b.param(ckpt+"norm.weight", a.ValueDim)
}

func (b *builder) mlp(runtime, ckpt string, place Place, ff int64) {
	h, bias := b.a.Hidden, b.a.mlpBias
	b.fused(runtime, ckpt, "gate_up_proj", mergedClass, place, h, Shard{Name: "gate_proj", Out: ff, Bias: bias}, Shard{Name: "up_proj", Out: ff, Bias: bias})
	b.linear(runtime, ckpt, "down_proj", rowClass, place, h, ff, bias)
}

func (b *builder) experts(runtime, ckpt string, place Place) {
	l := Linear{Runtime: runtime, Class: "RoutedExperts", Place: RoutedMoE}
	if place == Head {
		l.Place, l.Drafter = RoutedHead, true
	}
	h, ff := b.a.Hidden, b.a.ExpertFF
	for e := int64(0); e < b.a.Experts; e++ {
		p := fmt.Sprintf("%s.%d.", ckpt, e)
		l.Shards = append(l.Shards, Shard{Name: p + "gate_proj", Out: ff, In: h}, Shard{Name: p + "up_proj", Out: ff, In: h}, Shard{Name: p + "down_proj", Out: h, In: ff})
	}
	b.linears = append(b.linears, l)
}

// head is Qwen3_5MultiTokenPredictor or Qwen3NextMultiTokenPredictor: always full attention, and the quantization config is asked under "mtp.".
func (b *builder) head() {
	a := b.a
	b.linear("mtp.", "mtp.", "fc", columnClass, Head, a.Hidden, 2*a.Hidden, false)
	b.param("mtp.pre_fc_norm_embedding.weight", a.Hidden)
	b.param("mtp.pre_fc_norm_hidden.weight", a.Hidden)
	b.param("mtp.norm.weight", a.Hidden)
	for i := int64(0); i < a.MTPLayers; i++ {
		p := fmt.Sprintf("mtp.layers.%d.", i)
		b.layer(p, p, i, "full_attention", Head)
	}
}

func (b *builder) lmHead(runtime string, place Place) {
	b.linears = append(b.linears, Linear{Runtime: runtime, Class: lmHeadClass, Place: place, Drafter: place == LMHeadMTP,
		Shards: []Shard{{Name: "lm_head", Out: b.a.Vocab, In: b.a.Hidden}}})
}
