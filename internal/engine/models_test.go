package engine

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// The library's own models decided what is valid; see "about" in the file.
func TestModelsAcceptWhatCompressedTensorsAccepts(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "models.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc := gjson.ParseBytes(data)
	values := doc.Get("values").Array()
	accepted := map[[3]string][]gjson.Result{}
	for _, row := range doc.Get("accepted").Array() {
		r := row.Array()
		accepted[[3]string{r[0].Str, r[1].Str, r[2].Raw}] = r[3:]
	}
	tried := 0
	doc.Get("bases").ForEach(func(base, args gjson.Result) bool {
		for _, key := range doc.Get("keys").Array() {
			for i, v := range values {
				raw, err := sjson.SetRaw(args.Raw, key.Str, v.Raw)
				if err != nil {
					t.Fatal(err)
				}
				a, err := parseArgs(gjson.Parse(raw))
				want, ok := accepted[[3]string{base.Str, key.Str, strconv.Itoa(i)}]
				tried++
				switch refused := err != nil || len(a.Unknown) > 0; {
				case refused == ok:
					t.Errorf("%s: refused %v (%v), the library accepts: %v", raw, refused, err, ok)
				case !ok:
				case a.NumBits != want[0].Int() || a.Type != want[1].Str || a.Symmetric != want[2].Bool() || a.GroupSize != want[3].Int() || a.Strategy != want[4].Str || a.Dynamic != want[5].Str:
					t.Errorf("%s: read as %s, the library reads %v", raw, a, want)
				}
			}
		}
		return true
	})
	if tried < 2000 || len(accepted) < 200 {
		t.Errorf("%d tried, %d accepted: the table is not whole", tried, len(accepted))
	}
	for _, key := range []string{"transform", "sparsity"} {
		rows := doc.Get(key).Array()
		if len(rows) < 10 {
			t.Errorf("%s: %d rows", key, len(rows))
		}
		for _, row := range rows {
			q := &Quantization{}
			r := reader{q: q}
			map[string]func(gjson.Result){"transform": r.transform, "sparsity": r.sparsity}[key](row.Get("0"))
			if ok := len(r.problems) == 0; ok != row.Get("1").Bool() {
				t.Errorf("%s %s: accepted %v, the library says %v", key, row.Get("0").Raw, ok, row.Get("1").Bool())
			}
		}
	}
}

func TestEmptyValuesAreNoneToPython(t *testing.T) {
	for raw, want := range map[string]bool{"null": true, "false": true, "0": true, "0.0": true, `""`: true, "[]": true, "{}": true,
		"true": false, "1": false, `"0"`: false, "[0]": false, `{"a":0}`: false} {
		if got := falsy(gjson.Parse(raw)); got != want {
			t.Errorf("falsy(%s) = %v", raw, got)
		}
	}
	if !falsy(gjson.Get("{}", "absent")) {
		t.Error("absent is not None")
	}
}
