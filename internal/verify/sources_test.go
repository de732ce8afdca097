package verify_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// floats of a BF16 tensor.
func (x *tensor) floats() (v []float32) {
	for i := 0; i < len(x.data); i += 2 {
		v = append(v, numeric.BF16ToFloat32(binary.LittleEndian.Uint16(x.data[i:])))
	}
	return v
}

// inDtype saves a whole checkpoint in F16 or F32, with values that BF16 cannot hold.
func inDtype(f *folder, d safetensors.Dtype) {
	for _, x := range f.tensors {
		values := x.floats()
		x.dtype, x.data = d, nil
		for i, v := range values {
			v *= 1 + float32(i%7)*0.001
			if d == safetensors.F32 {
				x.data = append(x.data, f32(v)...)
			} else {
				x.data = binary.LittleEndian.AppendUint16(x.data, numeric.FP16FromFloat32(v))
			}
		}
	}
	for _, key := range []string{"dtype", "text_config.dtype", "vision_config.dtype"} {
		f.set(key, map[safetensors.Dtype]string{safetensors.F32: "float32", safetensors.F16: "float16"}[d])
	}
}

// inFP8 saves the projections of a checkpoint in FP8; block gives the size of blocks for a shape, suffix the name of scales.
func inFP8(f *folder, suffix string, block func(out, in int64) [2]int64, shape func(out, in int64) []int64) {
	for name, x := range f.tensors {
		module, weight := strings.CutSuffix(name, "_proj.weight")
		if !weight || len(x.shape) != 2 || strings.Contains(name, "visual") {
			continue
		}
		out, in := x.shape[0], x.shape[1]
		b := block(out, in)
		across := (in + b[1] - 1) / b[1]
		scales := make([]float32, (out+b[0]-1)/b[0]*across)
		values := x.floats()
		at := func(i int) int64 { return int64(i)/in/b[0]*across + int64(i)%in/b[1] }
		for i, v := range values {
			scales[at(i)] = max(scales[at(i)], v/448, -v/448)
		}
		x.dtype, x.data = safetensors.F8E4M3, nil
		for i, v := range values {
			x.data = append(x.data, numeric.E4M3FromFloat32(v/scales[at(i)]))
		}
		var stored []byte
		for _, s := range scales {
			stored = append(stored, f32(s)...)
		}
		f.add(name, module+"_proj."+suffix, safetensors.F32, shape(out, in), stored)
	}
}

// fp8Body is the fixture's view with a body whose projections are FP8 by blocks.
func fp8Body(t *testing.T) *model.Model {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "fp8")
	if err := os.CopyFS(dir, os.DirFS(body)); err != nil {
		t.Fatal(err)
	}
	f := load(t, dir)
	f.set("quantization_config", map[string]any{"quant_method": "fp8", "weight_block_size": []int{64, 32}})
	inFP8(f, "weight_scale_inv", func(_, _ int64) [2]int64 { return [2]int64{64, 32} }, func(out, in int64) []int64 { return []int64{(out + 63) / 64, (in + 31) / 32} })
	f.save()
	return overlay(t, dir, donor)
}

func TestAFolderMadeFromAnyDtypeIsHeldAgainstItsSource(t *testing.T) {
	blocks := func(out, in int64) []int64 { return []int64{(out + 63) / 64, (in + 31) / 32} }
	for _, c := range []struct {
		name string
		make func(f *folder)
		fp8  bool
	}{
		{"F16", func(f *folder) { inDtype(f, safetensors.F16) }, false},
		{"F32", func(f *folder) { inDtype(f, safetensors.F32) }, false},
		{"FP8 by blocks", func(f *folder) {
			f.set("quantization_config", map[string]any{"quant_method": "fp8", "weight_block_size": []int{64, 32}})
			inFP8(f, "weight_scale_inv", func(_, _ int64) [2]int64 { return [2]int64{64, 32} }, blocks)
		}, true},
		{"FP8 by rows", func(f *folder) {
			f.set("quantization_config", map[string]any{"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": map[string]any{
				"group_0": map[string]any{"targets": []string{"Linear"}, "weights": map[string]any{"num_bits": 8, "type": "float", "strategy": "channel"}}}})
			inFP8(f, "weight_scale", func(_, in int64) [2]int64 { return [2]int64{1, in} }, func(out, _ int64) []int64 { return []int64{out, 1} })
		}, true},
		{"FP8 by tensors", func(f *folder) {
			f.set("quantization_config", map[string]any{"quant_method": "modelopt", "quant_algo": "FP8"})
			inFP8(f, "weight_scale", func(out, in int64) [2]int64 { return [2]int64{out, in} }, func(_, _ int64) []int64 { return []int64{} })
			writeFile(f.t, filepath.Join(f.dir, model.QuantFile), []byte(`{"quantization": {"quant_algo": "FP8"}}`))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := synth(t, donor, func(*folder) {})
			c.make(f)
			out, source := f.forge("default")
			r := judge(t, out.dir, verify.Options{Source: source})
			if errs := playbook.Errors(r.Findings); len(errs) > 0 {
				t.Fatalf("%s: %v", r.Verdict, errs)
			}
			told := map[string]bool{}
			for _, f := range r.Findings {
				told[f.Rule] = true
			}
			if !told["kept-rounded"] || told["source-fp8"] != c.fp8 {
				t.Errorf("findings %v", r.Findings)
			}
			for _, module := range []string{gate0, out0} { // NVFP4 and FP8: one changed code is found
				name := module + ".weight_packed"
				if module == out0 {
					name = module + ".weight"
				}
				x := out.get(name)
				x.data[7] ^= 1
				out.save()
				r := judge(t, out.dir, verify.Options{Source: source})
				if errs := playbook.Errors(r.Findings); len(errs) != 1 && len(errs) != 2 || !strings.Contains(errs[0].Rule+errs[len(errs)-1].Rule, "codes-differ") {
					t.Errorf("a changed code of %s: %v", module, errs)
				}
				x.data[7] ^= 1
			}
			x := out.get("mtp.layers.0.mlp.up_proj.weight")
			x.data[5] ^= 1
			out.save()
			r = judge(t, out.dir, verify.Options{Source: source})
			found := false
			for _, f := range playbook.Errors(r.Findings) {
				found = found || f.Rule == "head-bytes"
			}
			if !found {
				t.Errorf("a changed value of the head: %v", r.Findings)
			}
		})
	}
}
