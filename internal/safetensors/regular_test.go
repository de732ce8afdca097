package safetensors_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"seatsmith/internal/safetensors"
)

func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("12345"), 0o644); err != nil {
		t.Fatal(err)
	}
	pipe, link, gone := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "gone")
	if err := errors.Join(unix.Mkfifo(pipe, 0o600), os.Symlink("file", link), os.Symlink("nowhere", gone)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link} {
		if data, err := safetensors.ReadRegular(path, 5); err != nil || string(data) != "12345" {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
	if _, err := safetensors.ReadRegular(file, 4); err == nil || !strings.Contains(err.Error(), "larger than 4 bytes") {
		t.Errorf("over the limit: %v", err)
	}
	for path, want := range map[string]string{pipe: "FIFO", dir: "folder", "/dev/zero": "device"} {
		if _, err := safetensors.ReadRegular(path, 5); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "safetensors file") {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	for _, path := range []string{gone, filepath.Join(dir, "absent")} {
		if _, err := safetensors.ReadRegular(path, 5); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
