package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestANewFileNeverReplacesOne(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := WriteNew(path, []byte("first"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteNew(path, []byte("second"), 0o644); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := WriteNew(filepath.Join(dir, "link"), nil, 0o644); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a dangling link: %v", err)
	}
	if err := WriteNew(filepath.Join(dir, "no", "x"), nil, 0o644); err == nil {
		t.Error("wrote into a folder that is not there")
	}
	got, err := os.ReadFile(path)
	entries, _ := os.ReadDir(dir)
	if err != nil || string(got) != "first" || len(entries) != 2 {
		t.Errorf("%q, %v, %d entries", got, err, len(entries))
	}
}
