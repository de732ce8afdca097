package safetensors_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"seatsmith/internal/safetensors"
)

func TestHeaderSyntax(t *testing.T) {
	good := u8("a", 0, 8)
	for _, c := range []struct{ name, header, want string }{
		{"cut off", `{"a":{"dtype":"U8"`, "the text ends"},
		{"comma before the end", header(good) + ",", "','"},
		{"trailing comma", "{" + good + ",}", "where a string should be"},
		{"two objects", header(good) + "{}", "nothing but spaces"},
		{"single quotes", "{'a':1}", "where a string should be"},
		{"an entry that is a number", `{"a":1}`, "'{'"},
		{"an entry that is null", `{"a":null}`, "'{'"},
		{"a duplicate tensor", header(good, u8("b", 8, 8), good), `the tensor "a" appears twice`},
		{"a duplicate tensor behind an escape", header(good, strings.Replace(good, "a", `\u0061`, 1)), `the tensor "a" appears twice`},
		{"a duplicate shape", `{"a":{"dtype":"U8","shape":[8],"shape":[8],"data_offsets":[0,8]}}`, `the key shape of tensor "a" appears twice`},
		{"a duplicate dtype", `{"a":{"dtype":"U8","dtype":"U8","shape":[8],"data_offsets":[0,8]}}`, "the key dtype"},
		{"duplicate offsets", `{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8],"data_offsets":[0,8]}}`, "the key data_offsets"},
		{"duplicate metadata", `{"__metadata__":{},` + good + `,"__metadata__":{}}`, "the key __metadata__ appears twice"},
		{"a duplicate key of the metadata", `{"__metadata__":{"x":"1","x":"2"},` + good + `}`, `the key "x" of __metadata__`},
		{"metadata that holds a number", `{"__metadata__":{"epoch":3},` + good + `}`, `the value of "epoch" in __metadata__ is not a string`},
		{"metadata that holds an object", `{"__metadata__":{"config":{}},` + good + `}`, "is not a string"},
		{"metadata that is a list", `{"__metadata__":["x"],` + good + `}`, "'{'"},
		{"no dtype", `{"a":{"shape":[8],"data_offsets":[0,8]}}`, "no dtype"},
		{"no shape", `{"a":{"dtype":"U8","data_offsets":[0,8]}}`, "no shape"},
		{"no offsets", `{"a":{"dtype":"U8","shape":[8]}}`, "no data_offsets"},
		{"a dtype that is a number", `{"a":{"dtype":8,"shape":[8],"data_offsets":[0,8]}}`, "a string"},
		{"an unknown dtype", header(entry("a", "FP8", "[8]", "[0,8]")), `"FP8" is not one of the format`},
		{"a dtype in lower case", header(entry("a", "bf16", "[4]", "[0,8]")), `"bf16" is not one`},
		{"a shape that is a number", header(entry("a", "U8", "8", "[0,8]")), "'['"},
		{"a fraction", header(entry("a", "U8", "[8.0]", "[0,8]")), "not written as an integer"},
		{"an exponent", header(entry("a", "U8", "[8]", "[0,8e0]")), "not written as an integer"},
		{"a leading zero", header(entry("a", "U8", "[08]", "[0,8]")), "leading zero"},
		{"a string for a number", header(entry("a", "U8", `["8"]`, "[0,8]")), "an integer"},
		{"a sign", header(entry("a", "U8", "[+8]", "[0,8]")), "an integer"},
		{"a comment", header(good) + "//", "nothing but spaces"},
		{"a raw newline in a name", "{\"a\n\":{}}", "control character"},
		{"an unknown escape", `{"\x61":{}}`, "escape"},
		{"half a surrogate pair", `{"\ud800":{}}`, "escape"},
		{"a surrogate pair backwards", `{"\udc00\ud800":{}}`, "escape"},
		{"an escape cut off", `{"\u00`, "escape"},
		{"a string cut off", `{"abc`, "a string without its end"},
		{"invalid UTF-8", "{\"a\xff\":{}}", "not valid UTF-8 at byte 3"},
		{"UTF-8 of a surrogate", "{\"\xed\xa0\x80\":{}}", "not valid UTF-8"},
		{"65 dimensions", header(entry("a", "U8", "[1"+strings.Repeat(",1", 64)+"]", "[0,1]")), "more than 64 dimensions"},
		{"deep nesting in an unknown key", `{"a":{"x":` + strings.Repeat("[", 200_000), "nested deeper than 128"},
		{"deep nesting in place of a shape", `{"a":{"shape":` + strings.Repeat("[", 200_000), "an integer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(raw(c.header, counting(8)))
			wantProblem(t, err, "header-syntax", c.want)
		})
	}
}

func TestFaultsNameTheTensor(t *testing.T) {
	_, err := parse(raw(`{"good":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"bad":{"dtype":"U8","shape":[x]}}`, counting(8)))
	if p := wantProblem(t, err, "header-syntax"); p.Tensor != "bad" {
		t.Errorf("tensor %q, want bad", p.Tensor)
	}
}

func TestHeadersThatAreOddButLegal(t *testing.T) {
	for _, c := range []struct{ name, header string }{
		{"spaces between everything", " { \"a\" :\n{ \"dtype\" : \"U8\" ,\t\"shape\" : [ 8 ] , \"data_offsets\" : [ 0 , 8 ] } } \r\n"[1:]},
		{"keys in another order", `{"a":{"data_offsets":[0,8],"shape":[8],"dtype":"U8"}}`},
		{"a key that nobody knows", `{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8],"x":[{"y":[1.5e3,null,true,"\n"]}]}}`},
		{"metadata at the end", `{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"__metadata__":{"format":"pt"}}`},
		{"metadata that is null", `{"__metadata__":null,"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}`},
		{"a name with escapes", `{"\u0061":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}`},
		{"64 dimensions", header(entry("a", "U8", "[8"+strings.Repeat(",1", 63)+"]", "[0,8]"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := parse(raw(c.header, counting(8)))
			if err != nil {
				t.Fatal(err)
			}
			if x, ok := h.Lookup("a"); !ok || x.Bytes() != 8 || x.Elements() != 8 {
				t.Errorf("tensor a is %+v, %v", x, ok)
			}
		})
	}
	h, err := parse(raw(`{"\ud83e\ude91\"\\\/\b\f\n\r\t":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, counting(1)))
	if err != nil || h.Tensors[0].Name != "🪑\"\\/\b\f\n\r\t" {
		t.Errorf("a name of escapes: %v, %v", h, err)
	}
	if h, err := parse(raw("{}", nil)); err != nil || len(h.Tensors) != 0 {
		t.Errorf("a file without tensors: %v", err)
	}
}

// The widths of huggingface/safetensors 0.8.0-dev, tensor.rs, Dtype::bitsize.
func TestEveryDtypeOfTheFormatIsKnown(t *testing.T) {
	for name, want := range map[safetensors.Dtype]int64{
		"BOOL": 8, "U8": 8, "I8": 8, "I16": 16, "U16": 16, "I32": 32, "U32": 32, "I64": 64, "U64": 64,
		"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
		"F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
	} {
		if got, ok := name.Bits(); got != want || !ok {
			t.Errorf("%s: %d, %v; want %d bits", name, got, ok, want)
		}
		size := want // 8 elements
		file := raw(header(entry("x", string(name), "[2,4]", "[0,"+itoa(size)+"]")), counting(int(size)))
		if _, err := parse(file); err != nil {
			t.Errorf("%s [2,4]: %v", name, err)
		}
	}
	for _, name := range []safetensors.Dtype{"", "f32", "FP4", "NVFP4", "BF16 "} {
		if _, ok := name.Bits(); ok {
			t.Errorf("%q is known", name)
		}
	}
}

// failing is a disk that breaks after n bytes.
type failing struct {
	data []byte
	n    int64
}

var errDisk = errors.New("input/output error")

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.n {
		return 0, errDisk
	}
	return bytes.NewReader(f.data).ReadAt(p, off)
}

func TestAReadErrorIsNoJudgement(t *testing.T) {
	file := raw(header(u8(strings.Repeat("a", 5000), 0, 8)), counting(8))
	for _, n := range []int64{0, 1500} {
		_, err := safetensors.ReadHeader(failing{file, n}, int64(len(file)), "m")
		if wantProblem(t, err, "file-unreadable", "input/output error"); !errors.Is(err, errDisk) {
			t.Errorf("%v does not wrap the disk's error", err)
		}
	}
	// A file that is shorter than the size that was told, because it was cut in between.
	_, err := safetensors.ReadHeader(bytes.NewReader(file[:2000]), int64(len(file)), "m")
	if wantProblem(t, err, "file-unreadable"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}
