package safetensors_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"seatsmith/internal/safetensors"
)

// FuzzReadHeader: whatever the bytes, no panic, every refusal is a *Problem with a rule, and a header that is accepted
// describes tensors that tile the data exactly.
func FuzzReadHeader(f *testing.F) {
	whole := raw(header(u8("first", 0, 100), u8("second", 100, 200)), counting(200))
	for _, seed := range [][]byte{
		[]byte(pointer), []byte("<!DOCTYPE html>"), []byte("PK\x03\x04aaaa"), nil, // S01
		whole, whole[:len(whole)-1], whole[:len(whole)/2], whole[:20], // S02
		raw(header(u8("k", 0, 8), u8("v", 0, 8)), counting(8)), // S05
		raw(header(u8("a", 0, 8), u8("b", 4, 12)), counting(12)),
		raw(header(u8("a", 0, 8), u8("b", 12, 20)), counting(20)),
		raw(header(u8("c", 12, 20), u8("a", 0, 8), u8("b", 8, 12)), counting(20)),
		raw(header(entry("a", "F32", "[1000,1000]", "[0,4]")), counting(4)), // S06
		raw(header(entry("a", "F32", "[1]", "[4,0]")), counting(4)),
		raw(header(entry("a", "F32", "[-1]", "[0,4]")), counting(4)),
		raw(header(entry("a", "F32", "[4611686018427387905,4]", "[0,16]")), counting(16)),
		raw(header(entry("a", "F32", "[1]", "[4]")), counting(4)),
		raw(header(entry("a", "F32", "[1]", "[0,4,8]")), counting(4)),
		{1, 0, 0}, rawLength(0, "{}", nil), rawLength(1<<63, "{", nil), rawLength(200_000_000, "{}", counting(1000)), // S07
		raw("[]", nil), raw("{}     ", nil),
		raw(header(entry("tensor", "F32", "[2]", "[0,8]"))+"     ", counting(8)),                                           // S08
		raw(header(u8("a", 0, 8), entry("s", "F8_E4M3", "[0]", "[8,8]"), entry("x", "F32", "[]", "[8,12]")), counting(12)), // S13
		raw(header(u8("a", 0, 8), entry("s", "F8_E4M3", "[1]", "[0,0]")), counting(8)),
		raw(`{"__metadata__":{"format":"pt"},"\ud83e\ude91":{"x":[1.5,{"y":null}],"dtype":"F4","shape":[2],"data_offsets":[0,1]}}`, counting(1)),
		raw(`{"a":{"x":`+strings.Repeat("[", 300), nil),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := parse(data)
		if err != nil {
			var p *safetensors.Problem
			if !errors.As(err, &p) || p.Rule == "" || p.Message == "" || p.File == "" {
				t.Fatalf("refused without a rule: %#v", err)
			}
			if h != nil && p.Rule != "file-truncated" {
				t.Fatalf("a header comes with %v", err)
			}
			return
		}
		if !json.Valid(data[8:h.DataStart]) {
			t.Fatal("accepted a header that encoding/json refuses")
		}
		at := int64(0)
		seen := map[string]bool{}
		for _, x := range h.Tensors {
			bits, ok := x.Dtype.Bits()
			if x.Begin != at || x.End < x.Begin || !ok || x.Elements()*bits != 8*x.Bytes() || seen[x.Name] {
				t.Fatalf("accepted %+v at byte %d", x, at)
			}
			if got, ok := h.Lookup(x.Name); !ok || got.Begin != x.Begin || got.End != x.End {
				t.Fatalf("Lookup(%q) = %+v, %v", x.Name, got, ok)
			}
			seen[x.Name] = true
			at = x.End
		}
		if h.DataStart+at != int64(len(data)) || h.Size != int64(len(data)) {
			t.Fatalf("the tensors end at byte %d of %d", h.DataStart+at, len(data))
		}
		// What was accepted can be written, and what is written says the same.
		var specs []safetensors.Spec
		for _, x := range h.Tensors {
			specs = append(specs, safetensors.Spec{Name: x.Name, Dtype: x.Dtype, Shape: x.Shape})
		}
		l, err := safetensors.NewLayout(specs, h.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		again := append(bytes.Clone(l.Header), make([]byte, at)...)
		if h2, err := parse(again); err != nil || len(h2.Tensors) != len(h.Tensors) || len(h2.Metadata) != len(h.Metadata) {
			t.Fatalf("our own header is read as %+v, %v", h2, err)
		}
	})
}
