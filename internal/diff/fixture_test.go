package diff

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

const fixtures = "../../testdata"

// held is a tensor in memory.
type held struct {
	dtype safetensors.Dtype
	shape []int64
	data  []byte
}

// folder is a checkpoint in memory, to be broken and written.
type folder struct {
	tensors map[string]held
	files   map[string][]byte
}

func load(t testing.TB, name string) *folder {
	t.Helper()
	m := open(t, filepath.Join(fixtures, name))
	f := &folder{tensors: map[string]held{}, files: map[string][]byte{"config.json": m.Config.Raw}}
	for _, x := range m.Tensors {
		h := held{x.Dtype(), x.Shape(), make([]byte, x.Bytes())}
		if err := x.ReadAt(h.data, 0); err != nil {
			t.Fatal(err)
		}
		f.tensors[x.Name] = h
	}
	for _, x := range m.Files {
		data, err := os.ReadFile(x.Path)
		if err != nil {
			t.Fatal(err)
		}
		f.files[x.Name] = data
	}
	return f
}

// write puts the folder on disk as one shard.
func (f *folder) write(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	var specs []safetensors.Spec
	for name, h := range f.tensors {
		specs = append(specs, safetensors.Spec{Name: name, Dtype: h.dtype, Shape: h.shape})
	}
	layout, err := safetensors.NewLayout(specs, map[string]string{"format": "pt"})
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	all.Write(layout.Header)
	for _, x := range layout.Tensors {
		all.Write(f.tensors[x.Name].data)
	}
	f.put(t, dir, "model.safetensors", all.Bytes())
	for name, data := range f.files {
		f.put(t, dir, name, data)
	}
	return dir
}

func (f *folder) put(t testing.TB, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// touch changes the first value of every tensor that match takes, by one bit of its mantissa.
func (f *folder) touch(match func(name string) bool) *folder {
	for name, h := range f.tensors {
		if match(name) {
			h.data = bytes.Clone(h.data)
			h.data[0] ^= 1
			f.tensors[name] = h
		}
	}
	return f
}

func (f *folder) drop(match func(name string) bool) *folder {
	maps.DeleteFunc(f.tensors, func(name string, _ held) bool { return match(name) })
	return f
}

func (f *folder) rename(from, to string) *folder {
	for name, h := range maps.Clone(f.tensors) {
		if rest, ok := strings.CutPrefix(name, from); ok {
			delete(f.tensors, name)
			f.tensors[to+rest] = h
		}
	}
	return f
}

func (f *folder) replace(t testing.TB, file, old, new string) *folder {
	t.Helper()
	if !strings.Contains(string(f.files[file]), old) {
		t.Fatalf("%s does not hold %q", file, old)
	}
	f.files[file] = []byte(strings.Replace(string(f.files[file]), old, new, 1))
	return f
}

func has(parts ...string) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(name, p) })
	}
}

func everything(string) bool { return true }

func open(t testing.TB, dir string) *model.Model {
	t.Helper()
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func run(t testing.TB, body, base string, o Options) *Report {
	t.Helper()
	r, err := Run(context.Background(), open(t, body), open(t, base), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func base(name string) string { return filepath.Join(fixtures, name) }

// fired lists the findings that are not information: "severity rule".
func fired(r *Report) []string {
	var out []string
	for _, f := range r.Findings {
		if f.Severity != playbook.Info {
			out = append(out, string(f.Severity)+" "+f.Rule)
		}
	}
	slices.Sort(out)
	return out
}

func expect(t *testing.T, r *Report, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := fired(r); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
		for _, f := range r.Findings {
			t.Log(f)
		}
	}
}

func message(r *Report, rule string) string {
	for _, f := range r.Findings {
		if f.Rule == rule {
			return f.Message
		}
	}
	return ""
}

// recast stores a BF16 tensor as another type.
func (h held) recast(d safetensors.Dtype) held {
	var out []byte
	for i := 0; i+2 <= len(h.data); i += 2 {
		v := numeric.BF16ToFloat32(binary.LittleEndian.Uint16(h.data[i:]))
		if d == safetensors.F16 {
			out = binary.LittleEndian.AppendUint16(out, numeric.FP16FromFloat32(v))
		} else {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
	}
	return held{d, h.shape, out}
}
