package engine

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"
)

// Arch is what the server's model classes read from config.json, with the defaults of its own configuration classes
// (vLLM 017e9f4448, transformers_utils/configs/qwen3_5.py, qwen3_5_moe.py). All sizes are elements.
type Arch struct {
	Class    string // architectures[0]
	Family   Family
	TextOnly bool // a …ForCausalLM class of Qwen3.5: flat names, no vision tower
	MoE      bool

	Hidden, Vocab, Intermediate int64
	Heads, KVHeads, HeadDim     int64
	AttnGate                    bool
	KeyHeads, KeyDim            int64 // linear attention: number of heads, width of a head
	ValueHeads, ValueDim        int64
	Conv                        int64
	LayerTypes                  []string // "linear_attention" | "full_attention"
	Experts, ExpertFF, SharedFF int64
	TieEmbeddings               bool
	MTPLayers                   int64 // layers that the drafter builds (1 when the key is absent)
	Vision                      *Vision
	qkvBias, layerScale         bool

	oBias, mlpBias bool    // o_proj; gate, up and down
	qkNorm         bool    // norms of queries and keys (other families than Qwen3.5)
	step           int64   // every step-th layer is a mixture; 0: all of them, where MoE is set
	denseLayers    []int64 // mlp_only_layers
}

// sparse says whether a layer's MLP is a mixture of experts.
func (a *Arch) sparse(layer int64) bool {
	if a.step == 0 {
		return a.MoE
	}
	return a.Experts > 0 && (layer+1)%a.step == 0 && !slices.Contains(a.denseLayers, layer)
}

// Vision is the tower's part.
type Vision struct {
	Depth, Hidden, Intermediate, Channels, Patch, Temporal, Merge, Out, Positions int64
	Deepstack                                                                     int64
}

// Largest numbers that are believed: a hostile config.json must not make this package allocate without bound. The
// largest known model of the family has 94 layers and 512 experts.
const (
	maxLayers  = 4096
	maxExperts = 16384
	maxSlots   = 1 << 18 // layers × experts
	maxSize    = 1 << 20
)

// ReadArch reads a config.json as the model classes do. The error is a *ClassError, or says which key the server would
// stumble over.
func ReadArch(config []byte) (*Arch, error) {
	if !json.Valid(config) {
		return nil, fmt.Errorf("config.json is not valid JSON")
	}
	root := gjson.ParseBytes(config)
	a := &Arch{Class: root.Get("architectures.0").String()}
	c, known := classes[a.Class]
	if !known {
		return nil, &ClassError{Class: a.Class, Registered: Registered(a.Class)}
	}
	a.Family, a.TextOnly = c.family, c.textOnly
	if c.family != Qwen35 {
		r := numbers{v: root}
		a.flat(&r)
		return a, r.err
	}
	t := root.Get("text_config")
	if !t.IsObject() {
		if !a.TextOnly {
			return nil, fmt.Errorf("text_config is missing, class %s reads everything from it", a.Class)
		}
		t = root
	}
	// the class of the layers' MLP comes from the model_type, not from the architecture
	switch mt := t.Get("model_type").String(); mt {
	case "qwen3_5_text":
	case "qwen3_5_moe_text":
		a.MoE = true
	case "": // the configuration class has its own
		a.MoE = c.moe
	default:
		return nil, fmt.Errorf("model_type %q of the text model: the server knows qwen3_5_text and qwen3_5_moe_text (\"Invalid model_type\")", mt)
	}
	if a.MoE != c.moe {
		return nil, fmt.Errorf("class %s does not go with model_type %q of the text model", a.Class, t.Get("model_type").String())
	}
	r := numbers{v: t}
	a.text(&r)
	if !a.TextOnly {
		v := numbers{v: root.Get("vision_config")}
		a.Vision = v.vision()
		r.keep(v.err)
	}
	return a, r.err
}

func (a *Arch) text(r *numbers) {
	d := func(dense, moe int64) int64 {
		if a.MoE {
			return moe
		}
		return dense
	}
	a.Vocab = r.get("vocab_size", 248320, maxSize)
	a.Hidden = r.get("hidden_size", d(4096, 2048), maxSize)
	a.Intermediate = r.get("intermediate_size", 12288, maxSize)
	a.Heads = r.get("num_attention_heads", 16, maxSize)
	a.KVHeads = r.get("num_key_value_heads", d(4, 2), maxSize)
	a.HeadDim = r.get("head_dim", 256, maxSize)
	a.KeyHeads = r.get("linear_num_key_heads", 16, maxSize)
	a.KeyDim = r.get("linear_key_head_dim", 128, maxSize)
	a.ValueHeads = r.get("linear_num_value_heads", 32, maxSize)
	a.ValueDim = r.get("linear_value_head_dim", 128, maxSize)
	a.Conv = r.get("linear_conv_kernel_dim", 4, maxSize)
	if a.MoE {
		a.Experts = r.get("num_experts", 256, maxExperts)
		a.ExpertFF = r.get("moe_intermediate_size", 512, maxSize)
		a.SharedFF = r.get("shared_expert_intermediate_size", 512, maxSize)
	}
	a.AttnGate = r.flag("attn_output_gate", true)
	a.qkvBias = r.flag("qkv_bias", false)
	a.layerScale = r.flag("layer_scale", false)
	a.TieEmbeddings = r.flag("tie_word_embeddings", false)
	// absent: Qwen3_5MultiTokenPredictor builds one layer
	a.MTPLayers = r.get("mtp_num_hidden_layers", 1, maxLayers)
	layers := r.get("num_hidden_layers", d(32, 40), maxLayers)
	if layers*(a.Experts+1) > maxSlots || a.MTPLayers*(a.Experts+1) > maxSlots {
		r.keep(fmt.Errorf("num_hidden_layers %d with num_experts %d is more than can be judged", layers, a.Experts))
		return
	}
	a.layerTypes(r, layers)
}

func (a *Arch) layerTypes(r *numbers, layers int64) {
	kinds := r.v.Get("layer_types")
	if !kinds.IsArray() {
		every := r.get("full_attention_interval", 4, maxLayers)
		for i := int64(0); i < layers; i++ {
			kind := "linear_attention"
			if every > 0 && (i+1)%every == 0 {
				kind = "full_attention"
			}
			a.LayerTypes = append(a.LayerTypes, kind)
		}
		return
	}
	for i, k := range kinds.Array() {
		kind := k.String()
		if kind != "linear_attention" && kind != "full_attention" {
			r.keep(fmt.Errorf("layer_types[%d] is %q: the server knows linear_attention and full_attention (\"Invalid layer_type\")", i, kind))
			return
		}
		a.LayerTypes = append(a.LayerTypes, kind)
	}
	if int64(len(a.LayerTypes)) != layers {
		r.keep(fmt.Errorf("layer_types has %d entries, num_hidden_layers is %d", len(a.LayerTypes), layers))
	}
}

func (r *numbers) vision() *Vision {
	if !r.v.IsObject() {
		r.keep(fmt.Errorf("vision_config is missing, the wrapper class reads it even when only text is served"))
		return nil
	}
	return &Vision{
		Depth:        r.get("depth", 27, maxLayers),
		Hidden:       r.get("hidden_size", 1152, maxSize),
		Intermediate: r.get("intermediate_size", 4304, maxSize),
		Channels:     r.get("in_channels", 3, maxSize),
		Patch:        r.get("patch_size", 16, maxSize),
		Temporal:     r.get("temporal_patch_size", 2, maxSize),
		Merge:        r.get("spatial_merge_size", 2, maxSize),
		Out:          r.get("out_hidden_size", 3584, maxSize),
		Positions:    r.get("num_position_embeddings", 2304, maxSize),
		Deepstack:    min(int64(len(r.v.Get("deepstack_visual_indexes").Array())), maxLayers),
	}
}

// numbers reads keys of an object and keeps the first error.
type numbers struct {
	v   gjson.Result
	err error
}

func (r *numbers) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *numbers) get(key string, def, limit int64) int64 {
	v := r.v.Get(key)
	if !v.Exists() || v.Type == gjson.Null {
		return def
	}
	n, err := wantInt(key, v)
	if err != nil {
		r.keep(err)
		return def
	}
	if n < 0 || n > limit {
		r.keep(fmt.Errorf("%s %d: out of range", key, n))
		return def
	}
	return n
}

func (r *numbers) flag(key string, def bool) bool {
	v := r.v.Get(key)
	if v.IsBool() {
		return v.Bool()
	}
	return def
}
