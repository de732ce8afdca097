package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// WriteFile writes data to path whole or not at all: temporary file in the same folder, fsync, rename, fsync of the
// folder. It replaces an existing regular file; it refuses anything else. The file gets the permissions perm
// less the umask, as any new file does. After an error the path is as it was before and no temporary file is left, except when only the
// last step failed: then the new bytes are in place, but a power cut may undo that.
func WriteFile(path string, data []byte, perm os.FileMode) (err error) {
	info, err := os.Lstat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("writing %s: there is %s at this path, and only a regular file is replaced; remove it or choose another path", path, kind(info.Mode()))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("writing %s: %w", path, err)
	}
	dir := filepath.Dir(path)
	tmp, err := createTemp(dir, perm)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(tmp.Name())
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	if _, err := tmp.Write(data); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// createTemp makes a new file of a name that nobody uses. Unlike os.CreateTemp it leaves the permissions to the umask.
func createTemp(dir string, perm os.FileMode) (*os.File, error) {
	for {
		name := filepath.Join(dir, ".seatsmith-"+strconv.FormatUint(rand.Uint64(), 36)+".tmp")
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// SyncDir makes the entries of a folder durable. File systems that cannot sync a folder (EINVAL, ENOTSUP: some network
// and FUSE file systems) are taken as they are, since nothing more can be done there.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("syncing the folder %s: %w", dir, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("syncing the folder %s: %w", dir, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("syncing the folder %s: it is %s", dir, kind(info.Mode()))
	}
	if err := f.Sync(); err != nil && !unsupported(err) {
		return fmt.Errorf("syncing the folder %s: %w", dir, err)
	}
	return nil
}

// kind names what stands at a path.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "a special file"
}
