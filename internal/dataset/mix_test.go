package dataset_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/dataset"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func rowsOf(kind string, n int) []string {
	var out []string
	for i := range n {
		tools := ""
		if kind == "tool" {
			tools = `, "tools": [{"name": "f"}]`
		}
		out = append(out, fmt.Sprintf(`{"messages": [{"role": "user", "content": "%s %d"}], "n": 1.50%s}`, kind, i, tools))
	}
	return out
}

func build(t *testing.T, dir, mix string) (*dataset.Built, error) {
	t.Helper()
	m, err := dataset.LoadMix(write(t, dir, "mix.yaml", mix))
	if err != nil {
		return nil, err
	}
	return dataset.Build(m)
}

// goldenMix begins the BLAKE3 of what mix draws: it must not change between versions.
const goldenMix = "4ec640ef4b7cd6b7"

const mix = `schema: 1
seed: 7
rows: 10
sources:
  - {file: a.jsonl, share: 3}
  - {file: b.jsonl, share: 1, filters: {tools: true}}
`

func TestAMixGivesTheSameBytesWhateverTheOrderOfRows(t *testing.T) {
	dir := t.TempDir()
	a, b := rowsOf("chat", 40), slices.Concat(rowsOf("tool", 20), rowsOf("chat", 5))
	write(t, dir, "a.jsonl", strings.Join(a, "\n"))
	write(t, dir, "b.jsonl", strings.Join(b, "\n")+"\n")
	first, err := build(t, dir, mix)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(a)
	slices.Reverse(b)
	write(t, dir, "a.jsonl", strings.Join(a, "\n\n")+"\n"+a[0]) // and one row twice
	write(t, dir, "b.jsonl", strings.Join(b, "\r\n"))
	second, err := build(t, dir, mix)
	if err != nil || !bytes.Equal(first.Data, second.Data) || first.BLAKE3 != second.BLAKE3 {
		t.Errorf("%v\n%s\n%s", err, first.Data, second.Data)
	}
	if !strings.HasPrefix(first.BLAKE3, goldenMix) {
		t.Errorf("the bytes of this mix are no longer %s: %s", goldenMix, first.BLAKE3)
	}
	lines := dataset.Lines(first.Data)
	if n := strings.Count(string(first.Data), `"tool`); len(lines) != 10 || strings.Count(string(first.Data), `"tools"`) != 2 || n < 2 {
		t.Errorf("%d rows\n%s", len(lines), first.Data)
	}
	for _, l := range lines {
		if !slices.Contains(a, string(l.Data)) && !slices.Contains(b, string(l.Data)) {
			t.Errorf("a row is not as it was written: %s", l.Data)
		}
	}
	if other, err := build(t, dir, strings.Replace(mix, "seed: 7", "seed: 8", 1)); err != nil || bytes.Equal(other.Data, first.Data) {
		t.Errorf("another seed gives the same rows (%v)", err)
	}
	if second.Sources[0].Rows != 41 || second.Sources[0].Fit != 40 || second.Sources[0].Taken != 8 || second.Sources[1].Fit != 20 || second.Sources[1].Taken != 2 {
		t.Errorf("%+v", second.Sources)
	}
}

func TestFiltersChoose(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.jsonl", strings.Join([]string{
		`{"messages": [{"role": "user", "content": "short"}]}`,
		`{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "a longer text here"}, {"role": "assistant", "content": "lorem"}]}`,
		`{"messages": [{"role": "user", "content": "call it"}, {"role": "assistant", "tool_calls": [{"name": "f"}]}], "tools": [{"name": "f"}]}`,
	}, "\n"))
	for filter, want := range map[string]string{
		"tools: true": "call it", "calls: true": "call it", "min_messages: 3": "longer", "max_messages: 1": "short", "min_chars: 20": "longer", "max_chars: 5": "short",
		"contains: [lorem]": "longer", "roles: [user]": "short", "tools: false, excludes: [lorem]": "short",
	} {
		b, err := build(t, dir, "schema: 1\nrows: 1\nsources: [{file: a.jsonl, share: 1, filters: {"+filter+"}}]")
		if err != nil || !strings.Contains(string(b.Data), want) || b.Sources[0].Fit != 1 {
			t.Errorf("%s: %+v, %v", filter, b, err)
		}
	}
}

func TestAMixThatCannotBeMadeSaysWhy(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.jsonl", strings.Join(rowsOf("chat", 3), "\n"))
	write(t, dir, "bad.jsonl", rowsOf("chat", 1)[0]+"\n{")
	write(t, dir, "odd.jsonl", `{"text": "x"}`)
	for text, want := range map[string]string{
		"": "empty", "schema: 2\nrows: 1\nsources: [{file: a.jsonl, share: 1}]": "schema: got 2", "schema: 1\nrows: 0\nsources: []": "rows: got 0",
		"schema: 1\nrows: 1": "sources: there is none", "schema: 1\nrows: 1\nsources: [{share: 0}]": "sources[0].file",
		"schema: 1\nrows: 1\nsources: [{file: a.jsonl, share: -1}]": "share: got -1", "schema: 1\nrows: 1\nsources: [{file: a.jsonl, share: .nan}]": "share",
		"schema: 1\nrows: 1\nsorces: []": "sorces", "schema: 1\nrows: 4\nsources: [{file: a.jsonl, share: 1}]": "4 rows, and 3 of 3",
		"schema: 1\nrows: 1\nsources: [{file: none.jsonl, share: 1}]": "none.jsonl", "schema: 1\nrows: 1\nsources: [{file: bad.jsonl, share: 1}]": "row 2",
		"schema: 1\nrows: 1\nsources: [{file: odd.jsonl, share: 1}]": "row 1: no messages",
	} {
		if _, err := build(t, dir, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestTheSameTextIsNotTakenFromTwoFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.jsonl", strings.Join(rowsOf("chat", 4), "\n"))
	write(t, dir, "b.jsonl", strings.Join(rowsOf("chat", 8), "\n"))
	b, err := build(t, dir, "schema: 1\nseed: 1\nrows: 8\nsources: [{file: a.jsonl, share: 1}, {file: b.jsonl, share: 1}]")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, l := range dataset.Lines(b.Data) {
		if seen[string(l.Data)] {
			t.Errorf("twice: %s", l.Data)
		}
		seen[string(l.Data)] = true
	}
	if len(seen) != 8 {
		t.Errorf("%d rows", len(seen))
	}
}
