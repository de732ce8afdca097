package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// wantNames fails unless the folder holds exactly these names: no temporary file may be left.
func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

// wantError fails unless err mentions every word.
func wantError(t *testing.T, err error, words ...string) {
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

func TestWriteFileCreatesAndReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "job.json")
	for _, text := range []string{"first", "second and longer", "", "3"} {
		if err := WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); got != text {
			t.Errorf("read %q, want %q", got, text)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	umask := os.FileMode(unix.Umask(0)) // tests of a package run one after another, so nobody else sees this
	unix.Umask(int(umask))
	if want := 0o640 &^ umask; info.Mode().Perm() != want {
		t.Errorf("permissions %v, want %v: 0640 less the umask", info.Mode().Perm(), want)
	}
	wantNames(t, dir, "job.json")
}

func TestWriteFileRefusesWhatIsNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	blob := filepath.Join(dir, "blob")
	write(t, blob, "shared with other snapshots")
	for _, c := range []struct {
		name, want string
		make       func(path string) error
	}{
		{"link", "a symbolic link", func(p string) error { return os.Symlink(blob, p) }},
		{"dangling", "a symbolic link", func(p string) error { return os.Symlink("nowhere", p) }},
		{"folder", "a folder", func(p string) error { return os.Mkdir(p, 0o755) }},
		{"fifo", "a special file", func(p string) error { return unix.Mkfifo(p, 0o644) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(dir, c.name)
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(path)
			wantError(t, WriteFile(path, []byte("new"), 0o644), path, c.want)
			after, err := os.Lstat(path)
			if err != nil || !os.SameFile(before, after) {
				t.Errorf("what stood at the path is gone: %v", err)
			}
		})
	}
	if got := read(t, blob); got != "shared with other snapshots" {
		t.Errorf("the link's target now holds %q", got)
	}
	wantNames(t, dir, "blob", "dangling", "fifo", "folder", "link")
}

func TestWriteFileNeedsItsFolder(t *testing.T) {
	dir := t.TempDir()
	err := WriteFile(filepath.Join(dir, "missing", "f"), nil, 0o644)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	write(t, filepath.Join(dir, "file"), "")
	if err := WriteFile(filepath.Join(dir, "file", "f"), nil, 0o644); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("got %v, want ENOTDIR", err)
	}
	wantNames(t, dir, "file")
}

func TestWriteFileInAReadOnlyFolderLeavesTheOldBytes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	write(t, path, "old")
	asNobody(t, dir, func() {
		err := WriteFile(path, []byte("new"), 0o644)
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("got %v, want fs.ErrPermission", err)
		}
	})
	if got := read(t, path); got != "old" {
		t.Errorf("the file holds %q", got)
	}
	wantNames(t, dir, "f")
}

// asNobody makes dir read-only and runs f without the right to override that. A test that runs as root takes on another
// file-system user for the time, which holds for one thread only.
func asNobody(t *testing.T, dir string, f func()) {
	t.Helper()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o755)
	if os.Geteuid() != 0 {
		f()
		return
	}
	const nobody = 65534
	parent := filepath.Dir(dir) // of the test alone, and closed to others
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	if !onThreadOf(nobody, f) {
		t.Skip("NOT CHECKED: running as root without the right to become another file-system user")
	}
}

func TestConcurrentWritesLeaveTheBytesOfOne(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := WriteFile(path, bytes.Repeat([]byte{byte('a' + i)}, 4096), 0o644); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got := read(t, path)
	if len(got) != 4096 || strings.Trim(got, got[:1]) != "" {
		t.Errorf("the file holds a mixture of %d bytes", len(got))
	}
	wantNames(t, dir, "f")
}

func TestSyncDir(t *testing.T) {
	dir := t.TempDir()
	if err := SyncDir(dir); err != nil {
		t.Error(err)
	}
	if err := SyncDir(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	write(t, filepath.Join(dir, "f"), "")
	wantError(t, SyncDir(filepath.Join(dir, "f")), "it is a file")
}
