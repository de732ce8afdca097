package write_test

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/sjson"
	"golang.org/x/sys/unix"

	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/write"
)

// BenchmarkRun writes a synthetic checkpoint of about 800 MB, and beside every run copies and syncs the same source files
// plainly. It reports both rates in source bytes and the quotient of the best times; warm is from the page cache, cold
// from the disk.
func BenchmarkRun(b *testing.B) { benchmarkRun(b, synthetic(b, safetensors.BF16)) }

// The same model in other dtypes; FP8 has a scale per block of 128 by 128, and its kept tensors are BF16.
func BenchmarkRunF32(b *testing.B) { benchmarkRun(b, synthetic(b, safetensors.F32)) }
func BenchmarkRunF16(b *testing.B) { benchmarkRun(b, synthetic(b, safetensors.F16)) }
func BenchmarkRunFP8(b *testing.B) { benchmarkRun(b, synthetic(b, safetensors.F8E4M3)) }

func benchmarkRun(b *testing.B, m *model.Model) {
	for _, recipe := range []string{"default", "nvfp4-all-linear"} {
		for _, cold := range []bool{false, true} {
			b.Run(recipe+map[bool]string{false: "/warm", true: "/cold"}[cold], func(b *testing.B) {
				p, err := plan.Make(m, plan.Options{Recipe: recipe, ShardSize: 100 << 20})
				if err != nil {
					b.Fatal(err)
				}
				dir := b.TempDir()
				copied, run := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
				once := func() {
					evict(b, m, cold)
					copied = min(copied, timeCopy(b, m, dir))
					evict(b, m, cold)
					run = min(run, timeRun(b, p, m, dir))
				}
				once()
				for b.Loop() {
					once()
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(p.BytesIn)/run.Seconds()/1e6, "run-MB/s")
				b.ReportMetric(float64(p.BytesIn)/copied.Seconds()/1e6, "copy-MB/s")
				b.ReportMetric(run.Seconds()/copied.Seconds(), "x-copy")
				b.ReportMetric(float64(p.BytesOut)/float64(p.BytesIn), "out/in")
			})
		}
	}
}

// evict drops the source from the page cache.
func evict(b *testing.B, m *model.Model, really bool) {
	b.Helper()
	for _, f := range m.Set.Files {
		if !really {
			continue
		}
		h, err := os.Open(f.Path)
		must(b, err)
		must(b, unix.Fadvise(int(h.Fd()), 0, 0, unix.FADV_DONTNEED))
		must(b, h.Close())
	}
}

func timeRun(b *testing.B, p *plan.Plan, m *model.Model, dir string) time.Duration {
	b.Helper()
	out := filepath.Join(dir, "out")
	start := time.Now()
	if _, err := write.Run(context.Background(), p, m, out, write.Options{}); err != nil {
		b.Fatal(err)
	}
	d := time.Since(start)
	must(b, os.RemoveAll(out))
	return d
}

func timeCopy(b *testing.B, m *model.Model, dir string) time.Duration {
	b.Helper()
	out := filepath.Join(dir, "copy")
	must(b, os.Mkdir(out, 0o755))
	buf := make([]byte, 4<<20)
	start := time.Now()
	for _, f := range m.Set.Files {
		src, err := os.Open(f.Path)
		must(b, err)
		dst, err := os.Create(filepath.Join(out, f.Name))
		must(b, err)
		// Wrapped, so that the kernel does not share blocks instead of copying them.
		_, err = io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, buf)
		must(b, err)
		must(b, dst.Sync())
		must(b, dst.Close())
		must(b, src.Close())
	}
	d := time.Since(start)
	must(b, os.RemoveAll(out))
	return d
}

// synthetic makes a dense Qwen3.5 of 8 layers with normally distributed weights and opens it.
func synthetic(b *testing.B, d safetensors.Dtype) *model.Model {
	b.Helper()
	config := readFile(b, tinyDonor, "config.json")
	for key, value := range map[string]any{
		"hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 8, "vocab_size": 16384,
		"num_attention_heads": 12, "num_key_value_heads": 4, "head_dim": 128,
		"linear_num_key_heads": 8, "linear_num_value_heads": 16, "linear_key_head_dim": 96, "linear_value_head_dim": 96,
	} {
		var err error
		config, err = sjson.SetBytes(config, "text_config."+key, value)
		must(b, err)
	}
	config, err := sjson.SetBytes(config, "vision_config.out_hidden_size", 1536)
	must(b, err)
	dir := copyFolder(b, tinyDonor)
	must(b, os.Remove(filepath.Join(dir, "model.safetensors.index.json")))
	for _, name := range []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"} {
		must(b, os.Remove(filepath.Join(dir, name)))
	}
	put(b, filepath.Join(dir, "config.json"), config)
	fill(b, filepath.Join(dir, "model.safetensors"), []safetensors.Spec{{Name: "model.norm.weight", Dtype: safetensors.BF16, Shape: []int64{1}}})
	bare, err := model.Open(dir)
	must(b, err)
	var specs []safetensors.Spec
	for _, e := range bare.Expected {
		dtype := d
		switch {
		case len(e.Dtypes) > 0:
			dtype = e.Dtypes[0]
		case d == safetensors.F8E4M3 && !projection(e.Name, e.Shape):
			dtype = safetensors.BF16
		case d == safetensors.F8E4M3:
			specs = append(specs, safetensors.Spec{Name: e.Name + "_scale_inv", Dtype: safetensors.F32, Shape: []int64{(e.Shape[0] + 127) / 128, (e.Shape[1] + 127) / 128}})
		}
		specs = append(specs, safetensors.Spec{Name: e.Name, Dtype: dtype, Shape: e.Shape})
	}
	must(b, bare.Close())
	if d == safetensors.F8E4M3 {
		config, err = sjson.SetBytes(config, "quantization_config", map[string]any{"quant_method": "fp8", "weight_block_size": []int{128, 128}})
		must(b, err)
		put(b, filepath.Join(dir, "config.json"), config)
	}
	must(b, os.Remove(filepath.Join(dir, "model.safetensors")))
	fill(b, filepath.Join(dir, "model.safetensors"), specs)
	m, err := model.Open(dir)
	must(b, err)
	b.Cleanup(func() { m.Close() })
	return m
}

// fill writes tensors of normally distributed values with a deviation of 0.02, as an initializer would.
func fill(b *testing.B, path string, specs []safetensors.Spec) {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	tables := map[safetensors.Dtype][]byte{}
	for range 1 << 19 {
		v := float32(0.02 * rng.NormFloat64())
		for d, table := range map[safetensors.Dtype][]byte{
			safetensors.BF16:   binary.LittleEndian.AppendUint16(nil, numeric.BF16FromFloat32(v)),
			safetensors.F16:    binary.LittleEndian.AppendUint16(nil, numeric.FP16FromFloat32(v)),
			safetensors.F32:    binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)),
			safetensors.F8E4M3: {numeric.E4M3FromFloat32(v * 5000)},
		} {
			tables[d] = append(tables[d], table...)
		}
	}
	layout, err := safetensors.NewLayout(specs, map[string]string{"format": "pt"})
	must(b, err)
	w, err := safetensors.Create(path, layout)
	must(b, err)
	for _, t := range layout.Tensors {
		table := tables[t.Dtype]
		for off := int64(0); off < t.Bytes(); off += int64(len(table)) {
			n := min(int64(len(table)), t.Bytes()-off)
			if strings.HasSuffix(t.Name, "_scale_inv") {
				must(b, w.WriteAt(t.Name, ones(n), off))
				continue
			}
			must(b, w.WriteAt(t.Name, table[:n], off))
		}
	}
	must(b, w.Close())
}

func ones(n int64) []byte {
	b := make([]byte, n)
	for i := 0; i < len(b); i += 4 {
		binary.LittleEndian.PutUint32(b[i:], math.Float32bits(1))
	}
	return b
}
