package line_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/sjson"

	"seatsmith/internal/line"
	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// shelf is a checkpoint in memory, to be changed and written somewhere else.
type shelf struct {
	t      *testing.T
	files  map[string][]byte            // small files
	shards map[string]map[string]stored // file, then tensor
}

// take reads a checkpoint whole.
func take(t *testing.T, dir string) *shelf {
	t.Helper()
	s := &shelf{t: t, files: map[string][]byte{}, shards: map[string]map[string]stored{}}
	entries, err := os.ReadDir(dir)
	s.check(err)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".safetensors") && e.Name() != "model.safetensors.index.json" {
			s.files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name()))
			s.check(err)
		}
	}
	set, err := safetensors.OpenSet(dir)
	s.check(err)
	defer set.Close()
	for _, r := range set.Refs() {
		b := make([]byte, r.Tensor.Bytes())
		s.check(r.ReadAt(b, 0))
		s.add(r.File.Name, r.Tensor.Name, r.Tensor.Dtype, r.Tensor.Shape, b)
	}
	return s
}

func (s *shelf) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// add puts a tensor into a file.
func (s *shelf) add(file, name string, dtype safetensors.Dtype, shape []int64, data []byte) *shelf {
	if s.shards[file] == nil {
		s.shards[file] = map[string]stored{}
	}
	s.shards[file][name] = stored{safetensors.Spec{Name: name, Dtype: dtype, Shape: slices.Clone(shape)}, data}
	return s
}

// each changes every tensor: keep false takes it out, another name renames it.
func (s *shelf) each(change func(name string, x *stored) (to string, keep bool)) *shelf {
	for file, tensors := range s.shards {
		changed := map[string]stored{}
		for name, x := range tensors {
			if to, keep := change(name, &x); keep {
				x.Name = to
				changed[to] = x
			}
		}
		if s.shards[file] = changed; len(changed) == 0 {
			delete(s.shards, file)
		}
	}
	return s
}

// without takes out every tensor whose name begins so.
func (s *shelf) without(prefix string) *shelf {
	return s.each(func(name string, _ *stored) (string, bool) { return name, !strings.HasPrefix(name, prefix) })
}

// config sets a key of config.json; nil deletes it.
func (s *shelf) config(key string, value any) *shelf { return s.json("config.json", key, value) }

func (s *shelf) json(file, key string, value any) *shelf {
	s.t.Helper()
	var err error
	if value == nil {
		s.files[file], err = sjson.DeleteBytes(s.files[file], key)
	} else {
		s.files[file], err = sjson.SetBytes(s.files[file], key, value)
	}
	s.check(err)
	return s
}

// foreign takes out everything by which a folder is known as ours.
func (s *shelf) foreign() *shelf {
	for _, name := range []string{"seatsmith.json", "README.md", "SHA256SUMS"} {
		delete(s.files, name)
	}
	return s
}

// put writes the checkpoint and its index; a tensor that two files hold is listed with the last.
func (s *shelf) put() string {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), "checkpoint")
	s.check(os.Mkdir(dir, 0o755))
	for name, data := range s.files {
		s.check(os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	weights, total := map[string]string{}, int64(0)
	for _, file := range slices.Sorted(maps.Keys(s.shards)) {
		var specs []safetensors.Spec
		for name, x := range s.shards[file] {
			specs = append(specs, x.Spec)
			weights[name] = file
			total += int64(len(x.data))
		}
		layout, err := safetensors.NewLayout(specs, map[string]string{"format": "pt"})
		s.check(err)
		w, err := safetensors.Create(filepath.Join(dir, file), layout)
		s.check(err)
		for name, x := range s.shards[file] {
			s.check(w.WriteAt(name, x.data, 0))
		}
		s.check(w.Close())
	}
	s.check(os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), safetensors.IndexBytes(weights, total), 0o644))
	return dir
}

// all is every tensor, whatever file it is in; one in two files is a failure.
func (s *shelf) all() map[string]stored {
	out := map[string]stored{}
	for file, tensors := range s.shards {
		for name, x := range tensors {
			if _, twice := out[name]; twice {
				s.t.Errorf("%s is stored twice, the second time in %s", name, file)
			}
			out[name] = x
		}
	}
	return out
}

// same compares the tensors of two checkpoints by name, dtype, shape and bytes.
func same(t *testing.T, got, want map[string]stored) {
	t.Helper()
	for name, w := range want {
		g, ok := got[name]
		switch {
		case !ok:
			t.Errorf("%s is gone", name)
		case g.Dtype != w.Dtype || !slices.Equal(g.Shape, w.Shape) || !bytes.Equal(g.data, w.data):
			t.Errorf("%s differs: %s %v, want %s %v", name, g.Dtype, g.Shape, w.Dtype, w.Shape)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s came in", name)
		}
	}
}

// made runs a job into a folder of the test's own and gives the folder.
func made(t *testing.T, j line.Job) string {
	t.Helper()
	j.Schema, j.Output = 1, filepath.Join(t.TempDir(), "made")
	out, err := line.Forge(t.Context(), j, "test", line.Reporter{})
	if err != nil {
		t.Fatal(err)
	}
	if out.Output == "" {
		t.Fatalf("nothing was made: %v", playbook.Errors(out.Findings))
	}
	return out.Output
}

// changed applies a change into a folder of the test's own.
func changed(t *testing.T, c line.Change) *line.Outcome {
	t.Helper()
	c.Output = filepath.Join(t.TempDir(), "changed")
	out, err := line.Apply(t.Context(), c, "test", line.Reporter{})
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict == "fail" || out.Output == "" {
		absent(t, c.Output)
	}
	return out
}

func converted(t *testing.T, dir, to string) string {
	t.Helper()
	out := changed(t, line.Change{Kind: plan.KindConvert, Source: dir, Dialect: to})
	if out.Output == "" {
		t.Fatalf("nothing was converted: %v %+v", playbook.Errors(out.Findings), out.Verify)
	}
	if !out.Verified || out.Verify.Verdict == "fail" {
		t.Errorf("it was published unjudged: %+v", out.Verify)
	}
	has(t, out.Findings, "convert-done")
	return out.Output
}

// has expects a finding of a rule that says all of the words.
func has(t *testing.T, found []playbook.Finding, rule string, words ...string) {
	t.Helper()
	var said []string
	for _, f := range found {
		if f.Rule != rule {
			continue
		}
		text := f.Subject + ": " + f.Message + " / " + f.Fix
		said = append(said, text)
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			return
		}
	}
	t.Errorf("no finding of %s says %q; of that rule there are %q, of all %v", rule, words, said, rules(found))
}

func rules(found []playbook.Finding) []string {
	var out []string
	for _, f := range found {
		out = append(out, string(f.Severity)+" "+f.Rule)
	}
	return out
}

// statistics writes made-up activation statistics of a checkpoint: between 2 and 18, by the module's name.
func statistics(t *testing.T, dir string) string {
	t.Helper()
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	values := map[string]float32{}
	add := func(module string) {
		h := fnv.New32a()
		h.Write([]byte(module))
		values[module+".input_amax"] = 2 + float32(h.Sum32()%128)/8
	}
	for i := range m.Tensors {
		tn := &m.Tensors[i]
		experts, stacked := strings.CutSuffix(tn.Module, ".gate_up_proj")
		switch {
		case !tn.Linear:
		case len(tn.Shape()) == 3 && stacked:
			for e := range tn.Shape()[0] {
				for _, leaf := range []string{".gate_proj", ".up_proj", ".down_proj"} {
					add(experts + "." + itoa(e) + leaf)
				}
			}
		case len(tn.Shape()) == 2:
			add(tn.Module)
		}
	}
	var specs []safetensors.Spec
	for name := range values {
		specs = append(specs, safetensors.Spec{Name: name, Dtype: safetensors.F32, Shape: []int64{1}})
	}
	layout, err := safetensors.NewLayout(specs, map[string]string{"format": "seatsmith-stats", "schema": "1", "model": m.Fingerprint()})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "stats.safetensors")
	w, err := safetensors.Create(path, layout)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range values {
		if err := w.WriteAt(name, binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func itoa(n int64) string {
	b, _ := json.Marshal(n)
	return string(b)
}
