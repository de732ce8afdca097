package diff

import (
	"context"
	"testing"

	"seatsmith/internal/safetensors"
)

// wide is a checkpoint of 64 MB in one Linear.
func wide(b *testing.B, low byte) string {
	f := load0()
	data := make([]byte, 64<<20)
	for i := 0; i < len(data); i += 2 {
		data[i], data[i+1] = low, 0x3C
	}
	f.tensors["model.layers.0.mlp.up_proj.weight"] = held{safetensors.BF16, []int64{8192, 4096}, data}
	return f.write(b)
}

func BenchmarkRun(b *testing.B) {
	from, same, other := wide(b, 1), wide(b, 1), wide(b, 2)
	for _, c := range []struct{ name, body string }{{"identical", same}, {"changed", other}} {
		b.Run(c.name, func(b *testing.B) {
			body, base := open(b, c.body), open(b, from)
			b.SetBytes(128 << 20) // both sides
			for b.Loop() {
				if _, err := Run(context.Background(), body, base, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
