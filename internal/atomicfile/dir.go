package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// PublishDir renames the finished folder partial to final, which must not exist (never overwritten, even in a race:
// renameat2 RENAME_NOREPLACE), after syncing every file in it and the folders; then syncs the parent. A name that is
// taken, be it by an empty folder or by a dangling link, is an error for which errors.Is(err, fs.ErrExist) holds, and
// partial is left as it was.
//
// Where RENAME_NOREPLACE is not known (EINVAL or ENOSYS: some network and FUSE file systems, kernels before 3.15, every
// system but Linux), the name is claimed first by mkdir, which fails when it is taken, and the folder is renamed over the
// claimed empty one. A crash between the two leaves an empty folder under the final name, never a partial one.
func PublishDir(partial, final string) error {
	partial, final = filepath.Clean(partial), filepath.Clean(final)
	info, err := os.Lstat(partial)
	if err != nil {
		return fmt.Errorf("publishing %s: %w", final, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("publishing %s: %s is %s, not a folder", final, partial, kind(info.Mode()))
	}
	// Before the work of syncing; the rename below decides all the same.
	if info, err := os.Lstat(final); err == nil {
		return fmt.Errorf("publishing %s: there is %s at this path already and nothing is overwritten; choose another name or move it away: %w", final, kind(info.Mode()), fs.ErrExist)
	}
	if err := syncTree(partial); err != nil {
		return fmt.Errorf("publishing %s: %w", final, err)
	}
	err = rename(partial, final)
	if err == unix.EINVAL || err == unix.ENOSYS {
		err = claimAndRename(partial, final)
	}
	switch {
	case errors.Is(err, fs.ErrExist): // EEXIST and ENOTEMPTY
		return fmt.Errorf("publishing %s: the name was taken meanwhile and nothing is overwritten; the finished folder is %s: %w", final, partial, err)
	case errors.Is(err, unix.EXDEV):
		return fmt.Errorf("publishing %s: %s is on another file system; write the partial folder beside the final one: %w", final, partial, err)
	case err != nil:
		return fmt.Errorf("publishing %s from %s: %w", final, partial, err)
	}
	if err := SyncDir(filepath.Dir(final)); err != nil {
		return fmt.Errorf("publishing %s: it is in place, but may not survive a power cut: %w", final, err)
	}
	if from := filepath.Dir(partial); from != filepath.Dir(final) {
		return SyncDir(from)
	}
	return nil
}

// rename gives a folder a name that nobody has, in one step (renameNoReplace, per operating system); tests put file
// systems in its place that cannot.
var rename = renameNoReplace

// claimAndRename gives from the name to without RENAME_NOREPLACE. rename(2) replaces an empty folder, so the folder it
// replaces is one that mkdir has just made; anything that others put into it meanwhile makes the rename fail (ENOTEMPTY).
// os.Rename would not do: it refuses every existing folder.
func claimAndRename(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	if err := unix.Rename(from, to); err != nil {
		os.Remove(to) // removes only an empty folder
		return err
	}
	return nil
}

// syncTree makes a folder's content durable, files before the folders that name them.
func syncTree(dir string) error {
	var folders []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			folders = append(folders, path)
			return nil
		case d.Type().IsRegular():
			return syncFile(path)
		case d.Type()&fs.ModeSymlink != 0:
			return nil // the entry is made durable with its folder; what it leads to is not ours
		}
		return fmt.Errorf("%s is %s, which has no place in a published folder", path, kind(d.Type()))
	})
	for i := len(folders) - 1; err == nil && i >= 0; i-- {
		err = SyncDir(folders[i])
	}
	return err
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("syncing: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return nil
}

// unsupported says whether a file system does not know how to sync a folder.
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP)
}
