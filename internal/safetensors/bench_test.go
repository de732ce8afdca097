package safetensors_test

import (
	"bytes"
	"fmt"
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
