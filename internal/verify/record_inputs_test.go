package verify_test

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"testing"

	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// statistics gives every Linear of a dense fixture an amax.
func statistics(t *testing.T, source string) string {
	t.Helper()
	m, err := model.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var specs []safetensors.Spec
	for i := range m.Tensors {
		if x := &m.Tensors[i]; x.Linear {
			specs = append(specs, safetensors.Spec{Name: x.Module + ".input_amax", Dtype: safetensors.F32, Shape: []int64{1}})
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
	for i, s := range specs {
		if err := w.WriteAt(s.Name, binary.LittleEndian.AppendUint32(nil, math.Float32bits(3+float32(i)/8)), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNativeInputScalesAreHeldAgainstTheStoredOnes(t *testing.T) {
	const source, key = "../../testdata/tiny", "model.language_model.layers.0.mlp.down_proj.input_scale"
	stats := statistics(t, source)
	for _, dialect := range []string{"compressed-tensors", "modelopt"} {
		f, m := converted(t, source, plan.Options{Dialect: dialect, Recipe: "w4a4-mlp", Stats: stats})
		r := judge(t, f.dir, verify.Options{Source: m})
		expect(t, r)
		if r.Verdict != "ok" {
			t.Errorf("%s: %s", dialect, r.Verdict)
		}
		var native float32
		for _, c := range []struct {
			name string
			want []string
			edit func(*model.Provenance)
		}{
			{"another number", []string{"native-scale"}, func(p *model.Provenance) { native = p.Native[key]; p.Native[key] = native * 2 }},
			{"none, as of another tool's", nil, func(p *model.Provenance) { delete(p.Native, key) }},
			{"of a module that has none", []string{"provenance-bad"}, func(p *model.Provenance) {
				p.Native[key] = native
				p.Native["model.language_model.layers.3.self_attn.o_proj.input_scale"] = 1
			}},
		} {
			editRecord(t, f.dir, c.edit)
			t.Log(dialect, c.name)
			expect(t, judge(t, f.dir, verify.Options{}), c.want...)
		}
	}
}
