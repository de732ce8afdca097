package engine_test

import (
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/engine"
)

// told shortens problems to "flag kind", "!" in front of what stops the server.
func told(list []engine.ArgProblem) []string {
	var out []string
	for _, p := range list {
		s := p.Flag + " " + string(p.Kind)
		if p.Serious {
			s = "!" + s
		}
		if p.Message == "" {
			s += " (no message)"
		}
		out = append(out, s)
	}
	return out
}

func parse(t *testing.T, spec, line string) (*engine.ServeArgs, []engine.ArgProblem) {
	t.Helper()
	e, err := engine.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	a, problems, err := engine.ParseServe(e, line)
	if err != nil {
		t.Fatal(err)
	}
	return a, problems
}

func TestAServeCommandIsReadAsTheServerReadsIt(t *testing.T) {
	a, problems := parse(t, engine.Default, `CUDA_VISIBLE_DEVICES=0 vllm serve /models/a \
  --served-model-name main alias -tp 2 --max_model_len=32k --gpu-memory-utilization .85 \
  --speculative-config '{"method":"mtp","num_speculative_tokens":2}' --no-enable-prefix-caching --language-model-only \
  --enable-auto-tool-choice --tool-call-parser qwen3_coder --reasoning-parser=qwen3 --kv-cache-dtype fp8 # the seat`)
	if len(problems) > 0 {
		t.Errorf("problems: %+v", problems)
	}
	if a.Model != "/models/a" || !slices.Equal(a.ServedNames, []string{"main", "alias"}) || a.TensorParallel != 2 || a.MaxModelLen != 32000 ||
		a.GPUMemory != .85 || !a.GPUMemoryGiven || a.PrefixCaching == nil || *a.PrefixCaching || !a.LanguageModelOnly || !a.AutoToolChoice ||
		a.ToolParser != "qwen3_coder" || a.ReasoningParser != "qwen3" || a.KVCacheDtype != "fp8" || a.Env["CUDA_VISIBLE_DEVICES"] != "0" {
		t.Errorf("read as %+v", a)
	}
	if !a.Spec.MTP() || a.Spec.Tokens != 2 {
		t.Errorf("speculation read as %+v", a.Spec)
	}
	bare, _ := parse(t, engine.Default, "vllm serve m")
	if bare.PrefixCaching != nil || bare.GPUMemory != .92 || bare.GPUMemoryGiven || bare.MaxModelLen != 0 || bare.Spec != nil || bare.Spec.MTP() || bare.KVCacheDtype != "auto" {
		t.Errorf("defaults: %+v", bare)
	}
}

func TestWaysToWriteTheSameCommand(t *testing.T) {
	for _, line := range []string{
		"vllm serve m -tp 2", "m --tensor-parallel-size 2", "/opt/bin/vllm serve m --tensor_parallel_size=2", "docker run image vllm serve m -tp 2",
		"python3 -m vllm.entrypoints.openai.api_server --model m -tp 2", "vllm serve --model=m --tensor-parallel-size 2", "vllm serve m -tp=2",
	} {
		a, problems := parse(t, engine.Default, line)
		if a.Model != "m" || a.TensorParallel != 2 || slices.ContainsFunc(problems, func(p engine.ArgProblem) bool { return p.Serious }) {
			t.Errorf("%s: %+v %v", line, a, problems)
		}
	}
}

func TestWhatAServeCommandIsToldOf(t *testing.T) {
	for _, c := range []struct {
		spec, args string
		want       []string
		text       string // in the first problem's message or fix
	}{
		{engine.Default, "--gpu-memory-utilisation 0.9", []string{"!--gpu-memory-utilisation unknown"}, "--gpu-memory-utilization"},
		{engine.Default, "--frobnicate 3", []string{"!--frobnicate unknown"}, "unrecognized"},
		{engine.Default, "--disable-log-requests", []string{"!--disable-log-requests gone"}, "--enable-log-requests"},
		{engine.Default, "--calculate-kv-scales", []string{"!--calculate-kv-scales gone"}, "0.27"},
		{"vllm@0.27", "--calculate-kv-scales", []string{"--calculate-kv-scales unsure"}, "not known"},
		{"vllm@0.20", "--linear-backend marlin", []string{"!--linear-backend later"}, "0.22"},
		{"vllm@0.22", "--linear-backend marlin", nil, ""},
		{engine.Default, "--max-model-len lots", []string{"!--max-model-len value"}, "whole number"},
		{engine.Default, "--max-model-len auto", nil, ""},
		{engine.Default, "--max-model-len -1", nil, ""},
		{engine.Default, "--kv-cache-dtype fp9", []string{"!--kv-cache-dtype value"}, "fp8_e4m3"},
		{engine.Default, "--gpu-memory-utilization 90", []string{"!--gpu-memory-utilization value"}, "share"},
		{engine.Default, "--gpu-memory-utilization", []string{"!--gpu-memory-utilization value"}, "missing"},
		{engine.Default, "--enforce-eager=1", []string{"!--enforce-eager value"}, "no value"},
		{engine.Default, "--max-num-seqs 4 --max-num-seqs 8", []string{"--max-num-seqs twice"}, "last"},
		{engine.Default, "--enable-auto-tool-choice", []string{"!--enable-auto-tool-choice together"}, "requires --tool-call-parser"},
		{engine.Default, "--tool-call-parser qwen3_coder", []string{"--tool-call-parser together"}, "--enable-auto-tool-choice"},
		{engine.Default, "--enable-auto-tool-choice --tool-call-parser qwen3_code", []string{"!--tool-call-parser value"}, "qwen3_coder"},
		{engine.Default, "--enable-auto-tool-choice --tool-call-parser mine --tool-parser-plugin mine.py", nil, ""},
		{engine.Default, "--reasoning-parser qwen4", []string{"!--reasoning-parser value"}, "qwen3"},
		{engine.Default, "--quantization nvfp4", []string{"!--quantization value"}, "leave it out"},
		{engine.Default, "--quantization compressed-tensors", nil, ""},
		{engine.Default, "another", []string{"!another unknown"}, "one model"},
		{engine.Default, "--tensor-paral 2", []string{"--tensor-paral deprecated"}, "abbreviation"},
		{engine.Default, "--enable-log-outputs", []string{"!--enable-log-outputs together"}, "--enable-log-requests"},
		{engine.Default, "--runner generate --convert none", nil, ""},
		{engine.Default, "-tp 0", []string{"!--tensor-parallel-size value"}, "above 0"},
	} {
		_, problems := parse(t, c.spec, "vllm serve m "+c.args)
		if got := told(problems); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s: %v, want %v", c.spec, c.args, got, c.want)
		} else if len(problems) > 0 && !strings.Contains(problems[0].Message+" "+problems[0].Fix, c.text) {
			t.Errorf("%s: %+v, want text %q", c.args, problems[0], c.text)
		}
	}
}

func TestSpeculativeConfigs(t *testing.T) {
	const flag = "--speculative-config"
	for _, c := range []struct {
		model, args string
		want        []string
		text        string
	}{
		{"m", `'{"method":"mtp","num_speculative_tokens":1}'`, nil, ""},
		{"m", `'{"method":"mtp"}'`, []string{"!" + flag + " spec"}, "num_speculative_tokens is missing"},
		{"m", `'{"method":"mtp","num_speculative_tokens":0}'`, []string{"!" + flag + " spec"}, "above 0"},
		{"m", `'{"method":"mtp","num_speculative_tokens":5}'`, []string{flag + " spec"}, "5 times"},
		{"m", `'{"method":"qwen3_5_mtp","num_speculative_tokens":1}'`, []string{flag + " spec"}, "deprecated"},
		{"m", `'{"method":"NEXTN","num_speculative_tokens":1}'`, []string{"!" + flag + " spec"}, "SGLang"},
		{"m", `'{"method":"mpt","num_speculative_tokens":1}'`, []string{"!" + flag + " spec"}, "none that the server knows"},
		{"m", `'{"method":"mtp","num_speculative_tokens":1,"tokens":2}'`, []string{"!" + flag + " spec"}, "no key"},
		{"m", `'{"method":"eagle3","num_speculative_tokens":2}'`, []string{"!" + flag + " spec"}, "without a method"},
		{"m", `'{"method":"eagle3","model":"d","num_speculative_tokens":2}'`, nil, ""},
		{"m", `mtp`, []string{"!" + flag + " spec"}, "JSON"},
		{"/models/a-dflash-b", `'{"method":"mtp","num_speculative_tokens":1}'`, []string{"!" + flag + " spec"}, "dflash"},
		{"/models/Eagle-27B", `'{"method":"mtp","num_speculative_tokens":1}'`, []string{"!" + flag + " spec"}, "eagle-"},
	} {
		_, problems := parse(t, engine.Default, "vllm serve "+c.model+" --enable-prefix-caching "+flag+" "+c.args)
		if got := told(problems); !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %v, want %v", c.model, c.args, got, c.want)
		} else if len(problems) > 0 && !strings.Contains(problems[0].Message, c.text) {
			t.Errorf("%s: %+v, want text %q", c.args, problems[0], c.text)
		}
	}
	for _, line := range []string{
		"vllm serve m --no-enable-prefix-caching --speculative-config.method mtp --speculative-config.num-speculative-tokens 2",
		"vllm serve m --no-enable-prefix-caching --spec-method mtp --spec-tokens 2",
		`vllm serve m --no-enable-prefix-caching --spec-tokens 2 -sc '{"method":"mtp"}'`,
	} {
		a, problems := parse(t, engine.Default, line)
		if len(problems) > 0 || !a.Spec.MTP() || a.Spec.Tokens != 2 {
			t.Errorf("%s: %+v %v", line, a.Spec, problems)
		}
	}
	// what changed its default is said, with the version's own
	for spec, text := range map[string]string{engine.Default: "on in vllm@0.28", "vllm@0.26": "off in vllm@0.26"} {
		_, problems := parse(t, spec, `vllm serve m --speculative-config '{"method":"mtp","num_speculative_tokens":1}'`)
		if got := told(problems); !slices.Equal(got, []string{"--enable-prefix-caching together"}) || !strings.Contains(problems[0].Message, text) {
			t.Errorf("%s: %+v", spec, problems)
		}
	}
	e, _ := engine.Parse(engine.Default)
	if s, problems := engine.ParseSpeculative(e, `{"method":"mtp","num_speculative_tokens":3}`); len(problems) > 0 || s.Tokens != 3 {
		t.Errorf("%+v %v", s, problems)
	}
}

func TestWordsAreSplitAsAShellDoes(t *testing.T) {
	for line, want := range map[string][]string{
		`a  b`: {"a", "b"}, `'a b' "c d"`: {"a b", "c d"}, `a\ b`: {"a b"}, "a \\\n b": {"a", "b"}, `"a\"b\n"`: {`a"b\n`}, `'{"x":1}'`: {`{"x":1}`},
		`a # b`: {"a"}, `a#b`: {"a#b"}, `""`: {""}, `x''y`: {"xy"}, "": nil, "a\\\r\nb": {"ab"},
	} {
		if got, err := engine.Words(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", line, got, err, want)
		}
	}
	if _, err := engine.Words(`a "b`); err == nil {
		t.Error("an open quote is split")
	}
}

func TestEveryFlagOfTheTableIsWhole(t *testing.T) {
	e, _ := engine.Parse(engine.Default)
	if n := len(e.Flags()); n < 280 || n > 300 {
		t.Errorf("%d flags, vLLM 017e9f4448 registers 285", n)
	}
	for _, f := range e.Flags() {
		switch f.Kind {
		case engine.BoolFlag, engine.SwitchFlag, engine.IntFlag, engine.FloatFlag, engine.TextFlag, engine.ListFlag, engine.JSONFlag, engine.AppendFlag, engine.MaybeFlag:
		case engine.ChoiceFlag:
			if len(f.Choices) == 0 {
				t.Errorf("%s: no choices", f.Name)
			}
		default:
			t.Errorf("%s: kind %q", f.Name, f.Kind)
		}
		for _, c := range f.Choices {
			if strings.Contains(c, "Type") {
				t.Errorf("%s: %q is a name of the source, no value", f.Name, c)
			}
		}
	}
	f, there := e.Flag("--gpu_memory_utilization")
	if there != engine.Present {
		t.Fatal("underscores are dashes")
	}
	if d, ok := f.Default(e.Version); !ok || d != "0.92" {
		t.Errorf("default %q", d)
	}
}

func FuzzServe(f *testing.F) {
	for _, s := range []string{"vllm serve m -tp 2", `m --speculative-config '{"method":"mtp"}'`, "A=b vllm serve --x=1 --no-x.y z", `"`, "- -- --= -O3 --no-", "--speculative-config.a {"} {
		f.Add(s)
	}
	e, err := engine.Parse(engine.Default)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line string) {
		a, problems, err := engine.ParseServe(e, line)
		if err == nil && a == nil {
			t.Fatal("neither arguments nor an error")
		}
		for _, p := range problems {
			if p.Message == "" || p.Kind == "" {
				t.Fatalf("%+v says nothing", p)
			}
		}
	})
}
