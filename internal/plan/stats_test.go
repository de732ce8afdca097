package plan

import (
	"encoding/binary"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

var statsMetadata = map[string]string{"format": "seatsmith-stats", "schema": "1", "data": "d", "template": "t", "model": "fingerprint"}

// statsFile writes F32 [1] tensors.
func statsFile(t testing.TB, metadata map[string]string, values map[string]float32) string {
	t.Helper()
	names := slices.Sorted(maps.Keys(values))
	var specs []safetensors.Spec
	for _, n := range names {
		specs = append(specs, safetensors.Spec{Name: n, Dtype: safetensors.F32, Shape: []int64{1}})
	}
	return safetensorsFile(t, specs, metadata, func(name string) []byte {
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(values[name]))
	})
}

func safetensorsFile(t testing.TB, specs []safetensors.Spec, metadata map[string]string, data func(name string) []byte) string {
	t.Helper()
	l, err := safetensors.NewLayout(specs, metadata)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "stats.safetensors")
	w, err := safetensors.Create(path, l)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range specs {
		if err := w.WriteAt(s.Name, data(s.Name), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// everything gives each Linear of src, and each expert, an amax.
func everything(src source, amax func(module string) float32) map[string]float32 {
	out := map[string]float32{}
	for i := range src.tensors {
		if t := &src.tensors[i]; t.Linear {
			for _, p := range pieces(t) {
				out[p.module+".input_amax"] = amax(p.module)
			}
		}
	}
	return out
}

func TestInputScalesAreThoseOfTheDialectAndTheArithmetic(t *testing.T) {
	path := statsFile(t, statsMetadata, everything(qwen(4), func(string) float32 { return 6 }))
	down := layer0 + "mlp.down_proj.weight"
	for _, c := range []struct {
		dialect, scheme string
		math            numeric.Math
		want            float32
	}{
		{"compressed-tensors", "nvfp4-w4a4", numeric.CT, 448}, // 2688/6, exact in BF16
		{"compressed-tensors", "nvfp4-w4a4", numeric.ModeloptCPU, 1 / (float32(6) / 2688)},
		{"modelopt", "nvfp4-w4a4", numeric.ModeloptCPU, float32(6) / 2688},
		{"modelopt", "nvfp4-w4a4", numeric.Modelopt, float32(6) * math.Float32frombits(0x39C30C31)},
		{"modelopt", "fp8-tensor", numeric.ModeloptCPU, float32(6) / 448},
		{"compressed-tensors", "fp8-tensor", numeric.ModeloptCPU, float32(6) / 448},
	} {
		p := qwen(4).under(t, Options{Dialect: c.dialect, Math: c.math, Stats: path}, "- {roles: [mlp], scheme: "+c.scheme+"}")
		p.none(t)
		item := p.item(t, down)
		if item.InputScale == nil || *item.InputScale != c.want {
			t.Errorf("%s %s %s: input scale %v, want %v", c.dialect, c.scheme, c.math, item.InputScale, c.want)
		}
		if native := numeric.NewNVFP4(c.math, 6).Global; c.scheme == "nvfp4-w4a4" && (item.Native == nil || *item.Native != native) {
			t.Errorf("%s %s: the native input scale is %v, want %v", c.dialect, c.math, item.Native, native)
		}
		last := item.Outputs[len(item.Outputs)-1]
		if last.Part != dialect.PartInputScale {
			t.Errorf("%s %s: the last output is %+v", c.dialect, c.scheme, last)
		}
	}
	p := mustDecide(t, qwen(4), Options{Stats: path})
	if p.item(t, down).InputScale != nil {
		t.Error("nvfp4-w4a16 has an input scale")
	}
	if p.Stats == nil || len(p.Stats.Hash) != 64 || p.Stats.Data != "d" || p.Stats.Model != "fingerprint" {
		t.Errorf("the plan says of its statistics %+v", p.Stats)
	}
	if p.Hash() == mustDecide(t, qwen(4), Options{}).Hash() {
		t.Error("statistics do not change the plan's hash")
	}
}

func TestFusedModulesShareTheLargestInput(t *testing.T) { // R22, R30
	stats := everything(qwen(4), func(module string) float32 { return map[string]float32{"k_proj": 4, "v_proj": 3}[leaf(module)] + 1 })
	p := mustDecide(t, qwen(4), Options{Recipe: "w4a4-reference", Dialect: "modelopt", Math: numeric.ModeloptCPU, Stats: statsFile(t, statsMetadata, stats)})
	p.none(t)
	for _, l := range []string{"q_proj", "k_proj", "v_proj"} {
		if s := p.item(t, layer3+"self_attn."+l+".weight").InputScale; s == nil || *s != float32(5)/2688 {
			t.Errorf("%s: %v, want that of k_proj, whose input is largest", l, s)
		}
	}
	if s := p.item(t, layer3+"self_attn.o_proj.weight").InputScale; s == nil || *s != float32(1)/2688 {
		t.Errorf("o_proj, which stands alone: %v", s)
	}
	for i := range p.Items {
		if item := &p.Items[i]; item.Role == model.RoleLinearAttention && item.Scheme.Quantized() {
			t.Errorf("%s is %s: the reference keeps linear attention", item.Source, item.Scheme)
		}
	}
}

func TestAModuleWithoutAUsableStatisticKeepsItsGroup(t *testing.T) {
	for name, amax := range map[string]float32{"zero": 0, "NaN": float32(math.NaN()), "Inf": float32(math.Inf(1)), "negative": -1, "too small for a scale": 1e-37} {
		stats := everything(qwen(4), func(string) float32 { return 2 })
		stats[layer0+"mlp.down_proj.input_amax"] = amax
		p := mustDecide(t, qwen(4), Options{Recipe: "w4a4-mlp", Stats: statsFile(t, statsMetadata, stats)})
		p.one(t, "plan-kept", playbook.Warning, layer0+"mlp.down_proj", "input scale", "stays BF16")
		if i := p.item(t, layer0+"mlp.down_proj.weight"); i.Scheme != dialect.BF16 || i.InputScale != nil {
			t.Errorf("%s: down_proj is %s with %v", name, i.Scheme, i.InputScale)
		}
		for i := range p.Items {
			if s := p.Items[i].InputScale; p.Items[i].Scheme.StaticInput() && (s == nil || !(*s > 0) || math.IsInf(float64(*s), 0)) {
				t.Errorf("%s: %s has input scale %v", name, p.Items[i].Source, s)
			}
		}
	}
	stats := everything(qwen(4), func(string) float32 { return 2 })
	delete(stats, layer0+"mlp.gate_proj.input_amax")
	path := statsFile(t, statsMetadata, stats)
	if s := mustDecide(t, qwen(4), Options{Recipe: "w4a4-mlp", Stats: path}).item(t, layer0+"mlp.gate_proj.weight").InputScale; s == nil {
		t.Error("gate_proj does not take the scale of up_proj, whose input is the same")
	}
	delete(stats, layer0+"mlp.up_proj.input_amax")
	path = statsFile(t, statsMetadata, stats)
	mustDecide(t, qwen(4), Options{Recipe: "w4a4-mlp", Stats: path}).one(t, "plan-kept", playbook.Warning, layer0+"mlp.gate_up_proj", "none for gate_proj", "whole fused group")
	qwen(4).under(t, Options{Stats: path}, `- {name: "model.*.0.mlp.*", scheme: nvfp4-w4a4}`).one(t, "scheme-unservable", playbook.Error, "gate_up_proj", "a rule names it")
}

func TestStatisticsOfAnotherModelAreReported(t *testing.T) {
	other := maps.Clone(statsMetadata)
	other["model"] = "another"
	values := everything(qwen(4), func(string) float32 { return 2 })
	mustDecide(t, qwen(4), Options{Recipe: "w4a4-mlp", Stats: statsFile(t, other, values)}).one(t, "stats-foreign", playbook.Warning, "fingerprint")
	if f := mustDecide(t, qwen(4), Options{Recipe: "w4a4-mlp", Stats: statsFile(t, statsMetadata, values)}).found("stats-foreign"); f != nil {
		t.Errorf("statistics of the same model: %v", f)
	}
}

func TestWhatIsWrongWithAStatisticsFileIsNamed(t *testing.T) {
	with := func(key, value string) map[string]string {
		m := maps.Clone(statsMetadata)
		m[key] = value
		return m
	}
	good := map[string]float32{"a.input_amax": 1}
	spec := func(d safetensors.Dtype, shape ...int64) []safetensors.Spec {
		return []safetensors.Spec{{Name: "a.input_amax", Dtype: d, Shape: shape}}
	}
	zeros := func(n int) func(string) []byte { return func(string) []byte { return make([]byte, n) } }
	short := statsFile(t, statsMetadata, good)
	if err := os.Truncate(short, 40); err != nil {
		t.Fatal(err)
	}
	for want, path := range map[string]string{
		`format "peer-stats"`:   statsFile(t, with("format", "peer-stats"), good),
		`schema "2"`:            statsFile(t, with("schema", "2"), good),
		"no tensor MODULE":      statsFile(t, statsMetadata, map[string]float32{"a.other": 1}),
		"BF16 [1], want F32":    safetensorsFile(t, spec(safetensors.BF16, 1), statsMetadata, zeros(2)),
		"F32 [2], want F32 [1]": safetensorsFile(t, spec(safetensors.F32, 2), statsMetadata, zeros(8)),
		"nowhere":               "nowhere.safetensors",
		filepath.Base(short):    short,
	} {
		if _, err := decide(qwen(4), Options{Stats: path}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "reading the statistics") {
			t.Errorf("got %v, want %q", err, want)
		}
		if err := (Options{Stats: path}).Check(); err == nil {
			t.Errorf("%s: Check accepts it", want)
		}
	}
}

func FuzzReadStats(f *testing.F) {
	good, err := os.ReadFile(statsFile(f, statsMetadata, map[string]float32{"a.input_amax": 1, "b.other": 2}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "stats.safetensors")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := readStats(path)
		switch {
		case err != nil && !strings.Contains(err.Error(), "stats.safetensors"):
			t.Errorf("the error does not name the file: %v", err)
		case err == nil && (len(s.amax) == 0 || len(s.Hash) != 64):
			t.Errorf("accepted %+v", s)
		}
	})
}
