package verify_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/engine"
	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

func TestQ08IgnoreEntriesThatMatchNothingAndWhatTheyLeaveUncovered(t *testing.T) {
	f := linear(t)
	for _, s := range []string{"in_proj_qkv", "in_proj_z"} {
		f.restore(layer0 + "linear_attn." + s)
	}
	f.ignore(adding(layer0 + "linear_attn.in_proj_qkvzba")) // a name that neither the disk nor the server has
	r := lint(t, f, verify.Options{})
	only(t, r, "config-contradiction", "ignore-dead?")
	says(t, r, "ignore-dead", "in_proj_qkvzba")
	says(t, r, "config-contradiction", layer0+"linear_attn.in_proj_qkv", layer0+"linear_attn.in_proj_z", "unquantized")

	// the fused name alone is one that the server asks for, so it covers both parts
	f.ignore(dropping("in_proj_qkvzba"))
	f.ignore(adding(layer0 + "linear_attn.in_proj_qkvz"))
	clean(t, lint(t, f, verify.Options{}))
}

func TestQ19OnlyTheServersListsCountAndTheyMustAgree(t *testing.T) {
	f := withFile(t)
	recipe := filepath.Join(f.dir, "recipe.yaml") // llm-compressor's notes of what was asked
	writeFile(t, recipe, []byte("quant_stage:\n  quant_modifiers:\n    QuantizationModifier: {ignore: [lm_head], targets: [Linear]}\n"))
	clean(t, lint(t, f, verify.Options{}))

	edit(t, filepath.Join(f.dir, "hf_quant_config.json"), "quantization.exclude_modules", []string{"lm_head"})
	r := doctor(t, f.dir, verify.Options{})
	only(t, r, "quant-files-differ")
	says(t, r, "quant-files-differ", "hf_quant_config.json", "linear_attn.in_proj_a", "only excluded in config.json")
	if r.Verdict != "fail" {
		t.Errorf("verdict %s", r.Verdict)
	}
}

func TestQ21AQuantizedVisionTowerIsAnError(t *testing.T) {
	const fc1 = "model.visual.blocks.0.mlp.linear_fc1"
	f := linear(t)
	f.ignore(dropping("visual"))
	r := lint(t, f, verify.Options{})
	only(t, r, "protected-quantized")
	says(t, r, "protected-quantized", "visual.", `"re:.*visual.*"`)

	f = linear(t) // stored quantized as well
	f.ignore(dropping("visual"))
	for name := range f.tensors {
		if module, ok := strings.CutSuffix(name, ".weight"); ok && strings.HasPrefix(name, "model.visual.") && module != fc1 {
			f.ignore(adding(module))
		}
	}
	f.toFP8(fc1)
	r = lint(t, f, verify.Options{})
	only(t, r, "protected-quantized")
	says(t, r, "protected-quantized", "visual.blocks.0.mlp.linear_fc1", "FP8", "source")
}

func TestQ23AScaleOfAnotherWidthAndAWidthThatTheGroupDoesNotDivide(t *testing.T) {
	f := copyOf(t, "default")
	x := f.get(down0 + ".weight_scale") // 24 wide
	x.shape = []int64{128 * 24 / 16, 16}
	r := lint(t, f, verify.Options{})
	only(t, r, "tensor-shape")
	says(t, r, "tensor-shape", down0+".weight_scale", "[128 24]")

	r = lint(t, withWidth(t, 24), verify.Options{})
	only(t, r, "width-group")
	says(t, r, "width-group", "24 mod 16 = 8", "unquantized")
}

func TestQ24HalfOfAFusedGroup(t *testing.T) {
	qkv := []string{attn3 + "q_proj", attn3 + "k_proj", attn3 + "v_proj"}

	f := linear(t) // all of q, k, v ignored, o quantized
	for _, m := range qkv {
		f.restore(m)
		f.ignore(adding(m))
	}
	clean(t, lint(t, f, verify.Options{}))

	f = linear(t) // q and k ignored, v not
	f.restore(qkv[0])
	f.restore(qkv[1])
	f.ignore(adding(qkv[:2]...))
	r := lint(t, f, verify.Options{})
	only(t, r, "fused-partial")
	says(t, r, "fused-partial", "self_attn.qkv_proj", "v_proj is FP8", "k_proj is unquantized")

	f = linear(t) // the same in the list alone
	f.ignore(adding(qkv[:2]...))
	r = lint(t, f, verify.Options{})
	only(t, r, "fused-partial")
	says(t, r, "fused-partial", "the ignore list covers language_model.model.layers.3.self_attn.q_proj", "but not language_model.model.layers.3.self_attn.v_proj")

	f = mixture(t) // three experts kept, the others not
	p := "model.language_model.layers.1.mlp.experts."
	source := load(t, "../../testdata/moe")
	for _, e := range []string{"0.", "1.", "2."} {
		for name := range f.tensors {
			if strings.HasPrefix(name, p+e) {
				delete(f.tensors, name)
			}
		}
		for _, s := range []string{"gate_proj", "up_proj", "down_proj"} {
			f.ignore(adding(p + e + s))
		}
	}
	gateUp, down := source.get(p+"gate_up_proj"), source.get(p+"down_proj")
	ff, hidden := gateUp.shape[1]/2, gateUp.shape[2]
	for e := range int64(3) {
		name := p + string(rune('0'+e)) + "."
		half := ff * hidden * 2
		f.tensors[name+"gate_proj.weight"] = &tensor{safetensors.BF16, []int64{ff, hidden}, gateUp.data[e*2*half : e*2*half+half], gateUp.file}
		f.tensors[name+"up_proj.weight"] = &tensor{safetensors.BF16, []int64{ff, hidden}, gateUp.data[e*2*half+half : (e+1)*2*half], gateUp.file}
		f.tensors[name+"down_proj.weight"] = &tensor{safetensors.BF16, []int64{hidden, ff}, down.data[e*half : (e+1)*half], down.file}
	}
	r = lint(t, f, verify.Options{})
	only(t, r, "fused-partial")
	says(t, r, "fused-partial", "layers.1.mlp.experts", "experts.0.gate_proj")

	clean(t, lint(t, linear(t), verify.Options{})) // in_proj_a and in_proj_b in BF16, in_proj_qkv and in_proj_z in FP8
}

func TestQ25AMethodThatIsEmptyAbsentOrInTheOtherFile(t *testing.T) {
	f := copyOf(t, "default")
	f.set("quantization_config.quant_method", "")
	r := lint(t, f, verify.Options{})
	only(t, r, "quant-method")
	says(t, r, "quant-method", "empty or missing", `"quant_method": "compressed-tensors"`)

	f = inModelOpt(t)
	f.set("quantization_config", json.RawMessage(`{"quant_method": ""}`))
	r = lint(t, f, verify.Options{})
	only(t, r, "quant-method")
	says(t, r, "quant-method", `"quant_method": "modelopt"`)

	f.del("quantization_config")
	r = lint(t, f, verify.Options{})
	only(t, r, "quant-config-missing")
	says(t, r, "quant-config-missing", "modelopt", "write the quantization_config")
	if r.Verdict != "fail" {
		t.Errorf("verdict %s", r.Verdict)
	}

	f = uniform(t) // the server reads the file alone, other readers do not
	f.del("quantization_config")
	r = lint(t, f, verify.Options{})
	only(t, r, "quant-config-missing?")
	says(t, r, "quant-config-missing", "hf_quant_config.json", "write its content as quantization_config into config.json")

	f = withFile(t) // weight-only NVFP4 is not read from the file alone
	f.del("quantization_config")
	r = lint(t, f, verify.Options{})
	only(t, r, "quant-config-missing")
	says(t, r, "quant-config-missing", "W4A16_NVFP4", "no method", "quant_method modelopt")
}

func TestQ26ARouterIsNoLinear(t *testing.T) {
	for _, router := range []string{"mlp.gate", "mlp.shared_expert_gate"} {
		f := mixture(t) // whose experts' gate_proj are quantized, which is right
		x := f.get(layer0 + router + ".weight")
		f.packed(layer0+router, x.file, x.data, 1, x.shape[0], x.shape[1])
		delete(f.tensors, layer0+router+".weight")
		r := lint(t, f, verify.Options{})
		only(t, r, "protected-quantized")
		if got := single(t, r, "protected-quantized"); got.Subject != layer0+router {
			t.Errorf("%s: %s", router, got)
		}
	}
	clean(t, lint(t, mixture(t), verify.Options{}))
}

func TestQ34AnFP8CacheWithoutScalesOrWithOnesOnly(t *testing.T) {
	scales := func(f *folder, spelling string, value float32) {
		for _, s := range []string{"k", "v"} {
			name := strings.ReplaceAll(spelling, "K", s)
			f.add(attn3+"o_proj.weight", attn3+name, safetensors.F32, []int64{1}, f32(value))
		}
	}
	f := copyOf(t, "default")
	f.cacheScheme()
	r := lint(t, f, verify.Options{})
	only(t, r, "kv-scale-missing?")
	says(t, r, "kv-scale-missing", attn3+"k_scale", attn3+"v_scale", "1.0")

	scales(f, "K_scale", 1)
	r = lint(t, f, verify.Options{})
	only(t, r, "kv-scale-missing?")
	says(t, r, "kv-scale-missing", "exactly 1")

	for _, spelling := range []string{"K_scale", "K_proj.K_scale"} { // layers of linear attention need none
		f := copyOf(t, "default")
		f.cacheScheme()
		scales(f, spelling, 0.5)
		clean(t, lint(t, f, verify.Options{}))
	}
	only(t, lint(t, copyOf(t, "default"), command(t, "/m --kv-cache-dtype fp8_e4m3")), "kv-scale-missing?")
}

func TestQ35TheFirstOfTwoGroupsDecidesAndTheOverlapIsTold(t *testing.T) {
	overlapping := func(t *testing.T) *folder {
		f := copyOf(t, "default")
		f.set("quantization_config.config_groups", json.RawMessage(`{
			"group_0":{"format":"float-quantized","targets":["re:.*layers\\.1\\.mlp.*","re:.*self_attn.*","re:.*in_proj_(qkv|z)$","re:.*out_proj$"],
				"weights":{"num_bits":8,"type":"float","strategy":"channel","symmetric":true,"dynamic":false},
				"input_activations":{"num_bits":8,"type":"float","strategy":"token","symmetric":true,"dynamic":true}},
			"group_1":{"format":"nvfp4-pack-quantized","targets":["re:.*mlp\\.(gate|up|down)_proj$"],
				"weights":{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16,"symmetric":true,"dynamic":false},"input_activations":null}}`))
		return f
	}
	f := overlapping(t)
	for _, m := range []string{"gate_proj", "up_proj", "down_proj"} {
		module := "model.language_model.layers.1.mlp." + m
		f.restore(module)
		f.toFP8(module)
	}
	f.ignore(adding("re:.*visual.*", "re:.*mtp.*"))
	r := lint(t, f, verify.Options{})
	only(t, r, "groups-overlap?")
	says(t, r, "groups-overlap", "group_0", "group_1", "layers.1.mlp", "first")

	f = overlapping(t) // layer 1 is stored as neither group says
	f.ignore(adding("re:.*visual.*", "re:.*mtp.*"))
	for _, m := range []string{"gate_proj", "up_proj", "down_proj"} {
		f.restore("model.language_model.layers.1.mlp." + m)
	}
	r = lint(t, f, verify.Options{})
	only(t, r, "config-contradiction", "groups-overlap?")
	says(t, r, "config-contradiction", "layers.1.mlp.gate_proj", "unquantized")
}

// The planner and the judge are two programs: what the one keeps, the other must ask for.
func TestQ35EachModuleOfTheDefaultRecipeHasOneScheme(t *testing.T) {
	for _, fixture := range []string{donor, "../../testdata/moe"} {
		f, _ := converted(t, fixture, plan.Options{})
		q, _, err := engine.ReadQuantization(f.config)
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.Parse(engine.Default)
		if err != nil {
			t.Fatal(err)
		}
		srv, err := engine.Build(e, f.config, true)
		if err != nil {
			t.Fatal(err)
		}
		bound := srv.Bind(q)
		kinds := map[engine.Kind]int{}
		for i := range srv.Linears {
			r := bound.Resolve(&srv.Linears[i])
			if len(r.Overlap) > 0 || len(r.Lost) > 0 || r.State == engine.Unjudged || r.State == engine.Refused {
				t.Errorf("%s: %+v", srv.Linears[i].Runtime, r)
			}
			kinds[r.Scheme.Kind]++
		}
		if kinds[engine.W4A16] == 0 || kinds[engine.FP8] == 0 {
			t.Errorf("%s: %v", fixture, kinds)
		}
		m, err := model.Open(f.dir)
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
		if !slices.ContainsFunc(m.Tensors, func(x model.Tensor) bool { return x.Suffix == "weight_packed" }) {
			t.Error("nothing is NVFP4")
		}
	}
}
