package safetensors_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"seatsmith/internal/safetensors"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func TestIndexSyntax(t *testing.T) {
	for _, c := range []struct{ name, rule, text, want string }{
		{"empty", "index-syntax", "", "empty"},
		{"a pointer", "file-lfs-pointer", pointer, "4999802720"},
		{"a web page", "index-syntax", "<!DOCTYPE html>", "an HTML page, not an index"},
		{"a list", "index-syntax", "[]", "'{'"},
		{"cut off", "index-syntax", `{"weight_map":{"a":"model.safetensors"`, "the text ends"},
		{"no weight_map", "index-syntax", `{"metadata":{"total_size":8}}`, "there is no weight_map"},
		{"weight_map that is a list", "index-syntax", `{"weight_map":[]}`, "'{'"},
		{"a file name that is a number", "index-syntax", `{"weight_map":{"a":1}}`, `no file name for tensor "a"`},
		{"a duplicate tensor", "index-syntax", `{"weight_map":{"a":"x.safetensors","a":"y.safetensors"}}`, `the tensor "a" of weight_map appears twice`},
		{"a duplicate weight_map", "index-syntax", `{"weight_map":{},"weight_map":{}}`, `"weight_map" appears twice`},
		{"text behind the end", "index-syntax", `{"weight_map":{}} x`, "the end"},
		{"invalid UTF-8", "index-syntax", "{\"weight_map\":{\"\xff\":\"x\"}}", "UTF-8"},
		{"deep nesting", "index-syntax", `{"x":` + strings.Repeat(`{"":`, 100_000), "nested deeper"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openSet(t, folder(t, map[string][]byte{"model.safetensors": shard("a"), safetensors.IndexName: []byte(c.text)}))
			p := wantRules(t, s, c.rule)
			checkProblem(t, p, c.want, safetensors.IndexName)
			if p.Severity != safetensors.SeverityError || s.Index != nil {
				t.Errorf("severity %s, index %v", p.Severity, s.Index)
			}
			if _, ok := s.Lookup("a"); !ok {
				t.Error("the folder's file is not opened beside a broken index")
			}
		})
	}
}

func TestAnIndexMayHaveOtherKeys(t *testing.T) {
	text := `{"metadata":{"total_parameters":1,"total_size":8,"x":[]},"note":"","weight_map":{"a":"model.safetensors"},"n":1.5}`
	s := openSet(t, folder(t, map[string][]byte{"model.safetensors": shard("a"), safetensors.IndexName: []byte(text)}))
	if len(s.Problems) != 0 || s.Index.TotalSize != 8 || s.Index.WeightMap["a"] != "model.safetensors" {
		t.Errorf("index %+v, problems %v", s.Index, s.Problems)
	}
	if got := s.Index.Files(); !slices.Equal(got, []string{"model.safetensors"}) {
		t.Errorf("files %q", got)
	}
}

func TestAFileThatNoGlobFindsIsMissing(t *testing.T) {
	for _, name := range []string{"pytorch_model.bin", ".hidden.safetensors"} {
		s := openSet(t, folder(t, map[string][]byte{
			"model.safetensors": shard("a"), name: shard("b"), safetensors.IndexName: index(16, "a", "model.safetensors", "b", name),
		}))
		checkProblem(t, wantRules(t, s, "shard-missing"), name, `"b"`, "only at *.safetensors")
	}
}

// The fixtures' indexes were written by Python with json.dump, which leaves the newline of save_pretrained out.
func TestIndexBytesAreThoseOfPython(t *testing.T) {
	for _, name := range []string{"tiny", "tiny-finetune", "moe"} {
		dir := filepath.Join("..", "..", "testdata", name)
		want, err := os.ReadFile(filepath.Join(dir, safetensors.IndexName))
		if err != nil {
			t.Fatal(err)
		}
		s := openSet(t, dir)
		got := string(safetensors.IndexBytes(s.Index.WeightMap, s.Index.TotalSize))
		if got != strings.TrimSuffix(string(want), "\n")+"\n" {
			t.Errorf("%s: rendered index differs from the fixture's", name)
		}
	}
	got := string(safetensors.IndexBytes(map[string]string{"b": "1", "a\"\\\n\x7f": "é🪑"}, 5))
	want := "{\n  \"metadata\": {\n    \"total_size\": 5\n  },\n  \"weight_map\": {\n" +
		`    "a\"\\\n\u007f": "\u00e9\ud83e\ude91",` + "\n    \"b\": \"1\"\n  }\n}\n"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := string(safetensors.IndexBytes(nil, 0)); got != "{\n  \"metadata\": {\n    \"total_size\": 0\n  },\n  \"weight_map\": {}\n}\n" {
		t.Errorf("an empty index is %s", got)
	}
}

func TestAHostileIndexMakesFewProblems(t *testing.T) {
	where := map[string]string{"a": "model.safetensors"}
	for i := range int64(3000) {
		where["t"+itoa(i)] = "x" + itoa(i) + "-00001-of-00002.safetensors"
	}
	files := map[string][]byte{"model.safetensors": shard("a"), safetensors.IndexName: safetensors.IndexBytes(where, -1)}
	for i := range int64(30) {
		files["left"+itoa(i)+".safetensors"] = nil
	}
	s := openSet(t, folder(t, files))
	rules := map[string]int{}
	for _, p := range s.Problems {
		rules[p.Rule]++
		if len(p.Message) > 3000 {
			t.Errorf("a message of %d bytes: %.200s …", len(p.Message), p.Message)
		}
	}
	if rules["shard-missing"] != 1001 || rules["shard-numbering"] != 1 || rules["shard-leftover"] != 1 || len(rules) != 3 {
		t.Errorf("problems %v", rules)
	}
	for _, p := range s.Problems {
		switch p.Rule {
		case "shard-numbering":
			checkProblem(t, &p, "2999 more such sets are incomplete")
		case "shard-leftover":
			checkProblem(t, &p, "30 files", "and 10 more")
		}
	}
}
