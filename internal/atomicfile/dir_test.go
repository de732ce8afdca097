package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// partialFolder makes a finished folder with a file, a folder in it and a link.
func partialFolder(t *testing.T, parent string) string {
	t.Helper()
	partial := filepath.Join(parent, "out.partial")
	if err := os.MkdirAll(filepath.Join(partial, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(partial, "config.json"), "{}")
	write(t, filepath.Join(partial, "sub", "model.safetensors"), "weights")
	if err := os.Symlink("config.json", filepath.Join(partial, "link")); err != nil {
		t.Fatal(err)
	}
	return partial
}

// withAndWithoutNoReplace runs a test on a file system that knows RENAME_NOREPLACE and on one that does not.
func withAndWithoutNoReplace(t *testing.T, test func(t *testing.T)) {
	t.Run("renameat2", test)
	for _, errno := range []unix.Errno{unix.EINVAL, unix.ENOSYS} {
		t.Run(unix.ErrnoName(errno), func(t *testing.T) {
			real := rename
			defer func() { rename = real }()
			rename = func(string, string) error { return errno }
			test(t)
		})
	}
}

func TestPublishDirMovesTheWholeFolder(t *testing.T) {
	withAndWithoutNoReplace(t, func(t *testing.T) {
		dir := t.TempDir()
		partial, final := partialFolder(t, dir), filepath.Join(dir, "out")
		if err := PublishDir(partial, final+"/"); err != nil {
			t.Fatal(err)
		}
		wantNames(t, dir, "out")
		wantNames(t, final, "config.json", "link", "sub")
		if got := read(t, filepath.Join(final, "sub", "model.safetensors")); got != "weights" {
			t.Errorf("read %q", got)
		}
	})
}

func TestPublishDirNeverOverwrites(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(path string) error
	}{
		{"file", func(p string) error { return os.WriteFile(p, []byte("old"), 0o644) }},
		{"empty folder", func(p string) error { return os.Mkdir(p, 0o755) }},
		{"folder", func(p string) error { return os.MkdirAll(filepath.Join(p, "old"), 0o755) }},
		{"link to a folder", func(p string) error { return os.Symlink(filepath.Dir(p), p) }},
		{"dangling link", func(p string) error { return os.Symlink("nowhere", p) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			withAndWithoutNoReplace(t, func(t *testing.T) {
				dir := t.TempDir()
				partial, final := partialFolder(t, dir), filepath.Join(dir, "out")
				if err := c.make(final); err != nil {
					t.Fatal(err)
				}
				before, _ := os.Lstat(final)
				if err := PublishDir(partial, final); !errors.Is(err, fs.ErrExist) {
					t.Errorf("got %v, want fs.ErrExist", err)
				}
				// The same when the name appears only after the first look.
				if err := rename(partial, final); err == nil {
					t.Error("the rename alone replaced it")
				}
				if err := claimAndRename(partial, final); !errors.Is(err, fs.ErrExist) {
					t.Errorf("without RENAME_NOREPLACE: got %v, want fs.ErrExist", err)
				}
				after, err := os.Lstat(final)
				if err != nil || !os.SameFile(before, after) {
					t.Errorf("what stood at the final name is gone: %v", err)
				}
				wantNames(t, dir, "out", "out.partial")
				wantNames(t, partial, "config.json", "link", "sub")
			})
		})
	}
}

func TestOnlyOneOfManyPublishersGetsTheName(t *testing.T) {
	withAndWithoutNoReplace(t, func(t *testing.T) {
		dir := t.TempDir()
		final := filepath.Join(dir, "out")
		var mu sync.Mutex
		var wg sync.WaitGroup
		won := 0
		for i := range 6 {
			partial := filepath.Join(dir, string(rune('a'+i)))
			if err := os.Mkdir(partial, 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(partial, "f"), "")
			wg.Go(func() {
				err := PublishDir(partial, final)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else if !errors.Is(err, fs.ErrExist) {
					t.Errorf("a loser got %v, want fs.ErrExist", err)
				}
			})
		}
		wg.Wait()
		if won != 1 {
			t.Errorf("%d publishers won, want 1", won)
		}
		wantNames(t, final, "f")
	})
}

func TestPublishDirNamesWhatIsWrongWithTheFolder(t *testing.T) {
	dir := t.TempDir()
	final := filepath.Join(dir, "out")
	if err := PublishDir(filepath.Join(dir, "missing"), final); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	file := filepath.Join(dir, "file")
	write(t, file, "")
	wantError(t, PublishDir(file, final), file, "a file, not a folder")
	partial := partialFolder(t, dir)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(partial, link); err != nil {
		t.Fatal(err)
	}
	wantError(t, PublishDir(link, final), "a symbolic link, not a folder")
	if err := PublishDir(partial, filepath.Join(dir, "missing", "out")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	if err := unix.Mkfifo(filepath.Join(partial, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantError(t, PublishDir(partial, final), "fifo", "no place in a published folder")
	wantNames(t, dir, "file", "link", "out.partial")
}

func TestPublishDirIntoAReadOnlyFolderLeavesThePartialOne(t *testing.T) {
	withAndWithoutNoReplace(t, func(t *testing.T) {
		dir := t.TempDir()
		partial := partialFolder(t, dir)
		asNobody(t, dir, func() {
			if err := PublishDir(partial, filepath.Join(dir, "out")); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("got %v, want fs.ErrPermission", err)
			}
		})
		wantNames(t, dir, "out.partial")
	})
}

func TestAFailedRenameTakesTheClaimedNameBack(t *testing.T) {
	dir := t.TempDir()
	final := filepath.Join(dir, "out")
	if err := claimAndRename(filepath.Join(dir, "missing"), final); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	wantNames(t, dir)
}
