package plan_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"seatsmith/internal/dialect"
	"seatsmith/internal/engine"
	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// statistics gives every Linear of the model, and each of its experts, an amax.
func statistics(t *testing.T, m *model.Model) string {
	t.Helper()
	var specs []safetensors.Spec
	add := func(module string) {
		specs = append(specs, safetensors.Spec{Name: module + ".input_amax", Dtype: safetensors.F32, Shape: []int64{1}})
	}
	for i := range m.Tensors {
		switch x := &m.Tensors[i]; {
		case !x.Linear:
		case len(x.Shape()) == 3:
			for e := range x.Shape()[0] {
				prefix := fmt.Sprintf("%s.%d.", x.Module[:strings.LastIndexByte(x.Module, '.')], e)
				if strings.HasSuffix(x.Module, "down_proj") {
					add(prefix + "down_proj")
					continue
				}
				add(prefix + "gate_proj")
				add(prefix + "up_proj")
			}
		default:
			add(x.Module)
		}
	}
	l, err := safetensors.NewLayout(specs, map[string]string{"format": "seatsmith-stats", "schema": "1", "model": m.Fingerprint()})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "stats.safetensors")
	w, err := safetensors.Create(path, l)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range specs {
		if err := w.WriteAt(s.Name, binary.LittleEndian.AppendUint32(nil, math.Float32bits(12.5)), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func mixtureOfExperts(t *testing.T) *model.Model {
	t.Helper()
	m, err := model.Open(filepath.Join("..", "..", "testdata", "moe"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// The configuration of every plan, given to the server of the judge: each module that it builds, of the body and of the
// drafter, has the scheme that the plan gave the weights it is built of, and is asked for tensors that the plan writes.
func TestAServerBuildsWhatThePlanMeans(t *testing.T) {
	e, err := engine.Parse("vllm@0.28")
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func(*testing.T) *model.Model{"a fine-tune with a donor's head": view, "a mixture of experts": mixtureOfExperts} {
		m := open(t)
		stats := statistics(t, m)
		for _, d := range []string{"compressed-tensors", "modelopt"} {
			for _, r := range plan.Recipes() {
				for _, s := range []string{"", stats} {
					p, err := plan.Make(m, plan.Options{Dialect: d, Recipe: r.Name, Stats: s})
					if err != nil {
						t.Fatal(err)
					}
					label := fmt.Sprintf("%s, %s, %s, statistics %v", name, d, r.Name, s != "")
					if refused := playbook.Errors(p.Findings); refused != nil {
						if needs := strings.Contains(r.About, "needs statistics") && s == "" || d == "modelopt" && r.Name == "fp8-dynamic"; !needs {
							t.Errorf("%s: refused: %v", label, refused)
						}
						continue
					}
					built(t, label, e, m, p)
				}
			}
		}
	}
}

func built(t *testing.T, label string, e engine.Engine, m *model.Model, p *plan.Plan) {
	t.Helper()
	schemes := map[string]dialect.Scheme{}
	experts := map[string]dialect.Scheme{} // of the routed experts of a layer
	for i := range p.Items {
		item := &p.Items[i]
		module := item.Module()
		if module == "" {
			module = strings.TrimSuffix(item.Source, ".weight")
		}
		schemes[module] = item.Scheme
		if at := strings.Index(module, ".experts."); at >= 0 {
			experts[module[:at+len(".experts")]] = item.Scheme
		}
		if item.Scheme.StaticInput() && item.InputScale == nil {
			t.Errorf("%s: %s has no input scale", label, module)
		}
	}
	s, err := engine.Build(e, p.Config, true)
	if err != nil {
		t.Fatalf("%s: %v", label, err)
	}
	q, problems, err := engine.ReadQuantization(p.Config)
	if err != nil || len(problems) > 0 {
		t.Fatalf("%s: %v %v", label, err, problems)
	}
	bound := s.Bind(q)
	quantized := 0
	var resolved []engine.Resolution
	for i := range s.Linears {
		l := &s.Linears[i]
		r := bound.Resolve(l)
		resolved = append(resolved, r)
		for _, shard := range l.Shards {
			want, ok := schemes[shard.Name]
			if l.Routed() {
				at := strings.Index(shard.Name, ".experts")
				want, ok = experts[shard.Name[:at+len(".experts")]]
			}
			switch {
			case !ok:
				t.Errorf("%s: the plan has no %s, of which the server builds %s", label, shard.Name, l.Runtime)
			case r.Err != nil || len(r.Overlap) > 0 || r.PassedOver != "":
				t.Errorf("%s: %s: %v, overlap %v, passed over %s", label, l.Runtime, r.Err, r.Overlap, r.PassedOver)
			case !want.Quantized() && r.State == engine.Quantized:
				t.Errorf("%s: %s is kept, and the server builds %s as %s (by %s)", label, shard.Name, l.Runtime, r.Scheme, r.By)
			case want.Quantized() && (r.State != engine.Quantized || r.Scheme.Kind != kindOf(want) || want.FP8() && r.Scheme.Static != (want == dialect.FP8Tensor)):
				t.Errorf("%s: %s is %s, and the server builds %s as state %d, %s (by %s)", label, shard.Name, want, l.Runtime, r.State, r.Scheme, r.By)
			case want.Quantized():
				quantized++
			}
		}
	}
	for _, d := range bound.Dead(resolved) {
		t.Errorf("%s: an entry does nothing: %+v", label, d)
	}
	if quantized < 10 {
		t.Errorf("%s: only %d modules are quantized", label, quantized)
	}
	if p.Dialect == "modelopt" {
		agree(t, label, p)
	}
}

// agree checks that both files of a modelopt checkpoint say the same (Q19).
func agree(t *testing.T, label string, p *plan.Plan) {
	t.Helper()
	made := p.Made[dialect.ModelOptFile]
	for flat, nested := range map[string]string{"quant_algo": "quant_algo", "ignore": "exclude_modules", "quantized_layers": "quantized_layers"} {
		a, b := gjson.GetBytes(p.Config, "quantization_config."+flat), gjson.Get(made, "quantization."+nested)
		if fmt.Sprint(a.Value()) != fmt.Sprint(b.Value()) {
			t.Errorf("%s: config.json says %s of %s, hf_quant_config.json %s", label, a, flat, b)
		}
	}
	if slices.ContainsFunc(p.Files, func(f plan.File) bool { return f.Name == dialect.ModelOptFile }) {
		t.Errorf("%s: hf_quant_config.json is copied and made", label)
	}
}

func kindOf(s dialect.Scheme) engine.Kind {
	switch s {
	case dialect.NVFP4W4A4:
		return engine.W4A4
	case dialect.NVFP4W4A16:
		return engine.W4A16
	}
	return engine.FP8
}

// modelopt 0.47.0 wrote peer_configs.json from the mixture of testdata, without its head, every Linear in NVFP4.
func TestModelOptListsOfAMixtureCoverThePeers(t *testing.T) {
	recipe := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(recipe, []byte("name: all\nrules: [{roles: [mlp, expert, shared_expert, attention, linear_attention], scheme: nvfp4-w4a4}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := mixtureOfExperts(t)
	p, err := plan.Make(m, plan.Options{Dialect: "modelopt", Recipe: recipe, Stats: statistics(t, m)})
	if err != nil || playbook.Errors(p.Findings) != nil {
		t.Fatal(err, p.Findings)
	}
	peers, err := os.ReadFile(filepath.Join("..", "numeric", "testdata", "peer_configs.json"))
	if err != nil {
		t.Fatal(err)
	}
	theirs := gjson.GetBytes(peers, `mo_moe_hf_quant_config\.json.quantization`)
	ours := gjson.Get(p.Made[dialect.ModelOptFile], "quantization")
	for _, key := range []string{"quant_algo", "kv_cache_quant_algo", "group_size"} {
		if ours.Get(key).Raw != theirs.Get(key).Raw {
			t.Errorf("%s is %s, the peer's %s", key, ours.Get(key).Raw, theirs.Get(key).Raw)
		}
	}
	have := map[string]bool{}
	for _, e := range ours.Get("exclude_modules").Array() {
		have[e.Str] = true
	}
	if n := len(theirs.Get("exclude_modules").Array()); n < 15 {
		t.Fatalf("the peer excludes %d modules", n)
	}
	for _, e := range theirs.Get("exclude_modules").Array() {
		if !have[e.Str] {
			t.Errorf("the peer excludes %s, ours does not", e.Str)
		}
	}
}
