package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/engine"
	"seatsmith/internal/safetensors"
)

const down = "language_model.model.layers.0.mlp.down_proj"

// group resolves down_proj under one group with the given arguments.
func group(t *testing.T, top, own, weights, input string) engine.Resolution {
	t.Helper()
	_, res := server(t, fixture(t, "tiny"), `{"quant_method":"compressed-tensors","format":`+top+`,"config_groups":{"g":{"format":`+own+
		`,"targets":["Linear"],"weights":`+weights+`,"input_activations":`+input+`}},"ignore":[]}`)
	return res[down]
}

// The scheme follows from the arguments (vLLM 017e9f4448, compressed_tensors.py _get_scheme_from_parts). For NVFP4 the
// format string is no part of the test; an FP8 group under "mixed-precision" needs a format of its own.
func TestSchemeFollowsFromTheArguments(t *testing.T) {
	const local = `{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16,"symmetric":true,"dynamic":"local"}`
	const channel = `{"num_bits":8,"type":"float","strategy":"channel","symmetric":true,"dynamic":false,"group_size":null,"block_structure":null}`
	const tensor = `{"num_bits":8,"type":"float","strategy":"tensor","symmetric":true,"dynamic":false}`
	const blocked = `{"num_bits":8,"type":"float","strategy":"block","block_structure":[128,64],"symmetric":true,"dynamic":false}`
	const token = `{"num_bits":8,"type":"float","strategy":"token","symmetric":true,"dynamic":true}`
	for _, c := range []struct{ top, own, weights, input, want string }{
		{`"nvfp4-pack-quantized"`, `null`, nvfp4, `null`, "NVFP4 W4A16"},
		{`"nvfp4-pack-quantized"`, `null`, nvfp4, `{}`, "NVFP4 W4A16"},
		{`"anything"`, `null`, nvfp4, `null`, "NVFP4 W4A16"},
		{`null`, `"nvfp4-pack-quantized"`, nvfp4, local, "NVFP4 W4A4"},
		{`"mixed-precision"`, `"float-quantized"`, channel, token, "FP8 per channel"},
		{`"float-quantized"`, `null`, channel, token, "FP8 per channel"},
		{`"naive-quantized"`, `null`, channel, `null`, "FP8 per channel"},
		{`"nvfp4-pack-quantized"`, `null`, channel, token, "FP8 per channel"},
		{`"float-quantized"`, `null`, tensor, tensor, "FP8 per tensor with a static input scale"},
		{`"float-quantized"`, `null`, blocked, `{"num_bits":8,"type":"float","strategy":"group","group_size":128,"symmetric":true,"dynamic":true}`, "FP8 per block"},
		{`"pack-quantized"`, `null`, `{"num_bits":4,"type":"int","strategy":"group","group_size":128,"symmetric":true}`, `null`, "WNA16"},
		{`"int-quantized"`, `null`, `{"num_bits":8,"type":"int","strategy":"channel"}`, `{"num_bits":8,"type":"int","strategy":"token","dynamic":true}`, "WNA8 integer"},
	} {
		r := group(t, c.top, c.own, c.weights, c.input)
		if r.State != engine.Quantized || r.Scheme.String() != c.want {
			t.Errorf("format %s/%s, weights %s, input %s: %v %v, want %s", c.top, c.own, c.weights, c.input, r.Scheme, r.Err, c.want)
		}
	}
	for _, c := range []struct{ top, own, weights, input, want string }{
		{`"mixed-precision"`, `null`, channel, token, `needs its own "format": "float-quantized"`},
		{`"nvfp4-pack-quantized"`, `null`, nvfp4, token, "NVFP4 weights go with NVFP4 input_activations"},
		{`"nvfp4-pack-quantized"`, `null`, strings.Replace(nvfp4, "16", "32", 1), `null`, "NVFP4 is num_bits 4"},
		{`"nvfp4-pack-quantized"`, `null`, strings.Replace(nvfp4, "tensor_group", "group", 1), `null`, "NVFP4 is num_bits 4"},
		{`"nvfp4-pack-quantized"`, `null`, strings.Replace(nvfp4, `"symmetric":true`, `"symmetric":false`, 1), `null`, "no scheme"},
		{`"float-quantized"`, `null`, blocked, tensor, "static input scale"},
		{`"float-quantized"`, `null`, `null`, `null`, "refused"},
	} {
		r := group(t, c.top, c.own, c.weights, c.input)
		var refusal *engine.SchemeError
		if r.State != engine.Refused || !errors.As(r.Err, &refusal) || !strings.Contains(refusal.Error(), c.want) {
			t.Errorf("format %s/%s, weights %s, input %s: state %d, %v; want a refusal with %q", c.top, c.own, c.weights, c.input, r.State, r.Err, c.want)
		}
	}
}

// What the server reads before it looks at modules (compressed-tensors 0.18, quant_args.py; compressed_tensors.py
// from_config, validate_kv_cache_scheme).
func TestReadingTheBlockTellsWhatTheServerRefuses(t *testing.T) {
	base := oneGroup(quoted("Linear"), quoted("lm_head"))
	for _, c := range []struct{ path, raw, where, want string }{
		{"config_groups.group_0.weights.strategy", `"token"`, "group_0.weights", "needs dynamic true"},
		{"config_groups.group_0.weights.group_size", `null`, "group_0.weights", "positive group_size"},
		{"config_groups.group_0.weights.group_size", `-2`, "group_0.weights", "at least -1"},
		{"config_groups.group_0.weights.num_bits", `5`, "group_0.weights", "4 or 8 bits"},
		{"config_groups.group_0.weights.num_bits", `"four"`, "group_0.weights", "whole number"},
		{"config_groups.group_0.weights.type", `"nf4"`, "group_0.weights", "int"},
		{"config_groups.group_0.weights.dynamic", `"global"`, "group_0.weights", "local"},
		{"config_groups.group_0.weights.block_structure", `[128]`, "group_0.weights", "[rows, cols]"},
		{"config_groups.group_0.weights", `null`, "group_0.weights", "want an object"},
		{"config_groups.group_0.targets", `null`, "group_0.targets", "want a list"},
		{"config_groups.group_0.targets", `[3]`, "group_0.targets[0]", "want a name"},
		{"config_groups", `[]`, "config_groups", "want an object"},
		{"ignore", `"lm_head"`, "ignore", "want a list"},
		{"kv_cache_scheme", `{"num_bits":4,"type":"float","strategy":"tensor","symmetric":true}`, "kv_cache_scheme", "only 8-bit float"},
		{"kv_cache_scheme", `{"num_bits":8,"type":"float","strategy":"channel","symmetric":true}`, "kv_cache_scheme", "only tensor and attn_head"},
		{"kv_cache_scheme", `{"num_bits":8,"type":"float","strategy":"tensor"}`, "kv_cache_scheme", "symmetric"},
		{"sparsity_config", `{"format":"dense","targets":["Linear"]}`, "sparsity_config", "removed"},
	} {
		config := set(t, []byte(`{}`), "quantization_config", string(set(t, []byte(base), c.path, c.raw)))
		_, problems, err := engine.ReadQuantization(config)
		if err != nil || len(problems) != 1 || !problems[0].Serious || !strings.HasSuffix(problems[0].Where, c.where) || !strings.Contains(problems[0].Message, c.want) {
			t.Errorf("%s = %s: %+v, %v; want one problem at %s with %q", c.path, c.raw, problems, err, c.where, c.want)
		}
	}
	config := set(t, []byte(`{}`), "quantization_config", string(set(t, []byte(base), "config_groups.group_0.weights.future_key", `1`)))
	_, problems, err := engine.ReadQuantization(config)
	if err != nil || len(problems) != 1 || problems[0].Serious || !strings.Contains(problems[0].Message, "future_key") {
		t.Errorf("an unknown key: %+v, %v", problems, err)
	}
}

func TestWhereTheBlockMayStand(t *testing.T) {
	block := oneGroup(quoted("Linear"), "[]")
	for _, key := range []string{"quantization_config", "compression_config", "text_config.quantization_config"} {
		q, _, err := engine.ReadQuantization(set(t, []byte(`{}`), key, block))
		if err != nil || q == nil || q.Key != key || q.Method != engine.CompressedTensors {
			t.Errorf("%s: %+v, %v", key, q, err)
		}
	}
	for _, config := range []string{`{}`, `{"quantization_config":null}`} {
		if q, problems, err := engine.ReadQuantization([]byte(config)); q != nil || problems != nil || err != nil {
			t.Errorf("%s: %v %v %v, want nothing", config, q, problems, err)
		}
	}
	if q, _, _ := engine.ReadQuantization([]byte(`{"quantization_config":{"quant_method":"modelopt"}}`)); q == nil || q.Method != "modelopt" {
		t.Errorf("modelopt: %+v", q)
	}
	twice := `{"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"targets":[],"weights":` + nvfp4 + `,"weights":null}}}}`
	if _, problems, _ := engine.ReadQuantization([]byte(twice)); len(problems) == 0 || problems[0].Where != "quantization_config.config_groups.g.weights" {
		t.Errorf("a key that stands twice: %+v", problems)
	}
	if _, _, err := engine.ReadQuantization([]byte(`{"a":`)); err == nil {
		t.Error("broken JSON is no error")
	}
}

func TestAnAttentionGroupIsSkipped(t *testing.T) {
	_, res := server(t, fixture(t, "tiny"), oneGroup(quoted("Qwen3Attention"), "[]"))
	if got := quantized(res, engine.Quantized); len(got) != 0 {
		t.Errorf("quantized %v", got)
	}
}

func TestTensorsOfEachSchemeAreExact(t *testing.T) {
	for _, c := range []struct {
		scheme engine.Scheme
		want   string
		min    int
	}{
		{engine.Scheme{}, "weight BF16/F16/F32 [64 48]", 0},
		{engine.Scheme{Kind: engine.W4A16}, "weight_packed U8 [64 24]; weight_scale F8_E4M3 [64 3]; weight_global_scale F32 [1] []", 75},
		{engine.Scheme{Kind: engine.W4A4}, "weight_packed U8 [64 24]; weight_scale F8_E4M3 [64 3]; weight_global_scale F32 [1] []; input_global_scale F32 [1] []", 75},
		{engine.Scheme{Kind: engine.FP8, Strategy: "channel"}, "weight F8_E4M3 [64 48]; weight_scale BF16/F16/F32 [64 1]", 75},
		{engine.Scheme{Kind: engine.FP8, Strategy: "tensor", Static: true}, "weight F8_E4M3 [64 48]; weight_scale BF16/F16/F32 [1] []; input_scale BF16/F16/F32 [1] []", 75},
		{engine.Scheme{Kind: engine.FP8, Strategy: "block", Block: [2]int64{128, 32}}, "weight F8_E4M3 [64 48]; weight_scale BF16/F16/F32 [1 2]", 75},
		{engine.Scheme{Kind: engine.Other, Name: "MXFP4"}, "", 0},
	} {
		var parts []string
		for _, n := range c.scheme.Tensors(64, 48) {
			var d []string
			for _, x := range n.Dtypes {
				d = append(d, string(x))
			}
			s := n.Suffix + " " + strings.Join(d, "/")
			for _, shape := range n.Shapes {
				s += " " + strings.ReplaceAll(strings.TrimSpace(strings.Join([]string{shapeText(shape)}, " ")), ",", " ")
			}
			parts = append(parts, s)
		}
		if got := strings.Join(parts, "; "); got != c.want || c.scheme.MinCapability() != c.min {
			t.Errorf("%s: %s (min %d), want %s (min %d)", c.scheme, got, c.scheme.MinCapability(), c.want, c.min)
		}
	}
	if !slices.Contains((engine.Scheme{}).Tensors(1, 1)[0].Dtypes, safetensors.BF16) {
		t.Error("plain weights are not BF16")
	}
}
