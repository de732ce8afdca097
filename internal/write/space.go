package write

import (
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"
)

// slack is room for what is not counted: configuration, index, provenance, journal, the file system's own blocks.
const slack = 4 << 20

// freeSpace tells how many bytes an ordinary user can still write below dir; tests replace it.
var freeSpace = func(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("asking for the free space of %s: %w", dir, err)
	}
	if s.Bsize <= 0 || s.Bavail > uint64(math.MaxInt64/s.Bsize) {
		return math.MaxInt64, nil
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// need is how many bytes are still to be written.
func (r *run) need() int64 {
	n := int64(slack)
	for i, l := range r.done {
		if l == nil {
			n += r.shards[i].layout.Size
		}
	}
	for _, text := range r.plan.Made {
		n += int64(len(text))
	}
	for _, f := range r.companions {
		if info, err := os.Stat(f.Path); err == nil {
			n += info.Size()
		}
	}
	return n
}

// enoughSpace refuses before the first shard what cannot fit.
func (r *run) enoughSpace() error {
	free, err := freeSpace(r.dir.path)
	if err != nil {
		return err
	}
	if need := r.need(); need > free {
		return noSpace(r.dir.path, need, free)
	}
	return nil
}

// explain turns a full disk, met in the middle, into an error with numbers; other errors pass.
func (r *run) explain(err error) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) && !errors.Is(err, unix.EFBIG) {
		return err
	}
	free, serr := freeSpace(r.dir.path)
	if serr != nil {
		return errors.Join(err, serr)
	}
	return fmt.Errorf("%w: %w", noSpace(r.dir.path, r.need(), free), err)
}

func noSpace(dir string, need, free int64) error {
	return fmt.Errorf("%w: %s needs %d bytes (%s) more, %d bytes (%s) are free there: make room and run the same command again",
		ErrNoSpace, dir, need, humanize.IBytes(uint64(need)), free, humanize.IBytes(uint64(free)))
}
