package model_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/sjson"

	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

const fixtures = "../../testdata/"

// entry is a tensor of a folder that a test builds. All its values are the same.
type entry struct {
	dtype string
	shape []int64
	value float32
}

// folder is a checkpoint that a test builds: the headers of a fixture, changed in one place, over constant values.
type folder struct {
	t       testing.TB
	config  []byte
	tensors map[string]entry
	files   map[string]string // companions
	shards  int
	index   bool
}

// like starts from a fixture.
func like(t testing.TB, fixture string) *folder {
	t.Helper()
	f := &folder{t: t, tensors: map[string]entry{}, shards: 2, index: true, files: map[string]string{
		"tokenizer.json": `{"model": {"vocab": {}}}`, "tokenizer_config.json": "{}", "generation_config.json": "{}",
		"preprocessor_config.json": "{}", "chat_template.jinja": "x",
	}}
	config, err := os.ReadFile(fixtures + fixture + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	f.config = config
	set, err := safetensors.OpenSet(fixtures + fixture)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	for _, r := range set.Refs() {
		f.tensors[r.Tensor.Name] = entry{dtype: string(r.Tensor.Dtype), shape: r.Tensor.Shape}
	}
	return f
}

func (f *folder) set(path string, value any) *folder {
	f.t.Helper()
	config, err := sjson.SetBytes(f.config, path, value)
	if err != nil {
		f.t.Fatal(err)
	}
	f.config = config
	return f
}

func (f *folder) unset(path string) *folder {
	f.t.Helper()
	config, err := sjson.DeleteBytes(f.config, path)
	if err != nil {
		f.t.Fatal(err)
	}
	f.config = config
	return f
}

func (f *folder) drop(match func(name string) bool) *folder {
	for name := range f.tensors {
		if match(name) {
			delete(f.tensors, name)
		}
	}
	return f
}

func (f *folder) dropPrefix(prefix string) *folder {
	return f.drop(func(name string) bool { return strings.HasPrefix(name, prefix) })
}

func (f *folder) rename(from, to string) *folder {
	for name, e := range f.tensors {
		if rest, ok := strings.CutPrefix(name, from); ok {
			delete(f.tensors, name)
			defer func() { f.tensors[to+rest] = e }()
		}
	}
	return f
}

func (f *folder) add(name, dtype string, shape ...int64) *folder {
	f.tensors[name] = entry{dtype: dtype, shape: shape}
	return f
}

// fill sets the value of every tensor that matches.
func (f *folder) fill(value float32, match func(name string) bool) *folder {
	for name, e := range f.tensors {
		if match(name) {
			e.value = value
			f.tensors[name] = e
		}
	}
	return f
}

func (f *folder) names() []string {
	var out []string
	for name := range f.tensors {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// write makes the folder and returns its path.
func (f *folder) write() string {
	f.t.Helper()
	dir := f.t.TempDir()
	put := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			f.t.Fatal(err)
		}
	}
	if f.config != nil {
		put("config.json", f.config)
	}
	for name, text := range f.files {
		put(name, []byte(text))
	}
	names := f.names()
	weightMap, total := map[string]string{}, int64(0)
	for s := range f.shards {
		shard := fmt.Sprintf("model-%05d-of-%05d.safetensors", s+1, f.shards)
		part := names[len(names)*s/f.shards : len(names)*(s+1)/f.shards]
		data := f.shard(part)
		put(shard, data)
		for _, name := range part {
			weightMap[name] = shard
			total += f.tensors[name].bytes()
		}
	}
	if f.index {
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"total_size": total}, "weight_map": weightMap})
		if err != nil {
			f.t.Fatal(err)
		}
		put("model.safetensors.index.json", data)
	}
	return dir
}

// shard is a safetensors file with these tensors in this order.
func (f *folder) shard(names []string) []byte {
	f.t.Helper()
	type item struct {
		Dtype   string   `json:"dtype"`
		Shape   []int64  `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	header, end := map[string]item{}, int64(0)
	var data []byte
	for _, name := range names {
		e := f.tensors[name]
		header[name] = item{e.dtype, append([]int64{}, e.shape...), [2]int64{end, end + e.bytes()}}
		end += e.bytes()
		data = append(data, e.data()...)
	}
	text, err := json.Marshal(header)
	if err != nil {
		f.t.Fatal(err)
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, data)
}

func (e entry) width() int64 {
	switch e.dtype {
	case "F32", "I32":
		return 4
	case "BF16", "F16":
		return 2
	}
	return 1
}

func (e entry) bytes() int64 {
	n := e.width()
	for _, d := range e.shape {
		n *= d
	}
	return n
}

func (e entry) data() []byte {
	if e.value == 0 {
		return make([]byte, e.bytes())
	}
	bits := math.Float32bits(e.value)
	one := binary.LittleEndian.AppendUint32(nil, bits)
	if e.dtype == "BF16" {
		one = one[2:]
	}
	var out []byte
	for int64(len(out)) < e.bytes() {
		out = append(out, one...)
	}
	return out
}

// open writes the folder and opens it as a body.
func (f *folder) open() *model.Model {
	f.t.Helper()
	return open(f.t, f.write())
}

func open(t testing.TB, dir string) *model.Model {
	t.Helper()
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func openDonor(t testing.TB, path string) *model.Model {
	t.Helper()
	m, err := model.OpenDonor(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func overlay(t testing.TB, body, donor *model.Model) *model.Model {
	t.Helper()
	v, err := model.Overlay(body, donor)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// judged lists the findings that are not mere information, as "severity rule".
func judged(findings []playbook.Finding) []string {
	out := []string{}
	for _, f := range findings {
		if f.Severity != playbook.Info {
			out = append(out, string(f.Severity)+" "+f.Rule)
		}
	}
	return out
}

// only fails the test unless the findings are exactly these ("severity rule", information counted).
func only(t testing.TB, findings []playbook.Finding, want ...string) {
	t.Helper()
	got := []string{}
	for _, f := range findings {
		got = append(got, string(f.Severity)+" "+f.Rule)
	}
	if !slices.Equal(got, want) {
		var lines []string
		for _, f := range findings {
			lines = append(lines, f.String())
		}
		t.Errorf("findings %v, want %v:\n%s", got, want, strings.Join(lines, "\n"))
	}
}

// says fails the test unless the finding of a rule contains every text.
func says(t testing.TB, findings []playbook.Finding, rule string, texts ...string) {
	t.Helper()
	for _, f := range findings {
		if f.Rule != rule {
			continue
		}
		for _, text := range texts {
			if !strings.Contains(f.String(), text) {
				t.Errorf("finding %q does not say %q", f, text)
			}
		}
		return
	}
	t.Errorf("no finding of rule %s in %v", rule, findings)
}
