package engine

import (
	_ "embed"
	"fmt"
	"strings"
)

// Family is a group of the server's classes that this package builds in one way.
type Family string

const (
	Qwen35    Family = "qwen3_5" // dense and mixture of experts, wrapped and text-only
	Qwen3Next Family = "qwen3_next"
	Llama     Family = "llama" // with Mistral, whose class inherits it
	Qwen2     Family = "qwen2"
	Qwen3     Family = "qwen3"
	Qwen3MoE  Family = "qwen3_moe"
)

// class is an entry of the server's registry (vLLM 017e9f4448, models/registry.py) that this package simulates.
type class struct {
	family        Family
	textOnly, moe bool                 // Qwen3.5
	modelType     string               // of config.json; "" where package values has its own rule
	drafter       string               // class of the drafter, "" for a class without an MTP head
	skipTied      bool                 // a tied model's lm_head tensors are skipped (skip_prefixes)
	stacked       []stack              // hf_to_vllm_mapper's fusing rules
	packed        func(*Arch) []Packed // packed_modules_mapping
	build         func(b *builder)     // the target's modules
	defaults      map[string]int64     // of the configuration class, where config.json is silent
}

var classes = map[string]class{
	"Qwen3_5ForConditionalGeneration":    {family: Qwen35, drafter: "Qwen3_5MTP", build: (*builder).wrapper},
	"Qwen3_5MoeForConditionalGeneration": {family: Qwen35, moe: true, drafter: "Qwen3_5MoeMTP", build: (*builder).wrapper},
	"Qwen3_5ForCausalLM":                 {family: Qwen35, textOnly: true, drafter: "Qwen3_5MTP", build: (*builder).flatModel},
	"Qwen3_5MoeForCausalLM":              {family: Qwen35, textOnly: true, moe: true, drafter: "Qwen3_5MoeMTP", build: (*builder).flatModel},
	// qwen3_next.py: no mapper on the outer class, so entries of the quantization config are never mapped
	"Qwen3NextForCausalLM": {family: Qwen3Next, modelType: "qwen3_next", drafter: "Qwen3NextMTP", stacked: stackedQwen35[:7], packed: packedNext, build: (*builder).next,
		defaults: map[string]int64{"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2,
			"head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "num_experts": 512, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512}},
	"LlamaForCausalLM": {family: Llama, modelType: "llama", skipTied: true, stacked: stackedLlama, packed: packedPlain, build: (*builder).plain,
		defaults: map[string]int64{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32}},
	"MistralForCausalLM": {family: Llama, modelType: "mistral", skipTied: true, stacked: stackedLlama, packed: packedPlain, build: (*builder).plain,
		defaults: map[string]int64{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}},
	"Qwen2ForCausalLM": {family: Qwen2, modelType: "qwen2", skipTied: true, stacked: stackedLlama, packed: packedPlain, build: (*builder).plain,
		defaults: map[string]int64{"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32}},
	"Qwen3ForCausalLM": {family: Qwen3, modelType: "qwen3", skipTied: true, stacked: stackedLlama, packed: packedPlain, build: (*builder).plain,
		defaults: map[string]int64{"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128}},
	"Qwen3MoeForCausalLM": {family: Qwen3MoE, modelType: "qwen3_moe", stacked: stackedQwen35[:7], packed: packedMoE, build: (*builder).plain,
		defaults: map[string]int64{"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 4,
			"num_experts": 128, "moe_intermediate_size": 768}},
}

//go:embed classes.txt
var registry string

var registered = func() map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(registry) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			out[line] = true
		}
	}
	return out
}()

// Registered says whether the server has a class of this name for generation, simulated here or not.
func Registered(class string) bool { return registered[class] }

// ClassError is a class that Build cannot make. Registered tells the two cases apart: a class that the server knows and
// whose loader is not simulated here, so that nobody may call the checkpoint good or bad; and one that it does not know.
type ClassError struct {
	Class      string
	Registered bool
	Server     string // a server whose loaders were not read; "" is vLLM
}

func (e *ClassError) Error() string {
	switch {
	case e.Server != "":
		return fmt.Sprintf("class %s: no loader of %s is simulated here", e.Class, e.Server)
	case e.Registered:
		return fmt.Sprintf("class %s is known to vLLM, its loader is not simulated here", e.Class)
	case e.Class == "":
		return "architectures[0] is missing: the server cannot tell which class to build"
	}
	return fmt.Sprintf("architectures[0] is %q, which is no class that vLLM registers (\"Model architectures are not supported\")", e.Class)
}

// DrafterClass is the class that the server builds the MTP head of the model with, "" for a family without one.
func (s *Server) DrafterClass() string { return s.class.drafter }

// stackedLlama is LlamaModel.hf_to_vllm_mapper, Qwen2Model's is the same.
var stackedLlama = []stack{
	{".q_proj", ".qkv_proj", "q_proj"},
	{".k_proj", ".qkv_proj", "k_proj"},
	{".v_proj", ".qkv_proj", "v_proj"},
	{".gate_proj", ".gate_up_proj", "gate_proj"},
	{".up_proj", ".gate_up_proj", "up_proj"},
}

func packedPlain(*Arch) []Packed { return packedDrafter }

// packedMoE: gate_up_proj is named only where the config lists dense layers (Qwen3MoeForCausalLM).
func packedMoE(a *Arch) []Packed {
	if len(a.denseLayers) > 0 {
		return packedDrafter
	}
	return packedDrafter[:1]
}

func packedNext(*Arch) []Packed {
	return append(packedDrafter[:2:2], Packed{"in_proj_qkvz", []string{"in_proj_qkvz"}}, Packed{"in_proj_ba", []string{"in_proj_ba"}})
}

// wrapper is Qwen3_5ForConditionalGeneration.
func (b *builder) wrapper() {
	b.vision("visual.", "model.visual.")
	b.language("language_model.model.", "model.language_model.")
	b.lmHead("language_model.lm_head", LMHead)
}

// flatModel is Qwen3_5ForCausalLM.
func (b *builder) flatModel() {
	b.language("model.", "model.")
	b.lmHead("lm_head", LMHead)
}

// next is Qwen3NextForCausalLM, which builds lm_head without the quantization config.
func (b *builder) next() {
	b.language("model.", "model.")
	b.param("lm_head.weight", b.a.Vocab, b.a.Hidden)
}
