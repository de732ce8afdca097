package safetensors_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"seatsmith/internal/safetensors"
)

func TestOpenNamesWhatIsWrong(t *testing.T) {
	dir := folder(t, map[string][]byte{"page.safetensors": []byte("<html>")})
	_, err := safetensors.Open(filepath.Join(dir, "none.safetensors"))
	if wantProblem(t, err, "shard-missing", "does not exist"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
	_, err = safetensors.Open(dir)
	wantProblem(t, err, "file-not-safetensors", "a folder")
	_, err = safetensors.Open(filepath.Join(dir, "page.safetensors"))
	wantProblem(t, err, "file-not-safetensors", "an HTML page", "page.safetensors")
	_, err = safetensors.Open(filepath.Join(dir, "page.safetensors", "x"))
	wantProblem(t, err, "file-unreadable", "not a directory")
}

func TestOpenSetNeedsAFolderWithSafetensorsFiles(t *testing.T) {
	if _, err := safetensors.OpenSet(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	dir := folder(t, map[string][]byte{"config.json": []byte("{}"), ".x.safetensors": shard("a"), "pytorch_model.bin": nil})
	if _, err := safetensors.OpenSet(dir); err == nil {
		t.Error("a folder without a safetensors file is opened")
	}
	if _, err := safetensors.OpenSet(filepath.Join(dir, "config.json")); err == nil {
		t.Error("a file is opened as a folder")
	}
}

func TestAFaultyShardDoesNotHideTheOthers(t *testing.T) {
	s := openSet(t, folder(t, map[string][]byte{
		one:                   shard("a", "b")[:100],
		two:                   shard("c"),
		safetensors.IndexName: index(24, "a", one, "b", one, "c", two),
	}))
	checkProblem(t, wantRules(t, s, "file-truncated"), one)
	if _, ok := s.Lookup("c"); !ok || len(s.Files) != 1 {
		t.Error("the whole shard was not opened")
	}
	if _, ok := s.Lookup("a"); ok {
		t.Error("a tensor of the broken shard is offered")
	}
}

func TestAShardThatCannotBeReadIsAProblemOfTheSet(t *testing.T) {
	dir := folder(t, map[string][]byte{two: shard("b"), safetensors.IndexName: index(16, "a", one, "b", two)})
	if err := os.Symlink(filepath.Join(two, "inside"), filepath.Join(dir, one)); err != nil { // a file in place of a folder
		t.Fatal(err)
	}
	s := openSet(t, dir)
	p := wantRules(t, s, "file-unreadable")
	checkProblem(t, p, one, "not a directory")
	if p.Severity != safetensors.SeverityError || p.Err == nil {
		t.Errorf("severity %s, cause %v", p.Severity, p.Err)
	}
	if _, ok := s.Lookup("b"); !ok || len(s.Files) != 1 {
		t.Error("the other shard was not opened")
	}
}

func TestOneFileIsASetOfItsOwn(t *testing.T) {
	dir := folder(t, map[string][]byte{"head.safetensors": shard("mtp.norm"), "other.safetensors": shard("x")})
	s, err := safetensors.OpenFileSet(filepath.Join(dir, "head.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if refs := s.Refs(); len(refs) != 1 || refs[0].Tensor.Name != "mtp.norm" || len(s.Problems) != 0 || s.Dir != dir {
		t.Errorf("refs %v, problems %v, folder %s", refs, s.Problems, s.Dir)
	}
	_, err = safetensors.OpenFileSet(filepath.Join(dir, "none.safetensors"))
	wantProblem(t, err, "shard-missing")
}

func TestReadAtStaysInsideTheTensor(t *testing.T) {
	dir := folder(t, map[string][]byte{"m.safetensors": shard("a", "b")})
	f, err := safetensors.Open(filepath.Join(dir, "m.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, _ := f.Lookup("b")
	got := make([]byte, 3)
	if err := f.ReadAt(b, got, 5); err != nil || !bytes.Equal(got, []byte{13, 14, 15}) {
		t.Errorf("read %v, %v", got, err)
	}
	if err := f.ReadAt(b, nil, 8); err != nil {
		t.Errorf("reading nothing at the end: %v", err)
	}
	for _, c := range []struct {
		n   int
		off int64
	}{{3, 6}, {1, 8}, {0, 9}, {1, -1}, {9, 0}, {1, 1<<63 - 1}} {
		if err := f.ReadAt(b, make([]byte, c.n), c.off); err == nil {
			t.Errorf("%d bytes at %d are read", c.n, c.off)
		}
	}
	for _, x := range []safetensors.Tensor{{Name: "c", End: 8}, {Name: "a", End: 16}, {Name: "a", Begin: -8, End: 8}} {
		if err := f.ReadAt(x, make([]byte, 8), 0); err == nil {
			t.Errorf("%+v, which is not in the file, is read", x)
		}
	}
}

func TestReadAtNoticesAFileThatChangedItsSize(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"cut":   func(p string) error { return os.Truncate(p, 100) },
		"grown": func(p string) error { return os.Truncate(p, 1000) },
		"empty": func(p string) error { return os.Truncate(p, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(folder(t, map[string][]byte{"m.safetensors": shard("a", "b")}), "m.safetensors")
			f, err := safetensors.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			a, _ := f.Lookup("a")
			p := wantProblem(t, f.ReadAt(a, make([]byte, 8), 0), "file-changed", path, itoa(f.Size))
			if p.Tensor != "a" {
				t.Errorf("tensor %q, want a", p.Tensor)
			}
		})
	}
}

func TestReadAtAfterCloseFails(t *testing.T) {
	f, err := safetensors.Open(filepath.Join(folder(t, map[string][]byte{"m.safetensors": shard("a")}), "m.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	a, _ := f.Lookup("a")
	if err := f.ReadAt(a, make([]byte, 8), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v, want os.ErrClosed", err)
	}
}

func TestManyGoroutinesReadOneSet(t *testing.T) {
	s := openSet(t, folder(t, map[string][]byte{one: shard("a", "b"), two: shard("c", "d"), safetensors.IndexName: index(32, "a", one, "b", one, "c", two, "d", two)}))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i, name := range []string{"a", "b", "c", "d"} {
				r, ok := s.Lookup(name)
				got := make([]byte, 8)
				if err := r.ReadAt(got, 0); !ok || err != nil || got[0] != byte(8*(i%2)) {
					t.Errorf("%s: % x, %v, %v", name, got, ok, err)
				}
			}
		})
	}
	wg.Wait()
}
