package numeric_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/numeric"
)

// An array as a test file stores it: little-endian bytes.
type array struct {
	DType string  `json:"dtype"`
	Shape []int   `json:"shape"`
	Span  []int64 `json:"data_offsets"`
	data  []byte
}

// readArrays loads a whole safetensors file that this repository made; it checks nothing.
func readArrays(t testing.TB, path string) map[string]*array {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	header := binary.LittleEndian.Uint64(file)
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(file[8:8+header], &raw); err != nil {
		t.Fatal(err)
	}
	delete(raw, "__metadata__")
	arrays := map[string]*array{}
	for name, text := range raw {
		a := &array{}
		if err := json.Unmarshal(text, a); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		a.data = file[8+int64(header):][a.Span[0]:a.Span[1]]
		arrays[name] = a
	}
	return arrays
}

// float32s widens an F32 or BF16 array.
func (a *array) float32s(t testing.TB) []float32 {
	t.Helper()
	switch a.DType {
	case "F32":
		v := make([]float32, len(a.data)/4)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(a.data[4*i:]))
		}
		return v
	case "BF16":
		v := make([]float32, len(a.data)/2)
		for i := range v {
			v[i] = numeric.BF16ToFloat32(binary.LittleEndian.Uint16(a.data[2*i:]))
		}
		return v
	}
	t.Fatalf("no float32 reading of %s", a.DType)
	return nil
}

// goldens are the peers' own bytes and the BF16 weights they were made from.
type goldens struct {
	arrays  map[string]*array
	weights map[string]*array // by tensor, without ".weight"
	ran     map[string]map[string]json.RawMessage
}

func readGoldens(t testing.TB) *goldens {
	t.Helper()
	g := &goldens{arrays: readArrays(t, "testdata/peer_goldens_tiny.safetensors"), weights: map[string]*array{}}
	for name, a := range g.arrays {
		if tensor, ok := strings.CutPrefix(name, "input/"); ok {
			g.weights[tensor] = a
		}
	}
	shards, err := filepath.Glob("../../testdata/tiny/*.safetensors")
	if err != nil || len(shards) == 0 {
		t.Fatalf("no shards of the tiny model: %v", err)
	}
	for _, shard := range shards {
		for name, a := range readArrays(t, shard) {
			if tensor, ok := strings.CutSuffix(name, ".weight"); ok && a.DType == "BF16" {
				g.weights[tensor] = a
			}
		}
	}
	text, err := os.ReadFile("testdata/peer_goldens_tiny.json")
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Ran map[string]map[string]json.RawMessage `json:"ran"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	g.ran = index.Ran
	return g
}

// places are the schemes under which an entry may be stored, in the order that the notes of
// peer_goldens_tiny.json give.
func places(scheme, device string) []string {
	p := []string{scheme + "." + device, scheme + ".cuda"}
	switch scheme {
	case "ct.nvfp4_oneshot", "ct.nvfp4_own":
		p = append(p, "ct.nvfp4.cuda")
	case "mo.nvfp4_hf":
		p = append(p, "mo.nvfp4."+device, "mo.nvfp4.cuda")
	}
	return p
}

func (g *goldens) find(scheme, device, tensor, field string) *array {
	for _, place := range places(scheme, device) {
		if a := g.arrays[place+"/"+tensor+"."+field]; a != nil {
			return a
		}
	}
	return nil
}

// tensors lists what a scheme was run on: the names that the index gives, or else every tensor that has
// an entry of the given field.
func (g *goldens) tensors(t testing.TB, scheme, field string) []string {
	t.Helper()
	var list []string
	for _, names := range g.ran[scheme+".cuda"] {
		if json.Unmarshal(names, &list) == nil {
			return list
		}
	}
	for name := range g.arrays {
		if rest, ok := strings.CutPrefix(name, scheme+".cuda/"); ok {
			if tensor, ok := strings.CutSuffix(rest, "."+field); ok {
				list = append(list, tensor)
			}
		}
	}
	slices.Sort(list)
	return list
}

// A tally counts the peers' arrays that a test compared, and those that it expects to differ.
type tally struct {
	same, deliberate int
}

// compare counts one array and reports the first byte that is not the peer's.
func (n *tally) compare(t testing.TB, g *goldens, scheme, device, tensor, field string, got []byte) {
	t.Helper()
	want := g.find(scheme, device, tensor, field)
	if want == nil {
		t.Errorf("%s.%s/%s.%s: no such golden", scheme, device, tensor, field)
		return
	}
	n.same++
	if i := firstDifference(got, want.data); i >= 0 {
		t.Errorf("%s.%s/%s.%s: byte %d of %d: got %s, the peer wrote %s", scheme, device, tensor, field,
			i, len(want.data), excerpt(got, i), excerpt(want.data, i))
	}
}

// firstDifference is the index of the first byte in which a and b differ, -1 if they are equal.
func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	return -1
}

func excerpt(b []byte, i int) string {
	return fmt.Sprintf("% x", b[min(i, len(b)):min(i+8, len(b))])
}

// settle prints how much was compared and fails if it is less than what this file is known to hold.
func (n *tally) settle(t testing.TB, same, deliberate int) {
	t.Helper()
	t.Logf("%d arrays equal to the peer's, %d deliberately different", n.same, n.deliberate)
	if n.same < same || n.deliberate < deliberate {
		t.Errorf("compared %d and %d arrays, this test data holds %d and %d", n.same, n.deliberate, same, deliberate)
	}
}

func float32Bytes(v ...float32) []byte {
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

func bf16Bytes(v ...float32) []byte {
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint16(b, numeric.BF16FromFloat32(f))
	}
	return b
}
