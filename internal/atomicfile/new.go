package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteNew is WriteFile for a path at which there must be nothing: it publishes the whole file or none, and an existing file,
// even one that appears meanwhile, stays as it is. The error then wraps fs.ErrExist.
func WriteNew(path string, data []byte, perm os.FileMode) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("writing %s: %w; nothing is overwritten", path, fs.ErrExist)
	}
	dir := filepath.Dir(path)
	tmp, err := createTemp(dir, perm)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		// Neither a hard link nor this rename replaces a file; some file systems know only one of them.
		if err = os.Link(tmp.Name(), path); err == nil {
			err = os.Remove(tmp.Name())
		} else if !errors.Is(err, fs.ErrExist) {
			err = renameNoReplace(tmp.Name(), path)
		}
	}
	if err != nil {
		os.Remove(tmp.Name())
		return err
	}
	return SyncDir(dir)
}
