package write_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/write"
)

const (
	tinyBody  = "../../testdata/tiny-finetune"
	tinyDonor = "../../testdata/tiny"
)

// smallShards makes several shards of the fixture.
var smallShards = plan.Options{ShardSize: 150_000}

// allLinear also quantizes what the default recipe codes in FP8, to NVFP4.
var allLinear = plan.Options{ShardSize: 150_000, Recipe: "nvfp4-all-linear"}

// openView opens a headless body with a donor's head laid over it.
func openView(t testing.TB, body, donor string) *model.Model {
	t.Helper()
	b, err := model.Open(body)
	if err != nil {
		t.Fatal(err)
	}
	d, err := model.OpenDonor(donor)
	if err != nil {
		t.Fatal(err)
	}
	v, err := model.Overlay(b, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v
}

func makePlan(t testing.TB, m *model.Model, o plan.Options) *plan.Plan {
	t.Helper()
	p, err := plan.Make(m, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tiny is the fixture opened and planned with small shards.
func tiny(t testing.TB) (*model.Model, *plan.Plan) {
	t.Helper()
	m := openView(t, tinyBody, tinyDonor)
	return m, makePlan(t, m, smallShards)
}

// copyFolder copies a fixture so that a test can break it.
func copyFolder(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(from))
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// mustRun runs to the end and returns the result.
func mustRun(t testing.TB, p *plan.Plan, m *model.Model, out string, o write.Options) *write.Result {
	t.Helper()
	res, err := write.Run(context.Background(), p, m, out, o)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// tree is the content of a folder: name -> SHA-256. Anything but folders and plain files of one link fails the test.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			t.Errorf("%s is %s, not a plain file", path, d.Type())
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(b)
		name, err := filepath.Rel(dir, path)
		files[name] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sameTree fails unless two folders hold the same files with the same bytes.
func sameTree(t testing.TB, got, want map[string]string) {
	t.Helper()
	for name, sum := range want {
		switch {
		case got[name] == "":
			t.Errorf("%s is missing", name)
		case got[name] != sum:
			t.Errorf("%s differs", name)
		}
	}
	for name := range got {
		if want[name] == "" {
			t.Errorf("%s is one file too many", name)
		}
	}
}

// absent fails if there is anything at path.
func absent(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there (%v)", path, err)
	}
}

// says fails unless err mentions every word.
func says(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// poke sets elements of a BF16 tensor in a copied fixture, by element index.
func poke(t testing.TB, dir, tensor string, values map[int64]float32) {
	t.Helper()
	edit(t, dir, tensor, func(b []byte) {
		for i, v := range values {
			binary.LittleEndian.PutUint16(b[2*i:], numeric.BF16FromFloat32(v))
		}
	})
}

// edit changes a tensor's bytes in place and reports the file that holds it.
func edit(t testing.TB, dir, tensor string, change func(b []byte)) (path string) {
	t.Helper()
	set, err := safetensors.OpenSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	ref, ok := set.Lookup(tensor)
	if !ok {
		t.Fatalf("no tensor %s in %s", tensor, dir)
	}
	path = filepath.Join(dir, ref.File.Name)
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	start := ref.File.DataStart + ref.Tensor.Begin
	change(all[start : start+ref.Tensor.Bytes()])
	if err := os.WriteFile(path, all, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// readTensor reads a whole stored tensor.
func readTensor(t testing.TB, ref safetensors.Ref) []byte {
	t.Helper()
	b := make([]byte, ref.Tensor.Bytes())
	if err := ref.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// clone copies a plan so that a test can break it.
func clone(t testing.TB, p *plan.Plan) *plan.Plan {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var c plan.Plan
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&c); err != nil {
		t.Fatal(err)
	}
	return &c
}

// firstItem finds the first item that pred accepts.
func firstItem(t testing.TB, p *plan.Plan, pred func(*plan.Item) bool) *plan.Item {
	t.Helper()
	for i := range p.Items {
		if pred(&p.Items[i]) {
			return &p.Items[i]
		}
	}
	t.Fatal("the plan has no such item")
	return nil
}

func isNVFP4(it *plan.Item) bool { return it.Scheme.NVFP4() }
func isFP8(it *plan.Item) bool   { return it.Scheme.FP8() }
func isKept(it *plan.Item) bool  { return !it.Scheme.Quantized() }
