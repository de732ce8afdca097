package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strings"
	"unicode/utf8"
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

// faults counts the tensors with a fault that leaves the syntax whole, so that reading goes on. Only faults of the rule
// that was broken first are counted, and only the names that a message shows are kept.
type faults struct {
	rule, message string // of the first
	names         []string
	n             int
}

func (f *faults) add(rule, tensor, message string) {
	if f.n == 0 {
		f.rule, f.message = rule, message
	}
	if rule != f.rule {
		return
	}
	f.n++
	if len(f.names) < maxNamed {
		f.names = append(f.names, tensor)
	}
}

// parse fills Metadata, Tensors (in the header's order) and index from the header's text.
func (h *Header) parse(text, path string) *Problem {
	if !utf8.ValidString(text) {
		at := 0
		for at < len(text) {
			r, n := utf8.DecodeRuneInString(text[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		return &Problem{
			Rule: "header-syntax", Severity: SeverityError, File: path,
			Message: fmt.Sprintf("the header is not valid UTF-8 at byte %d", at), Fix: writeAgain,
		}
	}
	most := min(strings.Count(text, "{"), len(text)/minEntry+1)
	h.Tensors = make([]Tensor, 0, most)
	h.index = make(map[string]int32, most)
	p := headerParser{scanner: scanner{s: text}, header: h}
	err := p.run()
	if err != nil {
		problem := &Problem{
			Rule: "header-syntax", Severity: SeverityError, File: path, Tensor: p.current,
			Message: "the header cannot be read: " + err.Error(), Fix: writeAgain,
		}
		var dup *duplicateError
		if errors.As(err, &dup) {
			problem.Message = dup.Error()
		}
		return problem
	}
	if p.faults.n > 0 {
		return p.faults.problem(path)
	}
	return nil
}

func (f *faults) problem(path string) *Problem {
	message := f.message
	if f.n > 1 {
		message += fmt.Sprintf("; %d tensors are at fault: %s", f.n, namelist(f.names, f.n))
	}
	return &Problem{
		Rule: f.rule, Severity: SeverityError, File: path, Tensor: f.names[0], Message: message, Fix: writeAgain,
	}
}

type duplicateError struct{ what string }

func (e *duplicateError) Error() string { return e.what + " appears twice" }

// headerParser is one reading of a header.
type headerParser struct {
	scanner
	header      *Header
	current     string // the tensor whose entry is being read, for messages
	hasMetadata bool
	shapes      []int64        // arena that the shapes are cut from
	dims        [maxRank]int64 // the shape that is being read
	faults      faults
}

func (p *headerParser) run() error {
	err := p.object(func(key string) error {
		if key == "__metadata__" {
			return p.metadata()
		}
		if _, ok := p.header.index[key]; ok {
			p.current = key
			return &duplicateError{"the tensor " + quote(key)}
		}
		p.current = key
		t, err := p.entry(key)
		if err != nil {
			return err
		}
		p.current = ""
		p.header.index[key] = int32(len(p.header.Tensors))
		p.header.Tensors = append(p.header.Tensors, t)
		return nil
	})
	if err != nil {
		return err
	}
	p.space()
	if p.i != len(p.s) {
		return p.unexpected("nothing but spaces")
	}
	return nil
}

// metadata takes a map from string to string, or null, which upstream reads as no metadata.
func (p *headerParser) metadata() error {
	if p.hasMetadata {
		return &duplicateError{"the key __metadata__"}
	}
	p.hasMetadata = true
	if p.peek() == 'n' {
		return p.skip(0)
	}
	p.header.Metadata = map[string]string{}
	return p.object(func(key string) error {
		if _, ok := p.header.Metadata[key]; ok {
			return &duplicateError{"the key " + quote(key) + " of __metadata__"}
		}
		if p.peek() != '"' {
			return p.errorf("the value of %s in __metadata__ is not a string", quote(key))
		}
		value, err := p.str()
		p.header.Metadata[key] = value
		return err
	})
}

// entry takes a tensor's description.
func (p *headerParser) entry(name string) (Tensor, error) {
	const dtype, shape, offsets = 1, 2, 4
	t := Tensor{Name: name}
	var seen int
	var fault string // the first fault of the numbers
	once := func(key string, bit int) error {
		if seen&bit != 0 {
			return &duplicateError{"the key " + key + " of tensor " + quote(name)}
		}
		seen |= bit
		return nil
	}
	err := p.object(func(key string) (err error) {
		switch key {
		case "dtype":
			if err = once(key, dtype); err == nil {
				var s string
				s, err = p.str()
				t.Dtype = Dtype(s)
			}
		case "shape":
			if err = once(key, shape); err == nil {
				var why string
				t.Shape, why, err = p.shape()
				fault = first(fault, why)
			}
		case "data_offsets":
			if err = once(key, offsets); err == nil {
				var why string
				t.Begin, t.End, why, err = p.offsets()
				fault = first(fault, why)
			}
		default:
			err = p.skip(0)
		}
		return err
	})
	if err != nil {
		return t, err
	}
	for _, k := range []struct {
		key string
		bit int
	}{{"dtype", dtype}, {"shape", shape}, {"data_offsets", offsets}} {
		if seen&k.bit == 0 {
			return t, p.errorf("the entry has no %s", k.key)
		}
	}
	if rank, ok := dtypeRank[t.Dtype]; ok {
		t.Dtype = dtypes[rank].name // the constant, so that nothing keeps the header's text alive for it
	} else {
		p.faults.add("header-syntax", name, fmt.Sprintf("the type %s is not one of the format", quote(string(t.Dtype))))
		return t, nil
	}
	if fault == "" {
		fault = sizeFault(t)
	}
	if fault != "" {
		p.faults.add("tensor-size", name, fault)
	}
	return t, nil
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// shape takes the dimensions; why says which number is impossible.
func (p *headerParser) shape() (shape []int64, why string, err error) {
	rank := 0
	err = p.array(func() error {
		n, err := p.integer()
		switch {
		case err != nil:
			return err
		case rank == maxRank:
			return p.errorf("a shape of more than %d dimensions", maxRank)
		case n.negative && why == "":
			why = fmt.Sprintf("dimension %d of the shape is negative", rank)
		case n.huge && why == "":
			why = fmt.Sprintf("dimension %d of the shape overflows 63 bits", rank)
		}
		p.dims[rank] = n.v
		rank++
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	if len(p.shapes)+rank > cap(p.shapes) {
		p.shapes = make([]int64, 0, max(rank, min(1024, len(p.s)/32)))
	}
	start := len(p.shapes)
	p.shapes = append(p.shapes, p.dims[:rank]...)
	return p.shapes[start:len(p.shapes):len(p.shapes)], why, nil
}

// offsets takes [begin, end]; why says what is impossible about them.
func (p *headerParser) offsets() (begin, end int64, why string, err error) {
	var v [2]int64
	n := 0
	err = p.array(func() error {
		m, err := p.integer()
		if err != nil {
			return err
		}
		switch {
		case m.negative && why == "":
			why = fmt.Sprintf("data_offsets[%d] is negative", n)
		case m.huge && why == "":
			why = fmt.Sprintf("data_offsets[%d] overflows 63 bits", n)
		case n < len(v):
			v[n] = m.v
		}
		n++
		return nil
	})
	switch {
	case err != nil:
	case n != 2:
		why = fmt.Sprintf("data_offsets has %s, not begin and end", count(n, "number"))
	case why == "" && v[0] > v[1]:
		why = fmt.Sprintf("data_offsets [%d, %d] begin after their end", v[0], v[1])
	}
	return v[0], v[1], why, err
}

// sizeFault compares shape and type with the byte range, "" when they agree.
func sizeFault(t Tensor) string {
	need, why := byteSize(t.Dtype, t.Shape)
	switch {
	case why != "":
		return why
	case need != t.Bytes():
		return fmt.Sprintf("%s %d needs %d bytes, but data_offsets [%d, %d] hold %d", t.Dtype, t.Shape, need, t.Begin, t.End, t.Bytes())
	}
	return ""
}

// byteSize is the size of a tensor on disk; why says that its shape has none. Like upstream, dimensions are multiplied
// from the left with a check at each step, so that [2^40, 2^40, 0] is refused although it holds nothing.
func byteSize(d Dtype, shape []int64) (size int64, why string) {
	width, ok := d.Bits()
	if !ok {
		return 0, fmt.Sprintf("the type %s is not one of the format", quote(string(d)))
	}
	n := uint64(width)
	for _, dim := range shape {
		if dim < 0 {
			return 0, fmt.Sprintf("the shape %d has a negative dimension", shape)
		}
		hi, lo := bits.Mul64(n, uint64(dim))
		if hi != 0 || lo > 1<<63-1 {
			return 0, fmt.Sprintf("the size of %s %d overflows 63 bits", d, shape)
		}
		n = lo
	}
	if n%8 != 0 {
		return 0, fmt.Sprintf("%s %d takes %d bits, which is no whole number of bytes", d, shape, n)
	}
	return int64(n / 8), ""
}
