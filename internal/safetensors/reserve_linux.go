package safetensors

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// allocate is fallocate(2).
func allocate(fd int, mode uint32, off, size int64) error { return unix.Fallocate(fd, mode, off, size) }

// freeSpace is how many bytes the file system of f has free; ok is false where it does not say.
func freeSpace(f *os.File) (free uint64, ok bool) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil || fs.Blocks == 0 || fs.Bsize <= 0 {
		return 0, false
	}
	if fs.Bfree >= math.MaxUint64/uint64(fs.Bsize) {
		return math.MaxUint64, true
	}
	return fs.Bfree * uint64(fs.Bsize), true
}
