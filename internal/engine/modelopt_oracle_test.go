package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// oracle reads what the server's own functions answered; see "about" in the file.
func oracle(t *testing.T) gjson.Result {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "modelopt.json"))
	if err != nil {
		t.Fatal(err)
	}
	return gjson.ParseBytes(data)
}

func texts(v gjson.Result) []string {
	var out []string
	for _, e := range v.Array() {
		out = append(out, e.String())
	}
	return out
}

func wrapperServer() *Server {
	return &Server{Engine: Engine{"vllm", newestRead}, Arch: &Arch{}, mapper: newMapper(Engine{"vllm", newestRead}, &Arch{})}
}

func TestExclusionsDoWhatTheServersFunctionsSay(t *testing.T) {
	doc, s := oracle(t), wrapperServer()
	sides := []struct {
		names  []string
		packed []Packed
	}{{texts(doc.Get("target")), packedWrapper}, {texts(doc.Get("drafter")), packedDrafter}}
	rows := doc.Get("exclusions").Array()
	for _, row := range rows {
		entries := texts(row.Get("0"))
		b := s.bindModelOpt(&ModelOpt{Exclude: entries})
		for k, side := range sides {
			want := row.Get([]string{"1", "2"}[k]).Str
			for i, name := range side.names {
				yes, by, err := b.excluded(name, side.packed)
				got := map[bool]byte{true: '1', false: '0'}[yes]
				if err != nil {
					got = 'E'
				}
				if got != want[i] {
					t.Errorf("%q: %s is %c, the server says %c", entries, name, got, want[i])
				}
				if yes && !slices.Contains(entries, by) {
					t.Errorf("%q: %s is excluded by %q, which is no entry", entries, name, by)
				}
			}
		}
	}
	if len(rows) < 250 {
		t.Errorf("only %d rows", len(rows))
	}
}

func TestMixedBlocksResolveAsTheServersFunctionSays(t *testing.T) {
	doc, s := oracle(t), wrapperServer()
	rows := doc.Get("mixed").Array()
	for _, row := range rows {
		m := &ModelOpt{}
		for _, l := range row.Get("0").Array() {
			m.Layers = append(m.Layers, ModelOptLayer{Name: l.Get("0").Str, Algo: strings.ToUpper(l.Get("1").Str)})
		}
		b := s.bindModelOpt(m)
		for k, packed := range [][]Packed{packedWrapper, packedDrafter} {
			want := texts(row.Get([]string{"1", "2"}[k]))
			for i, name := range texts(doc.Get([]string{"target", "drafter"}[k])) {
				l, _, err := b.algo(name, packed)
				got := l.Algo
				if err != nil {
					got = "E"
				}
				if got != want[i] {
					t.Errorf("%v: %s is %q, the server says %q", m.Layers, name, got, want[i])
				}
			}
		}
	}
	if len(rows) < 150 {
		t.Errorf("only %d rows", len(rows))
	}
}

func TestModelOptBlocksAreReadAsTheServerReadsThem(t *testing.T) {
	refused, read := 0, 0
	for _, row := range oracle(t).Get("configs").Array() {
		block, want := row.Get("0").Raw, row.Get("1")
		q, problems, err := ReadQuantization([]byte(`{"quantization_config":` + block + `}`))
		if err != nil {
			t.Fatal(err)
		}
		stopped := slices.ContainsFunc(problems, func(p Problem) bool { return p.Serious })
		switch {
		case want.Get("raises").Exists():
			if refused++; !stopped {
				t.Errorf("%s: read as %+v, the server raises %s", block, q.ModelOpt, want.Get("raises").Str)
			}
		case q.Method != want.Get("method").Str:
			t.Errorf("%s: method %q, the server takes %q", block, q.Method, want.Get("method").Str)
		case want.Get("file").Bool():
			if !stopped || !q.Broken {
				t.Errorf("%s: the server looks for %s, which is not there", block, FileModelOpt)
			}
		case !q.IsModelOpt():
			if q.ModelOpt != nil {
				t.Errorf("%s: method %q has arguments of modelopt", block, q.Method)
			}
		default:
			read++
			m := q.ModelOpt
			if stopped { // the server reads it and stops at the first module, or in its kernel
				late := []string{"groups of 16 only", "the server stops when it looks", "want a name", `want an object, found "x"`, "want a whole number above 0"}
				if !slices.ContainsFunc(late, func(s string) bool { return strings.Contains(problems[0].Message, s) }) {
					t.Errorf("%s: refused (%v), the server reads it", block, problems)
				}
				continue
			}
			if a := want.Get("algo"); a.Type == gjson.String && m.Algo != a.Str {
				t.Errorf("%s: algorithm %q, the server reads %q", block, m.Algo, a.Str)
			}
			if g := want.Get("group"); g.Exists() && g.Type != gjson.Null && m.GroupSize != g.Int() {
				t.Errorf("%s: group size %d, the server reads %d", block, m.GroupSize, g.Int())
			}
			if !slices.Equal(m.Exclude, texts(want.Get("exclude"))) {
				t.Errorf("%s: exclusions %q, the server reads %s", block, m.Exclude, want.Get("exclude").Raw)
			}
			if m.KV != want.Get("kv").String() {
				t.Errorf("%s: cache %q, the server reads %s", block, m.KV, want.Get("kv").Raw)
			}
			if len(m.Layers) != int(want.Get("layers").Int()) {
				t.Errorf("%s: %d layers, the server reads %s", block, len(m.Layers), want.Get("layers").Raw)
			}
		}
	}
	if refused < 100 || read < 150 {
		t.Errorf("%d refused, %d read: the table is not whole", refused, read)
	}
}

func TestFnmatchIsPythons(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"", "", true}, {"", "a", false}, {"a*", "a.b.c", true}, {"*c", "a.b.c", true}, {"a*d", "a.b.c", false},
		{"?", ".", true}, {"?", "", false}, {"[ab]c", "bc", true}, {"[!ab]c", "bc", false}, {"[a-c]", "b", true}, {"[a-c]", "d", false},
		{"[]]", "]", true}, {"[!]]", "]", false}, {"[", "[", true}, {"[a", "[a", true}, {"a**b", "axxb", true}, {"*.*.*", "a.b", false},
	} {
		if got := fnmatch(c.pattern, c.name); got != c.want {
			t.Errorf("fnmatch(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}
