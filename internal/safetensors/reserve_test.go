package safetensors

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// onFileSystem runs a test with a file system that answers fallocate with these errors, one after the other.
func onFileSystem(t *testing.T, answers ...error) {
	t.Helper()
	real := fallocate
	t.Cleanup(func() { fallocate = real })
	fallocate = func(fd int, mode uint32, off, size int64) error {
		if len(answers) == 0 {
			return real(fd, mode, off, size)
		}
		err := answers[0]
		answers = answers[1:]
		return err
	}
}

func oneTensor(t *testing.T) *Layout {
	t.Helper()
	l, err := NewLayout([]Spec{{"a", U8, []int64{1000}}}, map[string]string{"format": "pt"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestADiskThatFillsUpDuringTheReservationLeavesNoFile(t *testing.T) {
	onFileSystem(t, unix.EINTR, unix.ENOSPC)
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if _, err := Create(path, oneTensor(t)); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v, want ENOSPC", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file is left: %v", err)
	}
}

func TestAFileSystemThatCannotReserveIsWrittenAllTheSame(t *testing.T) {
	for _, errno := range []error{unix.EOPNOTSUPP, unix.ENOSYS} {
		onFileSystem(t, errno)
		path := filepath.Join(t.TempDir(), "m.safetensors")
		l := oneTensor(t)
		w, err := Create(path, l)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != l.Size {
			t.Errorf("%v: %v, want %d bytes", info, err, l.Size)
		}
		if err := w.WriteAt("a", make([]byte, 1000), 0); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAWriteThatFailsMakesCloseFail(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "m.safetensors"), oneTensor(t))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	w.f.Close() // the disk is gone
	if err := w.WriteAt("a", make([]byte, 1000), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := w.Close(); err == nil {
		t.Error("Close reports a whole file although a write failed")
	}
}

func TestALayoutThatContradictsItselfIsRefused(t *testing.T) {
	l := oneTensor(t)
	l.Size--
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if _, err := Create(path, l); err == nil {
		t.Error("accepted")
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("a file is left")
	}
}

func TestCoverageIsASetOfBytes(t *testing.T) {
	const size = 40
	rapid.Check(t, func(t *rapid.T) {
		var c coverage
		var model [size]bool
		for range rapid.IntRange(0, 30).Draw(t, "writes") {
			begin := rapid.IntRange(0, size).Draw(t, "begin")
			end := rapid.IntRange(begin, size).Draw(t, "end")
			taken := slices.Index(model[begin:end], true)
			clash, ok := c.add(span{int64(begin), int64(end)})
			if ok != (taken < 0) {
				t.Fatalf("add [%d,%d): ok is %v in %v", begin, end, ok, c.spans)
			}
			if !ok {
				if clash.begin != int64(begin+taken) || !model[clash.begin] || !model[clash.end-1] {
					t.Fatalf("add [%d,%d): clash %v in %v", begin, end, clash, c.spans)
				}
				continue
			}
			for i := begin; i < end; i++ {
				model[i] = true
			}
			for i, s := range c.spans {
				if s.begin >= s.end || i > 0 && c.spans[i-1].end >= s.begin {
					t.Fatalf("spans %v are not sorted, apart and merged", c.spans)
				}
			}
			first := slices.Index(model[:], false)
			gap, missing := c.gap(size)
			if missing != (first >= 0) || missing && (gap.begin != int64(first) || gap.end <= gap.begin) {
				t.Fatalf("gap %v, %v in %v; the first byte missing is %d", gap, missing, c.spans, first)
			}
		}
	})
}
