package safetensors_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/safetensors"
)

// expertHeader is the header of a model of many experts: 300,000 entries make about 40 MB.
func expertHeader(n int) []byte {
	var b strings.Builder
	for i := range n {
		name := fmt.Sprintf("model.language_model.layers.%d.mlp.experts.%d.down_proj.weight_scale", i/4096, i%4096)
		fmt.Fprintf(&b, `,%s`, entry(name, "F8_E4M3", "[2]", fmt.Sprintf("[%d,%d]", 2*i, 2*i+2)))
	}
	return raw("{"+b.String()[1:]+"}", make([]byte, 2*n))
}

func BenchmarkReadHeader300k(b *testing.B) {
	file := expertHeader(300_000)
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := safetensors.ReadHeader(bytes.NewReader(file), int64(len(file)), "m"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpenSet300k opens a folder of 300,000 tensors in 60 shards with their index and lists them in order.
func BenchmarkOpenSet300k(b *testing.B) {
	const shards, each = 60, 5000
	dir := b.TempDir()
	where := map[string]string{}
	for i := range shards {
		file := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, shards)
		var entries []string
		for j := range each {
			name := fmt.Sprintf("model.language_model.layers.%d.mlp.experts.%d.down_proj.weight_scale", i, j)
			where[name] = file
			entries = append(entries, entry(name, "F8_E4M3", "[2]", fmt.Sprintf("[%d,%d]", 2*j, 2*j+2)))
		}
		text := header(entries...)
		text += strings.Repeat(" ", (8-len(text)%8)%8)
		if err := os.WriteFile(filepath.Join(dir, file), raw(text, make([]byte, 2*each)), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, safetensors.IndexName), safetensors.IndexBytes(where, 2*shards*each), 0o644); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := safetensors.OpenSet(dir)
		if err != nil || len(s.Problems) > 0 || len(s.Refs()) != shards*each {
			b.Fatal(err, s.Problems)
		}
		s.Close()
	}
}
