package diff

import (
	"slices"
	"strconv"
	"strings"

	"seatsmith/internal/model"
)

// wrappers are leading components that classes, compilers and adapters put before a name; without them a name is the same
// parameter. Sources: transformers 5 (model, language_model), PEFT (base_model, model), torch.compile (_orig_mod), DDP
// (module).
var wrappers = []string{"base_model", "model", "language_model", "_orig_mod", "module"}

// canonical is a name without leading wrappers, with immediate repetitions of a component (or of its end, "_blocks_blocks", as
// transformers 5.4.0 saved gpt-oss, heretic PR#211) and PEFT's base_layer taken out. extra says that something was there
// that no class reads: a repetition, or an adapter's prefix.
func canonical(name string) (key string, extra bool) {
	parts := strings.Split(name, ".")
	at := 0
	for at < len(parts)-1 && slices.Contains(wrappers, parts[at]) {
		if parts[at] != "model" && parts[at] != "language_model" || at > 0 && slices.Contains(parts[:at], parts[at]) {
			extra = true
		}
		at++
	}
	if at == 2 && parts[0] == "language_model" { // language_model.model.: an older class of transformers
		extra = true
	}
	out := parts[:0:0]
	for i := at; i < len(parts); i++ {
		p := parts[i]
		if p == "base_layer" || len(out) > 0 && out[len(out)-1] == p && !isNumber(p) {
			extra = true
			continue
		}
		if short, twice := halved(p); twice {
			p, extra = short, true
		}
		out = append(out, p)
	}
	return strings.Join(out, "."), extra
}

// halved takes a doubled end off a component: "gate_up_proj_blocks_blocks" is "gate_up_proj_blocks".
func halved(p string) (string, bool) {
	for at := strings.LastIndexByte(p, '_'); at > 0; at = strings.LastIndexByte(p[:at], '_') {
		end := p[at:]
		if strings.HasSuffix(p[:at], end) {
			return p[:at], true
		}
		if len(end)*2 > len(p) {
			break
		}
	}
	return p, false
}

// prefixOf is what stands before the canonical name, for the text about names that drifted.
func prefixOf(name, key string) string {
	if p, ok := strings.CutSuffix(name, key); ok {
		return p
	}
	return name
}

// kindOf replaces every number in a key by N and drops the final ".weight".
func kindOf(key string) string {
	parts := strings.Split(strings.TrimSuffix(key, ".weight"), ".")
	for i, p := range parts {
		if isNumber(p) {
			parts[i] = "N"
		}
	}
	return strings.Join(parts, ".")
}

// layerOf is the key up to and with its first number: "layers.3". "" when there is none.
func layerOf(key string) string {
	end := 0
	for i, p := range strings.Split(key, ".") {
		if i > 0 {
			end++
		}
		end += len(p)
		if isNumber(p) {
			return key[:end]
		}
	}
	return ""
}

// expertOf splits "layers.0.mlp.experts.12.up_proj.weight" into its experts' prefix, 12 and "up_proj.weight".
func expertOf(key string) (prefix string, expert int, rest string, ok bool) {
	const mark = ".experts."
	at := strings.Index(key, mark)
	if at < 0 {
		return "", 0, "", false
	}
	number, rest, found := strings.Cut(key[at+len(mark):], ".")
	if !found || !isNumber(number) || len(number) > 6 {
		return "", 0, "", false
	}
	expert, err := strconv.Atoi(number)
	return key[:at+len(mark)], expert, rest, err == nil
}

// fusedOf splits "layers.0.mlp.experts.gate_up_proj" into the experts' prefix and the projection.
func fusedOf(key string) (prefix, projection string, ok bool) {
	for _, p := range []string{"gate_up_proj", "down_proj"} {
		if before, found := strings.CutSuffix(key, ".experts."+p); found {
			return before + ".experts.", p, true
		}
	}
	return "", "", false
}

func isNumber(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// adapter says whether a tensor is a part of an adapter that was never merged.
func adapter(name string) bool {
	for _, mark := range []string{".lora_A.", ".lora_B.", ".lora_embedding_", ".lora_magnitude_vector", ".hada_w", ".lokr_w", ".modules_to_save."} {
		if strings.Contains(name, mark) {
			return true
		}
	}
	return false
}

// linears are the roles of Linears that trainings and merges aim at.
var linears = []model.Role{model.RoleAttention, model.RoleLinearAttention, model.RoleMLP, model.RoleExpert, model.RoleSharedExpert}

// guesses tell a role from a name where the architecture is unknown, the first that fits. They cover the spellings of Llama
// and its kin in transformers, Mixtral's block_sparse_moe and the common vision towers.
var guesses = []struct {
	marks []string
	role  model.Role
}{
	{[]string{"visual.", "vision_tower.", "vision_model.", "multi_modal_projector.", "embed_vision."}, model.RoleVision},
	{[]string{"mtp.", "eh_proj", "enorm.", "hnorm."}, model.RoleHead},
	{[]string{"norm.", "layernorm", "_norm", "ln_"}, model.RoleNorm},
	{[]string{"lm_head."}, model.RoleLMHead},
	{[]string{"embed_tokens", "wte.", "embeddings."}, model.RoleEmbedding},
	{[]string{"shared_expert_gate", "block_sparse_moe.gate.", "mlp.gate.", "router."}, model.RoleRouter},
	{[]string{"shared_expert"}, model.RoleSharedExpert},
	{[]string{".experts."}, model.RoleExpert},
	{[]string{"linear_attn.", "mamba.", "mixer."}, model.RoleLinearAttention},
	{[]string{"self_attn.", "attention.", "attn."}, model.RoleAttention},
	{[]string{"mlp.", "feed_forward.", "ffn."}, model.RoleMLP},
}

func guess(key string) model.Role {
	for _, g := range guesses {
		for _, mark := range g.marks {
			if strings.Contains(key, mark) {
				return g.role
			}
		}
	}
	return model.RoleOther
}
