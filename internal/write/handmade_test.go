package write_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/write"
)

// handmade is a checkpoint of no family, with the tensors that specs name, and a plan for it that has no items yet.
func handmade(t *testing.T, specs map[string]safetensors.Spec) (*model.Model, *plan.Plan) {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "config.json"), []byte(`{"architectures":["Handmade"],"model_type":"handmade"}`))
	var list []safetensors.Spec
	for name, s := range specs {
		s.Name = name
		list = append(list, s)
	}
	layout, err := safetensors.NewLayout(list, map[string]string{"format": "pt"})
	must(t, err)
	w, err := safetensors.Create(filepath.Join(dir, "model.safetensors"), layout)
	must(t, err)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, s := range layout.Tensors {
		b := make([]byte, s.Bytes())
		if s.Dtype == safetensors.BF16 {
			for i := 0; i < len(b); i += 2 {
				binary.LittleEndian.PutUint16(b[i:], numeric.BF16FromFloat32(float32(rng.NormFloat64())))
			}
		} else {
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
		}
		must(t, w.WriteAt(s.Name, b, 0))
	}
	must(t, w.Close())
	m, err := model.Open(dir)
	must(t, err)
	t.Cleanup(func() { m.Close() })
	return m, &plan.Plan{
		Schema: 1, Version: "test", Source: m.Fingerprint(), Dialect: "compressed-tensors", Math: numeric.Modelopt.String(), Search: "max",
		Config: json.RawMessage(`{"b":1, "a":"<&>"}`),
	}
}

// add plans one tensor of m into the only shard.
func add(t *testing.T, m *model.Model, p *plan.Plan, source string, s dialect.Scheme, outputs ...dialect.Output) {
	t.Helper()
	tensor, ok := m.Lookup(source)
	if !ok {
		t.Fatalf("no tensor %s", source)
	}
	if len(p.Shards) == 0 {
		p.Shards = []plan.Shard{{File: "model-00001-of-00001.safetensors"}}
	}
	p.Shards[0].Items = append(p.Shards[0].Items, len(p.Items))
	action := plan.Keep
	if s.Quantized() {
		action = plan.Quantize
	}
	p.Items = append(p.Items, plan.Item{
		Source: source, Origin: tensor.Origin, Role: tensor.Role, Dtype: tensor.Dtype(), Shape: tensor.Shape(), Action: action, Scheme: s, Outputs: outputs,
	})
	p.BytesIn += tensor.Bytes()
	for _, o := range outputs {
		bits, _ := o.Dtype.Bits()
		n := bits / 8
		for _, d := range o.Shape {
			n *= d
		}
		p.Shards[0].Bytes += n
	}
	p.BytesOut = p.Shards[0].Bytes
}

func kept(name string, d safetensors.Dtype, shape ...int64) dialect.Output {
	return dialect.Output{Name: name, Part: dialect.PartKept, Dtype: d, Shape: shape}
}

func TestOddTensorsAreCarriedOutAsPlanned(t *testing.T) {
	const bf, f32, u8, f8 = safetensors.BF16, safetensors.F32, safetensors.U8, safetensors.F8E4M3
	m, p := handmade(t, map[string]safetensors.Spec{
		"empty":       {Dtype: bf, Shape: []int64{0, 32}},
		"scalar":      {Dtype: f32, Shape: []int64{}},
		"deep":        {Dtype: u8, Shape: []int64{3, 5, 7, 2}},
		"old.name":    {Dtype: bf, Shape: []int64{3}},
		"dropped":     {Dtype: bf, Shape: []int64{9}},
		"t.weight":    {Dtype: bf, Shape: []int64{7, 33}}, // FP8 with one scale
		"wide.weight": {Dtype: bf, Shape: []int64{2, 50_000}},
		"thin.weight": {Dtype: bf, Shape: []int64{50_000, 1}},
		"no.weight":   {Dtype: bf, Shape: []int64{4, 0}},
		"x.weight":    {Dtype: bf, Shape: []int64{2, 3, 32}}, // NVFP4 of more than two dimensions
	})
	add(t, m, p, "empty", dialect.BF16, kept("empty", bf, 0, 32))
	add(t, m, p, "scalar", dialect.BF16, kept("scalar", f32))
	add(t, m, p, "deep", dialect.BF16, kept("deep", u8, 3, 5, 7, 2))
	add(t, m, p, "old.name", dialect.BF16, kept("new.name", bf, 3))
	add(t, m, p, "dropped", dialect.BF16)
	p.BytesIn -= 18
	part := func(name string, part dialect.Part, d safetensors.Dtype, shape ...int64) dialect.Output {
		return dialect.Output{Name: name, Part: part, Dtype: d, Shape: shape}
	}
	add(t, m, p, "t.weight", dialect.FP8Tensor, part("t.weight", dialect.PartCodes, f8, 7, 33), part("t.weight_scale", dialect.PartScale, f32, 1))
	for _, name := range []string{"wide", "thin", "no"} {
		tensor, _ := m.Lookup(name + ".weight")
		s := tensor.Shape()
		add(t, m, p, name+".weight", dialect.FP8Channel, part(name+".weight", dialect.PartCodes, f8, s...), part(name+".weight_scale", dialect.PartScale, f32, s[0], 1))
	}
	add(t, m, p, "x.weight", dialect.NVFP4W4A16, part("x.weight_packed", dialect.PartCodes, u8, 2, 3, 16),
		part("x.weight_scale", dialect.PartBlockScale, f8, 2, 3, 2), part("x.weight_global_scale", dialect.PartGlobalScale, f32, 1))

	dir := t.TempDir()
	var first map[string]string
	for _, tile := range []int64{0, 32, 4096} {
		undo := write.SetTile(tile)
		out := filepath.Join(dir, "out")
		res := mustRun(t, p, m, out, write.Options{Workers: 2})
		undo()
		if res.BytesIn != p.BytesIn || res.BytesOut != p.BytesOut {
			t.Errorf("result %+v, planned %d bytes in, %d out", res, p.BytesIn, p.BytesOut)
		}
		got := tree(t, out)
		if first == nil {
			first = got
			checkHandmade(t, m, out)
		}
		sameTree(t, got, first)
		must(t, os.RemoveAll(out))
	}
}

func checkHandmade(t *testing.T, m *model.Model, out string) {
	t.Helper()
	set, err := safetensors.OpenSet(out)
	must(t, err)
	defer set.Close()
	stored := func(name string) []byte {
		ref, ok := set.Lookup(name)
		if !ok {
			t.Fatalf("no tensor %s", name)
		}
		return readTensor(t, ref)
	}
	source := func(name string) []byte {
		tensor, _ := m.Lookup(name)
		return readTensor(t, tensor.Ref)
	}
	for out, in := range map[string]string{"empty": "empty", "scalar": "scalar", "deep": "deep", "new.name": "old.name"} {
		if !bytes.Equal(stored(out), source(in)) {
			t.Errorf("%s is not %s", out, in)
		}
	}
	for _, name := range []string{"dropped", "old.name"} {
		if _, ok := set.Lookup(name); ok {
			t.Errorf("%s is still there", name)
		}
	}
	src := source("t.weight")
	amax, _ := numeric.AmaxBF16(src)
	scale := numeric.FP8Scale(numeric.Modelopt, false, amax)
	codes := make([]byte, len(src)/2)
	numeric.EncodeFP8BF16(numeric.Modelopt, false, codes, src, scale)
	if got := math.Float32frombits(binary.LittleEndian.Uint32(stored("t.weight_scale"))); got != scale {
		t.Errorf("t has scale %v, want %v", got, scale)
	}
	if !bytes.Equal(stored("t.weight"), codes) {
		t.Error("the codes of t differ")
	}
	for name, cols := range map[string]int{"wide": 50_000, "thin": 1} {
		src, codes, scales := source(name+".weight"), stored(name+".weight"), stored(name+".weight_scale")
		want := make([]byte, cols)
		for r := range len(codes) / cols {
			row := src[2*r*cols : 2*(r+1)*cols]
			amax, _ := numeric.AmaxBF16(row)
			scale := numeric.FP8Scale(numeric.Modelopt, true, amax)
			numeric.EncodeFP8BF16(numeric.Modelopt, true, want, row, scale)
			if got := math.Float32frombits(binary.LittleEndian.Uint32(scales[4*r:])); got != scale || !bytes.Equal(codes[r*cols:(r+1)*cols], want) {
				t.Fatalf("%s, row %d: scale %v, want %v; or its codes differ", name, r, got, scale)
			}
		}
	}
	src = source("x.weight")
	amax, _ = numeric.AmaxBF16(src)
	codes, scales := make([]byte, len(src)/4), make([]byte, len(src)/32)
	numeric.NewNVFP4(numeric.Modelopt, amax).EncodeBF16Reference(codes, scales, src)
	if !bytes.Equal(stored("x.weight_packed"), codes) || !bytes.Equal(stored("x.weight_scale"), scales) {
		t.Error("x differs from the plain definition")
	}
	if got, want := string(readFile(t, out, "config.json")), "{\n  \"b\": 1,\n  \"a\": \"<&>\"\n}\n"; got != want {
		t.Errorf("config.json is %q, want %q: keys keep their order", got, want)
	}
}

func TestASourceOfAnotherDtypeIsRefusedByName(t *testing.T) {
	m, p := handmade(t, map[string]safetensors.Spec{"h.weight": {Dtype: "I16", Shape: []int64{16, 32}}})
	add(t, m, p, "h.weight", dialect.FP8Tensor,
		dialect.Output{Name: "h.weight", Part: dialect.PartCodes, Dtype: safetensors.F8E4M3, Shape: []int64{16, 32}},
		dialect.Output{Name: "h.weight_scale", Part: dialect.PartScale, Dtype: safetensors.F32, Shape: []int64{1}})
	_, err := write.Run(context.Background(), p, m, filepath.Join(t.TempDir(), "out"), write.Options{})
	says(t, err, "h.weight", "BF16", "I16")
}

func TestAScaleThatItsDtypeCannotHoldIsAnErrorNotARounding(t *testing.T) {
	m, p := handmade(t, map[string]safetensors.Spec{"h.weight": {Dtype: safetensors.BF16, Shape: []int64{16, 32}}})
	add(t, m, p, "h.weight", dialect.FP8Channel,
		dialect.Output{Name: "h.weight", Part: dialect.PartCodes, Dtype: safetensors.F8E4M3, Shape: []int64{16, 32}},
		dialect.Output{Name: "h.weight_scale", Part: dialect.PartScale, Dtype: safetensors.BF16, Shape: []int64{16, 1}})
	out := filepath.Join(t.TempDir(), "out")
	_, err := write.Run(context.Background(), p, m, out, write.Options{})
	says(t, err, "h.weight", "does not fit BF16")
	absent(t, out)
	absent(t, out+".partial")
}
