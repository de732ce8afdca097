package verify_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"seatsmith/internal/engine"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
	"seatsmith/internal/write"
)

// synth is an unquantized checkpoint of another size than the fixture's: the tensors that the engine reads for the edited
// config.json, filled with small random values, with the fixture's companion files.
func synth(t *testing.T, fixture string, edit func(f *folder)) *folder {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "synth")
	if err := os.CopyFS(dir, os.DirFS(fixture)); err != nil {
		t.Fatal(err)
	}
	f := load(t, dir)
	edit(f)
	e, err := engine.Parse(engine.Default)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := engine.Build(e, f.config, true)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	f.tensors = map[string]*tensor{}
	fill := func(name string, shape ...int64) {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		x := &tensor{dtype: safetensors.BF16, shape: shape, file: "a.safetensors"}
		for range n {
			x.data = binary.LittleEndian.AppendUint16(x.data, numeric.BF16FromFloat32(float32(rnd.NormFloat64())*0.02))
		}
		f.tensors[name] = x
	}
	for _, l := range srv.Linears {
		for _, s := range l.Shards {
			fill(s.Name+".weight", s.Out, s.In)
			if s.Bias {
				fill(s.Name+".bias", s.Out)
			}
		}
	}
	for _, p := range srv.Params {
		fill(p.Name, p.Shape...)
	}
	return f
}

// forge quantizes a folder and returns the result and its source.
func (f *folder) forge(recipe string) (*folder, *model.Model) {
	f.t.Helper()
	return f.forgeWith(plan.Options{Recipe: recipe})
}

func (f *folder) forgeWith(o plan.Options) (*folder, *model.Model) {
	f.t.Helper()
	f.save()
	if err := os.Remove(filepath.Join(f.dir, model.ProvenanceFile)); err != nil {
		f.t.Fatal(err)
	}
	m, err := model.Open(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { m.Close() })
	p, err := plan.Make(m, o)
	if err != nil {
		f.t.Fatal(err)
	}
	out := filepath.Join(f.t.TempDir(), "quantized")
	if _, err := write.Run(context.Background(), p, m, out, write.Options{}); err != nil {
		f.t.Fatal(err)
	}
	return load(f.t, out), m
}

// narrow is a checkpoint whose down_proj has 96 rows.
func narrow(t *testing.T) *folder {
	f := synth(t, donor, func(f *folder) {
		f.set("text_config.hidden_size", 96)
		f.set("vision_config.out_hidden_size", 96)
	})
	out, _ := f.forge("default")
	return out
}

// The public report behind block-collapsed (dropbox/gemlite#39): sixteen large values flatten sixteen small ones.
func TestAnOutlierThatFlattensItsNeighboursIsTold(t *testing.T) {
	f := synth(t, donor, func(*folder) {})
	x := f.get(down0 + ".weight")
	for i := range 32 {
		v := float32(1000)
		if i >= 16 {
			v = 0.00001
		}
		binary.LittleEndian.PutUint16(x.data[2*i:], numeric.BF16FromFloat32(v))
	}
	out, source := f.forge("default")
	r := judge(t, out.dir, verify.Options{Source: source})
	expect(t, r, "block-collapsed")
	if r.Verdict != "fail" || len(r.Findings) != 1 || r.Findings[0].Subject != down0+".weight" {
		t.Errorf("%s: %v", r.Verdict, r.Findings)
	}
	r = judge(t, out.dir, verify.Options{})
	expect(t, r, "block-collapsed?")
}
