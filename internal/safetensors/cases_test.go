package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"seatsmith/internal/safetensors"
)

const pointer = "version https://git-lfs.github.com/spec/v1\n" +
	"oid sha256:6a2b1ac2f7d8e1a0c3b54c0a1f6e5d4c3b2a19081726354433221100ffeeddcc\nsize 4999802720\n"

// Public report S01: huggingface/diffusers#13559.
func TestS01LFSPointer(t *testing.T) {
	_, err := parse([]byte(pointer))
	wantProblem(t, err, "file-lfs-pointer", "Git LFS pointer", "4999802720", "git lfs pull")
	if n := binary.LittleEndian.Uint64([]byte(pointer)); n != 2336927755350992246 {
		t.Errorf("as a header length the pointer says %d", n)
	}
	_, err = parse([]byte("version https://git-lfs.github.com/spec/v1\noid sha256:1"))
	wantProblem(t, err, "file-lfs-pointer", "git lfs pull")
}

func TestS01HTMLPageAndEmptyFile(t *testing.T) {
	for text, want := range map[string]string{
		"<!DOCTYPE html>\n<html lang=\"en\">":        "HTML page",
		"<!doctype HTML>":                            "HTML page",
		"\xef\xbb\xbf\n  <html><head></head></html>": "HTML page",
		"<html>":                           "HTML page",
		`{"error":"Repository not found"}`: "JSON error",
		"<?xml version=\"1.0\"?><Error>AccessDenied":   "XML",
		"PK\x03\x04\x00\x00\x08\x08\x00\x00":           "zip archive",
		"GGUF\x03\x00\x00\x00\x01\x00\x00\x00\x00\x00": "GGUF",
		"": "empty",
	} {
		_, err := parse([]byte(text))
		wantProblem(t, err, "file-not-safetensors", want)
	}
}

// Public report S02: Comfy-Org/ComfyUI#6744.
func TestS02Truncated(t *testing.T) {
	whole := raw(header(u8("first", 0, 100), u8("second", 100, 200)), counting(200))
	need := len(whole)
	if _, err := parse(whole); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		cut    int
		tensor string
		out    string
	}{
		{"last byte", need - 1, "second", `1 of 2 tensors out of range: "second"`},
		{"into the first tensor", need - 150, "first", `2 of 2 tensors out of range: "first", "second"`},
		{"all data", need - 200, "first", `2 of 2 tensors out of range: "first", "second"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := parse(whole[:c.cut])
			p := wantProblem(t, err, "file-truncated", c.out,
				fmt.Sprintf("needs %d bytes, has %d (%d missing)", need, c.cut, need-c.cut))
			if p.Tensor != c.tensor {
				t.Errorf("the first tensor out of range is %q, want %q", p.Tensor, c.tensor)
			}
			if h == nil || len(h.Tensors) != 2 {
				t.Error("the whole header does not come with the error")
			}
		})
	}
	for _, cut := range []int{need - 201, 50, 9, 8} {
		h, err := parse(whole[:cut])
		wantProblem(t, err, "file-truncated", "inside the header", fmt.Sprintf("at least %d bytes, has %d (%d missing)", need-200, cut, need-200-cut))
		if h != nil {
			t.Error("half a header comes with the error")
		}
	}
}

func TestS02ASetListsWhatATruncatedShardShouldHold(t *testing.T) {
	whole := raw(header(u8("first", 0, 100), u8("second", 100, 200)), counting(200))
	files := map[string][]byte{
		one: whole[:len(whole)-50], two: shard("c"),
		safetensors.IndexName: index(208, "first", one, "second", one, "c", two),
	}
	s := openSet(t, folder(t, files))
	wantRules(t, s, "file-truncated")
	if len(s.Lost) != 2 || s.Lost[0].Tensor.Name != "first" || s.Lost[0].Cut || s.Lost[1].Tensor.Name != "second" || !s.Lost[1].Cut || s.Lost[1].File != one {
		t.Errorf("lost: %+v", s.Lost)
	}
	if refs := s.Refs(); len(refs) != 1 || refs[0].Tensor.Name != "c" {
		t.Errorf("what can be read: %v", refs)
	}
	files[one] = whole[:20]
	s = openSet(t, folder(t, files))
	checkProblem(t, wantRules(t, s, "file-truncated"), "inside the header")
	if len(s.Lost) != 0 {
		t.Errorf("half a header names tensors: %v", s.Lost)
	}
}

// Public report S05: ohdearquant/lattice#752.
func TestS05Overlap(t *testing.T) {
	_, err := parse(raw(header(u8("k_proj", 0, 8), u8("v_proj", 0, 8)), counting(8)))
	wantProblem(t, err, "tensor-overlap", `"k_proj"`, `"v_proj"`, "aliases")
	_, err = parse(raw(header(u8("a", 0, 8), u8("b", 4, 12)), counting(12)))
	wantProblem(t, err, "tensor-overlap", `"a"`, `"b"`, "[0, 8]", "[4, 12]")
	_, err = parse(raw(header(u8("outer", 0, 12), u8("x", 2, 4), u8("y", 4, 6), u8("z", 12, 14)), counting(14)))
	wantProblem(t, err, "tensor-overlap", `"outer"`, `"x"`, `"y"`, "2 tensors")
	_, err = parse(raw(header(u8("a", 0, 8), u8("empty", 4, 4)), counting(8)))
	wantProblem(t, err, "tensor-overlap", `"empty"`)
}

func TestS05Hole(t *testing.T) {
	_, err := parse(raw(header(u8("a", 0, 8), u8("b", 12, 20)), counting(20)))
	wantProblem(t, err, "tensor-hole", "bytes 8–12", `"b"`)
	_, err = parse(raw(header(u8("a", 2, 4), u8("b", 8, 10)), counting(10)))
	wantProblem(t, err, "tensor-hole", "bytes 0–2", "2 holes of 6 bytes")
	_, err = parse(raw(header(u8("a", 0, 8)), counting(11)))
	wantProblem(t, err, "tensor-hole", "trailing bytes", "3 bytes belong to no tensor")
	_, err = parse(raw("{}", counting(1)))
	wantProblem(t, err, "tensor-hole", "trailing bytes")
}

func TestS05HeaderOrderNeedNotBeOffsetOrder(t *testing.T) {
	h, err := parse(raw(header(u8("c", 12, 20), u8("a", 0, 8), u8("b", 8, 12)), counting(20)))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a", "b", "c"} {
		if h.Tensors[i].Name != want {
			t.Errorf("tensor %d is %q, want %q", i, h.Tensors[i].Name, want)
		}
		if got, ok := h.Lookup(want); !ok || got.Begin != h.Tensors[i].Begin {
			t.Errorf("Lookup(%q) = %v, %v", want, got, ok)
		}
	}
}

// Public report S06: ml-explore/mlx#3363.
func TestS06ShapeAndRange(t *testing.T) {
	for _, c := range []struct{ name, shape, offsets, want string }{
		{"larger than its range", "[1000,1000]", "[0,4]", "needs 4000000 bytes"},
		{"begin after end", "[1]", "[4,0]", "begin after their end"},
		{"negative dimension", "[-1]", "[0,4]", "dimension 0 of the shape is negative"},
		{"minus zero", "[1,-0]", "[0,4]", "dimension 1 of the shape is negative"},
		{"negative offset", "[1]", "[-4,0]", "data_offsets[0] is negative"},
		{"dimension beyond 63 bits", "[9223372036854775808]", "[0,4]", "overflows"},
		{"product beyond 63 bits", "[4294967296,4294967296]", "[0,4]", "overflows"},
		{"bytes beyond 63 bits", "[4611686018427387904]", "[0,4]", "overflows"},
		{"product that wraps to the range", "[4611686018427387905,4]", "[0,16]", "overflows"},
		{"offset beyond 63 bits", "[1]", "[0,18446744073709551616]", "overflows"},
		{"no offset", "[1]", "[]", "0 numbers"},
		{"one offset", "[1]", "[4]", "1 number,"},
		{"three offsets", "[1]", "[0,4,8]", "3 numbers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(raw(header(u8("good", 4, 8), entry("bad", "F32", c.shape, c.offsets)), counting(8)))
			p := wantProblem(t, err, "tensor-size", c.want)
			if p.Tensor != "bad" {
				t.Errorf("tensor %q, want bad", p.Tensor)
			}
		})
	}
	_, err := parse(raw(header(entry("x", "F4", "[3]", "[0,2]")), counting(2)))
	wantProblem(t, err, "tensor-size", "12 bits")
	_, err = parse(raw(header(entry("x", "F32", "[2]", "[0,4]"), entry("y", "F32", "[2]", "[4,8]"), entry("z", "F32", "[1]", "[8,12]")), counting(12)))
	wantProblem(t, err, "tensor-size", "2 tensors are at fault", `"x", "y"`)
}

// Public report S07: QuintinShaw/openasr#73.
func TestS07HeaderLengthLies(t *testing.T) {
	kilobyte := counting(1016)
	kilobyte[0] = '{'
	for _, c := range []struct {
		name, rule, want string
		file             []byte
	}{
		{"three bytes", "header-length", "the file has 3 bytes", []byte{1, 0, 0}},
		{"length 0", "header-length", "0 bytes", rawLength(0, "{}", nil)},
		{"length 2^63", "header-length", "9223372036854775808", rawLength(1<<63, "", kilobyte)},
		{"length 2^64-1", "header-length", "18446744073709551615", rawLength(math.MaxUint64, "", kilobyte)},
		{"200 MB in 1 KB", "header-length", "200000000", rawLength(200_000_000, "", kilobyte)},
		{"just above the cap", "header-length", "100000001", rawLength(100_000_001, "", kilobyte)},
		{"below the cap, no header", "header-length", "99000000", rawLength(99_000_000, "", kilobyte[1:])},
		{"below the cap, like a header", "file-truncated", "99000008 bytes, has 1024", rawLength(99_000_000, "", kilobyte)},
		{"no brace", "header-syntax", "'['", raw("[]", nil)},
		{"space before the brace", "header-syntax", "' '", raw(" {}", nil)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(c.file)
			wantProblem(t, err, c.rule, c.want)
		})
	}
	h, err := parse(raw(header(u8("a", 0, 1))+strings.Repeat(" ", 13), counting(1)))
	if err != nil || len(h.Tensors) != 1 {
		t.Errorf("a header padded with spaces: %v", err)
	}
	if _, err := parse(raw(header(u8("a", 0, 1))+"\x00\x00", counting(1))); err == nil {
		t.Error("a header padded with NUL bytes is accepted")
	}
}

// allocated is how many bytes f allocates in all, garbage included.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

func TestS07MemoryIsBoundedByTheFile(t *testing.T) {
	small := counting(1016)
	small[0] = '{'
	for name, c := range map[string]struct{ file []byte }{
		"length 2^63 in 1 KB":           {rawLength(1<<63, "", small)},
		"length 99 MB in 1 KB":          {rawLength(99_000_000, "", small)},
		"shape of an exabyte":           {raw(header(entry("a", "F64", "[144115188075855872]", "[0,8]")), counting(8))},
		"offsets of an exabyte":         {raw(header(entry("a", "U8", "[1152921504606846976]", "[0,1152921504606846976]")), counting(8))},
		"one object after another":      {raw("{"+strings.Repeat(`"":{`, 500_000), nil)},
		"nothing but braces":            {raw("{"+strings.Repeat(`{`, 1_000_000), nil)},
		"braces in a name":              {raw(header(u8(strings.Repeat("{", 1_000_000), 0, 0)), nil)},
		"as many entries as can be":     {raw(manyEntries(40_000), nil)},
		"as many dimensions as can be":  {raw(manyDimensions(10_000), nil)},
		"one shape without end":         {raw(`{"a":{"shape":[`+strings.Repeat("0,", 1_000_000), nil)},
		"many escapes":                  {raw(`{"`+strings.Repeat(`\n`, 1_000_000)+`":`, nil)},
		"metadata of short pairs":       {raw(manyPairs(100_000), nil)},
		"faulty entries":                {raw(strings.ReplaceAll(manyEntries(40_000), "U8", "X8"), nil)},
		"faulty entries of wrong sizes": {raw(strings.ReplaceAll(manyEntries(40_000), "[0,0]", "[0,9]"), nil)},
	} {
		t.Run(name, func(t *testing.T) {
			r := bytes.NewReader(c.file)
			got := allocated(func() { safetensors.ReadHeader(r, int64(len(c.file)), "m.safetensors") })
			most := safetensors.HeaderMemory*int64(len(c.file)) + 64<<10
			t.Logf("%d bytes for a file of %d: factor %.1f", got, len(c.file), float64(got)/float64(len(c.file)))
			if got > most {
				t.Errorf("allocated %d bytes for a file of %d, more than %d", got, len(c.file), most)
			}
		})
	}
}

// manyEntries is the header with the most entries for its length: the shortest names and shapes.
func manyEntries(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`, i)
	}
	return "{" + b.String()[1:] + "}"
}

func manyDimensions(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%x":{"dtype":"U8","shape":[0%s],"data_offsets":[0,0]}`, i, strings.Repeat(",0", 63))
	}
	return "{" + b.String()[1:] + "}"
}

func manyPairs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%x":""`, i)
	}
	return `{"__metadata__":{` + b.String()[1:] + "}}"
}

// Public report S08: ggml-org/llama.cpp#18291.
func TestS08Unaligned(t *testing.T) {
	text := header(entry("tensor", "F32", "[2]", "[0,8]"))
	text += strings.Repeat(" ", 61-len(text))
	data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1.5))
	data = binary.LittleEndian.AppendUint32(data, math.Float32bits(-2))
	dir := folder(t, map[string][]byte{"model.safetensors": raw(text, data)})
	s := openSet(t, dir)
	p := wantRules(t, s, "data-unaligned")
	checkProblem(t, p, "byte 69 (69 mod 8 = 5)", "1 of 1 tensor")
	if p.Severity != safetensors.SeverityInfo {
		t.Errorf("severity %s, want info", p.Severity)
	}
	r, _ := s.Lookup("tensor")
	got := make([]byte, 8)
	if err := r.ReadAt(got, 0); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read % x (%v), want % x", got, err, data)
	}
	l, err := safetensors.NewLayout([]safetensors.Spec{{Name: "tensor", Dtype: "F32", Shape: []int64{2}}}, nil)
	if err != nil || len(l.Header)%8 != 0 {
		t.Errorf("our own header has %d bytes (%v), no multiple of 8", len(l.Header), err)
	}
}

const (
	one = "model-00001-of-00002.safetensors"
	two = "model-00002-of-00002.safetensors"
)

// Public report S10: sgl-project/sglang#32279, Neph0s/CoSER#3.
func TestS10ShardMissing(t *testing.T) {
	dir := folder(t, map[string][]byte{
		one:                   shard("a"),
		safetensors.IndexName: index(40, "a", one, "layers.2.w", two, "layers.10.w", two, "b", two, "c", two),
	})
	s := openSet(t, dir)
	p := wantRules(t, s, "shard-missing")
	checkProblem(t, p, two, "4 tensors", `"b", "c", "layers.2.w" and 1 more`)
	if !errors.Is(p, fs.ErrNotExist) || p.Severity != safetensors.SeverityError {
		t.Errorf("problem %+v", p)
	}
	if _, ok := s.Lookup("a"); !ok {
		t.Error("the shard that is there was not opened")
	}
}

func TestS10IndexWrong(t *testing.T) {
	dir := folder(t, map[string][]byte{
		one:                   shard("a", "b"),
		two:                   shard("c"),
		safetensors.IndexName: index(24, "a", one, "b", two, "gone", two, "c", two),
	})
	s := openSet(t, dir)
	p := wantRules(t, s, "index-wrong")
	checkProblem(t, p, "2 tensors", two, `"b", "gone"`, one+` holds "b"`)
	r, ok := s.Lookup("b")
	if !ok || r.File.Name != one {
		t.Errorf("b, which a server would find in the other shard, is %v, %v", r, ok)
	}
}

func TestS10NoIndex(t *testing.T) {
	s := openSet(t, folder(t, map[string][]byte{one: shard("a"), two: shard("b")}))
	if p := wantRules(t, s, "index-missing"); p.Severity != safetensors.SeverityWarning {
		t.Errorf("severity %s, want warning", p.Severity)
	}
	if n := len(s.Refs()); n != 2 {
		t.Errorf("%d tensors, want 2", n)
	}
	s = openSet(t, folder(t, map[string][]byte{"model.safetensors": shard("a")}))
	if len(s.Problems) != 0 {
		t.Errorf("one file without an index: %v", s.Problems)
	}
}

func TestS10TotalSize(t *testing.T) {
	files := map[string][]byte{one: shard("a"), two: shard("b"), safetensors.IndexName: index(17, "a", one, "b", two)}
	p := wantRules(t, openSet(t, folder(t, files)), "index-size")
	checkProblem(t, p, "17", "16")
	if p.Severity != safetensors.SeverityWarning {
		t.Errorf("severity %s, want warning", p.Severity)
	}
	for _, total := range []string{"16", "16.0", "1.6e1"} {
		files[safetensors.IndexName] = fmt.Appendf(nil, `{"metadata":{"total_size":%s},"weight_map":{"a":%q,"b":%q}}`, total, one, two)
		if s := openSet(t, folder(t, files)); len(s.Problems) != 0 || s.Index.TotalSize != 16 {
			t.Errorf("total_size %s: read as %d, problems %v", total, s.Index.TotalSize, s.Problems)
		}
	}
	for _, metadata := range []string{`"metadata":{},`, `"metadata":null,`, ``, `"metadata":{"total_size":"?"},`, `"metadata":{"total_size":-1},`, `"metadata":{"total_size":1e99},`} {
		files[safetensors.IndexName] = fmt.Appendf(nil, `{%s"weight_map":{"a":%q,"b":%q}}`, metadata, one, two)
		if s := openSet(t, folder(t, files)); len(s.Problems) != 0 || s.Index.TotalSize != -1 {
			t.Errorf("%s: read as %d, problems %v", metadata, s.Index.TotalSize, s.Problems)
		}
	}
}

// Loaders read every tensor of an opened shard, listed or not (vLLM 017e9f4448, weight_utils.py
// safetensors_weights_iterator), so it is offered, and told of.
func TestS10TensorsThatTheIndexDoesNotList(t *testing.T) {
	s := openSet(t, folder(t, map[string][]byte{
		one: shard("a", "layers.10", "layers.2"), two: shard("b"),
		safetensors.IndexName: index(32, "a", one, "b", two),
	}))
	p := wantRules(t, s, "index-unlisted")
	checkProblem(t, p, one, "2 tensors that the index does not list", `"layers.2", "layers.10"`)
	if p.Severity != safetensors.SeverityWarning || p.Tensor != "layers.2" {
		t.Errorf("severity %s, tensor %q", p.Severity, p.Tensor)
	}
	if r, ok := s.Lookup("layers.10"); !ok || r.File.Name != one {
		t.Error("a tensor that a server would load is not offered")
	}
	if refs := s.Refs(); len(refs) != 4 {
		t.Errorf("%d tensors, want 4", len(refs))
	}
}

// Public report S11: vllm-project/vllm#54230.
func TestS11StaleCopy(t *testing.T) {
	dir := folder(t, map[string][]byte{
		one:                   shard("a", "b", "d"),
		two:                   shard("b", "c", "d"),
		safetensors.IndexName: index(32, "a", one, "b", two, "c", two, "d", one),
	})
	s := openSet(t, dir)
	wantRules(t, s, "stale-copy", "stale-copy")
	for i, want := range [][]string{{one, `"b"`}, {two, `"d"`}} {
		checkProblem(t, &s.Problems[i], want...)
		if s.Problems[i].Severity != safetensors.SeverityError {
			t.Errorf("severity %s, want error", s.Problems[i].Severity)
		}
	}
	for name, want := range map[string]string{"b": two, "d": one} {
		if r, _ := s.Lookup(name); r.File.Name != want {
			t.Errorf("%s is read from %s, the index says %s", name, r.File.Name, want)
		}
	}
	if n := len(s.Refs()); n != 4 {
		t.Errorf("%d tensors, want each of 4 once", n)
	}
}

func TestS11TwoCopiesWithoutAnIndex(t *testing.T) {
	s := openSet(t, folder(t, map[string][]byte{one: shard("a", "b"), two: shard("b", "c")}))
	checkProblem(t, wantRules(t, s, "stale-copy", "index-missing"), one, two, `"b"`)
	if r, _ := s.Lookup("b"); r.File.Name != two {
		t.Errorf("b is read from %s; a server ends up with the last one", r.File.Name)
	}
}

// Public report S12: unslothai/unsloth-zoo#808.
func TestS12Leftover(t *testing.T) {
	dir := folder(t, map[string][]byte{
		one:                                shard("a"),
		two:                                shard("b"),
		"model.safetensors":                shard("a"),
		"model-00001-of-00005.safetensors": []byte("broken, and never opened"),
		".hidden.safetensors":              []byte("no glob sees this"),
		"tokenizer.json":                   []byte("{}"),
		safetensors.IndexName:              index(16, "a", one, "b", two),
	})
	s := openSet(t, dir)
	p := wantRules(t, s, "shard-leftover")
	checkProblem(t, p, "2 files", fmt.Sprintf("\"model.safetensors\" (%d bytes)", len(shard("a"))), `"model-00001-of-00005.safetensors" (24 bytes)`)
	if p.Severity != safetensors.SeverityWarning || len(s.Files) != 2 {
		t.Errorf("severity %s, %d files open", p.Severity, len(s.Files))
	}
}

func TestS12Numbering(t *testing.T) {
	first := "model-00001-of-00005.safetensors"
	s := openSet(t, folder(t, map[string][]byte{first: shard("a"), safetensors.IndexName: index(8, "a", first)}))
	p := wantRules(t, s, "shard-numbering")
	checkProblem(t, p, "file names say 5 shards", "the index names 1", "number 2")
	if p.Severity != safetensors.SeverityError {
		t.Errorf("severity %s, want error", p.Severity)
	}
	s = openSet(t, folder(t, map[string][]byte{one: shard("a")}))
	checkProblem(t, wantRules(t, s, "shard-numbering"), "file names say 2 shards", "the folder holds 1")
	third := "model-00003-of-00002.safetensors"
	s = openSet(t, folder(t, map[string][]byte{one: shard("a"), two: shard("b"), third: shard("c"), safetensors.IndexName: index(24, "a", one, "b", two, "c", third)}))
	checkProblem(t, wantRules(t, s, "shard-numbering"), "file names say 2 shards", "the index names 3")
	for _, name := range []string{"a-of-b.safetensors", "model-1-of-.safetensors", "-of-.safetensors", "model-00001-of-00001.safetensors", "x-99999999999-of-99999999999.safetensors"} {
		if s := openSet(t, folder(t, map[string][]byte{name: shard("a")})); len(s.Problems) != 0 {
			t.Errorf("%s: %v", name, s.Problems)
		}
	}
}

// Complete sets are numbered from 0 too (unslothai/unsloth#10857).
func TestS12NumbersMayBeginAtZero(t *testing.T) {
	name := func(n, total int) string { return fmt.Sprintf("model-%05d-of-%05d.safetensors", n, total) }
	for _, c := range []struct {
		what    string
		total   int
		numbers []int
		want    string // "" when the set is whole
	}{
		{"from 0", 2, []int{0, 1}, ""},
		{"from 1", 2, []int{1, 2}, ""},
		{"from 0 to the total", 2, []int{0, 1, 2}, ""},
		{"one, from 0", 1, []int{0}, ""},
		{"a hole, from 0", 4, []int{0, 2, 3}, "names 3; the first missing is number 1"},
		{"a hole, from 1", 4, []int{1, 2, 4}, "names 3; the first missing is number 3"},
		{"the last, from 0", 3, []int{0, 1}, "names 2; the first missing is number 2"},
		{"a hole, from 0 to the total", 3, []int{0, 1, 3}, "names 3; the first missing is number 2"},
		{"the first or the last", 3, []int{1, 2}, "names 2; number 3 is missing, or number 0 if they count from 0"},
		{"only the last", 3, []int{3}, "names 1; the first missing is number 1"},
		{"only the first, of very many", 999999999, []int{0}, "names 1; the first missing is number 1"},
		{"too many", 2, []int{0, 1, 2, 3}, "file names say 2 shards"},
	} {
		t.Run(c.what, func(t *testing.T) {
			files, pairs := map[string][]byte{}, []string{}
			for _, n := range c.numbers {
				tensor := fmt.Sprintf("t%d", n)
				files[name(n, c.total)] = shard(tensor)
				pairs = append(pairs, tensor, name(n, c.total))
			}
			files[safetensors.IndexName] = index(int64(8*len(c.numbers)), pairs...)
			s := openSet(t, folder(t, files))
			if c.want == "" {
				if len(s.Problems) != 0 {
					t.Errorf("a whole set has problems: %v", s.Problems)
				}
				return
			}
			checkProblem(t, wantRules(t, s, "shard-numbering"), c.want)
		})
	}
}

// Public report S13: promptfoo/modelaudit#1607.
func TestS13ZeroSizedTensors(t *testing.T) {
	h, err := parse(raw(header(
		u8("a", 0, 8),
		entry("scaled_fp8", "F8_E4M3", "[0]", "[8,8]"),
		entry("front", "F32", "[3,0,5]", "[0,0]"),
		entry("scalar", "F32", "[]", "[8,12]"),
	), counting(12)))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]int64{"scaled_fp8": {0, 0}, "front": {0, 0}, "scalar": {1, 4}} {
		x, ok := h.Lookup(name)
		if !ok || x.Elements() != want[0] || x.Bytes() != want[1] {
			t.Errorf("%s: %d elements of %d bytes, want %v", name, x.Elements(), x.Bytes(), want)
		}
	}
	_, err = parse(raw(header(u8("a", 0, 8), entry("scaled_fp8", "F8_E4M3", "[1]", "[0,0]")), counting(8)))
	wantProblem(t, err, "tensor-size", "scaled_fp8", "needs 1 bytes")
}

// snapshot makes a Hugging Face cache with one model and gives the snapshot's folder and the blob.
func snapshot(t *testing.T, links map[string]string) (dir, blob string) {
	t.Helper()
	root := t.TempDir()
	dir = filepath.Join(root, "snapshots", "x")
	for _, d := range []string{dir, filepath.Join(root, "blobs")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	blob = filepath.Join(root, "blobs", "abc")
	if err := os.WriteFile(blob, shard("a"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, blob
}

// Public report S14: huggingface/huggingface_hub#1388.
func TestS14LinksAreReadThroughAndNamedByTheSnapshot(t *testing.T) {
	dir, blob := snapshot(t, map[string]string{"model.safetensors": "../../blobs/abc"})
	// A neighbour of the blob that a tool which resolves links first would take for a shard.
	if err := os.WriteFile(filepath.Join(filepath.Dir(blob), "other.safetensors"), []byte("another model"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := openSet(t, dir)
	if len(s.Problems) != 0 || len(s.Files) != 1 {
		t.Fatalf("problems %v, %d files", s.Problems, len(s.Files))
	}
	if f := s.Files[0]; f.Path != filepath.Join(dir, "model.safetensors") || f.Name != "model.safetensors" {
		t.Errorf("named %s, %s; want the snapshot's path", f.Path, f.Name)
	}
	if _, err := safetensors.Create(filepath.Join(dir, "model.safetensors"), emptyLayout(t)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("writing through the link: %v, want fs.ErrExist", err)
	}
}

func TestS14DanglingLink(t *testing.T) {
	dir, blob := snapshot(t, map[string]string{"model.safetensors": "../../blobs/abc"})
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	checkProblem(t, wantRules(t, openSet(t, dir), "link-dangling"), `dangling link to "../../blobs/abc"`, filepath.Join(dir, "model.safetensors"))
	_, err := safetensors.Open(filepath.Join(dir, "model.safetensors"))
	wantProblem(t, err, "link-dangling", "cp -rL")
	if _, err := safetensors.Create(filepath.Join(dir, "model.safetensors"), emptyLayout(t)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("writing through a dangling link: %v, want fs.ErrExist", err)
	}
	if _, err := os.Lstat(blob); err == nil {
		t.Error("something was written into blobs/")
	}

	dir, _ = snapshot(t, map[string]string{one: "../../blobs/gone", "loop.safetensors": "loop.safetensors"})
	if err := os.WriteFile(filepath.Join(dir, safetensors.IndexName), index(8, "a", one, "b", "loop.safetensors"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantRules(t, openSet(t, dir), "link-dangling", "link-dangling", "shard-numbering")

	dir, _ = snapshot(t, map[string]string{"model.safetensors": "../../blobs/abc", safetensors.IndexName: "../../blobs/gone"})
	checkProblem(t, wantRules(t, openSet(t, dir), "link-dangling"), safetensors.IndexName)
}

func TestS14LinkOutOfTheTree(t *testing.T) {
	elsewhere := folder(t, map[string][]byte{"weights": shard("a")})
	dir, _ := snapshot(t, map[string]string{"model.safetensors": filepath.Join(elsewhere, "weights")})
	s := openSet(t, dir)
	if _, ok := s.Lookup("a"); !ok || len(s.Problems) != 0 {
		t.Errorf("not read: %v", s.Problems)
	}
}

func TestS14IndexMayNotLeaveItsFolder(t *testing.T) {
	outside := folder(t, map[string][]byte{"secret.safetensors": shard("secret")})
	dir := filepath.Join(outside, "model")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), shard("a"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../secret.safetensors", "..", ".", "", "sub/x.safetensors", filepath.Join(outside, "secret.safetensors"), "x\x00.safetensors"} {
		text := index(8, "a", "model.safetensors", "secret", name)
		if err := os.WriteFile(filepath.Join(dir, safetensors.IndexName), text, 0o644); err != nil {
			t.Fatal(err)
		}
		s := openSet(t, dir)
		p := wantRules(t, s, "path-escape")
		checkProblem(t, p, fmt.Sprintf("%q", name), "1 tensor")
		if _, ok := s.Lookup("secret"); ok || p.Severity != safetensors.SeverityError {
			t.Errorf("%q was opened", name)
		}
	}
}

func TestFIFOsAndDevicesAreRefusedWithoutWaiting(t *testing.T) {
	dir := folder(t, map[string][]byte{"a.safetensors": shard("a")})
	if err := unix.Mkfifo(filepath.Join(dir, "fifo.safetensors"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.safetensors"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "zero.safetensors")); err != nil {
		t.Fatal(err)
	}
	s := openSet(t, dir)
	wantRules(t, s, "file-not-safetensors", "file-not-safetensors", "file-not-safetensors", "index-missing")
	if len(s.Files) != 1 {
		t.Errorf("%d files open, want the one that is good", len(s.Files))
	}
	if err := unix.Mkfifo(filepath.Join(dir, safetensors.IndexName), 0o644); err != nil {
		t.Fatal(err)
	}
	checkProblem(t, wantRules(t, openSet(t, dir), "index-syntax", "file-not-safetensors", "file-not-safetensors", "file-not-safetensors"), "a FIFO, not an index")
}
