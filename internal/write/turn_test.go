package write_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/write"
)

func readRecord(t testing.TB, dir string) model.Provenance {
	t.Helper()
	var p model.Provenance
	must(t, json.Unmarshal(readFile(t, dir, model.ProvenanceFile), &p))
	return p
}

func planJSON(t testing.TB, p *plan.Plan) []byte {
	t.Helper()
	b, err := json.Marshal(p)
	must(t, err)
	return b
}

// awkward is a number that is not the reciprocal of its reciprocal.
func awkward(t *testing.T) float32 {
	t.Helper()
	for f := float32(3000); f < 4000; f++ {
		if 1/(1/f) != f {
			return f
		}
	}
	t.Fatal("every number is")
	return 0
}

// scaleTensor is one F32 number.
func scaleTensor(name string, v float32, shape ...int64) *weight {
	return &weight{spec: safetensors.Spec{Name: name, Dtype: safetensors.F32, Shape: shape}, data: float32Bytes([]float32{v})}
}

// There and back: the first run stores reciprocals and records what it found, the second stores what the record has.
func TestAReciprocalThereAndBackIsTheSameNumber(t *testing.T) {
	f := awkward(t)
	m, p := made(t, scaleTensor("m.weight_global_scale", f, 1), scaleTensor("m.input_global_scale", f+1, 1))
	p.Kind, p.Dialect, p.Math = plan.KindConvert, "modelopt", numeric.CT.String()
	add(t, m, p, "m.weight_global_scale", dialect.BF16, part("m.weight_scale_2", dialect.PartGlobalScale, safetensors.F32))
	add(t, m, p, "m.input_global_scale", dialect.BF16, part("m.input_scale", dialect.PartInputScale, safetensors.F32))
	p.Items[0].Action, p.Items[1].Action = plan.Reciprocal, plan.Reciprocal
	there := filepath.Join(t.TempDir(), "there")
	mustRun(t, p, m, there, write.Options{})
	if got := stored(t, there)("m.weight_scale_2"); !bytes.Equal(got, float32Bytes([]float32{1 / f})) {
		t.Errorf("stored % x", got)
	}
	native := readRecord(t, there).Native
	if native["m"] != f || native["m"+plan.InputNative] != f+1 {
		t.Fatalf("recorded %v", native)
	}

	m, err := model.Open(there)
	must(t, err)
	defer m.Close()
	back := &plan.Plan{Schema: 1, Kind: plan.KindConvert, Version: "test", Source: m.Fingerprint(), Dialect: "compressed-tensors", Math: numeric.CT.String(), Config: p.Config}
	add(t, m, back, "m.weight_scale_2", dialect.BF16, part("m.weight_global_scale", dialect.PartGlobalScale, safetensors.F32, 1))
	add(t, m, back, "m.input_scale", dialect.BF16, part("m.input_global_scale", dialect.PartInputScale, safetensors.F32, 1))
	a, b := native["m"], native["m"+plan.InputNative]
	back.Items[0].Action, back.Items[0].Native = plan.Reciprocal, &a
	back.Items[1].Action, back.Items[1].Native = plan.Reciprocal, &b
	home := filepath.Join(t.TempDir(), "home")
	mustRun(t, back, m, home, write.Options{})
	get := stored(t, home)
	if !bytes.Equal(get("m.weight_global_scale"), float32Bytes([]float32{f})) || !bytes.Equal(get("m.input_global_scale"), float32Bytes([]float32{f + 1})) {
		t.Error("there and back gives another number")
	}
	if got := readRecord(t, home).Native; got["m"] != f {
		t.Errorf("the second record has %v", got)
	}

	other := f + 2
	back.Items[0].Native = &other
	_, err = write.Run(context.Background(), back, m, filepath.Join(t.TempDir(), "out"), write.Options{})
	var refusal *write.Refusal
	if !errors.As(err, &refusal) || refusal.Findings[0].Rule != "native-differs" || refusal.Findings[0].Subject != "m.weight_scale_2" {
		t.Errorf("a record of other weights: %v", err)
	}
}

func TestAReciprocalOfWhatIsNoScaleIsRefused(t *testing.T) {
	for _, v := range []float32{0, -1, nan, inf} {
		m, p := made(t, scaleTensor("m.weight_scale_2", v))
		p.Kind = plan.KindConvert
		add(t, m, p, "m.weight_scale_2", dialect.BF16, part("m.weight_global_scale", dialect.PartGlobalScale, safetensors.F32, 1))
		p.Items[0].Action = plan.Reciprocal
		findings := runRefused(t, m, p)
		if len(findings) != 1 || findings[0].Rule != "source-nonfinite" || findings[0].Subject != "m.weight_scale_2" {
			t.Errorf("%v: %+v", v, findings)
		}
	}
}

func TestInputScalesAndMadeFilesAreStoredAsPlanned(t *testing.T) {
	w := makeWeight(rand.New(rand.NewPCG(4, 4)), "w.weight", safetensors.F32, [2]int64{}, 16, 32)
	m, p := made(t, w)
	input, native := float32(0.125), float32(8)
	add(t, m, p, "w.weight", dialect.NVFP4W4A4, append(outputs("w", dialect.NVFP4W4A4, numeric.Modelopt, 16, 32),
		part("w.input_global_scale", dialect.PartInputScale, safetensors.F32, 1))...)
	p.Items[0].InputScale, p.Items[0].Native = &input, &native
	p.Made = map[string]string{"hf_quant_config.json": "{\"made\": 1}\n", "README.md": "# made\n"}
	out := filepath.Join(t.TempDir(), "out")
	mustRun(t, p, m, out, write.Options{})
	if got := stored(t, out)("w.input_global_scale"); !bytes.Equal(got, float32Bytes([]float32{input})) {
		t.Errorf("the input scale is % x", got)
	}
	record := readRecord(t, out)
	if record.Native["w"+plan.InputNative] != native {
		t.Errorf("the record has %v", record.Native)
	}
	for name, text := range p.Made {
		if got := string(readFile(t, out, name)); got != text || record.Files[name].Bytes != int64(len(text)) {
			t.Errorf("%s holds %q and is recorded as %+v", name, got, record.Files[name])
		}
	}
	for _, name := range []string{"config.json", "../up.json", "a/b", ".", "", p.Shards[0].File, model.ProvenanceFile} {
		broken := clone(t, p)
		broken.Made = map[string]string{name: ""}
		_, err := write.Run(context.Background(), broken, m, filepath.Join(t.TempDir(), "out"), write.Options{})
		says(t, err, "makes a file named")
	}
}

// everyAction is a checkpoint and a plan with one tensor for each action and source, in two shards.
func everyAction(t *testing.T) (*model.Model, *plan.Plan, string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(11, 12))
	ws := []*weight{
		makeWeight(rng, "f32.weight", safetensors.F32, [2]int64{}, 37, 80),
		makeWeight(rng, "f16.weight", safetensors.F16, [2]int64{}, 37, 80),
		makeWeight(rng, "fp8.weight", safetensors.F8E4M3, [2]int64{16, 32}, 37, 80),
		makeWeight(rng, "cast", safetensors.F32, [2]int64{}, 37, 80),
		makeWeight(rng, "widen", safetensors.F8E4M3, [2]int64{1, 80}, 37, 80),
		scaleTensor("m.weight_global_scale", 3001, 1),
		makeWeight(rng, "keep", safetensors.BF16, [2]int64{}, 3, 3),
	}
	m, p := made(t, ws...)
	p.Made = map[string]string{"made.json": "{}\n"}
	for _, name := range []string{"f32", "f16", "fp8"} {
		add(t, m, p, name+".weight", dialect.NVFP4W4A16, outputs(name, dialect.NVFP4W4A16, numeric.Modelopt, 37, 80)...)
	}
	add(t, m, p, "cast", dialect.BF16, kept("cast", safetensors.BF16, 37, 80))
	add(t, m, p, "widen", dialect.BF16, kept("widen", safetensors.BF16, 37, 80))
	add(t, m, p, "m.weight_global_scale", dialect.BF16, part("m.weight_scale_2", dialect.PartGlobalScale, safetensors.F32))
	add(t, m, p, "keep", dialect.BF16, kept("kept", safetensors.BF16, 9))
	p.Items[2].SourceScale, p.Items[4].SourceScale = ws[2].scale, ws[4].scale
	p.Items[3].Action, p.Items[4].Action, p.Items[5].Action = plan.Cast, plan.Widen, plan.Reciprocal
	all := p.Shards[0]
	p.Shards = []plan.Shard{
		{File: "model-00001-of-00002.safetensors", Items: all.Items[:4]},
		{File: "model-00002-of-00002.safetensors", Items: all.Items[4:]},
	}
	p.Shards[1].Bytes = 37*80*2 + 4 + 18
	p.Shards[0].Bytes = all.Bytes - p.Shards[1].Bytes
	return m, clone(t, p), t.TempDir() // as it comes out of a file
}
