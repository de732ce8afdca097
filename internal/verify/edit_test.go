package verify_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"lukechampine.com/blake3"

	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
)

// tensor is a stored tensor in memory.
type tensor struct {
	dtype safetensors.Dtype
	shape []int64
	data  []byte
	file  string
}

func (x *tensor) clone() *tensor {
	return &tensor{x.dtype, slices.Clone(x.shape), slices.Clone(x.data), x.file}
}

// folder is a checkpoint in memory, to be broken in one place and written back whole: index and record agree with what
// is there afterwards, so that only the accident is left to be found.
type folder struct {
	t       testing.TB
	dir     string
	tensors map[string]*tensor
	config  []byte
	natives map[string]float32 // native scales of a folder that the writer did not write
}

// load reads a folder.
func load(t testing.TB, dir string) *folder {
	t.Helper()
	f := &folder{t: t, dir: dir, tensors: map[string]*tensor{}, config: readFile(t, filepath.Join(dir, "config.json"))}
	set, err := safetensors.OpenSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	for _, r := range set.Refs() {
		x := &tensor{r.Tensor.Dtype, slices.Clone(r.Tensor.Shape), make([]byte, r.Tensor.Bytes()), r.File.Name}
		if err := r.ReadAt(x.data, 0); err != nil {
			t.Fatal(err)
		}
		f.tensors[r.Tensor.Name] = x
	}
	return f
}

// get is a tensor that must be there.
func (f *folder) get(name string) *tensor {
	f.t.Helper()
	x := f.tensors[name]
	if x == nil {
		f.t.Fatalf("the fixture has no tensor %s", name)
	}
	return x
}

// add stores a new tensor beside another.
func (f *folder) add(beside, name string, dtype safetensors.Dtype, shape []int64, data []byte) {
	f.tensors[name] = &tensor{dtype, shape, data, f.get(beside).file}
}

// set changes one path of config.json, del removes one.
func (f *folder) set(path string, value any) {
	f.t.Helper()
	out, err := sjson.SetBytes(f.config, path, value)
	if err != nil {
		f.t.Fatal(err)
	}
	f.config = out
}

func (f *folder) del(path string) {
	f.t.Helper()
	out, err := sjson.DeleteBytes(f.config, path)
	if err != nil {
		f.t.Fatal(err)
	}
	f.config = out
}

// ignore filters or extends the ignore list.
func (f *folder) ignore(edit func([]string) []string) {
	var list []string
	for _, e := range gjson.GetBytes(f.config, "quantization_config.ignore").Array() {
		list = append(list, e.Str)
	}
	f.set("quantization_config.ignore", edit(list))
}

func dropping(part string) func([]string) []string {
	return func(list []string) []string {
		return slices.DeleteFunc(list, func(e string) bool { return strings.Contains(e, part) })
	}
}

func adding(entries ...string) func([]string) []string {
	return func(list []string) []string { return append(list, entries...) }
}

// save writes shards, index, config.json and record.
func (f *folder) save() {
	f.t.Helper()
	old, err := filepath.Glob(filepath.Join(f.dir, "*.safetensors"))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			f.t.Fatal(err)
		}
	}
	f.number()
	files, weightMap, total := map[string][]safetensors.Spec{}, map[string]string{}, int64(0)
	for _, name := range slices.Sorted(maps.Keys(f.tensors)) {
		x := f.tensors[name]
		files[x.file] = append(files[x.file], safetensors.Spec{Name: name, Dtype: x.dtype, Shape: x.shape})
		weightMap[name] = x.file
		total += int64(len(x.data))
	}
	for file, specs := range files {
		layout, err := safetensors.NewLayout(specs, map[string]string{"format": "pt"})
		if err != nil {
			f.t.Fatal(err)
		}
		w, err := safetensors.Create(filepath.Join(f.dir, file), layout)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, s := range specs {
			if err := w.WriteAt(s.Name, f.tensors[s.Name].data, 0); err != nil {
				f.t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			f.t.Fatal(err)
		}
	}
	writeFile(f.t, filepath.Join(f.dir, "model.safetensors.index.json"), safetensors.IndexBytes(weightMap, total))
	writeFile(f.t, filepath.Join(f.dir, "config.json"), f.config)
	rehash(f.t, f.dir)
	if f.natives != nil {
		editRecord(f.t, f.dir, func(p *model.Provenance) { p.Math, p.Native, p.Dialect = "modelopt", f.natives, "" })
	}
}

// number names the shards that are left without gaps.
func (f *folder) number() {
	left := map[string]bool{}
	for _, x := range f.tensors {
		left[x.file] = true
	}
	for i, file := range slices.Sorted(maps.Keys(left)) {
		to := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(left))
		for _, x := range f.tensors {
			if x.file == file {
				x.file = to
			}
		}
	}
}

// rehash makes the record agree with the files.
func rehash(t testing.TB, dir string) {
	t.Helper()
	p := model.Provenance{Schema: 1, Tool: "seatsmith"}
	path := filepath.Join(dir, model.ProvenanceFile)
	if data, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(data, &p); err != nil {
			t.Fatal(err)
		}
	}
	p.Files = map[string]model.FileHash{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == model.ProvenanceFile {
			continue
		}
		data := readFile(t, filepath.Join(dir, e.Name()))
		sum := blake3.Sum256(data)
		p.Files[e.Name()] = model.FileHash{Bytes: int64(len(data)), BLAKE3: hex.EncodeToString(sum[:])}
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, data)
}

// made holds one quantized folder per recipe; tests work on copies.
var made struct {
	sync.Mutex
	dirs map[string]string
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, dir := range made.dirs {
		os.RemoveAll(filepath.Dir(dir))
	}
	os.Exit(code)
}

// copyOf gives a fresh copy of the fixture quantized with a recipe.
func copyOf(t testing.TB, recipe string) *folder {
	t.Helper()
	made.Lock()
	defer made.Unlock()
	if made.dirs == nil {
		made.dirs = map[string]string{}
	}
	if made.dirs[recipe] == "" {
		parent, err := os.MkdirTemp("", "verify")
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(parent, "quantized")
		quantizeInto(t, dir, plan.Options{Recipe: recipe, ShardSize: 400_000})
		made.dirs[recipe] = dir
	}
	dir := filepath.Join(t.TempDir(), "quantized")
	if err := os.CopyFS(dir, os.DirFS(made.dirs[recipe])); err != nil {
		t.Fatal(err)
	}
	return load(t, dir)
}

// linear is the fixture in FP8 with the target "Linear", so that only the ignore list keeps modules unquantized.
func linear(t testing.TB) *folder {
	f := copyOf(t, "fp8-dynamic")
	f.set("quantization_config.config_groups.group_0.targets", []string{"Linear"})
	return f
}

// w4a4 is the default recipe with activations scaled by stored numbers.
func w4a4(t testing.TB) *folder {
	f := copyOf(t, "default")
	f.set("quantization_config.config_groups.group_0.input_activations", json.RawMessage(
		`{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16,"symmetric":true,"dynamic":"local"}`))
	for _, name := range slices.Sorted(maps.Keys(f.tensors)) {
		if module, ok := strings.CutSuffix(name, ".weight_global_scale"); ok {
			f.add(name, module+".input_global_scale", safetensors.F32, []int64{1}, f32(448))
		}
	}
	return f
}

// otherMethod is the unquantized fixture under a method whose modules are not simulated.
func otherMethod(t *testing.T) *folder {
	dir := filepath.Join(t.TempDir(), "other")
	if err := os.CopyFS(dir, os.DirFS(donor)); err != nil {
		t.Fatal(err)
	}
	f := load(t, dir)
	f.set("quantization_config", json.RawMessage(`{"quant_method":"awq","bits":4}`))
	return f
}
