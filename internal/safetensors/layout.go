package safetensors

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Spec is a tensor to be written.
type Spec struct {
	Name  string
	Dtype Dtype
	Shape []int64
}

// Layout is the complete header of a file to be written: every offset is known before the first byte.
type Layout struct {
	Header  []byte // length prefix, JSON, spaces to a multiple of 8
	Tensors []Tensor
	Size    int64
}

// NewLayout lays tensors out like the upstream library: wider elements first, then by name.
//
// The header is byte for byte what upstream writes for the same tensors and one metadata key (huggingface/safetensors
// 0.8.0-dev, tensor.rs, prepare): types in the reverse order of its enum, names in byte order, compact JSON, spaces to a
// multiple of 8. Several metadata keys are written in byte order, where upstream's order is that of a hash map, so that
// equal input gives equal bytes. nil metadata writes no __metadata__; transformers refuses a file without
// {"format": "pt"}, which callers pass.
//
// It refuses, naming the tensor: an unknown type, a name twice or named __metadata__, a name or metadata that is no UTF-8,
// more than 64 dimensions, a negative dimension, a size beyond 63 bits or of no whole number of bytes; and a header of
// more than 100,000,000 bytes, which no loader would read. The order of specs changes nothing.
func NewLayout(specs []Spec, metadata map[string]string) (*Layout, error) {
	l := &Layout{Tensors: make([]Tensor, 0, len(specs))}
	seen := make(map[string]bool, len(specs))
	for _, s := range specs {
		size, why := byteSize(s.Dtype, s.Shape)
		switch {
		case why != "":
		case s.Name == "__metadata__":
			why = "the format reserves this name"
		case !utf8.ValidString(s.Name):
			why = "the name is not valid UTF-8"
		case seen[s.Name]:
			why = "it is listed twice"
		case len(s.Shape) > maxRank:
			why = fmt.Sprintf("%d dimensions; at most %d are read", len(s.Shape), maxRank)
		}
		if why != "" {
			return nil, fmt.Errorf("laying out tensor %s: %s", quote(s.Name), why)
		}
		seen[s.Name] = true
		l.Tensors = append(l.Tensors, Tensor{Name: s.Name, Dtype: s.Dtype, Shape: append([]int64{}, s.Shape...), End: size})
	}
	for key, value := range metadata {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return nil, fmt.Errorf("laying out metadata %s: it is not valid UTF-8", quote(key))
		}
	}
	slices.SortFunc(l.Tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(dtypeRank[b.Dtype], dtypeRank[a.Dtype]), strings.Compare(a.Name, b.Name))
	})
	at := int64(0)
	for i := range l.Tensors {
		t := &l.Tensors[i]
		if t.End > 1<<62-at {
			return nil, fmt.Errorf("laying out tensor %s: the file would have more than 2^62 bytes", quote(t.Name))
		}
		t.Begin, t.End = at, at+t.End
		at = t.End
	}
	l.Header = renderHeader(l.Tensors, metadata)
	if n := len(l.Header) - 8; n > maxHeader {
		return nil, fmt.Errorf("laying out %d tensors: the header would have %d bytes, and loaders read at most %d; split the tensors over several files", len(specs), n, maxHeader)
	}
	l.Size = int64(len(l.Header)) + at
	return l, nil
}

// renderHeader spells the length, the JSON and the padding.
func renderHeader(tensors []Tensor, metadata map[string]string) []byte {
	b := make([]byte, 8, 8+128*(len(tensors)+1))
	b = append(b, '{')
	comma := func(first bool) {
		if !first {
			b = append(b, ',')
		}
	}
	if metadata != nil {
		b = append(b, `"__metadata__":{`...)
		for i, key := range slices.Sorted(maps.Keys(metadata)) {
			comma(i == 0)
			b = appendQuoted(b, key)
			b = append(b, ':')
			b = appendQuoted(b, metadata[key])
		}
		b = append(b, '}')
	}
	for i, t := range tensors {
		comma(i == 0 && metadata == nil)
		b = appendQuoted(b, t.Name)
		b = append(b, `:{"dtype":"`...)
		b = append(b, t.Dtype...)
		b = append(b, `","shape":[`...)
		for j, d := range t.Shape {
			comma(j == 0)
			b = strconv.AppendInt(b, d, 10)
		}
		b = append(b, `],"data_offsets":[`...)
		b = strconv.AppendInt(b, t.Begin, 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, t.End, 10)
		b = append(b, "]}"...)
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-8))
	return b
}
