package safetensors

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// Writer fills a laid-out file in any order, from several goroutines.
type Writer struct {
	path    string
	f       *os.File
	info    os.FileInfo // the file as Create made it
	start   int64       // where the data begins
	size    int64
	tensors []Tensor
	index   map[string]int

	closing sync.RWMutex // held for reading during a write, for writing by Close and Abort

	mu     sync.Mutex
	cover  []coverage // of each tensor
	failed error      // the first write that failed after its bytes were claimed

	state state // guarded by closing
}

type state int

const (
	writing state = iota
	finished
	broken // closed by a Close that failed; the file is still there for Abort
	aborted
)

// Create makes path (which must not exist), reserves its whole size (a full disk shows here) and writes the header.
//
// A name that is taken, also by a dangling link, is an error for which errors.Is(err, fs.ErrExist) holds; a disk without
// room is one for which errors.Is(err, unix.ENOSPC) holds. After an error no file is left. Where the file system
// cannot reserve (EOPNOTSUPP, ENOSYS), only its free space is asked; on systems other than Linux the file only gets its
// length. In both cases a full disk can still show in WriteAt.
func Create(path string, l *Layout) (_ *Writer, err error) {
	end := int64(0)
	if n := len(l.Tensors); n > 0 {
		end = l.Tensors[n-1].End
	}
	if l.Size != int64(len(l.Header))+end {
		return nil, fmt.Errorf("creating %s: the layout says %d bytes, its header and tensors make %d", path, l.Size, int64(len(l.Header))+end)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("creating %s: %w", path, err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		os.Remove(path)
		return nil, fmt.Errorf("creating %s: %w", path, err)
	}
	w := &Writer{
		path: path, f: f, info: info, start: int64(len(l.Header)), size: l.Size, tensors: l.Tensors,
		index: make(map[string]int, len(l.Tensors)), cover: make([]coverage, len(l.Tensors)),
	}
	for i, t := range l.Tensors {
		w.index[t.Name] = i
	}
	err = reserve(f, l.Size)
	if err == nil {
		_, err = f.WriteAt(l.Header, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("creating %s of %d bytes: %w", path, l.Size, err), w.Abort())
	}
	return w, nil
}

// WriteAt writes p at byte off of the named tensor. It fails, naming the tensor, for an unknown name, a range outside the
// tensor, and bytes that were written before, which are left as they were. An error of the disk is remembered: Close
// fails too.
func (w *Writer) WriteAt(name string, p []byte, off int64) error {
	w.closing.RLock()
	defer w.closing.RUnlock()
	fail := func(format string, args ...any) error {
		return fmt.Errorf("writing %s: tensor %s: %w", w.path, quote(name), fmt.Errorf(format, args...))
	}
	if w.state != writing {
		return fail("%w", os.ErrClosed)
	}
	i, ok := w.index[name]
	if !ok {
		return fail("it is not in the layout")
	}
	t := w.tensors[i]
	if size := t.Bytes(); off < 0 || off > size || int64(len(p)) > size-off {
		return fail("%d bytes at byte %d are outside its %d bytes", len(p), off, size)
	}
	w.mu.Lock()
	clash, ok := w.cover[i].add(span{off, off + int64(len(p))})
	w.mu.Unlock()
	if !ok {
		return fail("bytes %d to %d are written twice", clash.begin, clash.end)
	}
	if _, err := w.f.WriteAt(p, w.start+t.Begin+off); err != nil {
		err = fail("%w", err)
		w.mu.Lock()
		if w.failed == nil {
			w.failed = err
		}
		w.mu.Unlock()
		return err
	}
	return nil
}

// Close syncs the file; it fails if any tensor was not written exactly once in full. The file has its name from the
// start, so a caller writes into a folder that it publishes later, and after a failed Close calls Abort to remove it. The
// folder's entry is not synced here.
func (w *Writer) Close() error {
	w.closing.Lock()
	defer w.closing.Unlock()
	if w.state != writing {
		return fmt.Errorf("closing %s: %w", w.path, os.ErrClosed)
	}
	w.state = broken
	err := w.failed
	if err == nil {
		err = w.incomplete()
	}
	if err == nil {
		if err = w.f.Sync(); err != nil {
			err = fmt.Errorf("closing %s: %w", w.path, err)
		}
	}
	if e := w.f.Close(); e != nil && err == nil {
		err = fmt.Errorf("closing %s: %w", w.path, e)
	}
	if err == nil {
		w.state = finished
	}
	return err
}

// incomplete names the tensors that lack bytes.
func (w *Writer) incomplete() error {
	var names []string
	var first span
	var size int64
	for i, t := range w.tensors {
		if gap, ok := w.cover[i].gap(t.Bytes()); ok {
			if names == nil {
				first, size = gap, t.Bytes()
			}
			names = append(names, t.Name)
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("closing %s: %s not whole: %s; the first lacks bytes %d to %d of %d",
		w.path, count(len(names), "tensor"), namelist(names, len(names)), first.begin, first.end, size)
}

// Abort closes and removes the file. After a Close that succeeded, and after another Abort, it does nothing, so it can
// be deferred.
func (w *Writer) Abort() error {
	w.closing.Lock()
	defer w.closing.Unlock()
	if w.state == finished || w.state == aborted {
		return nil
	}
	if w.state == writing {
		w.f.Close()
	}
	w.state = aborted
	// Something else may stand at the path by now, or nothing; only what Create made is removed.
	if now, err := os.Lstat(w.path); err != nil || !os.SameFile(w.info, now) {
		return nil
	}
	if err := os.Remove(w.path); err != nil {
		return fmt.Errorf("removing the unfinished file: %w", err)
	}
	return nil
}
