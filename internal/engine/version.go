package engine

import (
	"fmt"
	"strconv"
	"strings"
)

// Default is the newest engine whose source was read: vLLM main at 017e9f4448 (2026-08-17), which v0.28.0 followed.
const Default = "vllm@0.28"

// Version is the two numbers of a release that decide its behaviour.
type Version struct{ Major, Minor int }

// Less orders versions.
func (v Version) Less(o Version) bool {
	return v.Major < o.Major || v.Major == o.Major && v.Minor < o.Minor
}

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Oldest and newest vLLM whose loader this package describes. Before 0.20 the drafter of an NVFP4 checkpoint was built
// another way (vllm-project/vllm#38832); the source of what followed 0.28 has not been read.
var (
	oldestRead = Version{0, 20}
	newestRead = Version{0, 28}
)

// Engine is a server and its version.
type Engine struct {
	Server  string // "vllm"
	Version Version
}

// Parse reads "vllm@0.28", "vllm@0.28.1" or "vllm" (the default version), and "sglang@0.5": a server that was not read and
// of which Notes knows a few things.
func Parse(spec string) (Engine, error) {
	server, version, has := strings.Cut(spec, "@")
	if server != vllm && server != sglang {
		return Engine{}, fmt.Errorf("engine %q: vllm and sglang are known; write vllm@0.28", spec)
	}
	if !has && server == vllm {
		return Parse(Default)
	}
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 2 || len(parts) > 3 {
		return Engine{}, fmt.Errorf("engine %q: want %s@MAJOR.MINOR", spec, server)
	}
	var n [3]int
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return Engine{}, fmt.Errorf("engine %q: %q is not a number; want %s@MAJOR.MINOR", spec, p, server)
		}
		n[i] = int(v)
	}
	return Engine{Server: server, Version: Version{n[0], n[1]}}, nil
}

func (e Engine) String() string { return e.Server + "@" + e.Version.String() }

// Read says whether this version's rules were read from its source. A judgement for any other is at best a warning.
func (e Engine) Read() bool {
	return e.Server == vllm && !e.Version.Less(oldestRead) && !newestRead.Less(e.Version)
}

// ReadRange is the versions for which Read is true, for messages.
func ReadRange() string { return "vllm " + oldestRead.String() + " to " + newestRead.String() }

// Fact is a behaviour of the server that not every version has.
type Fact string

const (
	// StrictNames: a tensor without a place in the language model or the drafter stops the server. Before, it was
	// skipped with one warning, and the module kept uninitialised memory.
	StrictNames Fact = "strict-names"
	// TextOnlyClass: Qwen3_5ForCausalLM and Qwen3_5MoeForCausalLM are registered.
	TextOnlyClass Fact = "text-only-class"
	// TextOnlyPrefix: the text-only class also takes names that start "model.language_model.".
	TextOnlyPrefix Fact = "text-only-prefix"
	// TextOnlyDrafter: the drafter is recognised for model_type qwen3_5_text and qwen3_5_moe_text.
	TextOnlyDrafter Fact = "text-only-drafter"
	// PadsRows: the weight-only NVFP4 kernel pads a height that 64 does not divide. Before, it refused such a module.
	PadsRows Fact = "pads-rows"
	// PadsFP8: the FP8 kernel pads sides that 16 does not divide. Before, it refused them.
	PadsFP8 Fact = "pads-fp8"
	// ModelOptLMHead: modelopt blocks quantize lm_head too. Before, it was built unquantized whatever they said.
	ModelOptLMHead Fact = "modelopt-lm-head"
	// ModelOptW4A16: quant_algo W4A16_NVFP4 is known. Before, the server stopped at it.
	ModelOptW4A16 Fact = "modelopt-w4a16"
	// ModelOptMixedMoE: MIXED_PRECISION reaches a mixture's experts, and may hold W4A16_NVFP4.
	ModelOptMixedMoE Fact = "modelopt-mixed-moe"
	// ModelOptMixedVL: quantized_layers are found under the prefix of the wrapper class.
	ModelOptMixedVL Fact = "modelopt-mixed-vl"
	// PlainFC: mtp.fc of Qwen3.5 is built unquantized under method modelopt_fp4, whatever the block says.
	PlainFC Fact = "plain-mtp-fc"
	// PlainFCNext: the same for Qwen3-Next.
	PlainFCNext Fact = "plain-mtp-fc-qwen3-next"
	// HybridPrefixCaching: prefix caching is on by default for models with linear attention.
	HybridPrefixCaching Fact = "hybrid-prefix-caching"
	// Transformers4: requirements pin transformers below 5.
	Transformers4 Fact = "transformers-4"
	// Transformers5: requirements ask for transformers 5. Between the two facts an image may have either.
	Transformers5 Fact = "transformers-5"
)

type span struct {
	since, until Version // until is exclusive; zero means open
	source       string
}

// facts says since when each behaviour holds. A release is cut days before its date, so a change within about a week
// before one may or may not be in it; the safer (later) release is written here.
var facts = map[Fact]span{
	StrictNames:     {since: Version{0, 25}, source: "vllm-project/vllm#47058 (2026-06-30), #48496 (2026-07-18)"},
	TextOnlyClass:   {since: Version{0, 27}, source: "vllm-project/vllm#50210 (2026-07-29)"},
	TextOnlyPrefix:  {since: Version{0, 28}, source: "vllm-project/vllm#50355 (2026-08-06)"},
	PadsRows:        {since: Version{0, 24}, source: "vllm-project/vllm#45295 (2026-06-12)"},
	PadsFP8:         {since: Version{0, 22}, source: "vllm-project/vllm#41868 (2026-05-08)"},
	TextOnlyDrafter: {since: Version{0, 28}, source: "vllm-project/vllm#50734 (2026-08-10)"},

	ModelOptLMHead:      {since: Version{0, 23}, source: "vllm-project/vllm#42124 (2026-05-26)"},
	ModelOptW4A16:       {since: Version{0, 22}, source: "vllm-project/vllm#41769 (2026-05-09)"},
	ModelOptMixedMoE:    {since: Version{0, 23}, source: "vllm-project/vllm#42566 (2026-05-22)"},
	ModelOptMixedVL:     {since: Version{0, 23}, source: "vllm-project/vllm#42546 (2026-05-23)"},
	PlainFC:             {since: Version{0, 20}, source: "vllm-project/vllm#38832 (2026-04-03)"},
	HybridPrefixCaching: {since: Version{0, 28}, source: "vllm-project/vllm#50991 (2026-08-04)"},
	PlainFCNext:         {since: Version{0, 25}, source: "vllm-project/vllm#46316 (2026-06-25)"},
	Transformers4:       {since: Version{0, 12}, until: Version{0, 20}, source: "vllm-project/vllm#27528 (2025-11-01), #30566 (2026-04-16)"},
	Transformers5:       {since: Version{0, 24}, source: "vllm-project/vllm#45161 (2026-06-11)"},
}

// Has says whether the engine has the behaviour.
func (e Engine) Has(f Fact) bool {
	if e.Server != vllm {
		return false // the facts are vLLM's
	}
	s, ok := facts[f]
	if !ok || e.Version.Less(s.since) {
		return false
	}
	return s.until == (Version{}) || e.Version.Less(s.until)
}

// Since is the first version with the behaviour and where that was read.
func Since(f Fact) (version, source string) {
	s := facts[f]
	return s.since.String(), s.source
}
