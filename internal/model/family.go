package model

import (
	"fmt"
	"strings"
)

// family is everything that this program knows about one kind of model. One file per family holds all its exceptions;
// nothing outside those files asks which family a checkpoint is of.
type family interface {
	// name is what inspect prints and plans record.
	name() string
	// textModelType is the model_type of the language model's configuration that the server's class asks for, "" when any does.
	textModelType() string
	// read takes the sizes that shapes follow from out of the language model's configuration.
	read(c *Config, text *fields)
	// layout fills the family's tables in: textPrefix is what names of the language model begin with, headLayers how many
	// layers the head has. It must not allocate per layer or expert.
	layout(c *Config, textPrefix string, headLayers int64) *layout
	// headSizes lists shapes of the head that show a size of the model it was made for.
	headSizes() []headSize
	// head says where the checkpoints of this family keep the head; textPrefix as in layout. The promise does not depend
	// on the sizes of the configuration: it is asked before they are read.
	head(c *Config, textPrefix string) headLayout
	// supported says why the family cannot be quantized yet, nil when it can.
	supported() error
}

// headSize says that one dimension of one tensor of the head is a size of the model.
type headSize struct {
	name string // "mtp.fc.weight"
	dim  int
	size string // what it is in the words of the configuration
}

// class is an entry of architectures[0] and what the server builds for it.
type class struct {
	architecture string
	family       family
	vision       bool // a wrapper with a vision tower around the language model
}

// classes lists the architectures that are known, as vLLM 017e9f4448 registers them (model_executor/models/registry.py).
// The text-only classes are registered since 2026-07-29 (vllm-project/vllm#50210).
var classes = []class{
	{"Qwen3_5ForConditionalGeneration", qwen35{}, true},
	{"Qwen3_5ForCausalLM", qwen35{}, false},
	{"Qwen3_5MoeForConditionalGeneration", qwen35moe{}, true},
	{"Qwen3_5MoeForCausalLM", qwen35moe{}, false},
	{"Qwen3NextForCausalLM", qwen3next{}, false},
	{"LlamaForCausalLM", llama, false},
	{"MistralForCausalLM", mistral, false},
	{"Qwen2ForCausalLM", qwen2, false},
	{"Qwen3ForCausalLM", qwen3, false},
	{"Qwen3MoeForCausalLM", qwen3moe, false},
	{"DeepseekV3ForCausalLM", deepseekV3, false},
	{"DeepseekV32ForCausalLM", deepseekV3, false},
	{"GlmMoeDsaForCausalLM", glm5, false},
	{"Glm5NextForConditionalGeneration", glm5next, false},
	{"Glm4MoeForCausalLM", glm4moe, false},
	{"Glm4MoeLiteForCausalLM", glm4lite, false},
	{"MiMoForCausalLM", mimo, false},
	{"MiMoV2FlashForCausalLM", mimoV2, false},
	{"MiMoV2ForCausalLM", mimoV2, false},
	{"NemotronHForCausalLM", nemotronH, false},
	{"MiniMaxM3SparseForConditionalGeneration", minimaxM3, false},
	{"GptOssForCausalLM", gptOss, false},
	{"Gemma4ForConditionalGeneration", gemma4, false},
	{"Gemma4ForCausalLM", gemma4text, false},
}

func classOf(architecture string) (class, bool) {
	for _, c := range classes {
		if c.architecture == architecture {
			return c, true
		}
	}
	return class{}, false
}

func familyOf(architecture string) family {
	c, _ := classOf(architecture)
	return c.family
}

// buildsVision reports whether the class of this configuration has a vision tower.
func buildsVision(c *Config) bool {
	k, ok := classOf(c.Architecture)
	return ok && k.vision
}

// knownArchitectures is the list for messages.
func knownArchitectures() string {
	names := make([]string, len(classes))
	for i, c := range classes {
		names[i] = c.architecture
	}
	return strings.Join(names, ", ")
}

func unknownError(c *Config) error {
	if c == nil || c.Architecture == "" {
		return fmt.Errorf("%s names no architecture; known are %s", configFile, knownArchitectures())
	}
	if kind := drafter(c); kind != "" {
		return fmt.Errorf("architecture %q is %s: a repository of its own that a server loads beside its target, and no body or donor", c.Architecture, kind)
	}
	return fmt.Errorf("architecture %q is not known; known are %s", c.Architecture, knownArchitectures())
}

// drafter names what kind of drafter a configuration is of, "" for none: heads that publishers keep in a repository of
// their own. Names as vLLM 017e9f4448 registers them (model_executor/models/registry.py).
func drafter(c *Config) string {
	a := strings.ToLower(c.Architecture)
	switch {
	case strings.HasPrefix(c.ModelType, "gemma4") && strings.HasSuffix(c.ModelType, "_assistant"):
		return "the assistant of a Gemma 4"
	case strings.Contains(a, "eagle"):
		return "an EAGLE drafter"
	case strings.Contains(a, "dflash"):
		return "a DFlash drafter"
	case strings.Contains(a, "dspark"):
		return "a DSpark drafter"
	case strings.Contains(a, "medusa"):
		return "Medusa heads"
	case strings.HasSuffix(c.Architecture, "MTP") || strings.HasSuffix(c.Architecture, "MTPModel"):
		return "an MTP head that stands alone"
	}
	return ""
}

// tableOf builds a section whose layers all hold the same slots.
func tableOf(prefix string, layered bool, count int64, role Role, slots []slot) section {
	return section{
		prefix: prefix, layered: layered, count: count, role: role,
		slots: func(int64) []slot { return slots }, all: slots,
	}
}
