package write_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/sjson"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/write"
)

// saved is the tiny fixture as another program would have saved it: every tensor goes through change, which gives what is
// stored of it, by name. edit changes its config.json. The float32 values that the tensors stand for come back too.
func saved(t *testing.T, change func(name string, shape []int64, values []float32) []*weight, config map[string]any) (dir string, values map[string][]float32) {
	t.Helper()
	dir = copyFolder(t, tinyDonor)
	set, err := safetensors.OpenSet(dir)
	must(t, err)
	var ws []*weight
	values = map[string][]float32{}
	var shards []string
	for _, f := range set.Files {
		shards = append(shards, f.Path)
		for i := range f.Tensors {
			ref, _ := set.Lookup(f.Tensors[i].Name)
			made := change(ref.Tensor.Name, ref.Tensor.Shape, decode(t, ref.Tensor.Dtype, readTensor(t, ref)))
			ws = append(ws, made...)
			values[made[0].spec.Name] = made[0].values
		}
	}
	must(t, set.Close())
	for _, path := range append(shards, filepath.Join(dir, "model.safetensors.index.json")) {
		must(t, os.Remove(path))
	}
	var specs []safetensors.Spec
	for _, w := range ws {
		specs = append(specs, w.spec)
	}
	layout, err := safetensors.NewLayout(specs, map[string]string{"format": "pt"})
	must(t, err)
	w, err := safetensors.Create(filepath.Join(dir, "model.safetensors"), layout)
	must(t, err)
	for _, made := range ws {
		must(t, w.WriteAt(made.spec.Name, made.data, 0))
	}
	must(t, w.Close())
	text := readFile(t, dir, "config.json")
	for key, value := range config {
		text, err = sjson.SetBytes(text, key, value)
		must(t, err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644))
	return dir, values
}

// decode widens a stored float tensor.
func decode(t *testing.T, d safetensors.Dtype, b []byte) (v []float32) {
	t.Helper()
	switch d {
	case safetensors.F32:
		for i := 0; i < len(b); i += 4 {
			v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(b[i:])))
		}
	case safetensors.BF16:
		for i := 0; i < len(b); i += 2 {
			v = append(v, numeric.BF16ToFloat32(binary.LittleEndian.Uint16(b[i:])))
		}
	case safetensors.F16:
		for i := 0; i < len(b); i += 2 {
			v = append(v, numeric.FP16ToFloat32(binary.LittleEndian.Uint16(b[i:])))
		}
	default:
		t.Fatalf("%s is no float", d)
	}
	return v
}

// plain stores values, a little off those of BF16, as F32 or F16.
func plain(d safetensors.Dtype, name string, shape []int64, values []float32) *weight {
	w := &weight{spec: safetensors.Spec{Name: name, Dtype: d, Shape: shape}}
	for i, v := range values {
		v *= 1 + float32(i%5)*0.001
		switch d {
		case safetensors.F32:
			w.data, w.values = binary.LittleEndian.AppendUint32(w.data, math.Float32bits(v)), append(w.values, v)
		case safetensors.F16:
			u := numeric.FP16FromFloat32(v)
			w.data, w.values = binary.LittleEndian.AppendUint16(w.data, u), append(w.values, numeric.FP16ToFloat32(u))
		default:
			u := numeric.BF16FromFloat32(v)
			w.data, w.values = binary.LittleEndian.AppendUint16(w.data, u), append(w.values, numeric.BF16ToFloat32(u))
		}
	}
	return w
}

// eight stores a matrix as FP8 with its scales beside it.
func eight(name, suffix string, d safetensors.Dtype, block [2]int64, scaleShape, shape []int64, values []float32) []*weight {
	w := &weight{spec: safetensors.Spec{Name: name, Dtype: safetensors.F8E4M3, Shape: shape}}
	s := &weight{spec: safetensors.Spec{Name: strings.TrimSuffix(name, "weight") + suffix, Dtype: d, Shape: scaleShape}}
	out, in := shape[0], shape[1]
	across := (in + block[1] - 1) / block[1]
	scales := make([]float32, (out+block[0]-1)/block[0]*across)
	at := func(i int64) int64 { return i/in/block[0]*across + i%in/block[1] }
	for i, v := range values {
		k := at(int64(i))
		scales[k] = max(scales[k], v/448, -v/448)
	}
	for k := range scales {
		if d == safetensors.BF16 {
			u := numeric.BF16FromFloat32(scales[k])
			scales[k] = numeric.BF16ToFloat32(u)
			s.data = binary.LittleEndian.AppendUint16(s.data, u)
		} else {
			s.data = binary.LittleEndian.AppendUint32(s.data, math.Float32bits(scales[k]))
		}
	}
	for i, v := range values {
		scale := scales[at(int64(i))]
		u := numeric.E4M3FromFloat32(v / scale)
		w.data, w.values = append(w.data, u), append(w.values, float32(numeric.E4M3ToFloat32(u)*scale))
	}
	return []*weight{w, s}
}

// projection says which tensors an FP8 release quantizes: the projections, those of the head included.
func projection(name string, shape []int64) bool {
	return len(shape) == 2 && strings.HasSuffix(name, "_proj.weight") && !strings.Contains(name, "visual") || strings.HasSuffix(name, "mtp.fc.weight")
}

func TestAFineTuneOfAnyDtypeIsQuantizedFromItsOwnValues(t *testing.T) {
	ct := func(strategy string) map[string]any {
		return map[string]any{"quantization_config": map[string]any{"quant_method": "compressed-tensors", "format": "float-quantized",
			"config_groups": map[string]any{"group_0": map[string]any{"targets": []string{"Linear"}, "weights": map[string]any{"num_bits": 8, "type": "float", "strategy": strategy}}}}}
	}
	for _, c := range []struct {
		name   string
		change func(name string, shape []int64, values []float32) []*weight
		config map[string]any
		fp8    bool
	}{
		{"F16", func(name string, shape []int64, values []float32) []*weight {
			return []*weight{plain(safetensors.F16, name, shape, values)}
		}, map[string]any{"dtype": "float16"}, false},
		{"F32", func(name string, shape []int64, values []float32) []*weight {
			return []*weight{plain(safetensors.F32, name, shape, values)}
		}, map[string]any{"dtype": "float32"}, false},
		{"mixed", func(name string, shape []int64, values []float32) []*weight {
			d := []safetensors.Dtype{safetensors.BF16, safetensors.F16, safetensors.F32}[len(values)/64%3]
			if strings.Contains(name, "k_proj") || strings.Contains(name, "up_proj") {
				d = safetensors.F32
			}
			return []*weight{plain(d, name, shape, values)}
		}, nil, false},
		{"FP8 block", func(name string, shape []int64, values []float32) []*weight {
			if !projection(name, shape) {
				return []*weight{plain(safetensors.BF16, name, shape, values)}
			}
			return eight(name, "weight_scale_inv", safetensors.F32, [2]int64{64, 128}, []int64{(shape[0] + 63) / 64, (shape[1] + 127) / 128}, shape, values)
		}, map[string]any{"quantization_config": map[string]any{"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": []int{64, 128}}}, true},
		{"FP8 tensor", func(name string, shape []int64, values []float32) []*weight {
			if !projection(name, shape) {
				return []*weight{plain(safetensors.BF16, name, shape, values)}
			}
			return append(eight(name, "weight_scale", safetensors.F32, [2]int64{shape[0], shape[1]}, []int64{}, shape, values),
				&weight{spec: safetensors.Spec{Name: strings.TrimSuffix(name, "weight") + "input_scale", Dtype: safetensors.F32, Shape: []int64{}}, data: float32Bytes([]float32{0.5})})
		}, map[string]any{"quantization_config": map[string]any{"quant_method": "modelopt", "quant_algo": "FP8"}}, true},
		{"FP8 channel", func(name string, shape []int64, values []float32) []*weight {
			if !projection(name, shape) {
				return []*weight{plain(safetensors.BF16, name, shape, values)}
			}
			return eight(name, "weight_scale", safetensors.BF16, [2]int64{1, shape[1]}, []int64{shape[0], 1}, shape, values)
		}, ct("channel"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, values := saved(t, c.change, c.config)
			m, err := model.Open(dir)
			must(t, err)
			defer m.Close()
			for _, recipe := range []string{"default", "nvfp4-all-linear"} {
				p := makePlan(t, m, plan.Options{Recipe: recipe, ShardSize: 300_000})
				if errs := playbook.Errors(p.Findings); len(errs) > 0 {
					t.Fatalf("refused: %v", errs)
				}
				out := filepath.Join(t.TempDir(), "out")
				mustRun(t, p, m, out, write.Options{Workers: 2})
				checkAll(t, p, out, values, c.fp8)
			}
		})
	}
}

// checkAll computes every output of a plan from float32 values by the plain definitions.
func checkAll(t *testing.T, p *plan.Plan, out string, values map[string][]float32, fp8 bool) {
	t.Helper()
	amax := map[string]float32{}
	actions := map[plan.Action]int{}
	for _, it := range p.Items {
		actions[it.Action]++
		if it.Group != "" {
			amax[it.Group] = max(amax[it.Group], largest(values[it.Source]))
		}
	}
	if fp8 != (actions[plan.Widen] > 0) || actions[plan.Quantize] == 0 || !fp8 && actions[plan.Cast] == 0 {
		t.Errorf("actions %v", actions)
	}
	get := stored(t, out)
	for _, it := range p.Items {
		v := values[it.Source]
		if v == nil {
			t.Errorf("%s is an item", it.Source)
			continue
		}
		if it.Action != plan.Quantize {
			var want []byte
			for _, x := range v {
				switch it.Outputs[0].Dtype {
				case safetensors.BF16:
					want = binary.LittleEndian.AppendUint16(want, numeric.BF16FromFloat32(x))
				case safetensors.F16:
					want = binary.LittleEndian.AppendUint16(want, numeric.FP16FromFloat32(x))
				default:
					want = binary.LittleEndian.AppendUint32(want, math.Float32bits(x))
				}
			}
			if !bytes.Equal(get(it.Outputs[0].Name), want) {
				t.Errorf("%s (%s) differs", it.Source, it.Action)
			}
			continue
		}
		a := largest(v)
		if it.Group != "" {
			a = amax[it.Group]
		}
		codes, scales := expect(it.Scheme, numeric.Modelopt, v, int(it.Shape[1]), a)
		for _, o := range it.Outputs {
			switch o.Part {
			case dialect.PartCodes:
				if !bytes.Equal(get(o.Name), codes) {
					t.Errorf("%s: codes differ", it.Source)
				}
			case dialect.PartBlockScale, dialect.PartScale:
				if !bytes.Equal(get(o.Name), scales) {
					t.Errorf("%s: scales differ", it.Source)
				}
			}
		}
	}
	set, err := safetensors.OpenSet(out)
	must(t, err)
	defer set.Close()
	for _, r := range set.Refs() {
		if fp8 && (strings.HasSuffix(r.Tensor.Name, "_inv") || strings.HasSuffix(r.Tensor.Name, "input_scale")) {
			t.Errorf("%s of the source is still there", r.Tensor.Name)
		}
	}
	if config := string(readFile(t, out, "config.json")); strings.Contains(config, "weight_block_size") || strings.Contains(config, "quant_algo") || !fp8 && strings.Contains(config, `"dtype": "float`) {
		t.Errorf("config.json is %s", config)
	}
}
