package safetensors

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// File is an open safetensors file. Its methods may be called from any goroutine, Close when none is running.
type File struct {
	Path string // as the caller named it (the snapshot's path, never a blob's)
	Name string // base name
	Header

	f *os.File
}

// Open opens a file and checks its header. A fault is a *Problem: of the content, as ReadHeader says, or of the file
// (shard-missing, link-dangling, file-not-safetensors for what is no regular file, file-unreadable).
//
// A symbolic link is read through, and everything is named by the path that was given: in a Hugging Face cache the link's
// target is blobs/<hash>, whose neighbours are other models' files (public report S14). A FIFO or a device is refused
// before it is opened.
func Open(path string) (*File, error) {
	f, _, err := open(path)
	return f, err
}

// open is Open; with the error file-truncated comes the header, as from ReadHeader.
func open(path string) (*File, *Header, error) {
	f, size, p := openRegular(path)
	if p != nil {
		return nil, nil, p
	}
	h, err := ReadHeader(f, size, path)
	if err != nil {
		f.Close()
		return nil, h, err
	}
	return &File{Path: path, Name: filepath.Base(path), Header: *h, f: f}, nil, nil
}

// openRegular opens a regular file for reading, through links, and tells its size.
func openRegular(path string) (*os.File, int64, *Problem) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, absent(path, err)
	}
	if p := irregular(path, info.Mode()); p != nil {
		return nil, 0, p
	}
	// What stands at path may have become a FIFO since; O_NONBLOCK keeps the open from waiting for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, absent(path, err)
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, 0, unreadable(path, err)
	}
	if p := irregular(path, info.Mode()); p != nil {
		f.Close()
		return nil, 0, p
	}
	return f, info.Size(), nil
}

// irregular refuses what is no regular file.
func irregular(path string, mode fs.FileMode) *Problem {
	if mode.IsRegular() {
		return nil
	}
	what := "no regular file"
	switch {
	case mode.IsDir():
		what = "a folder"
	case mode&fs.ModeNamedPipe != 0:
		what = "a FIFO"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	}
	return &Problem{
		Rule: "file-not-safetensors", Severity: SeverityError, File: path,
		Message: "this is " + what + ", not a safetensors file", Fix: "put the file itself there, or a link to it",
	}
}

// absent explains why path could not be opened.
func absent(path string, err error) *Problem {
	target, linkErr := os.Readlink(path)
	isLink := linkErr == nil
	switch {
	case isLink && errors.Is(err, syscall.ELOOP):
		return &Problem{
			Rule: "link-dangling", Severity: SeverityError, File: path,
			Message: fmt.Sprintf("link to %q, which leads back to itself", target), Fix: refetch, Err: err,
		}
	case isLink && errors.Is(err, fs.ErrNotExist):
		return &Problem{
			Rule: "link-dangling", Severity: SeverityError, File: path,
			Message: fmt.Sprintf("dangling link to %q", target), Fix: refetch, Err: err,
		}
	case errors.Is(err, fs.ErrNotExist):
		return &Problem{
			Rule: "shard-missing", Severity: SeverityError, File: path,
			Message: "the file does not exist", Fix: copyAgain, Err: err,
		}
	}
	return unreadable(path, err)
}

const refetch = "download the snapshot again, or copy it with links followed (cp -rL); a container needs the whole cache mounted, blobs included"

// Close closes the file; reads afterwards fail.
func (f *File) Close() error { return f.f.Close() }

// ReadAt fills p from byte off of tensor t, which must be one of this file's; errors name file and tensor. A range
// outside the tensor is an error, never a short read. A file whose size is no longer what it was at Open is an error too
// (rule file-changed): its header is no longer the one that was checked. Every call is a pread of its own, so any number
// of goroutines may read at once.
func (f *File) ReadAt(t Tensor, p []byte, off int64) error {
	if own, ok := f.Lookup(t.Name); !ok || own.Begin != t.Begin || own.End != t.End {
		return fmt.Errorf("%s: tensor %s is not one of this file", f.Path, quote(t.Name))
	}
	if size := t.Bytes(); off < 0 || off > size || int64(len(p)) > size-off {
		return fmt.Errorf("%s: tensor %s: reading %d bytes at byte %d of %d", f.Path, quote(t.Name), len(p), off, size)
	}
	info, err := f.f.Stat()
	if err == nil && info.Size() == f.Size {
		if len(p) == 0 {
			return nil
		}
		err = readFull(f.f, p, f.DataStart+t.Begin+off)
	}
	switch {
	case err == nil && info.Size() == f.Size:
		return nil
	case err == nil || errors.Is(err, io.ErrUnexpectedEOF):
		size := "another size"
		if info, err := f.f.Stat(); err == nil {
			size = fmt.Sprintf("%d bytes", info.Size())
		}
		return &Problem{
			Rule: "file-changed", Severity: SeverityError, File: f.Path, Tensor: t.Name,
			Message: fmt.Sprintf("the file had %d bytes when it was opened and has %s now", f.Size, size),
			Fix:     "let nothing write to the folder meanwhile, then start again", Err: err,
		}
	}
	problem := unreadable(f.Path, err)
	problem.Tensor = t.Name
	return problem
}

// RawHeader reads what stands before the tensors: the length, the JSON and its padding, as the file has them.
func (f *File) RawHeader() ([]byte, error) {
	head := make([]byte, f.DataStart)
	if _, err := f.f.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("reading the header of %s: %w", f.Path, err)
	}
	return head, nil
}
