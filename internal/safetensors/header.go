package safetensors

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// maxHeader is the longest header that upstream reads (huggingface/safetensors, tensor.rs, MAX_HEADER_SIZE).
const maxHeader = 100_000_000

// maxRank is the largest number of dimensions of a tensor. The format sets no limit; torch stops at 64.
const maxRank = 64

// minEntry is the length of the shortest legal entry of a header, `"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`
// without its comma, rounded down. It bounds how many entries a header can hold.
const minEntry = 48

// HeaderMemory bounds the memory that reading a header may allocate: this many bytes for each byte of the file that it
// takes, and 64 KiB. The worst case found is metadata of nothing but the shortest pairs (12); real headers take
// about 2.
const HeaderMemory = 16

// Tensor is one entry of a header. Begin and End are byte offsets from the start of the data.
type Tensor struct {
	Name       string
	Dtype      Dtype
	Shape      []int64
	Begin, End int64
}

// Bytes is the tensor's size on disk.
func (t Tensor) Bytes() int64 { return t.End - t.Begin }

// Elements is the product of the shape: 1 for a scalar ([]), 0 when a dimension is 0. It is the number of elements of
// Dtype as stored, so a U8 tensor of packed NVFP4 codes has half as many as the weight that it codes.
func (t Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Header is a file's table of contents, tensors in offset order.
type Header struct {
	Metadata  map[string]string
	Tensors   []Tensor
	DataStart int64 // byte offset of the first data byte in the file
	Size      int64 // file size in bytes

	index map[string]int32 // name -> place in Tensors
}

// Lookup finds a tensor by name.
func (h *Header) Lookup(name string) (Tensor, bool) {
	i, ok := h.index[name]
	if !ok {
		return Tensor{}, false
	}
	return h.Tensors[i], true
}

// ReadHeader reads and checks the header of a file of size bytes; path is only for messages. A fault is a *Problem.
//
// What is accepted: the bytes of the file are exactly the length, the header and the tensors, which tile the data
// without overlap, hole or rest, in whatever order the header lists them; every tensor's range is as long as its shape
// and type say. Tensors of no bytes are legal where a neighbour begins or ends, scalars have the shape [], the data may
// start at any byte (see Unaligned), the header may end in whitespace, an entry may have keys that nobody knows, as
// upstream's loader allows (huggingface/safetensors 0.8.0-dev, tensor.rs, Metadata::validate). Stricter than upstream,
// as its own text of the format asks: the header begins with "{", and no key appears twice.
//
// A length is not believed before the file is known to be that long, and all that is allocated on the way, garbage
// included, stays below HeaderMemory times the file's size and 64 KiB, whatever the file says.
//
// When the only fault is that the file ends too early (rule file-truncated, header whole), the header is returned
// together with the error, so that a person can be shown what should be there.
func ReadHeader(r io.ReaderAt, size int64, path string) (*Header, error) {
	fault := func(rule, message, fix string) *Problem {
		return &Problem{Rule: rule, Severity: SeverityError, File: path, Message: message, Fix: fix}
	}
	head := make([]byte, min(max(size, 0), sniffLen))
	if err := readFull(r, head, 0); err != nil {
		return nil, unreadable(path, err)
	}
	if p := sniff(head, size, path); p != nil {
		return nil, p
	}
	if size < 8 {
		return nil, fault("header-length", fmt.Sprintf("the file has %s; the header's length alone takes 8", count(int(size), "byte")), copyAgain)
	}
	n := leUint64(head)
	switch {
	case n > maxHeader:
		return nil, fault("header-length", fmt.Sprintf("the first 8 bytes declare a header of %d bytes; at most %d are allowed", n, maxHeader), notThisFormat)
	case n == 0:
		return nil, fault("header-length", "the first 8 bytes declare a header of 0 bytes", notThisFormat)
	case size == 8 || n > uint64(size-8) && head[8] == '{':
		return nil, fault("file-truncated", fmt.Sprintf("truncated inside the header: needs at least %d bytes, has %d (%d missing)", 8+n, size, 8+n-uint64(size)), copyAgain)
	case n > uint64(size-8):
		return nil, fault("header-length", fmt.Sprintf("the first 8 bytes declare a header of %d bytes, but only %d follow", n, size-8), notThisFormat)
	case head[8] != '{':
		return nil, fault("header-syntax", fmt.Sprintf("the header begins with %q, not with '{'", head[8]), notThisFormat)
	}
	text, err := readText(r, 8, int64(n))
	if err != nil {
		return nil, unreadable(path, err)
	}
	h := &Header{DataStart: 8 + int64(n), Size: size}
	if p := h.parse(text, path); p != nil {
		return nil, p
	}
	if p := h.tile(path); p != nil {
		if p.Rule == "file-truncated" {
			return h, p
		}
		return nil, p
	}
	return h, nil
}

const (
	copyAgain     = "download or copy the file again and compare its size with the source"
	notThisFormat = "the file is damaged or no safetensors file; download or copy it again"
	writeAgain    = "write the file again with the tool that made it, or get another copy"
)

func leUint64(p []byte) uint64 { return binary.LittleEndian.Uint64(p) }

// readFull reads len(p) bytes at off; a short read is io.ErrUnexpectedEOF.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == nil || err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// readText reads n bytes at off into a string without a second copy.
func readText(r io.ReaderAt, off, n int64) (string, error) {
	var b strings.Builder
	b.Grow(int(n))
	buf := make([]byte, min(n, 1<<20))
	for n > 0 {
		part := buf[:min(n, int64(len(buf)))]
		if err := readFull(r, part, off); err != nil {
			return "", err
		}
		b.Write(part)
		off += int64(len(part))
		n -= int64(len(part))
	}
	return b.String(), nil
}

func unreadable(path string, err error) *Problem {
	return &Problem{
		Rule: "file-unreadable", Severity: SeverityError, File: path,
		Message: "the file cannot be read", Fix: "check permissions and the disk, then try again", Err: err,
	}
}
