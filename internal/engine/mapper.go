package engine

import (
	"regexp"
	"strings"
)

// rename is one rule of a WeightsMapper.
type rename struct{ from, to string }

// Mapper carries checkpoint names to runtime names (vLLM 017e9f4448, model_executor/models/utils.py WeightsMapper):
// prefix rules of the wrapper, applied once each in order, then the fusing rules of the language model by substring.
type Mapper struct {
	prefix  []rename
	stacked []stack
}

// stack is a fusing rule: a part of a checkpoint name, the runtime module that takes its place, and the shard.
type stack struct{ from, to, shard string }

// stackedQwen35 is Qwen3NextModel.hf_to_vllm_mapper | Qwen3_5Model.hf_to_vllm_mapper, in their order. in_proj_qkv fills
// three of the four slots of in_proj_qkvz; to a judge of names that is one shard.
var stackedQwen35 = []stack{
	{".q_proj", ".qkv_proj", "q_proj"},
	{".k_proj", ".qkv_proj", "k_proj"},
	{".v_proj", ".qkv_proj", "v_proj"},
	{".mlp.gate_proj", ".mlp.gate_up_proj", "gate_proj"},
	{".mlp.up_proj", ".mlp.gate_up_proj", "up_proj"},
	{".shared_expert.gate_proj", ".shared_expert.gate_up_proj", "gate_proj"},
	{".shared_expert.up_proj", ".shared_expert.gate_up_proj", "up_proj"},
	{".in_proj_qkv", ".in_proj_qkvz", "in_proj_qkv"},
	{".in_proj_z", ".in_proj_qkvz", "in_proj_z"},
	{".in_proj_b", ".in_proj_ba", "in_proj_b"},
	{".in_proj_a", ".in_proj_ba", "in_proj_a"},
}

// wrapperPrefixes are the rules of Qwen3VLForConditionalGeneration, which the Qwen3.5 wrapper inherits.
var wrapperPrefixes = []rename{
	{"model.visual.", "visual."},
	{"lm_head.", "language_model.lm_head."},
	{"model.language_model.", "language_model.model."},
}

// textOnlyPrefixes is the rule of Qwen3_5ForCausalLMBase (fact TextOnlyPrefix).
var textOnlyPrefixes = []rename{{"model.language_model.", "model."}}

func newMapper(e Engine, a *Arch) Mapper {
	m := Mapper{stacked: stackedQwen35}
	switch c, known := classes[a.Class]; {
	case known && c.family != Qwen35:
		m.stacked = c.stacked
	case !a.TextOnly:
		m.prefix = wrapperPrefixes
	case e.Has(TextOnlyPrefix):
		m.prefix = textOnlyPrefixes
	}
	return m
}

// Entry maps an entry of ignore or targets. Only layer paths are mapped: an entry with a dot that is no pattern. "re:"
// entries and bare names ("Linear", "lm_head") stay as they are (compressed_tensors.py apply_vllm_mapper).
func (m Mapper) Entry(entry string) string {
	if !strings.Contains(entry, ".") || strings.HasPrefix(entry, "re:") {
		return entry
	}
	return m.prefixes(entry)
}

func (m Mapper) prefixes(name string) string {
	for _, r := range m.prefix {
		if strings.HasPrefix(name, r.from) {
			name = r.to + name[len(r.from):]
		}
	}
	return name
}

// Weight maps a stored tensor's name to its runtime name and the shard of the fused module that it fills ("" where
// nothing is fused).
func (m Mapper) Weight(name string) (runtime, shard string) {
	name = m.prefixes(cacheScale(name))
	return fuse(m.stacked, name)
}

// fuse applies the stacking rules. Vision names contain none of their parts, so one pass serves both towers. A rule is
// tried against what earlier rules left; ".in_proj_qkvz" contains ".in_proj_qkv", so a name that is fused already keeps
// its spelling here, unlike in the server, which would spell it "in_proj_qkvzz" and refuse it: Place refuses it too.
func fuse(rules []stack, name string) (string, string) {
	for _, r := range rules {
		i := strings.Index(name, r.from)
		if i < 0 {
			continue
		}
		end := i + len(r.from)
		if end < len(name) && name[end] != '.' {
			continue
		}
		return name[:i] + r.to + name[end:], r.shard
	}
	return name, ""
}

// cacheScaleRules are QuantizationConfig.get_cache_scale_mapper (base_config.py), which runs before everything else:
// every spelling of a key/value cache scale ends in the attention module.
var cacheScaleRules = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`\.kv_scale$`), ".attn.k_scale"},
	{regexp.MustCompile(`\.self_attn\.[kv]_proj\.([kv])_scale$`), ".self_attn.attn.${1}_scale"},
	{regexp.MustCompile(`\.self_attn\.qk(?:qk)?v_proj\.([kv])_scale$`), ".self_attn.attn.${1}_scale"},
	{regexp.MustCompile(`\.self_attn\.q\.scale$`), ".self_attn.attn.q_scale"},
	{regexp.MustCompile(`\.self_attn\.([kv])_cache\.scale$`), ".self_attn.attn.${1}_scale"},
}

var (
	cacheScaleEnd  = regexp.MustCompile(`\.([qkv])_(scale|zero_point)$`)
	cacheScaleDone = regexp.MustCompile(`\.attn\.([qkv])_(scale|zero_point)$`)
)

func cacheScale(name string) string {
	for _, r := range cacheScaleRules {
		name = r.re.ReplaceAllString(name, r.to)
	}
	if !cacheScaleDone.MatchString(name) {
		name = cacheScaleEnd.ReplaceAllString(name, ".attn.${1}_${2}")
	}
	return name
}

// Packed is one entry of a model's packed_modules_mapping: a fused module's last name and its shards, in order.
type Packed struct {
	Fused  string
	Shards []string
}

// The mappings that are handed to the quantization config, in their order (qwen3_5.py, qwen3_vl.py, qwen3_5_mtp.py).
var (
	packedWrapper = []Packed{
		{"qkv_proj", []string{"q_proj", "k_proj", "v_proj"}},
		{"gate_up_proj", []string{"gate_proj", "up_proj"}},
		{"qkv", []string{"qkv"}},
		{"in_proj_qkvz", []string{"in_proj_qkv", "in_proj_z"}},
		{"in_proj_ba", []string{"in_proj_b", "in_proj_a"}},
	}
	packedTextOnly = []Packed{
		{"qkv_proj", []string{"q_proj", "k_proj", "v_proj"}},
		{"gate_up_proj", []string{"gate_proj", "up_proj"}},
		{"in_proj_qkvz", []string{"in_proj_qkv", "in_proj_z"}},
		{"in_proj_ba", []string{"in_proj_b", "in_proj_a"}},
	}
	packedDrafter = []Packed{
		{"qkv_proj", []string{"q_proj", "k_proj", "v_proj"}},
		{"gate_up_proj", []string{"gate_proj", "up_proj"}},
	}
)
