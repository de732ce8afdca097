package model_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/sjson"

	"seatsmith/internal/model"
)

func readConfig(t testing.TB, fixture string) []byte {
	t.Helper()
	data, err := os.ReadFile(fixtures + fixture + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestConfigOfAFixtureIsReadWhole(t *testing.T) {
	c, err := model.ParseConfig(readConfig(t, "tiny"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Architecture != "Qwen3_5ForConditionalGeneration" || c.ModelType != "qwen3_5" || c.TextModelType != "qwen3_5_text" {
		t.Errorf("names: %q %q %q", c.Architecture, c.ModelType, c.TextModelType)
	}
	if c.Hidden != 128 || c.Layers != 4 || c.Vocab != 2048 || c.HeadLayers != 1 || !c.HeadLayersSet || c.TieEmbeddings || !c.AttnOutputGate || !c.Vision || c.Quantization != nil {
		t.Errorf("fields: %+v", c)
	}
	if want := []string{"linear_attention", "linear_attention", "linear_attention", "full_attention"}; !slices.Equal(c.LayerTypes, want) {
		t.Errorf("layer types derived from full_attention_interval 4: %v", c.LayerTypes)
	}
}

func TestLayerTypesAreTakenWhereTheyStand(t *testing.T) {
	want := []string{"full_attention", "linear_attention", "full_attention", "linear_attention"}
	data, err := sjson.SetBytes(readConfig(t, "tiny"), "text_config.layer_types", want)
	if err != nil {
		t.Fatal(err)
	}
	c, err := model.ParseConfig(data)
	if err != nil || !slices.Equal(c.LayerTypes, want) {
		t.Errorf("%v, %v", c, err)
	}
}

func TestFlatConfigIsReadAtTheTop(t *testing.T) {
	c, err := model.ParseConfig([]byte(flatConfig))
	if err != nil {
		t.Fatal(err)
	}
	if c.Nested || c.TextPlace() != "" || c.Hidden != 128 || c.TextModelType != "qwen3_5_text" || c.HeadLayers != 1 || !c.TieEmbeddings || c.Vision {
		t.Errorf("%+v", c)
	}
}

// flatConfig is the configuration of a text-only export.
const flatConfig = `{"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "hidden_size": 128, "intermediate_size": 384,
"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "linear_num_key_heads": 2,
"linear_num_value_heads": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32, "vocab_size": 2048,
"mtp_num_hidden_layers": 1, "tie_word_embeddings": true, "dtype": "bfloat16"}`

func TestConfigErrorsNameFileFieldAndValue(t *testing.T) {
	for _, c := range []struct{ path, raw, want string }{
		{"text_config.hidden_size", `"abc"`, `config.json: text_config.hidden_size: want a positive integer, got "abc"`},
		{"text_config.hidden_size", `0`, `config.json: text_config.hidden_size: want a positive integer, got 0`},
		{"text_config.hidden_size", `-5`, `text_config.hidden_size: want a positive integer, got -5`},
		{"text_config.hidden_size", `128.5`, `text_config.hidden_size: want a positive integer, got 128.5`},
		{"text_config.hidden_size", `[128]`, `text_config.hidden_size: want a positive integer, got a list`},
		{"text_config.hidden_size", `true`, `text_config.hidden_size: want a positive integer, got true`},
		{"text_config.hidden_size", `null`, `text_config.hidden_size: want a positive integer, the field is missing`},
		{"text_config.num_hidden_layers", `1000000000`, `text_config.num_hidden_layers: want a positive integer of at most 1024, got 1000000000`},
		{"text_config.vocab_size", `99999999999999999999`, `text_config.vocab_size: want a positive integer of at most 16777216, got 99999999999999999999`},
		{"text_config.head_dim", `-99999999999999999999`, `text_config.head_dim: want a positive integer, got -99999999999999999999`},
		{"text_config.mtp_num_hidden_layers", `-1`, `text_config.mtp_num_hidden_layers: want an integer from 0 to 64, got -1`},
		{"text_config.mtp_num_hidden_layers", `"1"`, `text_config.mtp_num_hidden_layers: want an integer from 0 to 64, got "1"`},
		{"text_config.full_attention_interval", `0`, `text_config.full_attention_interval: want a positive integer, got 0`},
		{"text_config.layer_types", `["full_attention"]`, `text_config.layer_types: want one entry for each of the 4 layers of num_hidden_layers, got 1`},
		{"text_config.layer_types", `["a","a","a","a"]`, `text_config.layer_types: want entries linear_attention or full_attention, got a list`},
		{"text_config.layer_types", `"full_attention"`, `text_config.layer_types: want a list of strings, got "full_attention"`},
		{"text_config.attn_output_gate", `1`, `text_config.attn_output_gate: want true or false, got 1`},
		{"text_config", `7`, `config.json: text_config: want an object, got 7`},
		{"vision_config.depth", `{}`, `vision_config.depth: want a positive integer, got an object`},
		{"vision_config.deepstack_visual_indexes", `3`, `vision_config.deepstack_visual_indexes: want a list, got 3`},
		{"quantization_config", `"fp8"`, `config.json: quantization_config: want an object, got "fp8"`},
		{"architectures", `"Qwen3_5ForConditionalGeneration"`, `config.json: architectures: want a list of strings`},
		{"tie_word_embeddings", `"false"`, `config.json: tie_word_embeddings: want true or false, got "false"`},
	} {
		data, err := sjson.SetRawBytes(readConfig(t, "tiny"), c.path, []byte(c.raw))
		if err != nil {
			t.Fatal(err)
		}
		_, err = model.ParseConfig(data)
		var ce *model.ConfigError
		if !errors.As(err, &ce) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %s: got %v, want %q", c.path, c.raw, err, c.want)
		}
	}
}

func TestEveryWrongFieldIsNamedAtOnce(t *testing.T) {
	data, _ := sjson.SetBytes(readConfig(t, "tiny"), "text_config.hidden_size", -1)
	data, _ = sjson.SetBytes(data, "vision_config.patch_size", 1e6)
	_, err := model.ParseConfig(data)
	var ce *model.ConfigError
	if !errors.As(err, &ce) || len(ce.Lines) != 2 {
		t.Fatalf("got %v", err)
	}
	only(t, ce.Findings(), "error config-invalid", "error config-invalid")
	says(t, ce.Findings(), "config-invalid", "config.json: text_config.hidden_size: want a positive integer, got -1")
}

func TestTextThatIsNotOneJSONObjectIsRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, "not JSON"},
		{`{`, "not JSON"},
		{`[]`, "want a JSON object"},
		{`{"a": 1, "a": 2}`, "not JSON"}, // Python keeps the last, others the first
		{`{} {}`, "something follows"},
		{"{\"a\": \"\xff\"}", "not JSON"},
		{`{"a": NaN}`, "not JSON"},
		{"version https://git-lfs.github.com/spec/v1", "not JSON"},
	} {
		if _, err := model.ParseConfig([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "config.json") {
			t.Errorf("%q: got %v, want %q", c.text, err, c.want)
		}
	}
}

func TestAnUnknownArchitectureIsReadWithoutComplaint(t *testing.T) {
	c, err := model.ParseConfig([]byte(`{"architectures": ["Gemma9"], "model_type": "g", "text_config": {"hidden_size": [1, 2], "num_hidden_layers": 7}}`))
	if err != nil || c.Layers != 7 || c.Hidden != 0 || c.LayerTypes != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestSizesThatImplyTooManyTensorsAreRefusedBeforeTheyAreListed(t *testing.T) {
	f := like(t, "moe").set("text_config.num_experts", 8192).set("text_config.num_hidden_layers", 1024)
	f.drop(func(name string) bool { return strings.Contains(name, ".experts.") })
	for _, p := range []string{"gate", "up", "down"} {
		f.add("model.language_model.layers.0.mlp.experts.0."+p+"_proj.weight", "BF16", 128, 128)
	}
	_, err := model.Open(f.write())
	var ce *model.ConfigError
	if !errors.As(err, &ce) || !strings.Contains(err.Error(), "num_hidden_layers: the sizes imply") {
		t.Errorf("got %v", err)
	}
}
