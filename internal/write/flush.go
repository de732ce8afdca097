package write

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// flushEvery is after how many bytes the kernel is asked to start writing.
const flushEvery = 16 << 20

// flusher keeps the disk busy while a shard is filled, so that little is left to do when it is synced. It promises
// nothing: what is durable is decided by the sync alone, so every failure here is passed over.
type flusher struct {
	f     *os.File // nil when it could not be opened
	bytes atomic.Int64
}

func newFlusher(path string) *flusher {
	f, err := os.Open(path)
	if err != nil {
		return &flusher{}
	}
	return &flusher{f: f}
}

// wrote counts n bytes written, and has them flushed now and then. Safe for the workers.
func (f *flusher) wrote(n int64) {
	after := f.bytes.Add(n)
	if after/flushEvery != (after-n)/flushEvery {
		f.start()
	}
}

// start asks for all dirty pages of the file to be written and does not wait for them.
func (f *flusher) start() {
	if f.f != nil {
		_ = unix.SyncFileRange(int(f.f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	}
}

func (f *flusher) close() {
	if f.f != nil {
		f.start()
		f.f.Close()
	}
}
