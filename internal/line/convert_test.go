package line_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"seatsmith/internal/dialect"
	"seatsmith/internal/line"
	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
)

// quants are checkpoints of ours in every form that both dialects have.
func quants(t *testing.T) map[string]struct{ dir, to string } {
	t.Helper()
	dense, moe := statistics(t, fixture(t, "tiny")), statistics(t, fixture(t, "moe"))
	fp8 := filepath.Join(t.TempDir(), "fp8.yaml")
	if err := os.WriteFile(fp8, []byte("name: fp8\nrules:\n  - roles: [mlp, attention, linear_attention]\n    scheme: fp8\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := map[string]struct{ dir, to string }{}
	for name, j := range map[string]line.Job{
		"w4a16":                  {Body: fixture(t, "tiny"), Recipe: "nvfp4-all-linear"},
		"w4a16, the peer's form": {Body: fixture(t, "tiny"), Recipe: "nvfp4-all-linear", Math: "ct"},
		"w4a4":                   {Body: fixture(t, "tiny"), Recipe: "w4a4-reference", Stats: dense},
		"w4a16 from modelopt":    {Body: fixture(t, "tiny-finetune"), Donor: fixture(t, "tiny"), Dialect: "modelopt"},
		"w4a4 from modelopt":     {Body: fixture(t, "tiny"), Recipe: "w4a4-reference", Stats: dense, Dialect: "modelopt"},
		"fp8 alone":              {Body: fixture(t, "tiny"), Recipe: fp8, Stats: dense, Dialect: "modelopt"},
		"mixed":                  {Body: fixture(t, "tiny"), Stats: dense, Dialect: "modelopt"},
		"mixed, the peer's form": {Body: fixture(t, "tiny"), Stats: dense, Dialect: "modelopt", Math: "ct"},
		"experts, mixed":         {Body: fixture(t, "moe"), Recipe: "w4a4-mlp", Stats: moe, Dialect: "modelopt"},
		"experts":                {Body: fixture(t, "moe"), Dialect: "modelopt"},
	} {
		q := struct{ dir, to string }{made(t, j), "modelopt"}
		if j.Dialect == "modelopt" {
			q.to = "compressed-tensors"
		}
		out[name] = q
	}
	return out
}

func other(to string) string {
	if to == "modelopt" {
		return "compressed-tensors"
	}
	return "modelopt"
}

func TestThereAndBackIsByteIdenticalWithItsRecord(t *testing.T) {
	for name, q := range quants(t) {
		t.Run(name, func(t *testing.T) {
			there := converted(t, q.dir, q.to)
			back := take(t, converted(t, there, other(q.to)))
			want := take(t, q.dir)
			decodesAlike(t, q.dir, there, 2)

			// forge's card and sums describe the folder that forge made, and stay there.
			delete(want.files, "README.md")
			delete(want.files, "SHA256SUMS")
			was, is := want.files["seatsmith.json"], back.files["seatsmith.json"]
			delete(want.files, "seatsmith.json")
			delete(back.files, "seatsmith.json")
			if a, b := slices.Sorted(maps.Keys(back.files)), slices.Sorted(maps.Keys(want.files)); !slices.Equal(a, b) {
				t.Errorf("the folder has %v, and had %v", a, b)
			}
			for name, data := range want.files {
				if !bytes.Equal(back.files[name], data) {
					t.Errorf("%s differs:\n%s\n%s", name, back.files[name], data)
				}
			}
			for file := range want.shards {
				same(t, back.shards[file], want.shards[file])
			}

			// Of the record only what tells of the conversions may differ: kind, from, plan, and forge's SHA-256.
			var a, b model.Provenance
			if err := json.Unmarshal(was, &a); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(is, &b); err != nil {
				t.Fatal(err)
			}
			if b.Kind != "convert" || b.From == "" || b.Plan == a.Plan {
				t.Errorf("the record hides the conversion: %+v", b)
			}
			b.Kind, b.From, b.Plan = a.Kind, a.From, a.Plan
			for name, h := range a.Files {
				h.SHA256 = ""
				a.Files[name] = h
			}
			if !sameJSON(a, b) {
				t.Errorf("the record differs:\n%+v\n%+v", b, a)
			}
		})
	}
}

func sameJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

func TestAStrangersCheckpointConvertsByItsCodes(t *testing.T) {
	for name, q := range quants(t) {
		t.Run(name, func(t *testing.T) {
			foreign := take(t, q.dir).foreign().put()
			there := converted(t, foreign, q.to)
			decodesAlike(t, foreign, there, 2)
			codesAlike(t, take(t, foreign), take(t, there))
			back := converted(t, there, other(q.to))
			decodesAlike(t, foreign, back, 2)
			codesAlike(t, take(t, foreign), take(t, back))
			var p model.Provenance
			if err := json.Unmarshal(take(t, there).files["seatsmith.json"], &p); err != nil || !p.Foreign || p.Source != "" {
				t.Errorf("the record claims to know who coded the weights: %+v, %v", p, err)
			}
		})
	}
}

// codesAlike compares codes and block scales, whatever they are called.
func codesAlike(t *testing.T, a, b *shelf) {
	t.Helper()
	big := func(s *shelf) map[string]stored {
		out := map[string]stored{}
		for name, x := range s.all() {
			if strings.Contains(name, "global_scale") || strings.HasSuffix(name, "weight_scale_2") || strings.HasSuffix(name, "input_scale") {
				continue
			}
			name = strings.TrimSuffix(name, "_packed")
			x.Shape = nil // a scale per tensor is [] in one dialect and [1] in the other
			out[name] = x
		}
		return out
	}
	same(t, big(b), big(a))
}

// decodesAlike decodes every quantized matrix of two checkpoints by the definitions of their dialects.
func decodesAlike(t *testing.T, a, b string, ulps int64) {
	t.Helper()
	x, y := decoded(t, a), decoded(t, b)
	if len(x) == 0 || len(x) != len(y) {
		t.Fatalf("%d quantized matrices in one, %d in the other", len(x), len(y))
	}
	worst := int64(0)
	for module, v := range x {
		w := y[module]
		if len(w) != len(v) {
			t.Fatalf("%s: %d values and %d", module, len(v), len(w))
		}
		for i := range v {
			d := int64(math.Float32bits(v[i])) - int64(math.Float32bits(w[i]))
			worst = max(worst, d, -d)
		}
	}
	if worst > ulps {
		t.Errorf("decoded weights are %d ulp apart, more than %d", worst, ulps)
	}
}

// decoded is every quantized matrix of a checkpoint in float32.
func decoded(t *testing.T, dir string) map[string][]float32 {
	t.Helper()
	s := take(t, dir)
	all := s.all()
	read := func(name string, p []byte, off int64) (safetensors.Dtype, error) {
		x, ok := all[name]
		if !ok || off+int64(len(p)) > int64(len(x.data)) {
			return x.Dtype, fmt.Errorf("%s: not there, or shorter", name)
		}
		copy(p, x.data[off:])
		return x.Dtype, nil
	}
	spelling := "compressed-tensors"
	if s.files["hf_quant_config.json"] != nil {
		spelling = "modelopt"
	}
	d, err := dialect.Parse(spelling)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]float32{}
	for name, x := range all {
		module, leaf := name[:max(strings.LastIndexByte(name, '.'), 0)], name[strings.LastIndexByte(name, '.')+1:]
		scheme, in := dialect.NVFP4W4A16, int64(0)
		switch {
		case x.Dtype == safetensors.U8:
			in = 2 * x.Shape[1]
		case x.Dtype == safetensors.F8E4M3 && leaf == "weight":
			scheme, in = dialect.FP8Tensor, x.Shape[1]
		default:
			continue
		}
		v := make([]float32, x.Shape[0]*in)
		if err := d.Decode(v, module, scheme, in, 0, x.Shape[0], read); err != nil {
			t.Fatal(err)
		}
		out[module] = v
	}
	return out
}

func TestQ17TheGlobalScaleIsInverted(t *testing.T) {
	s := take(t, made(t, line.Job{Body: fixture(t, "tiny"), Recipe: "nvfp4-all-linear"})).foreign()
	const module = "model.language_model.layers.1.mlp.down_proj"
	scale := s.shards["model-00001-of-00001.safetensors"][module+".weight_global_scale"]
	if len(scale.data) != 4 || !slices.Equal(scale.Shape, []int64{1}) {
		t.Fatalf("%+v", scale.Spec)
	}
	binary.LittleEndian.PutUint32(scale.data, math.Float32bits(3584))
	there := take(t, converted(t, s.put(), "modelopt"))
	all := there.all()
	got, ok := all[module+".weight_scale_2"]
	if !ok || len(got.Shape) != 0 || got.Dtype != safetensors.F32 {
		t.Fatalf("%+v", got.Spec)
	}
	if v := math.Float32frombits(binary.LittleEndian.Uint32(got.data)); math.Abs(float64(v)-2.790179e-4) > 1e-10 {
		t.Errorf("a divisor of 3584 became %v, want 2.790179e-04", v)
	}
	if _, old := all[module+".weight_global_scale"]; old {
		t.Error("the divisor is still there")
	}
}

func TestScalesOfFP8KeepTheDtypeTheyHave(t *testing.T) {
	s := take(t, made(t, line.Job{Body: fixture(t, "tiny"), Stats: statistics(t, fixture(t, "tiny")), Dialect: "modelopt"})).foreign()
	s.each(func(name string, x *stored) (string, bool) {
		if strings.Contains(name, "self_attn") && strings.HasSuffix(name, "_scale") {
			x.Dtype, x.data = safetensors.BF16, slices.Clone(x.data[2:]) // the upper half of a float32
		}
		return name, true
	})
	dir := s.put()
	there := converted(t, dir, "compressed-tensors")
	decodesAlike(t, dir, there, 0)
	if x := take(t, there).all()["model.language_model.layers.3.self_attn.k_proj.weight_scale"]; x.Dtype != safetensors.BF16 || !slices.Equal(x.Shape, []int64{1}) {
		t.Errorf("%+v", x.Spec)
	}
	same(t, take(t, converted(t, there, "modelopt")).all(), s.all())
}

func TestACheckpointThatOnlyHFQuantConfigDescribes(t *testing.T) {
	s := take(t, made(t, line.Job{Body: fixture(t, "tiny"), Dialect: "modelopt"})).foreign().config("quantization_config", nil)
	there := converted(t, s.put(), "compressed-tensors")
	if q := gjson.GetBytes(take(t, there).files["config.json"], "quantization_config.quant_method").Str; q != "compressed-tensors" {
		t.Errorf("config.json says %q", q)
	}
	// A splice repairs nothing but the head, and the server knows no method for this file alone.
	out := changed(t, line.Change{Kind: plan.KindSplice, Source: s.put(), Donor: fixture(t, "tiny")})
	if out.Output != "" || out.Verify == nil {
		t.Fatalf("%+v", out)
	}
	has(t, out.Verify.Findings, "quant-config-missing", "hf_quant_config.json")
}

func TestWhatTheOtherDialectLacksIsRefusedByName(t *testing.T) {
	tiny := made(t, line.Job{Body: fixture(t, "tiny")})
	block := func() string {
		s := take(t, fixture(t, "tiny"))
		s.each(func(name string, x *stored) (string, bool) {
			if strings.HasSuffix(name, "mlp.down_proj.weight") && !strings.HasPrefix(name, "mtp.") {
				x.Dtype, x.data = safetensors.F8E4M3, make([]byte, len(x.data)/2)
			}
			return name, true
		})
		for file, tensors := range maps.Clone(s.shards) {
			for name, x := range maps.Clone(tensors) {
				if x.Dtype == safetensors.F8E4M3 {
					s.add(file, name+"_scale_inv", safetensors.F32, []int64{1, 2}, make([]byte, 8))
				}
			}
		}
		return s.config("quantization_config", map[string]any{"quant_method": "compressed-tensors"}).put()
	}
	cache := take(t, tiny).foreign().config("quantization_config.kv_cache_scheme", map[string]any{"num_bits": 8, "type": "float"}).put()
	for _, c := range []struct {
		name, dir, to, rule string
		words               []string
	}{
		{"fp8-channel in modelopt", tiny, "modelopt", "convert-inexpressible", []string{"self_attn.q_proj", "fp8-channel", "MIXED_PRECISION"}},
		{"block FP8", block(), "modelopt", "convert-inexpressible", []string{"mlp.down_proj", "block FP8", "weight_scale_inv"}},
		{"a scaled cache", cache, "modelopt", "convert-inexpressible", []string{"kv_cache_scheme"}},
		{"the same dialect", tiny, "compressed-tensors", "convert-same", nil},
		{"no quantized checkpoint", fixture(t, "tiny"), "modelopt", "not-quantized", []string{"quantization_config"}},
		{"a method of another kind", take(t, fixture(t, "tiny")).config("quantization_config", map[string]any{"quant_method": "gptq", "bits": 4}).put(), "modelopt", "dialect-unread", []string{"gptq"}},
		{"a block and no quantized tensor", take(t, fixture(t, "tiny")).config("quantization_config", map[string]any{"quant_method": "compressed-tensors", "ignore": []string{"re:.*"}}).put(), "modelopt", "convert-nothing", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := changed(t, line.Change{Kind: plan.KindConvert, Source: c.dir, Dialect: c.to})
			if out.Verdict != "fail" || out.Output != "" {
				t.Errorf("verdict %s, output %q", out.Verdict, out.Output)
			}
			has(t, out.Findings, c.rule, c.words...)
			for _, f := range out.Findings {
				if f.Rule == c.rule && f.Fix == "" {
					t.Errorf("%+v says no next step", f)
				}
			}
		})
	}
}

func TestAPartThatNoServerReadsIsLeftOut(t *testing.T) {
	dir := made(t, line.Job{Body: fixture(t, "tiny"), Dialect: "modelopt"})
	s := take(t, dir).foreign()
	one := binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.01))
	s.add("model-00001-of-00001.safetensors", "model.language_model.layers.0.mlp.up_proj.input_scale", safetensors.F32, nil, one)
	s.add("model-00001-of-00001.safetensors", "model.language_model.layers.0.mlp.gate_proj.input_scale", safetensors.F32, nil, one)
	out := changed(t, line.Change{Kind: plan.KindConvert, Source: s.put(), Dialect: "compressed-tensors"})
	has(t, out.Findings, "convert-dropped", "up_proj.input_scale")
	if out.Output == "" {
		t.Fatalf("%v %+v", rules(out.Findings), out.Verify)
	}
	for name := range take(t, out.Output).all() {
		if strings.Contains(name, "input") && strings.Contains(name, "scale") {
			t.Errorf("%s came along", name)
		}
	}
}

func TestAStaleQuantizationFileIsNeverCopied(t *testing.T) {
	s := take(t, made(t, line.Job{Body: fixture(t, "tiny"), Recipe: "nvfp4-all-linear"}))
	s.files["hf_quant_config.json"] = []byte(`{"quantization": {"quant_algo": "FP8", "exclude_modules": []}}`)
	there := take(t, converted(t, s.put(), "modelopt"))
	if text := string(there.files["hf_quant_config.json"]); strings.Contains(text, `"FP8"`) || !strings.Contains(text, "NVFP4") {
		t.Errorf("the file says %s", text)
	}
	mo := made(t, line.Job{Body: fixture(t, "tiny"), Dialect: "modelopt"})
	if _, err := os.Stat(filepath.Join(converted(t, mo, "compressed-tensors"), "hf_quant_config.json")); err == nil {
		t.Error("modelopt's file stands in a folder of the other dialect")
	}
}
