package engine_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/engine"
	"seatsmith/internal/playbook"
)

func ids(bugs []engine.Bug) []string {
	var out []string
	for _, b := range bugs {
		out = append(out, strings.TrimPrefix(b.ID, "vllm-project/vllm#"))
	}
	return out
}

func TestABugBitesTheSetupsAndVersionsThatItsThreadNames(t *testing.T) {
	drafting := engine.Setup{MTP: true, Hybrid: true, Prefix: true}
	for _, c := range []struct {
		name, version string
		setup         engine.Setup
		want          []string
	}{
		{"drafting with prefix caching", "0.28", drafting, []string{"53912", "54360"}},
		{"the same before lookups missed", "0.24", drafting, []string{"53912"}},
		{"drafting without prefix caching", "0.28", engine.Setup{MTP: true, Hybrid: true}, nil},
		{"prefix caching without drafting", "0.28", engine.Setup{Hybrid: true, Prefix: true}, nil},
		{"prompt_logprobs while drafting", "0.28", engine.Setup{MTP: true, Logprobs: true}, []string{"53488"}},
		{"sleeping while drafting", "0.28", engine.Setup{MTP: true, Sleep: true}, []string{"52479"}},
		{"two ranks of NVFP4 before the fix", "0.25", engine.Setup{NVFP4: true, TP: 2}, []string{"48330"}},
		{"two ranks of NVFP4 after it", "0.26", engine.Setup{NVFP4: true, TP: 2}, nil},
		{"a narrow rank on sm_120", "0.28", engine.Setup{NVFP4: true, W4A4: true, Unaligned: true, Capability: 120}, []string{"48898", "55397"}},
		{"two ranks and a drafter on sm_86", "0.28", engine.Setup{MTP: true, TP: 2, Capability: 86}, []string{"52480"}},
		{"experts on sm_90", "0.28", engine.Setup{NVFP4: true, MoE: true, Capability: 90}, []string{"49070"}},
		{"a mixed block in an old build", "0.23", engine.Setup{Method: engine.ModelOptMixed}, []string{"47215"}},
		{"a mixed block later", "0.24", engine.Setup{Method: engine.ModelOptMixed}, nil},
		{"nothing known", "0.28", engine.Setup{}, nil},
	} {
		e, err := engine.Parse("vllm@" + c.version)
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(e.Bites(c.setup)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestEveryKnownBugAndLogTextNamesARuleThatExists(t *testing.T) {
	exists := func(rule string) bool { return rule == "" || len(playbook.Lookup(rule)) > 0 }
	e, _ := engine.Parse("vllm@0.25")
	for _, b := range e.Bugs() {
		if !exists(b.Rule) || b.ID == "" || b.What == "" || b.Fix == "" || b.State == "" {
			t.Errorf("%+v", b)
		}
	}
	for _, l := range engine.LogTexts() {
		if !exists(l.Rule) || l.Text == "" || l.Meaning == "" {
			t.Errorf("%+v", l)
		}
	}
	other, _ := engine.Parse("sglang@0.5")
	if len(other.Bugs()) > 0 || other.Read() {
		t.Errorf("%s: %d bugs of another server, read %v", other, len(other.Bugs()), other.Read())
	}
}

func TestALogIsExplainedLineByLine(t *testing.T) {
	got := engine.Explain(`INFO loading
ValueError: There is no module or parameter named 'fc.weight' in Qwen3_5MTP
WARNING w1_weight_scale_2 must match w3_weight_scale_2. Accuracy may be affected.
ValueError: There is no module or parameter named 'fc.bias' in Qwen3_5MTP
`)
	var rules []string
	for _, l := range got {
		rules = append(rules, l.Rule)
	}
	if !slices.Equal(rules, []string{"tensor-unexpected", "fused-scale"}) || !got[0].Fatal || got[1].Fatal {
		t.Errorf("%+v", got)
	}
	if got := engine.Explain("all is well\n"); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestASpeculationLineIsReadAsItIsWritten(t *testing.T) {
	const line = "INFO SpecDecoding metrics: Mean acceptance length: 2.19, Accepted throughput: 42.00 tokens/s, Drafted throughput: 105.00 tokens/s, " +
		"Accepted: 420 tokens, Drafted: 1050 tokens, Per-position acceptance rate: 0.640, 0.350, 0.200, Avg Draft acceptance rate: 40.0%"
	s, ok := engine.ReadSpecLine(line)
	if !ok || s.MeanLength != 2.19 || s.Accepted != 420 || s.Drafted != 1050 || !slices.Equal(s.PerPosition, []float64{0.64, 0.35, 0.2}) || s.AcceptanceRate != 0.4 || s.NothingWasDrafted {
		t.Errorf("%v %+v", ok, s)
	}
	idle, ok := engine.ReadSpecLine("SpecDecoding metrics: Mean acceptance length: nan, Accepted throughput: 0.00 tokens/s, Drafted throughput: 0.00 tokens/s, Accepted: 0 tokens, Drafted: 0 tokens, Per-position acceptance rate: , Avg Draft acceptance rate: nan%")
	if !ok || !idle.NothingWasDrafted {
		t.Errorf("%v %+v", ok, idle)
	}
	if _, ok := engine.ReadSpecLine("Engine 000: Avg prompt throughput: 1.0 tokens/s"); ok {
		t.Error("another line was taken for one")
	}
}

func TestMetricsAreNamedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range engine.Metrics() {
		if seen[m.Name] || !strings.HasPrefix(m.Name, "vllm:") || strings.HasPrefix(m.Name, "vllm:spec_decode") != m.Spec {
			t.Errorf("%+v", m)
		}
		seen[m.Name] = true
	}
}

// Public report sgl-project/sglang#35797 (Q03) and its neighbours.
func TestWhatIsKnownOfSGLang(t *testing.T) {
	config, err := os.ReadFile(filepath.FromSlash("../../testdata/tiny/config.json"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Parse("sglang@0.5")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Build(e, config, true); err == nil || !strings.Contains(err.Error(), "no loader of sglang is simulated") {
		t.Errorf("%v", err)
	}
	split := &engine.Quantization{Key: "quantization_config", Method: engine.CompressedTensors, Ignore: []string{"mtp.layers.0.self_attn.q_proj", "mtp.layers.0.self_attn.k_proj"}}
	fused := &engine.Quantization{Key: "quantization_config", Method: engine.CompressedTensors, Ignore: append(slices.Clone(split.Ignore), "mtp.layers.0.self_attn.qkv_proj")}
	sources := func(q *engine.Quantization, head bool) string {
		var out []string
		for _, n := range e.Notes(q, head) {
			out = append(out, n.Source)
		}
		return strings.Join(out, " ")
	}
	if got := sources(split, true); !strings.Contains(got, "#35797") {
		t.Errorf("a head listed part by part: %s", got)
	}
	if got := sources(fused, true); strings.Contains(got, "#35797") {
		t.Errorf("a head listed in both spellings: %s", got)
	}
	if got := sources(&engine.Quantization{Method: engine.ModelOptMixed}, false); !strings.Contains(got, "#27906") {
		t.Errorf("a mixed block: %s", got)
	}
	if got := sources(nil, false); got != "" {
		t.Errorf("nothing to tell of: %s", got)
	}
	if v, _ := engine.Parse("vllm@0.28"); v.Notes(split, true) != nil {
		t.Error("vLLM is read, not noted")
	}
}
