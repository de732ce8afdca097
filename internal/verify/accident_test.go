package verify_test

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/safetensors"
)

// toFP8 codes a plain module of the folder as FP8 per channel.
func (f *folder) toFP8(module string) {
	f.t.Helper()
	x := f.get(module + ".weight")
	out, in := x.shape[0], x.shape[1]
	codes, scales := make([]byte, out*in), []byte{}
	for r := range out {
		row := x.data[2*r*in : 2*(r+1)*in]
		amax, _ := numeric.AmaxBF16(row)
		scale := numeric.FP8Scale(numeric.Modelopt, true, amax)
		numeric.EncodeFP8BF16(numeric.Modelopt, true, codes[r*in:(r+1)*in], row, scale)
		scales = append(scales, f32(scale)...)
	}
	f.add(module+".weight", module+".weight_scale", safetensors.F32, []int64{out, 1}, scales)
	x.dtype, x.data = safetensors.F8E4M3, codes
}

// restore puts a module back as the source has it.
func (f *folder) restore(module string) {
	f.t.Helper()
	file := ""
	for name, x := range f.tensors {
		if strings.HasPrefix(name, module+".") {
			file = x.file
			delete(f.tensors, name)
		}
	}
	source := load(f.t, body)
	x := source.get(module + ".weight").clone()
	x.file = file
	f.tensors[module+".weight"] = x
}

// cacheScheme declares an FP8 key/value cache.
func (f *folder) cacheScheme() {
	f.set("quantization_config.kv_cache_scheme", json.RawMessage(`{"num_bits":8,"type":"float","strategy":"tensor","dynamic":false,"symmetric":true}`))
}

// native exchanges the recorded native scales of two modules.
func (f *folder) native(a, b string) {
	f.t.Helper()
	path := filepath.Join(f.dir, model.ProvenanceFile)
	var p model.Provenance
	if err := json.Unmarshal(readFile(f.t, path), &p); err != nil {
		f.t.Fatal(err)
	}
	p.Native[a], p.Native[b] = p.Native[b], p.Native[a]
	data, err := json.Marshal(p)
	if err != nil {
		f.t.Fatal(err)
	}
	writeFile(f.t, path, data)
}

func badScale(v float64) func(*folder) {
	return func(f *folder) {
		f.get(down0 + ".input_global_scale").data = binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(v)))
	}
}

func double(module string) func(*folder) {
	return func(f *folder) {
		x := f.get(module + ".weight_global_scale")
		x.data = f32(2 * f32At(x.data))
	}
}

func invert(modules ...string) func(*folder) {
	return func(f *folder) {
		for _, m := range modules {
			x := f.get(m + ".weight_global_scale")
			x.data = f32(1 / f32At(x.data))
		}
	}
}

// textOnly is the donor as an unquantized text-only checkpoint with its head.
func textOnly(t *testing.T) *folder {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "text")
	if err := os.CopyFS(dir, os.DirFS(donor)); err != nil {
		t.Fatal(err)
	}
	f := load(t, dir)
	for _, name := range slices.Collect(maps.Keys(f.tensors)) {
		x := f.tensors[name]
		if strings.HasPrefix(name, "model.visual.") {
			delete(f.tensors, name)
		}
		if rest, ok := strings.CutPrefix(name, "model.language_model."); ok {
			delete(f.tensors, name)
			f.tensors["model."+rest] = x
		}
	}
	var all, text map[string]json.RawMessage
	if err := json.Unmarshal(f.config, &all); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(all["text_config"], &text); err != nil {
		t.Fatal(err)
	}
	text["architectures"], text["dtype"] = json.RawMessage(`["Qwen3_5ForCausalLM"]`), all["dtype"]
	config, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	f.config = config
	return f
}

// withWidth is the default fixture with MLPs of another width: codes, scales and kept tensors are cut or repeated, which
// only shapes notice. A width that 16 does not divide gets as many scales as whole blocks.
func withWidth(t *testing.T, width int64) *folder {
	t.Helper()
	f := copyOf(t, "default")
	const old = 384
	f.set("text_config.intermediate_size", width)
	resize := func(x *tensor, rows, rowBytes, newRows, newBytes int64) {
		out := make([]byte, 0, newRows*newBytes)
		for r := range newRows {
			row := x.data[(r%rows)*rowBytes : (r%rows+1)*rowBytes]
			for int64(len(row)) < newBytes {
				row = append(slices.Clone(row), row...)
			}
			out = append(out, row[:newBytes]...)
		}
		x.data = out
	}
	for name, x := range f.tensors {
		if !strings.Contains(name, ".mlp.") || strings.Contains(name, "visual") || len(x.shape) != 2 {
			continue
		}
		rows, cols := x.shape[0], x.shape[1]
		bytes := int64(len(x.data)) / rows
		switch {
		case rows == old:
			resize(x, rows, bytes, width, bytes)
			x.shape[0] = width
		case strings.HasSuffix(name, ".weight"):
			resize(x, rows, bytes, rows, 2*width)
			x.shape[1] = width
		case cols == old/2:
			resize(x, rows, bytes, rows, width/2)
			x.shape[1] = width / 2
		case cols == old/16:
			resize(x, rows, bytes, rows, width/16)
			x.shape[1] = width / 16
		}
	}
	return f
}

// longerSource is the fixture's view with one more tensor, which servers pass over.
func longerSource(t *testing.T) *model.Model {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "longer")
	if err := os.CopyFS(dir, os.DirFS(body)); err != nil {
		t.Fatal(err)
	}
	f := load(t, dir)
	f.add(layer0+"input_layernorm.weight", "model.language_model.rotary_emb.inv_freq", safetensors.F32, []int64{2}, make([]byte, 8))
	f.save()
	return overlay(t, dir, donor)
}

// clip codes a fused group as if its largest value were smaller by a factor, and records the scale.
func (f *folder) clip(factor float32, modules ...string) {
	f.t.Helper()
	source := load(f.t, body)
	var amax float32
	for _, m := range modules {
		a, _ := numeric.AmaxBF16(source.get(m + ".weight").data)
		amax = max(amax, a)
	}
	q := numeric.NewNVFP4(numeric.Modelopt, amax/factor)
	path := filepath.Join(f.dir, model.ProvenanceFile)
	var p model.Provenance
	if err := json.Unmarshal(readFile(f.t, path), &p); err != nil {
		f.t.Fatal(err)
	}
	for _, m := range modules {
		q.EncodeBF16(f.get(m+".weight_packed").data, f.get(m+".weight_scale").data, source.get(m+".weight").data)
		f.get(m + ".weight_global_scale").data = f32(q.Divisor())
		p.Native[m] = q.Global
	}
	data, err := json.Marshal(p)
	if err != nil {
		f.t.Fatal(err)
	}
	writeFile(f.t, path, data)
}

// duplicate stores a tensor of the folder in a second shard too; index and record are brought up to date otherwise.
func duplicate(t *testing.T, dir, name string) {
	t.Helper()
	f := load(t, dir)
	index := readFile(t, filepath.Join(dir, "model.safetensors.index.json"))
	other := f.get("lm_head.weight").file
	if other == f.get(name).file {
		other = f.get("mtp.fc.weight").file
	}
	path := filepath.Join(dir, other)
	var specs []safetensors.Spec
	for n, x := range f.tensors {
		if x.file == other || n == name {
			specs = append(specs, safetensors.Spec{Name: n, Dtype: x.dtype, Shape: x.shape})
		}
	}
	layout, err := safetensors.NewLayout(specs, map[string]string{"format": "pt"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w, err := safetensors.Create(path, layout)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range specs {
		if err := w.WriteAt(s.Name, f.tensors[s.Name].data, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "model.safetensors.index.json"), index)
	rehash(t, dir)
}
