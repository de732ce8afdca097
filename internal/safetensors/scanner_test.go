package safetensors

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// The standard library is the judge of what is JSON; the scanner may refuse more (duplicate keys, half surrogate pairs,
// deep nesting), and where it accepts, both must read the same.
func FuzzIndex(f *testing.F) {
	for _, seed := range []string{
		`{"weight_map":{"a":"model.safetensors"}}`,
		`{"metadata":{"total_size":1.6e1},"weight_map":{"\u00e9\ud83e\ude91\n":"b"}} `,
		`{"x":[1,-0.5E+3,true,false,null,{"y":"\\\/"}],"weight_map":{}}`,
		`{"weight_map":{"a":1}}`, `{"weight_map":null}`, `{"weight_map":{"a":"b","a":"c"}}`, `{"\ud800":1}`, `{`, `{"a":01}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return // readIndex refuses it before
		}
		x, err := parseIndex(text)
		if err != nil {
			return
		}
		var top map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &top); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		var want map[string]string
		if err := json.Unmarshal(top["weight_map"], &want); err != nil || len(want) != len(x.WeightMap) {
			t.Fatalf("%d tensors, encoding/json reads %d (%v)", len(x.WeightMap), len(want), err)
		}
		for name, file := range want {
			if got := x.WeightMap[name]; got != file {
				t.Fatalf("%q is in %q, encoding/json reads %q", name, got, file)
			}
		}
	})
}

func TestSkipTakesAnyValueAndNothingElse(t *testing.T) {
	for _, good := range []string{"0", "-0", "12.5", "1e9", "1E+9", "-3.25e-7", `""`, `"\u00e9"`, "true", "false", "null", "[]", "{}", `[1,[2,{"a":[]}]]`, " [ ] "} {
		sc := scanner{s: good}
		err := sc.skip(0)
		if sc.space(); err != nil || sc.i != len(good) {
			t.Errorf("%s: %v at byte %d", good, err, sc.i)
		}
	}
	for _, bad := range []string{"", "-", "+1", ".5", "1.", "1e", "1e+", "01", "nul", "True", "[", "[1", "[1,", "[1,]", "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{a:1}`, `"`, "\x00", "]", "NaN", "Infinity", strings.Repeat("[", 1000)} {
		sc := scanner{s: bad}
		if err := sc.skip(0); err == nil && sc.i == len(bad) {
			t.Errorf("%q is accepted", bad)
		}
	}
}
