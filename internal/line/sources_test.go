package line_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/sjson"

	"seatsmith/internal/line"
	"seatsmith/internal/numeric"
	"seatsmith/internal/safetensors"
)

// resaved is the headless fixture as change stores each of its tensors, with another key in config.json.
func resaved(t *testing.T, key string, value any, change func(s safetensors.Spec, values []float32) map[string]stored) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "body")
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fail(os.CopyFS(dir, os.DirFS(fixture(t, "tiny-finetune"))))
	set, err := safetensors.OpenSet(dir)
	fail(err)
	all := map[string]stored{}
	for _, r := range set.Refs() {
		b := make([]byte, r.Tensor.Bytes())
		fail(r.ReadAt(b, 0))
		s := safetensors.Spec{Name: r.Tensor.Name, Dtype: r.Tensor.Dtype, Shape: r.Tensor.Shape}
		if s.Dtype != safetensors.BF16 {
			all[s.Name] = stored{s, b}
			continue
		}
		var values []float32
		for i := 0; i < len(b); i += 2 {
			values = append(values, numeric.BF16ToFloat32(binary.LittleEndian.Uint16(b[i:])))
		}
		for name, x := range change(s, values) {
			x.Name = name
			all[name] = x
		}
	}
	for _, f := range set.Files {
		fail(os.Remove(f.Path))
	}
	fail(set.Close())
	if err := os.Remove(filepath.Join(dir, "model.safetensors.index.json")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var specs []safetensors.Spec
	for _, x := range all {
		specs = append(specs, x.Spec)
	}
	layout, err := safetensors.NewLayout(specs, map[string]string{"format": "pt"})
	fail(err)
	w, err := safetensors.Create(filepath.Join(dir, "model.safetensors"), layout)
	fail(err)
	for _, x := range all {
		fail(w.WriteAt(x.Name, x.data, 0))
	}
	fail(w.Close())
	path := filepath.Join(dir, "config.json")
	config, err := os.ReadFile(path)
	fail(err)
	config, err = sjson.SetBytes(config, key, value)
	fail(err)
	fail(os.WriteFile(path, config, 0o644))
	return dir
}

type stored struct {
	safetensors.Spec
	data []byte
}

func TestForgeTakesSourcesOfOtherDtypes(t *testing.T) {
	half := resaved(t, "dtype", "float16", func(s safetensors.Spec, values []float32) map[string]stored {
		s.Dtype = safetensors.F16
		var b []byte
		for i, v := range values {
			b = binary.LittleEndian.AppendUint16(b, numeric.FP16FromFloat32(v*(1+float32(i%3)*0.001)))
		}
		return map[string]stored{s.Name: {s, b}}
	})
	full := resaved(t, "dtype", "float32", func(s safetensors.Spec, values []float32) map[string]stored {
		s.Dtype = safetensors.F32
		var b []byte
		for i, v := range values {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v*(1+float32(i%3)*0.001)))
		}
		return map[string]stored{s.Name: {s, b}}
	})
	eight := resaved(t, "quantization_config", map[string]any{"quant_method": "fp8", "weight_block_size": []int{128, 128}}, func(s safetensors.Spec, values []float32) map[string]stored {
		if !strings.HasSuffix(s.Name, "_proj.weight") || strings.Contains(s.Name, "visual") {
			var b []byte
			for _, v := range values {
				b = binary.LittleEndian.AppendUint16(b, numeric.BF16FromFloat32(v))
			}
			return map[string]stored{s.Name: {s, b}}
		}
		scale := safetensors.Spec{Dtype: safetensors.F32, Shape: []int64{(s.Shape[0] + 127) / 128, (s.Shape[1] + 127) / 128}}
		var scales, codes []byte
		for range scale.Shape[0] * scale.Shape[1] {
			scales = binary.LittleEndian.AppendUint32(scales, math.Float32bits(0.001))
		}
		for _, v := range values {
			codes = append(codes, numeric.E4M3FromFloat32(v/0.001))
		}
		s.Dtype = safetensors.F8E4M3
		return map[string]stored{s.Name: {s, codes}, s.Name + "_scale_inv": {scale, scales}}
	})
	for body, rules := range map[string][]string{half: {"cast-changed", "kept-rounded"}, full: {"cast-changed", "kept-rounded"}, eight: {"source-fp8"}} {
		j := tavern(t)
		j.Body = body
		out, err := line.Forge(t.Context(), j, "test", line.Reporter{})
		if err != nil {
			t.Fatal(err)
		}
		if out.Verdict == "fail" {
			t.Errorf("%v: %s: %v", rules, out.Verdict, out.Findings)
		}
		if _, err := os.Stat(filepath.Join(j.Output, "seatsmith.json")); err != nil {
			t.Errorf("%v: %v", rules, err)
		}
		log := events(t, j.Output+".run")
		if slices.Contains(log, "cast") == (body == eight) {
			t.Errorf("%v: events %v", rules, log)
		}
		for _, rule := range rules {
			found := false
			for _, f := range out.Findings {
				found = found || f.Rule == rule
			}
			if out.Verify != nil {
				for _, f := range out.Verify.Findings {
					found = found || f.Rule == rule
				}
			}
			if !found {
				t.Errorf("%s is not told", rule)
			}
		}
	}
}
