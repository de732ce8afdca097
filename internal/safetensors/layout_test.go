package safetensors_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"seatsmith/internal/safetensors"
)

// The fixtures' shards were written by the Python library, so equal bytes mean equal order, spelling and padding.
func TestLayoutOfPythonsFilesIsPythons(t *testing.T) {
	for _, name := range []string{"tiny", "tiny-finetune", "moe"} {
		for _, f := range openSet(t, filepath.Join("..", "..", "testdata", name)).Files {
			var specs []safetensors.Spec
			for _, x := range f.Tensors {
				specs = append(specs, safetensors.Spec{Name: x.Name, Dtype: x.Dtype, Shape: x.Shape})
			}
			l, err := safetensors.NewLayout(specs, map[string]string{"format": "pt"})
			if err != nil {
				t.Fatal(err)
			}
			whole, err := os.ReadFile(f.Path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(l.Header, whole[:f.DataStart]) {
				t.Errorf("%s: our header differs from the file's", f.Path)
			}
			if l.Size != f.Size {
				t.Errorf("%s: %d bytes, the file has %d", f.Path, l.Size, f.Size)
			}
			if d := cmp.Diff(f.Tensors, l.Tensors); d != "" {
				t.Errorf("%s: tensors differ: %s", f.Path, d)
			}
		}
	}
}

// The two headers of upstream's own tests (huggingface/safetensors 0.8.0-dev, tensor.rs, test_serialization and
// test_empty), and one that shows its order: U64 > … > BF16 > F16 > … > F8_E4M3 > … > U8 > … > BOOL, then names.
func TestLayoutIsUpstreams(t *testing.T) {
	for _, c := range []struct {
		name     string
		specs    []safetensors.Spec
		metadata map[string]string
		want     string
	}{
		{"attn.0", []safetensors.Spec{{"attn.0", "F32", []int64{1, 2, 3}}}, nil,
			"\x40\x00\x00\x00\x00\x00\x00\x00" + `{"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}}`},
		{"empty", nil, nil, "\x08\x00\x00\x00\x00\x00\x00\x00{}      "},
		{"metadata", nil, map[string]string{"framework": "pt"}, "\x28\x00\x00\x00\x00\x00\x00\x00" + `{"__metadata__":{"framework":"pt"}}     `},
		{"metadata in order", nil, map[string]string{"b\n": "\"", "a": "é\x1f"}, "\x30\x00\x00\x00\x00\x00\x00\x00" + `{"__metadata__":{"a":"é\u001f","b\n":"\""}}` + "    "},
		{"order", []safetensors.Spec{
			{"a", "BOOL", nil}, {"b", "U8", nil}, {"c", "F8_E4M3", nil}, {"d", "F16", nil}, {"f", "BF16", nil},
			{"e", "BF16", nil}, {"g", "F32", nil}, {"h", "U64", nil}, {"i", "F4", []int64{2}},
		}, nil, "\xf0\x01\x00\x00\x00\x00\x00\x00" + header(
			entry("h", "U64", "[]", "[0,8]"), entry("g", "F32", "[]", "[8,12]"), entry("e", "BF16", "[]", "[12,14]"),
			entry("f", "BF16", "[]", "[14,16]"), entry("d", "F16", "[]", "[16,18]"), entry("c", "F8_E4M3", "[]", "[18,19]"),
			entry("b", "U8", "[]", "[19,20]"), entry("i", "F4", "[2]", "[20,21]"), entry("a", "BOOL", "[]", "[21,22]"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := safetensors.NewLayout(c.specs, c.metadata)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimRight(string(l.Header), " "); got != strings.TrimRight(c.want, " ") || len(l.Header)%8 != 0 {
				t.Errorf("header of %d bytes\n%q, want\n%q", len(l.Header), got, c.want)
			}
		})
	}
}

func TestLayoutRefusesWhatNobodyCouldRead(t *testing.T) {
	for _, c := range []struct {
		name  string
		specs []safetensors.Spec
		want  string
	}{
		{"unknown type", []safetensors.Spec{{"w", "FP4", []int64{2}}}, `"FP4" is not one of the format`},
		{"name twice", []safetensors.Spec{{"w", "U8", nil}, {"v", "U8", nil}, {"w", "F32", nil}}, "listed twice"},
		{"reserved name", []safetensors.Spec{{"__metadata__", "U8", nil}}, "reserves this name"},
		{"name of broken UTF-8", []safetensors.Spec{{"w\xff", "U8", nil}}, "UTF-8"},
		{"negative dimension", []safetensors.Spec{{"w", "U8", []int64{-1}}}, "negative"},
		{"overflow", []safetensors.Spec{{"w", "U8", []int64{1 << 40, 1 << 40}}}, "overflows"},
		{"overflow of a type's width", []safetensors.Spec{{"w", "F64", []int64{1 << 60}}}, "overflows"},
		{"half a byte", []safetensors.Spec{{"w", "F4", []int64{3}}}, "12 bits"},
		{"65 dimensions", []safetensors.Spec{{"w", "U8", make([]int64, 65)}}, "65 dimensions"},
		{"too much together", []safetensors.Spec{{"v", "U8", []int64{1 << 59}}, {"w", "F4", []int64{1 << 60}}}, ""},
		{"a header that no loader reads", []safetensors.Spec{{strings.Repeat("w", 100_000_000), "U8", nil}}, "split the tensors"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := safetensors.NewLayout(c.specs, nil)
			if c.want == "" {
				if err != nil || l.Size < 1<<60 {
					t.Errorf("a legal layout: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
	if _, err := safetensors.NewLayout(nil, map[string]string{"a": "\xff"}); err == nil || !strings.Contains(err.Error(), `metadata "a"`) {
		t.Errorf("metadata of broken UTF-8: %v", err)
	}
	var huge []safetensors.Spec
	for i := range 16 {
		huge = append(huge, safetensors.Spec{Name: fmt.Sprint(i), Dtype: "U8", Shape: []int64{1 << 59}})
	}
	if _, err := safetensors.NewLayout(huge, nil); err == nil || !strings.Contains(err.Error(), "2^62") {
		t.Errorf("16 tensors of 2^59 bytes: %v", err)
	}
}

// names are tensor names with everything that JSON, Python and sorting could trip over.
func names() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`model\.layers\.[0-9]{1,3}\.(self_attn\.[qkvo]_proj|mlp\.gate)\.weight`),
		rapid.StringN(0, 8, -1),
	).Filter(func(s string) bool { return s != "__metadata__" })
}

// specs are legal tensors with different names, at most a few kilobytes together.
func specs() *rapid.Generator[[]safetensors.Spec] {
	all := []safetensors.Dtype{"BOOL", "F4", "F6_E2M3", "F6_E3M2", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ",
		"F8_E5M2FNUZ", "I16", "U16", "F16", "BF16", "I32", "U32", "F32", "C64", "F64", "I64", "U64"}
	one := rapid.Custom(func(t *rapid.T) safetensors.Spec {
		s := safetensors.Spec{
			Name:  names().Draw(t, "name"),
			Dtype: rapid.SampledFrom(all).Draw(t, "dtype"),
			Shape: rapid.SliceOfN(rapid.Int64Range(0, 5), 0, 3).Draw(t, "shape"),
		}
		if bits, _ := s.Dtype.Bits(); bits < 8 {
			s.Shape = append(s.Shape, 4)
		}
		return s
	})
	return rapid.SliceOfNDistinct(one, 0, 12, func(s safetensors.Spec) string { return s.Name })
}

func TestTheOrderOfSpecsChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := specs().Draw(t, "specs")
		metadata := rapid.MapOfN(names(), names(), 0, 3).Draw(t, "metadata")
		a, err := safetensors.NewLayout(list, metadata)
		if err != nil {
			t.Fatal(err)
		}
		b, err := safetensors.NewLayout(rapid.Permutation(list).Draw(t, "shuffled"), metadata)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Errorf("layouts differ: %s", d)
		}
	})
}
