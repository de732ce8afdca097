package verify_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"seatsmith/internal/engine"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// sparse writes an unquantized checkpoint of many tensors whose data is a hole: only headers are ever read.
func sparse(b *testing.B, fixture string, shards int, edit func(*folder)) string {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "sparse")
	if err := os.CopyFS(dir, os.DirFS(fixture)); err != nil {
		b.Fatal(err)
	}
	f := load(b, dir)
	edit(f)
	old, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			b.Fatal(err)
		}
	}
	e, err := engine.Parse(engine.Default)
	if err != nil {
		b.Fatal(err)
	}
	srv, err := engine.Build(e, f.config, true)
	if err != nil {
		b.Fatal(err)
	}
	all := map[string]safetensors.Spec{}
	add := func(name string, shape ...int64) {
		all[name] = safetensors.Spec{Name: name, Dtype: safetensors.BF16, Shape: shape}
	}
	for _, l := range srv.Linears {
		for _, s := range l.Shards {
			add(s.Name+".weight", s.Out, s.In)
		}
	}
	for _, p := range srv.Params {
		add(p.Name, p.Shape...)
	}
	files, weights, total := make([][]safetensors.Spec, shards), map[string]string{}, int64(0)
	for i, name := range slices.Sorted(maps.Keys(all)) {
		at := i * shards / len(all)
		files[at] = append(files[at], all[name])
		weights[name] = fmt.Sprintf("model-%05d-of-%05d.safetensors", at+1, shards)
	}
	for at, specs := range files {
		layout, err := safetensors.NewLayout(specs, map[string]string{"format": "pt"})
		if err != nil {
			b.Fatal(err)
		}
		w, err := os.Create(filepath.Join(dir, fmt.Sprintf("model-%05d-of-%05d.safetensors", at+1, shards)))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := w.Write(layout.Header); err != nil {
			b.Fatal(err)
		}
		if err := w.Truncate(layout.Size); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		for _, s := range specs {
			n := int64(2)
			for _, d := range s.Shape {
				n *= d
			}
			total += n
		}
	}
	writeFile(b, filepath.Join(dir, "model.safetensors.index.json"), safetensors.IndexBytes(weights, total))
	writeFile(b, filepath.Join(dir, "config.json"), f.config)
	b.Logf("%d tensors in %d shards", len(all), shards)
	return dir
}

func layers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "linear_attention"
		if i%4 == 3 {
			out[i] = "full_attention"
		}
	}
	return out
}

func BenchmarkHeadersOf1200TensorsIn60Shards(b *testing.B) {
	dir := sparse(b, donor, 60, func(f *folder) {
		f.set("text_config.num_hidden_layers", 84)
		f.set("text_config.layer_types", layers(84))
	})
	for b.Loop() {
		if _, err := verify.Doctor(context.Background(), dir, verify.Options{Headers: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHeadersOf300000Tensors(b *testing.B) {
	dir := sparse(b, "../../testdata/moe", 60, func(f *folder) {
		f.set("text_config.num_hidden_layers", 196)
		f.set("text_config.layer_types", layers(196))
		f.set("text_config.num_experts", 512)
	})
	for b.Loop() {
		if _, err := verify.Doctor(context.Background(), dir, verify.Options{Headers: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScanOfScales(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "scan")
	if err := os.CopyFS(dir, os.DirFS(donor)); err != nil {
		b.Fatal(err)
	}
	f := load(b, dir)
	const n = 256 << 20
	f.add("lm_head.weight", "big.weight_scale", safetensors.F8E4M3, []int64{n / 1024, 1024}, slices.Repeat([]byte{0x38}, n))
	f.save()
	b.SetBytes(n)
	for b.Loop() {
		if _, err := verify.Doctor(context.Background(), dir, verify.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
