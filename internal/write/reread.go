package write

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/maphash"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
	"lukechampine.com/blake3"

	"seatsmith/internal/model"
	"seatsmith/internal/safetensors"
)

// hasher computes a file's recorded hashes in one pass.
type hasher struct {
	n     int64
	blake *blake3.Hasher
	sha   hash.Hash // nil unless asked for
}

func newHasher(sha bool) *hasher {
	h := &hasher{blake: blake3.New(32, nil)}
	if sha {
		h.sha = sha256.New()
	}
	return h
}

func (h *hasher) add(b []byte) {
	h.n += int64(len(b))
	h.blake.Write(b) // never fails
	if h.sha != nil {
		h.sha.Write(b)
	}
}

func (h *hasher) sum() model.FileHash {
	f := model.FileHash{Bytes: h.n, BLAKE3: hex.EncodeToString(h.blake.Sum(nil))}
	if h.sha != nil {
		f.SHA256 = hex.EncodeToString(h.sha.Sum(nil))
	}
	return f
}

// hashFile reads a file from start to end through buf. progress, when not nil, is told of every stretch.
func hashFile(ctx context.Context, path string, sha bool, buf []byte, progress func(n int64)) (model.FileHash, error) {
	f, err := os.Open(path)
	if err != nil {
		return model.FileHash{}, fmt.Errorf("hashing a written file: %w", err)
	}
	defer f.Close()
	h := newHasher(sha)
	for {
		if ctx.Err() != nil {
			return model.FileHash{}, context.Cause(ctx)
		}
		n, err := io.ReadFull(f, buf)
		h.add(buf[:n])
		if progress != nil {
			progress(int64(n))
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return h.sum(), nil
		default:
			return model.FileHash{}, fmt.Errorf("hashing a written file: %w", err)
		}
	}
}

// reread reads the synced shard from the disk, not from memory: its pages are dropped first. The header must be the
// layout's byte for byte and must mean the layout to the reader; every piece of every tensor must have the checksum of
// what was produced. It returns the hashes of what is on the disk.
func (p *production) reread(ctx context.Context) (model.FileHash, error) {
	f, err := os.Open(p.tmp)
	if err != nil {
		return model.FileHash{}, fmt.Errorf("reading back: %w", err)
	}
	defer f.Close()
	// Advice: where it is not taken, memory is read. Asking for stretches ahead (WILLNEED) was measured to be slower.
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_SEQUENTIAL)
	info, err := f.Stat()
	if err != nil {
		return model.FileHash{}, fmt.Errorf("reading back: %w", err)
	}
	if info.Size() != p.sh.layout.Size {
		return model.FileHash{}, fmt.Errorf("read back, the file has %d bytes, %d were written", info.Size(), p.sh.layout.Size)
	}
	head, err := safetensors.ReadHeader(f, info.Size(), p.tmp)
	if err != nil {
		return model.FileHash{}, fmt.Errorf("reading back: %w", err)
	}
	if !slices.EqualFunc(head.Tensors, p.sh.layout.Tensors, sameEntry) {
		return model.FileHash{}, fmt.Errorf("read back, the header tells of other tensors than were written")
	}
	h := newHasher(p.opt.SHA256)
	raw := make([]byte, head.DataStart)
	if _, err := f.ReadAt(raw, 0); err != nil {
		return model.FileHash{}, fmt.Errorf("reading back the header: %w", err)
	}
	if !bytes.Equal(raw, p.sh.layout.Header) {
		return model.FileHash{}, fmt.Errorf("read back, the header has other bytes than were written")
	}
	h.add(raw)
	at := head.DataStart
	for _, t := range head.Tensors {
		pieces := p.pieces[t.Name]
		slices.SortFunc(pieces, func(a, b piece) int { return cmp.Compare(a.off, b.off) })
		for _, pc := range pieces {
			if ctx.Err() != nil {
				return model.FileHash{}, context.Cause(ctx)
			}
			if at != head.DataStart+t.Begin+pc.off {
				return model.FileHash{}, fmt.Errorf("tensor %s was not produced in full: nothing at byte %d of the file", t.Name, at)
			}
			b := p.pool.spare[:pc.n]
			if _, err := f.ReadAt(b, at); err != nil {
				return model.FileHash{}, fmt.Errorf("reading back tensor %s at its byte %d: %w", t.Name, pc.off, err)
			}
			if maphash.Bytes(pieceSeed, b) != pc.sum {
				return model.FileHash{}, fmt.Errorf("read back, tensor %s differs from what was written, between its bytes %d and %d (from byte %d of the file): the disk or the memory errs, try another disk",
					t.Name, pc.off, pc.off+pc.n, at)
			}
			h.add(b)
			at += pc.n
		}
	}
	if at != info.Size() {
		return model.FileHash{}, fmt.Errorf("read back, the file goes on after its last tensor, from byte %d", at)
	}
	return h.sum(), nil
}

func sameEntry(a, b safetensors.Tensor) bool {
	return a.Name == b.Name && a.Dtype == b.Dtype && slices.Equal(a.Shape, b.Shape) && a.Begin == b.Begin && a.End == b.End
}
