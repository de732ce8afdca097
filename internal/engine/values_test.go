package engine_test

import (
	"slices"
	"testing"

	"seatsmith/internal/engine"
)

// keys lists what Values complains about, "?" behind what is not serious.
func keys(t *testing.T, config []byte) []string {
	t.Helper()
	var out []string
	for _, v := range build(t, engine.Default, config, true).Values(config) {
		if v.Message == "" {
			t.Errorf("%s: no message", v.Key)
		}
		if !v.Serious {
			v.Key += "?"
		}
		out = append(out, v.Key)
	}
	return out
}

func TestValuesOfTheFixturesAreGood(t *testing.T) {
	for _, name := range []string{"tiny", "tiny-finetune", "moe"} {
		if got := keys(t, fixture(t, name)); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestValuesThatTheServerCannotServeWithAreTold(t *testing.T) {
	const text = "text_config."
	textOnly := `["Qwen3_5ForCausalLM"]`
	for _, c := range []struct {
		fixture, path, raw string
		want               []string
	}{
		{"tiny", text + "num_key_value_heads", `3`, []string{text + "num_attention_heads"}},
		{"tiny", text + "num_key_value_heads", `0`, []string{text + "num_attention_heads"}},
		{"tiny", text + "linear_num_key_heads", `3`, []string{text + "linear_num_value_heads"}},
		{"tiny", text + "head_dim", `0`, []string{text + "head_dim", text + "rope_parameters.mrope_section"}},
		{"tiny", "vision_config.out_hidden_size", `64`, []string{"vision_config.out_hidden_size"}},
		{"tiny", "vision_config.num_heads", `null`, nil}, // the default, 16
		{"tiny", "image_token_id", `"1225"`, []string{"image_token_id"}},
		{"tiny", text + "rope_parameters.mrope_section", `[2,1]`, []string{text + "rope_parameters.mrope_section"}},
		{"tiny", text + "rope_parameters.mrope_section", `[1,1,2]`, nil},
		{"tiny", text + "rope_parameters", `7`, []string{text + "rope_parameters"}},
		{"moe", "model_type", `"qwen3_5"`, []string{"model_type"}},
		{"moe", text + "num_experts_per_tok", `9`, []string{text + "num_experts_per_tok"}},
		{"moe", text + "num_experts_per_tok", `null`, nil}, // the default, 8
		{"moe", text + "hidden_act", `"gelu"`, []string{text + "hidden_act"}},
		{"tiny", "architectures", textOnly, nil}, // a text-only class may read the wrapper's layout
	} {
		if got := keys(t, set(t, fixture(t, c.fixture), c.path, c.raw)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s = %s: %v, want %v", c.fixture, c.path, c.raw, got, c.want)
		}
	}
	flat := set(t, set(t, []byte(`{"model_type":"qwen3_5_text"}`), "architectures", textOnly), "rope_parameters", `{"rope_theta":1e7,"partial_rotary_factor":0.25}`)
	if got := keys(t, flat); len(got) > 0 {
		t.Errorf("a flat configuration: %v", got)
	}
}
