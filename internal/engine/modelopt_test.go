package engine_test

import (
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/engine"
	"seatsmith/internal/safetensors"
)

// flatBlock is the form of config.json.
func flatBlock(algo string, ignore ...string) string {
	return `{"quant_method":"modelopt","quant_algo":"` + algo + `","ignore":` + quoted(ignore...) + `}`
}

var headOnly = []string{"drafter:mtp.mlp.down_proj", "drafter:mtp.mlp.gate_up_proj", "drafter:mtp.self_attn.o_proj", "drafter:mtp.self_attn.qkv_proj"}

// What each way to write an exclusion does, on the dense fixture (vLLM 017e9f4448, modelopt.py is_layer_excluded,
// executed). The method is FP8, where nothing forces mtp.fc to be plain.
func TestExclusionsOfModelOptDoWhatTheirLoaderSays(t *testing.T) {
	lm := []string{"language_model.lm_head", "drafter:lm_head"}
	everything := sorted(bodyDense, tower, headDense, lm)
	gates := "linear_attn.in_proj_ba"
	split := []string{"mtp.fc"}
	for _, p := range []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"} {
		split = append(split, "mtp.layers.0."+p)
	}
	all := func(suffix string) (out []string) {
		for _, l := range []string{"0", "1", "2"} {
			out = append(out, "model.language_model.layers."+l+suffix)
		}
		return out
	}
	for _, c := range []struct {
		name    string
		ignore  []string
		want    []string // quantized
		refused []string
	}{
		{"mtp*: the head is plain", []string{"mtp*"}, without(everything, headDense...), nil},
		{"mtp.*: the head is plain", []string{"mtp.*"}, without(everything, headDense...), nil},
		{"mtp: the head is plain", []string{"mtp"}, without(everything, headDense...), nil},
		{"*mtp*: the head is plain", []string{"*mtp*"}, without(everything, headDense...), nil},
		{"mtp.layers.0*: all but mtp.fc", []string{"mtp.layers.0*"}, without(everything, headOnly...), nil},
		{"mtp.fc and every projection: the head is plain", split, without(everything, headDense...), nil},
		{"re:^mtp.*: no effect", []string{"re:^mtp.*"}, everything, nil},
		{"lm_head: both heads", []string{"lm_head"}, without(everything, lm...), nil},
		{"*lm_head*: both heads", []string{"*lm_head*"}, without(everything, lm...), nil},
		{"language_model.lm_head: the target's only", []string{"language_model.lm_head"}, without(everything, lm[0]), nil},
		{"model.language_model.lm_head: no effect", []string{"model.language_model.lm_head"}, everything, nil},
		{"model.visual*: the tower is plain", []string{"model.visual*"}, without(everything, tower...), nil},
		{"*.q_proj, *.k_proj, *.v_proj: no effect", []string{"*.q_proj", "*.k_proj", "*.v_proj"}, everything, nil},
		{"*.linear_attn.in_proj_a: no effect", []string{"*.linear_attn.in_proj_a"}, everything, nil},
		{"a* and b* of every layer: the gates are plain", slices.Concat(all(".linear_attn.in_proj_a*"), all(".linear_attn.in_proj_b*")), without(everything, gates), nil},
		{"a and b of every layer: the gates are plain", slices.Concat(all(".linear_attn.in_proj_a"), all(".linear_attn.in_proj_b")), without(everything, gates), nil},
		{"*in_proj_a* and *in_proj_b*: no effect", []string{"*in_proj_a*", "*in_proj_b*"}, everything, nil},
		{"only a: ValueError", all(".linear_attn.in_proj_a"), without(everything, gates), []string{gates}},
		{"only q: ValueError", []string{"model.language_model.layers.3.self_attn.q_proj"}, without(everything, "self_attn.qkv_proj"), []string{"self_attn.qkv_proj"}},
		{"…linear_attn*: all below", all(".linear_attn*"), without(everything, gates, "linear_attn.in_proj_qkvz", "linear_attn.out_proj"), nil},
		{"*linear_attn*: all below", []string{"*linear_attn*"}, without(everything, gates, "linear_attn.in_proj_qkvz", "linear_attn.out_proj"), nil},
		{"*self_attn*: all below, the head's too", []string{"*self_attn*"}, without(everything, "self_attn.qkv_proj", "self_attn.o_proj", "drafter:mtp.self_attn.qkv_proj", "drafter:mtp.self_attn.o_proj"), nil},
		{"self_attn: all below, the head's too", []string{"self_attn"}, without(everything, "self_attn.qkv_proj", "self_attn.o_proj", "drafter:mtp.self_attn.qkv_proj", "drafter:mtp.self_attn.o_proj"), nil},
		{"model.layers.N.linear_attn*: a part of the name", []string{"model.layers.0.linear_attn*", "model.layers.1.linear_attn*", "model.layers.2.linear_attn*"}, without(everything, gates, "linear_attn.in_proj_qkvz", "linear_attn.out_proj"), nil},
		{"language_model.layers.N.linear_attn*: no effect", []string{"language_model.layers.0.linear_attn*"}, everything, nil},
		{"…mlp.gate: gate_up_proj, too", []string{"mlp.gate"}, without(everything, "mlp.gate_up_proj", "drafter:mtp.mlp.gate_up_proj"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, res := server(t, fixture(t, "tiny"), flatBlock("FP8", slices.Clone(c.ignore)...))
			if got := quantized(res, engine.Quantized); !slices.Equal(got, c.want) {
				t.Errorf("quantized:\n got %v\nwant %v", got, c.want)
			}
			if got := quantized(res, engine.Refused); !slices.Equal(got, c.refused) {
				t.Errorf("refused: got %v, want %v", got, c.refused)
			}
		})
	}
}

func TestAnExclusionIsAPartOfNames(t *testing.T) {
	layers := `["linear_attention","linear_attention","linear_attention","full_attention","linear_attention","linear_attention","linear_attention","full_attention","linear_attention","linear_attention","linear_attention","full_attention"]`
	config := set(t, set(t, fixture(t, "tiny"), "text_config.num_hidden_layers", "12"), "text_config.layer_types", layers)
	for _, entry := range []string{"model.language_model.layers.1", "model.language_model.layers.1*"} {
		config = set(t, config, "quantization_config", flatBlock("NVFP4", entry))
		s, res := server(t, config, flatBlock("NVFP4", entry))
		for layer, want := range map[string]bool{"1": true, "10": true, "11": true, "2": false} {
			if got := res["language_model.model.layers."+layer+".mlp.down_proj"].Ignored; got != want {
				t.Errorf("%s: layer %s is ignored %v, want %v", entry, layer, got, want)
			}
		}
		q, _, _ := engine.ReadQuantization(config)
		over := s.Bind(q).Overreaches()
		if len(over) != 1 || over[0].Entry != entry || !slices.Contains(over[0].Also, "model.language_model.layers.10.mlp.gate_proj") || slices.Contains(over[0].Also, "model.language_model.layers.1.mlp.gate_proj") {
			t.Errorf("%s: %+v", entry, over)
		}
	}
}

func TestExpertsAreExcludedByAnyNameThatHoldsTheirs(t *testing.T) {
	const target, head = "language_model.model.layers.0.mlp.experts", "drafter:mtp.layers.0.mlp.experts"
	for entry, want := range map[string][2]bool{
		"mtp.layers.0.mlp.experts":                              {false, true},
		"mtp.layers.0.mlp.experts.0.gate_proj":                  {false, true},
		"mtp.layers.0.mlp.experts.*":                            {false, true},
		"model.language_model.layers.0.mlp.experts.1.down_proj": {true, false},
		"model.language_model.layers.0.mlp.gate":                {false, false},
		"lm_head":                                               {false, false},
	} {
		_, res := server(t, fixture(t, "moe"), flatBlock("NVFP4", entry))
		if got := [2]bool{res[target].Ignored, res[head].Ignored}; got != want {
			t.Errorf("%s: target, head ignored %v, want %v", entry, got, want)
		}
	}
}

// mtp.fc is plain under modelopt_fp4 whatever the block says, and follows the block under every other method.
func TestFcOfTheHeadIsPlainUnderFP4Alone(t *testing.T) {
	mixed := `{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","quantized_layers":{"mtp.fc":{"quant_algo":"NVFP4"}},"ignore":[]}`
	for block, want := range map[string]engine.State{
		flatBlock("NVFP4"): engine.Unquantized, flatBlock("W4A16_NVFP4"): engine.Unquantized,
		flatBlock("FP8"): engine.Quantized, mixed: engine.Quantized, oneGroup(quoted("Linear"), "[]"): engine.Quantized,
	} {
		if _, res := server(t, fixture(t, "tiny"), block); res["drafter:mtp.fc"].State != want {
			t.Errorf("%s: mtp.fc %+v", block, res["drafter:mtp.fc"])
		}
	}
	_, res := server(t, []byte(nextConfig), flatBlock("NVFP4"))
	if res["drafter:mtp.fc"].State != engine.Unquantized {
		t.Error("Qwen3-Next has the same exception")
	}
	if got := at(t, "vllm@0.24", nextConfig, flatBlock("NVFP4"))["drafter:mtp.fc"]; got.State != engine.Quantized {
		t.Errorf("vllm 0.24 does not except Qwen3-Next: %+v", got)
	}
}

// at resolves under another version.
func at(t *testing.T, spec, config, block string) map[string]engine.Resolution {
	t.Helper()
	full := set(t, []byte(config), "quantization_config", block)
	q, _, err := engine.ReadQuantization(full)
	if err != nil {
		t.Fatal(err)
	}
	s := build(t, spec, full, true)
	b, out := s.Bind(q), map[string]engine.Resolution{}
	for i := range s.Linears {
		out[key(&s.Linears[i])] = b.Resolve(&s.Linears[i])
	}
	return out
}

func TestMixedBlocksQuantizeOnlyWhatTheyList(t *testing.T) {
	const body = "model.language_model.layers."
	block := `{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","ignore":["mtp*"],"quantized_layers":{
		"` + body + `0.mlp.gate_proj":{"quant_algo":"W4A16_NVFP4","group_size":16},"` + body + `0.mlp.up_proj":{"quant_algo":"W4A16_NVFP4","group_size":16},
		"` + body + `0.mlp.down_proj":{"quant_algo":"NVFP4","group_size":16},"` + body + `3.self_attn.o_proj":{"quant_algo":"FP8"},
		"` + body + `1.mlp.gate_proj":{"quant_algo":"FP8"},"` + body + `1.mlp.up_proj":{"quant_algo":"NVFP4"},
		"` + body + `1.mlp.down_proj":{"quant_algo":"INT4_AWQ"},"lm_head":{"quant_algo":"FP8"},"` + body + `7.mlp.down_proj":{"quant_algo":"FP8"}}}`
	s, res := server(t, fixture(t, "tiny"), block)
	const rt = "language_model.model.layers."
	for name, want := range map[string]string{
		rt + "0.mlp.gate_up_proj": "NVFP4 W4A16", rt + "0.mlp.down_proj": "NVFP4 W4A4", rt + "3.self_attn.o_proj": "FP8 per tensor with a static input scale",
		rt + "0.linear_attn.in_proj_ba": "unquantized", rt + "1.mlp.down_proj": "unquantized", rt + "2.mlp.down_proj": "unquantized",
		"language_model.lm_head": "FP8 per tensor with a static input scale", "drafter:lm_head": "FP8 per tensor with a static input scale",
		"drafter:mtp.fc": "unquantized", "visual.blocks.0.attn.qkv": "unquantized",
	} {
		if got := res[name]; got.Scheme.String() != want {
			t.Errorf("%s: %s, want %s", name, got.Scheme, want)
		}
	}
	if r := res[rt+"1.mlp.gate_up_proj"]; r.State != engine.Refused || !strings.Contains(r.Err.Error(), "FP8 and NVFP4") {
		t.Errorf("two algorithms inside a fused module: %+v", r)
	}
	if r := res[rt+"1.mlp.down_proj"]; r.PassedOver != "INT4_AWQ" {
		t.Errorf("an algorithm that is passed over is not named: %+v", r)
	}
	q, problems, _ := engine.ReadQuantization([]byte(`{"quantization_config":` + block + `}`))
	if len(problems) > 0 {
		t.Errorf("%v", problems)
	}
	var list []engine.Resolution
	b := s.Bind(q)
	for i := range s.Linears {
		list = append(list, b.Resolve(&s.Linears[i]))
	}
	if dead := b.Dead(list); len(dead) != 1 || dead[0].Entry != body+"7.mlp.down_proj" {
		t.Errorf("dead entries: %+v", dead)
	}
}

func TestDeadExclusionsAreToldWithTheirReason(t *testing.T) {
	for entry, want := range map[string]string{
		"mtp*": "", "lm_head": "", "model.visual*": "", "*.linear_attn.conv1d": "", "mtp.layers.0*": "",
		"*.q_proj":                           "one module",
		"re:.*self_attn.*":                   "re:",
		"model.language_model.lm_head":       "no module",
		"model.language_model.layers.9.mlp*": "no module",
		"model.language_model.layers.0.linear_attn.in_proj_qkv": "", // splits a fused module: not dead, refused
		"language_model.layers.0.linear_attn*":                  "no module",
	} {
		s, _ := server(t, fixture(t, "tiny"), flatBlock("FP8", entry))
		q, _, _ := engine.ReadQuantization([]byte(`{"quantization_config":` + flatBlock("FP8", entry) + `}`))
		b := s.Bind(q)
		var list []engine.Resolution
		for i := range s.Linears {
			list = append(list, b.Resolve(&s.Linears[i]))
		}
		dead := b.Dead(list)
		switch {
		case want == "" && len(dead) > 0:
			t.Errorf("%s is called dead: %+v", entry, dead)
		case want != "" && (len(dead) != 1 || !strings.Contains(dead[0].Reason, want)):
			t.Errorf("%s: %+v, want a reason with %q", entry, dead, want)
		}
	}
}

// What the linear methods of modelopt.py register, and what the loader does with shapes.
func TestTensorsOfModelOptSchemes(t *testing.T) {
	for _, c := range []struct{ algo, want string }{
		{"NVFP4", "weight U8 [384,64]; weight_scale F8_E4M3 [384,8]; weight_scale_2 F32 [1] []; input_scale F32 [1] []"},
		{"W4A16_NVFP4", "weight U8 [384,64]; weight_scale F8_E4M3 [384,8]; weight_scale_2 F32 [1] []; input_scale F32 [1] [] (optional)"},
		{"FP8", "weight F8_E4M3 [384,128]; weight_scale BF16/F16/F32 [1] []; input_scale BF16/F16/F32 [1] []"},
		{"FP8_PER_CHANNEL_PER_TOKEN", "weight F8_E4M3 [384,128]; weight_scale BF16/F16/F32 [384]"},
		{"FP8_PB_WO", "weight F8_E4M3 [384,128]; weight_scale BF16/F16/F32 [3,1,1,1]"},
	} {
		_, res := server(t, fixture(t, "tiny"), flatBlock(c.algo))
		var parts []string
		for _, n := range res["language_model.model.layers.0.mlp.gate_up_proj"].Scheme.Tensors(384, 128) {
			var d []string
			for _, x := range n.Dtypes {
				d = append(d, string(x))
			}
			text := n.Suffix + " " + strings.Join(d, "/")
			for _, shape := range n.Shapes {
				text += " " + shapeText(shape)
			}
			if n.Optional {
				text += " (optional)"
			}
			parts = append(parts, text)
		}
		if got := strings.Join(parts, "; "); got != c.want {
			t.Errorf("%s: %s, want %s", c.algo, got, c.want)
		}
	}
	_, res := server(t, fixture(t, "tiny"), flatBlock("FP8_PB_WO"))
	if r := res["language_model.model.layers.0.linear_attn.in_proj_ba"]; r.State != engine.Refused {
		t.Errorf("blocks of 128 on 8 rows: %+v", r)
	}
	_, res = server(t, fixture(t, "moe"), flatBlock("FP8_PER_CHANNEL_PER_TOKEN"))
	if r := res["language_model.model.layers.0.mlp.experts"]; r.Scheme.Strategy != "tensor" || !r.Scheme.Static {
		t.Errorf("there is one class for experts: %+v", r)
	}
	if !slices.Contains(engine.Scheme{ModelOpt: true}.Tensors(1, 1)[0].Dtypes, safetensors.BF16) {
		t.Error("plain weights are not BF16")
	}
}

func TestWhichFileOfModelOptCounts(t *testing.T) {
	file := func(algo string) string {
		return `{"producer":{"name":"modelopt","version":"0.29"},"quantization":{"quant_algo":"` + algo + `","kv_cache_quant_algo":"FP8","group_size":16,"exclude_modules":["lm_head"]}}`
	}
	mixedFile := strings.Replace(file("MIXED_PRECISION"), `"group_size"`, `"quantized_layers":{"a.b":{"quant_algo":"FP8"}},"group_size"`, 1)
	const flatMixed = `{"quantization_config":{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","ignore":["x"]}}`
	for _, c := range []struct {
		name, config, file, key, method, exclude string
		refused                                  string
	}{
		{"the file alone", `{}`, file("NVFP4"), engine.FileModelOpt, "modelopt_fp4", "lm_head", ""},
		{"the file alone, in front of a compression_config", `{"compression_config":{"quant_method":"compressed-tensors"}}`, file("FP8"), engine.FileModelOpt, "modelopt", "lm_head", ""},
		{"the file alone, with an algorithm that needs config.json", `{}`, file("W4A16_NVFP4"), engine.FileModelOpt, "", "", "Unknown ModelOpt quant algo"},
		{"the file alone, mixed", `{}`, mixedFile, engine.FileModelOpt, "", "", "Unknown ModelOpt quant algo"},
		{"both: config.json wins", `{"quantization_config":` + flatBlock("NVFP4", "mtp*") + `}`, file("FP8"), "quantization_config", "modelopt_fp4", "mtp*", ""},
		{"mixed without its list: the file", flatMixed, mixedFile, engine.FileModelOpt, "modelopt_mixed", "lm_head", ""},
		{"mixed without its list, no file", flatMixed, "", "quantization_config", "modelopt_mixed", "", "Cannot find the config file"},
		{"mixed without its list, a stranger's file", flatMixed, `{"quantization":{}}`, "quantization_config", "modelopt_mixed", "", "Unsupported quantization config"},
		{"no method and no producer", `{}`, `{"quantization":{"quant_algo":"NVFP4"}}`, engine.FileModelOpt, "", "", ""},
	} {
		q, problems, err := engine.ReadQuantizationFiles([]byte(c.config), []byte(c.file))
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, p := range problems {
			said += p.Message
		}
		if q.Key != c.key || q.Method != c.method && c.refused == "" || (c.refused == "") != (said == "") || !strings.Contains(said, c.refused) {
			t.Errorf("%s: key %s, method %s, said %q", c.name, q.Key, q.Method, said)
		}
		if c.exclude != "" && !slices.Equal(q.ModelOpt.Exclude, []string{c.exclude}) {
			t.Errorf("%s: exclusions %v", c.name, q.ModelOpt.Exclude)
		}
	}
}

func TestOlderVersionsReadLessOfModelOpt(t *testing.T) {
	tiny := string(fixture(t, "tiny"))
	const down = "language_model.model.layers.0.mlp.down_proj"
	mixed := `{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","quantized_layers":{"model.language_model.layers.0.mlp.down_proj":{"quant_algo":"NVFP4"}}}`
	for _, c := range []struct {
		spec, block, module string
		want                engine.State
	}{
		{"vllm@0.21", flatBlock("W4A16_NVFP4"), down, engine.Refused},
		{"vllm@0.22", flatBlock("W4A16_NVFP4"), down, engine.Quantized},
		{"vllm@0.20", flatBlock("NVFP4"), down, engine.Quantized},
		{"vllm@0.22", flatBlock("NVFP4"), "language_model.lm_head", engine.Unquantized},
		{"vllm@0.23", flatBlock("NVFP4"), "language_model.lm_head", engine.Quantized},
		{"vllm@0.22", mixed, down, engine.Refused},
		{"vllm@0.23", mixed, down, engine.Quantized},
	} {
		if got := at(t, c.spec, tiny, c.block)[c.module]; got.State != c.want {
			t.Errorf("%s: %s: %+v, want state %d", c.spec, c.module, got, c.want)
		}
	}
}
