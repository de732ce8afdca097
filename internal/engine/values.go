package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Value is a value of config.json that names and shapes of tensors do not show to be wrong, and that the server stops at
// or computes nonsense with. Serious is false where only a part of its work suffers.
type Value struct {
	Key     string // "text_config.hidden_act"
	Message string
	Serious bool
}

// Values lists them for the config.json that the server was built for. Sources: vLLM 017e9f4448,
// transformers_utils/config.py and configs/qwen3_5.py, models/qwen3_5.py, qwen3_next.py, qwen2_moe.py, qwen3_vl.py,
// layers/attention/attention.py, layers/rotary_embedding.
func (s *Server) Values(config []byte) []Value {
	root := gjson.ParseBytes(config)
	v := values{a: s.Arch, root: root, text: root, vision: root.Get("vision_config")}
	if t := root.Get("text_config"); t.IsObject() {
		v.text, v.prefix = t, "text_config."
	}
	v.class()
	v.attention()
	v.scalars()
	v.rope()
	if s.Arch.Vision != nil {
		v.tower()
		v.tokens()
	}
	return v.list
}

type values struct {
	a                  *Arch
	root, text, vision gjson.Result
	prefix             string // of text's keys
	list               []Value
}

func (v *values) say(key, format string, args ...any) {
	v.list = append(v.list, Value{key, fmt.Sprintf(format, args...), true})
}

// class: the top level's model_type chooses the configuration class, whose defaults and layout everything else is read
// with; the wrapper's processor wants its own class, and the drafter is recognised by this key.
func (v *values) class() {
	if want := classes[v.a.Class].modelType; want != "" {
		switch got := v.root.Get("model_type"); {
		case null(got):
			v.say("model_type", "it is missing: the server cannot tell which configuration class to read the file with, and stops; class %s goes with %q", v.a.Class, want)
		case got.Type != gjson.String || got.Str != want:
			v.list = append(v.list, Value{"model_type", fmt.Sprintf("%s: the server reads the file with another configuration class than %s goes with (%q), and with its defaults", orNull(got), v.a.Class, want), false})
		}
		return
	}
	kind := "qwen3_5"
	if v.a.MoE {
		kind = "qwen3_5_moe"
	}
	nested := v.prefix != ""
	want := kind
	if !nested {
		want = kind + "_text"
	}
	switch got := v.root.Get("model_type"); {
	case null(got):
		v.say("model_type", "it is missing: the server cannot tell which configuration class to read the file with, and stops; class %s goes with %q", v.a.Class, want)
	case got.Type != gjson.String || got.Str != want:
		v.say("model_type", "%s makes the server read the file with another configuration class than %s goes with (%q)", orNull(got), v.a.Class, want)
	}
}

func (v *values) attention() {
	a := v.a
	if a.KVHeads < 1 || a.Heads < 1 || a.Heads%a.KVHeads != 0 {
		v.say(v.prefix+"num_attention_heads", "%d is no multiple of num_key_value_heads (%d): the attention refuses it", a.Heads, a.KVHeads)
	}
	if linear := a.Family == Qwen35 || a.Family == Qwen3Next; linear && (a.KeyHeads < 1 || a.ValueHeads < 1 || a.ValueHeads%a.KeyHeads != 0) {
		v.say(v.prefix+"linear_num_value_heads", "%d is no multiple of linear_num_key_heads (%d): the kernels share each key head among value heads", a.ValueHeads, a.KeyHeads)
	}
	if a.HeadDim < 1 {
		v.say(v.prefix+"head_dim", "%d is no width of a head", a.HeadDim)
	}
	if g := v.text.Get("attn_output_gate"); g.Exists() && !g.IsBool() {
		v.say(v.prefix+"attn_output_gate", "%s: the server adds it to 1; want true or false", orNull(g))
	}
	if c := v.text.Get("is_causal"); c.Exists() && falsy(c) {
		v.say(v.prefix+"is_causal", "%s: the server then attends in both directions, as for retrieval, and generates nonsense", orNull(c))
	}
	if v.a.MoE {
		k := int64(8)
		if a.Family == Qwen3Next {
			k = 10
		}
		t := v.text.Get("num_experts_per_tok")
		ok := true
		if !null(t) {
			k, ok = laxInt(t)
		}
		if !ok || k < 1 || k > a.Experts {
			v.say(v.prefix+"num_experts_per_tok", "%s: want 1 to num_experts (%d)", orDefault(t, k), a.Experts)
		}
	}
}

func orDefault(v gjson.Result, def int64) string {
	if null(v) {
		return fmt.Sprintf("%d, the default,", def)
	}
	return orNull(v)
}

// scalars are single numbers and names of the text model.
func (v *values) scalars() {
	if act := v.text.Get("hidden_act"); act.Exists() && (act.Type != gjson.String || act.Str != "silu") {
		v.say(v.prefix+"hidden_act", "%s: the server's MLP knows silu only (\"Unsupported activation\") and stops", orNull(act))
	}
	if gate := v.text.Get("output_gate_type"); gate.Exists() && !slices.Contains([]string{"silu", "swish", "sigmoid"}, gate.Str) {
		v.say(v.prefix+"output_gate_type", "%s: the server knows silu, swish and sigmoid, and stops", orNull(gate))
	}
	if eps := v.text.Get("rms_norm_eps"); eps.Exists() && !(eps.Type == gjson.Number && eps.Num > 0 && !math.IsInf(eps.Num, 0)) {
		v.say(v.prefix+"rms_norm_eps", "%s: want a number above 0; every norm divides by a root that holds it", orNull(eps))
	}
	if n := v.text.Get("max_position_embeddings"); n.Exists() {
		if k, ok := laxInt(n); !ok || k < 1 || n.Type != gjson.Number {
			v.say(v.prefix+"max_position_embeddings", "%s: want a whole number above 0, the longest context that is served", orNull(n))
		}
	}
}

// ropeKeys are the kinds of rotary embedding that get_rope knows, with the keys that it reads of each.
var ropeKeys = map[string][]string{
	"default": nil, "mllama4": nil, "openpangu": {"mrope_section"},
	"llama3": {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
	"linear": {"factor"}, "ntk": {"factor"}, "dynamic": nil, "xdrope": {"alpha", "xdrope_section"},
	"yarn":          {"factor", "original_max_position_embeddings"},
	"deepseek_yarn": {"factor", "original_max_position_embeddings"}, "deepseek_llama_scaling": {"factor", "original_max_position_embeddings"},
	"longrope": {"short_factor", "long_factor", "original_max_position_embeddings"}, "telechat3-yarn": {"factor"},
}

// rope is what the configuration class collects (transformers 5, modeling_rope_utils.py: rope_scaling, the old key, in
// front of rope_parameters; rope_theta and partial_rotary_factor may stand beside them) and get_rope reads.
func (v *values) rope() {
	name, p := "rope_parameters", v.text.Get("rope_parameters")
	if old := v.text.Get("rope_scaling"); !falsy(old) {
		name, p = "rope_scaling", old
	}
	key := v.prefix + name
	if !falsy(p) && !p.IsObject() {
		v.say(key, "%s: want an object", orNull(p))
		return
	}
	beside := func(k string) gjson.Result {
		if x := p.Get(k); x.Exists() {
			return x
		}
		return v.text.Get(k)
	}
	switch theta := beside("rope_theta"); {
	case null(theta) && v.a.Family != Qwen35: // the configuration class has a default that its models were trained with
	case null(theta):
		v.say(key, "no rope_theta is given: the server takes 10000, whatever the model was trained with")
		if falsy(p) {
			return
		}
	case theta.Type != gjson.Number || theta.Num <= 0 || math.IsInf(theta.Num, 0):
		v.say(key+".rope_theta", "%s: want a number above 0", orNull(theta))
	}
	kind := p.Get("rope_type")
	if !kind.Exists() {
		kind = p.Get("type")
	}
	which := "default"
	if kind.Exists() {
		which = map[string]string{"su": "longrope", "mrope": "default"}[kind.Str]
		if which == "" {
			which = kind.Str
		}
	}
	needs, known := ropeKeys[which]
	if !known {
		v.say(key+".rope_type", "%s is no kind that the server knows (\"Unknown RoPE scaling type\")", orNull(kind))
		return
	}
	for _, k := range needs {
		if !p.Get(k).Exists() {
			v.say(key+"."+k, "it is missing, and rope_type %s reads it: the server stops", which)
		}
	}
	factor := 0.25 // of the configuration class
	if v.a.Family != Qwen35 && v.a.Family != Qwen3Next {
		factor = 1
	}
	if f := beside("partial_rotary_factor"); f.Exists() {
		if factor = f.Num; f.Type != gjson.Number || factor <= 0 || factor > 1 {
			v.say(key+".partial_rotary_factor", "%s: want a number above 0 and at most 1, or the server stops", orNull(f))
			return
		}
	}
	v.sections(key, p.Get("mrope_section"), int64(float64(v.a.HeadDim)*factor))
}

// sections: MRotaryEmbedding asserts that the three sections fill half of the rotated width.
func (v *values) sections(key string, section gjson.Result, rotated int64) {
	if !section.Exists() {
		if v.a.Vision != nil {
			v.list = append(v.list, Value{key + ".mrope_section", "it is missing: the server counts positions in one direction, and images are seen in another order than in training", false})
		}
		return
	}
	sum, parts := int64(0), section.Array()
	for _, e := range parts {
		n, ok := laxInt(e)
		if !ok || n < 0 {
			parts = nil
			break
		}
		sum += n
	}
	switch {
	case !section.IsArray() || len(parts) != 3:
		v.say(key+".mrope_section", "%s: want three whole numbers", orNull(section))
	case sum != rotated/2:
		v.say(key+".mrope_section", "%s adds up to %d, half of the rotated width is %d: the server stops", orNull(section), sum, rotated/2)
	}
}

// activations are the names that the tower may have (layers/activation.py _ACTIVATION_REGISTRY).
var activations = strings.Fields("gelu gelu_fast gelu_new gelu_pytorch_tanh relu relu2 silu swish quick_gelu tanh sigmoid xielu")

func (v *values) tower() {
	heads := int64(16)
	t := v.vision.Get("num_heads")
	ok := true
	if !null(t) {
		heads, ok = laxInt(t)
	}
	if hidden := v.a.Vision.Hidden; !ok || heads < 1 || hidden%heads != 0 {
		v.say("vision_config.num_heads", "%s does not divide the tower's hidden_size (%d): the server stops", orDefault(t, heads), hidden)
	}
	if act := v.vision.Get("hidden_act"); act.Exists() && !slices.Contains(activations, act.Str) {
		v.say("vision_config.hidden_act", "%s is no activation that the server knows, and it stops", orNull(act))
	}
	if out := v.a.Vision.Out; out != v.a.Hidden {
		v.say("vision_config.out_hidden_size", "%d is not the text model's hidden_size (%d): what the tower makes does not fit where the server puts it", out, v.a.Hidden)
	}
}

// tokens are the placeholders that the server looks for in a prompt.
func (v *values) tokens() {
	for _, t := range []struct {
		key string
		def int64
	}{{"image_token_id", 248056}, {"video_token_id", 248057}, {"vision_start_token_id", 248053}, {"vision_end_token_id", 248054}} {
		id, ok := t.def, true
		got := v.root.Get(t.key)
		if got.Exists() {
			id, ok = laxInt(got)
			ok = ok && got.Type == gjson.Number
		}
		if !ok || id < 0 || id >= v.a.Vocab {
			v.say(t.key, "%s is no token of a vocabulary of %d: the server finds no place for images or video in a prompt", orDefault(got, id), v.a.Vocab)
		}
	}
}
