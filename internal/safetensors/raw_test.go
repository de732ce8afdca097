package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/safetensors"
)

// raw is a file with this header text, true length and data.
func raw(header string, data []byte) []byte {
	return rawLength(uint64(len(header)), header, data)
}

// rawLength is a file whose first eight bytes say length.
func rawLength(length uint64, header string, data []byte) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, length), header...), data...)
}

// entry is one tensor of a header: entry("a", "F32", "[2]", "[0,8]").
func entry(name, dtype, shape, offsets string) string {
	return fmt.Sprintf(`%q:{"dtype":%q,"shape":%s,"data_offsets":%s}`, name, dtype, shape, offsets)
}

// header joins entries to a header's text.
func header(entries ...string) string { return "{" + strings.Join(entries, ",") + "}" }

func u8(name string, begin, end int64) string {
	return entry(name, "U8", fmt.Sprintf("[%d]", end-begin), fmt.Sprintf("[%d,%d]", begin, end))
}

// counting is n bytes 0, 1, 2 …
func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func parse(file []byte) (*safetensors.Header, error) {
	return safetensors.ReadHeader(bytes.NewReader(file), int64(len(file)), "m.safetensors")
}

// wantProblem fails unless err is a *Problem of the rule that says every word.
func wantProblem(t *testing.T, err error, rule string, words ...string) *safetensors.Problem {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want rule %s", rule)
	}
	var p *safetensors.Problem
	if !errors.As(err, &p) {
		t.Fatalf("error %v is no *Problem", err)
	}
	if p.Rule != rule {
		t.Fatalf("rule %s (%v), want %s", p.Rule, p, rule)
	}
	checkProblem(t, p, words...)
	return p
}

func checkProblem(t *testing.T, p *safetensors.Problem, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(p.Error(), w) {
			t.Errorf("%q does not say %q", p.Error(), w)
		}
	}
	if p.File == "" || p.Message == "" || (p.Fix == "" && p.Severity != safetensors.SeverityInfo) {
		t.Errorf("problem without file, message or next step: %+v", p)
	}
}

// folder writes files into a new folder.
func folder(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shard is a file of U8 tensors of 8 bytes each.
func shard(names ...string) []byte {
	var entries []string
	for i, name := range names {
		entries = append(entries, u8(name, int64(8*i), int64(8*i+8)))
	}
	text := header(entries...)
	text += strings.Repeat(" ", (8-len(text)%8)%8)
	return raw(text, counting(8*len(names)))
}

// index is an index for tensor, file, tensor, file …
func index(total int64, pairs ...string) []byte {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return safetensors.IndexBytes(m, total)
}

func openSet(t *testing.T, dir string) *safetensors.Set {
	t.Helper()
	s, err := safetensors.OpenSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// wantRules fails unless the set has exactly these problems, in any order; it returns the last of the first rule.
func wantRules(t *testing.T, s *safetensors.Set, rules ...string) *safetensors.Problem {
	t.Helper()
	left := map[string]int{}
	for _, r := range rules {
		left[r]++
	}
	var first *safetensors.Problem
	for i := range s.Problems {
		p := &s.Problems[i]
		left[p.Rule]--
		if p.Rule == rules[0] {
			first = p
		}
		checkProblem(t, p)
	}
	for rule, n := range left {
		if n != 0 {
			t.Errorf("%d problems %s too few; there are %v", n, rule, s.Problems)
		}
	}
	if first == nil {
		t.FailNow()
	}
	return first
}

func emptyLayout(t *testing.T) *safetensors.Layout {
	t.Helper()
	l, err := safetensors.NewLayout(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
