package engine

import (
	"slices"
	"strings"
)

// Names of servers.
const (
	vllm   = "vllm"
	sglang = "sglang"
)

// Note is something that a server whose loader was not read is known to do otherwise than vLLM, from its public threads.
type Note struct {
	Subject string // key of config.json, flag or module
	Message string
	Fix     string
	Source  string // "sgl-project/sglang#35797"
}

// Notes lists what SGLang's threads say about a checkpoint with this quantization block (nil for none) and, where head is
// set, an MTP head. The list is short and is no judgement of the rest. Other servers have none.
func (e Engine) Notes(q *Quantization, head bool) []Note {
	if e.Server != sglang {
		return nil
	}
	var out []Note
	if head {
		out = append(out, Note{"--speculative-algorithm", "SGLang calls speculation with the model's own head NEXTN", "--speculative-algorithm NEXTN", "sgl-project/sglang#26083"})
	}
	if q == nil {
		return out
	}
	if head {
		out = append(out, Note{"--speculative-draft-model-quantization", "the drafter takes the target's quantization unless a flag says unquant, and in places the flag is passed over",
			"give --speculative-draft-model-quantization unquant for an unquantized head, and look at the accept length: exactly 1.000 is a head that was not loaded", "sgl-project/sglang#26083, #34622, #35545"})
	}
	if head && q.Method == CompressedTensors && splitHead(q.Ignore) {
		out = append(out, Note{q.Key + ".ignore", "the head's projections are listed one by one; SGLang asks for qkv_proj and gate_up_proj, builds them quantized and drops what is stored",
			"add re:.*mtp.*, or the fused names mtp.layers.N.self_attn.qkv_proj and mtp.layers.N.mlp.gate_up_proj", "sgl-project/sglang#35797"})
	}
	if q.Method == CompressedTensors && slices.ContainsFunc(q.targets, func(t target) bool { return strings.Contains(t.text, "lm_head") }) {
		out = append(out, Note{"lm_head", "a compressed-tensors lm_head is not loaded", "keep lm_head unquantized for SGLang", "sgl-project/sglang#38870"})
	}
	if q.Method == ModelOptMixed {
		out = append(out, Note{FileModelOpt, "for mixed modelopt blocks the scales of the key/value cache are looked for by " + FileModelOpt + " only", "keep that file beside config.json", "sgl-project/sglang#27906"})
	}
	return out
}

// splitHead: projections of the head by name, and neither a pattern nor a fused name that covers them.
func splitHead(ignore []string) bool {
	named, covered := false, false
	for _, e := range ignore {
		if text, re := strings.CutPrefix(e, "re:"); re {
			p := compile(text)
			covered = covered || p.match("mtp.layers.0.self_attn.qkv_proj") == Yes
			continue
		}
		covered = covered || strings.HasPrefix(e, "mtp.") && strings.HasSuffix(e, ".qkv_proj")
		named = named || strings.HasPrefix(e, "mtp.layers.") && strings.HasSuffix(e, ".q_proj")
	}
	return named && !covered
}
