package safetensors

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// fallocate gives a file blocks as well as a length (allocate, per operating system); tests put file systems in its place
// that are full or cannot reserve.
var fallocate = allocate

// reserve gives f its size and the blocks for it.
func reserve(f *os.File, size int64) error {
	// A reservation that cannot succeed would fill a disk to the brim before it fails (ext4 takes blocks as it goes), and
	// starve everybody else meanwhile; so the free space is asked first.
	if free, ok := freeSpace(f); ok && uint64(size) > free {
		return fmt.Errorf("the file system has %d bytes free; make room or choose another place: %w", free, unix.ENOSPC)
	}
	for {
		err := fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS):
			return f.Truncate(size)
		default:
			return fmt.Errorf("reserving the space: %w", err)
		}
	}
}
