package verify_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/sjson"

	"seatsmith/internal/plan"
	"seatsmith/internal/verify"
)

func doctor(t testing.TB, dir string, o verify.Options) *verify.Report {
	t.Helper()
	r, err := verify.Doctor(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDoctorFindsNothingInWholeCheckpointsOfAnyMaker(t *testing.T) {
	dirs := map[string]string{"tiny": donor, "moe": "../../testdata/moe"}
	for _, dialect := range []string{"compressed-tensors", "modelopt"} {
		for _, fixture := range []string{"tiny", "moe"} {
			f, _ := converted(t, "../../testdata/"+fixture, plan.Options{Dialect: dialect})
			if err := os.Remove(filepath.Join(f.dir, "seatsmith.json")); err != nil { // as another tool would leave it
				t.Fatal(err)
			}
			dirs[fixture+" "+dialect] = f.dir
		}
	}
	for name, dir := range dirs {
		for _, headers := range []bool{false, true} {
			r := doctor(t, dir, verify.Options{Headers: headers})
			expect(t, r)
			if r.Verdict != "ok" || contains(r.NotChecked, "--headers") != headers {
				t.Errorf("%s: %s, not checked %q", name, r.Verdict, r.NotChecked)
			}
		}
	}
	r := doctor(t, body, verify.Options{})
	expect(t, r, "head-missing")
}

func TestHeadersOnlyDoesNotReadScales(t *testing.T) {
	f := copyOf(t, "default")
	f.get(down0 + ".weight_scale").data[7] = 0x7F
	f.save()
	expect(t, doctor(t, f.dir, verify.Options{}), "scale-bad")
	expect(t, doctor(t, f.dir, verify.Options{Headers: true}))
}

// doctored are hosts and serve commands that do not go with a checkpoint, and every rule that tells of it.
var doctored = []struct {
	name, rules, text string
	make              func(t *testing.T) *folder
	do                func(*folder)
	host              verify.Host
	engine, command   string
}{
	{name: "a card with FP4 arithmetic", host: verify.Host{GPU: "sm_120"}},
	{name: "an old card", rules: "gpu-unfit", text: "sm_75", host: verify.Host{GPU: "sm_70"}},
	{name: "no card", rules: "gpu-unfit", text: "cpu", host: verify.Host{GPU: "cpu"}},
	{name: "FP4 activations without FP4 arithmetic", rules: "scheme-gpus?", text: "weight-only", make: func(t *testing.T) *folder { return w4a4(t) }, host: verify.Host{GPU: "sm_90"}},
	{name: "a card that is too small", rules: "gpu-memory", text: "each rank", host: verify.Host{Memory: 1 << 20}},
	{name: "two ranks", host: verify.Host{TP: 2}},
	{name: "three ranks", rules: "tp-split", text: "heads", host: verify.Host{TP: 3}},
	{name: "sixteen ranks", rules: "tp-split width-group", host: verify.Host{TP: 16}},

	{name: "a tokenizer of transformers 5", rules: "tokenizer-class?", do: func(f *folder) {
		path := filepath.Join(f.dir, "tokenizer_config.json")
		data, err := sjson.SetBytes(readFile(f.t, path), "tokenizer_class", "TokenizersBackend")
		if err != nil {
			f.t.Fatal(err)
		}
		writeFile(f.t, path, data)
	}},
	{name: "a tokenizer of transformers 5 where the image has 4", rules: "engine-unread? rope-moved? tokenizer-class", engine: "vllm@0.19", do: func(f *folder) {
		edit(f.t, filepath.Join(f.dir, "tokenizer_config.json"), "tokenizer_class", "TokenizersBackend")
	}},
	{name: "FP8 in blocks that the fused parts do not fill", rules: "width-block", make: inBlocks(128, 128)},
	{name: "a mixed block in builds that misread it", rules: "modelopt-since?", engine: "vllm@0.25", make: mixed},
	{name: "a mixed block in others", engine: "vllm@0.26", make: mixed},

	{name: "a plain command", command: "vllm serve /models/q --max-model-len 64 --gpu-memory-utilization 0.9"},
	{name: "a flag that nobody has", rules: "serve-args", text: "--max-model-len", command: "/m --max-model-length 64"},
	{name: "a tool parser without automatic choice of it", rules: "serve-args?", command: "/m --tool-call-parser qwen3_coder"},
	{name: "automatic choice without a tool parser", rules: "serve-args", command: "/m --enable-auto-tool-choice"},
	{name: "no number of drafted tokens", rules: "serve-args", text: "num_speculative_tokens", command: `/m --no-enable-prefix-caching --speculative-config '{"method":"mtp"}'`},
	{name: "prefix caching not said", rules: "serve-args?", text: "#53912", command: `/m --speculative-config '{"method":"mtp","num_speculative_tokens":1}'`},
	{name: "too many drafted tokens", rules: "serve-args?", command: `/m --no-enable-prefix-caching --speculative-config '{"method":"mtp","num_speculative_tokens":5}'`},
	{name: "a path that means another method", rules: "serve-args", text: "eagle3", command: `/models/eagle3-x --no-enable-prefix-caching --speculative-config '{"method":"mtp","num_speculative_tokens":1}'`},
	{name: "drafting without a head", rules: "serve-headless", make: unpromised, command: `/m --no-enable-prefix-caching --speculative-config '{"method":"mtp","num_speculative_tokens":1}'`},
	{name: "another method", rules: "serve-quantization", text: "compressed-tensors", command: "/m --quantization fp8"},
	{name: "the same method", command: "/m --quantization compressed-tensors"},
	{name: "an FP8 cache without scales", rules: "kv-scale-missing?", text: "1.0", command: "/m --kv-cache-dtype fp8"},
	{name: "longer than the model", rules: "serve-args", text: "max_position_embeddings", command: "/m --max-model-len 100M"},
	{name: "longer than the model, knowingly", command: "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve /m --max-model-len 100M"},
	{name: "no tower to leave out", rules: "serve-args?", make: textOnly, text: "tower", command: "/m --language-model-only"},
	{name: "ranks of the command", rules: "tp-split", text: "--tensor-parallel-size", command: "/m -tp 3"},
	{name: "a flag of another version", rules: "serve-args", engine: "vllm@0.28", text: "0.28", command: "/m --calculate-kv-scales"},
}

// mixed is a modelopt folder in which every quantized module is listed.
func mixed(t *testing.T) *folder {
	f := inModelOpt(t)
	layers := map[string]any{}
	for name := range f.tensors {
		if module, ok := strings.CutSuffix(name, ".weight_scale_2"); ok {
			layers[module] = map[string]any{"quant_algo": "W4A16_NVFP4", "group_size": 16}
		}
	}
	f.set("quantization_config", map[string]any{"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers, "ignore": []string{"mtp*", "lm_head", "model.visual*"}})
	return f
}

// unpromised promises no head and has none.
func unpromised(t *testing.T) *folder {
	f := copyOf(t, "default")
	for name := range f.tensors {
		if strings.HasPrefix(name, "mtp.") {
			delete(f.tensors, name)
		}
	}
	f.set("text_config.mtp_num_hidden_layers", 0)
	return f
}

func TestHostsAndCommandsAreJudgedTogetherWithTheCheckpoint(t *testing.T) {
	for _, c := range doctored {
		t.Run(c.name, func(t *testing.T) {
			f := copyOf(t, "default")
			if c.make != nil {
				f = c.make(t)
			}
			if c.do != nil {
				c.do(f)
			}
			f.save()
			o := verify.Options{Host: c.host, Engine: c.engine}
			if c.command != "" {
				s, err := verify.ParseServe(c.engine, c.command)
				if err != nil {
					t.Fatal(err)
				}
				o.Serve = append(o.Serve, s)
			}
			r := doctor(t, f.dir, o)
			got := slices.DeleteFunc(rules(r), func(id string) bool { return strings.HasSuffix(id, "(info)") })
			if want := strings.Fields(c.rules); !slices.Equal(got, want) {
				t.Fatalf("findings %v, want %v: %v", got, want, r.Findings)
			}
			said := ""
			for _, x := range r.Findings {
				said += x.Subject + " " + x.Message + " " + x.Fix + "\n"
			}
			if !strings.Contains(said, c.text) {
				t.Errorf("%q is not said: %s", c.text, said)
			}
		})
	}
}

func TestAComposeFileNamesItsServices(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "compose.yaml")
	writeFile(t, filepath.Join(dir, ".env"), []byte("LENGTH=64\nNAME=of-the-file\n"))
	writeFile(t, path, []byte(`services:
  db: {image: postgres, command: serve}
  one:
    image: vllm/vllm-openai:v0.28.0
    environment: {VLLM_LOGGING_LEVEL: DEBUG}
    command: ["--model", "/models/${NAME}", "--max-model-len", "${LENGTH}"]
  two:
    image: own
    profiles: [night]
    entrypoint: ["python3", "-m", "vllm.entrypoints.openai.api_server"]
    command: --model /models/q -tp 2
`))
	list, err := verify.ReadCompose(context.Background(), "", path, map[string]string{"NAME": "q"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Where != "service one" || list[1].Where != "service two" {
		t.Fatalf("%+v", list)
	}
	if a := list[0].Args; a.Values["--model"][0] != "/models/q" || a.MaxModelLen != 64 || a.Env["VLLM_LOGGING_LEVEL"] != "DEBUG" {
		t.Errorf("%+v", a)
	}
	if list[1].Args.TensorParallel != 2 {
		t.Errorf("%+v", list[1].Args)
	}
	for name, text := range map[string]string{"nothing served": "services: {db: {image: postgres}}", "no YAML": "services: [", "no services": "{}"} {
		writeFile(t, path, []byte(text))
		if _, err := verify.ReadCompose(context.Background(), "", path, nil); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
