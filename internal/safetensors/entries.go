package safetensors

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"
)

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
	if rank == 0 {
		return []int64{}, why, nil
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
