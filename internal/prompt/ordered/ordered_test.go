package ordered_test

import (
	"encoding/json"
	"strings"
	"testing"

	"seatsmith/internal/prompt/ordered"
)

func TestKeysKeepTheirOrderAndNumbersTheirSpelling(t *testing.T) {
	for _, text := range []string{
		`{"z": 1, "a": [1.0, 1e3, -0, 0.10, 123456789012345678901234567890], "m": {"b": null, "a": true}}`,
		`"é \"\\\n\t\b\f\r\u0001` + "\x7f\u2028" + `</a>&"`, `[]`, `{}`, `null`, `false`, `-1.5E+10`,
	} {
		v, err := ordered.DecodeString(text)
		if err != nil || v.String() != text {
			t.Errorf("%s became %s (%v)", text, v, err)
		}
	}
	v, _ := ordered.DecodeString(` { "a" : "\u00e9\ud83d\ude00\/" } `)
	if v.String() != `{"a": "é😀/"}` {
		t.Error(v)
	}
}

func TestOfARepeatedKeyTheLastValueStandsAtTheFirstPlace(t *testing.T) {
	for _, many := range []bool{false, true} {
		text := `{"a": 1, "b": 2, "a": 3`
		if many {
			for i := range 40 {
				text += `, "k` + strings.Repeat("x", i) + `": 0`
			}
		}
		v, err := ordered.DecodeString(text + "}")
		if err != nil || v.Members()[0].Key != "a" || v.Members()[0].Value.Text() != "3" || v.Members()[1].Key != "b" {
			t.Errorf("%s, %v", v, err)
		}
	}
}

func TestWhatIsNotJSONIsRefusedWithItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		``: "ends where a value", `{`: "key in double quotes", `{"a" 1}`: "colon", `{"a": 1 "b"}`: "comma", `[1 2]`: "comma", `[1,]`: "cannot start",
		`01`: "not a number", `1.`: "digit", `1e`: "digit", `-`: "not a number", `+1`: "cannot start", `.5`: "cannot start", `NaN`: "Python reads it",
		`Infinity`: "Python reads it", `"a`: "inside a string", `"\x"`: "escape", `"\u12"`: "hexadecimal", `"\ud800"`: "surrogate", `"\udc00"`: "surrogate",
		`"\ud800\u0041"`: "surrogate", "\"\n\"": "control character", `1 2`: "after the end", "\"\xff\"": "UTF-8", `tru`: "cannot start", `'a'`: "cannot start",
		strings.Repeat("[", 300): "deeper", `{"a":`: "ends where",
	} {
		_, err := ordered.DecodeString(text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "byte") {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}

func TestCopiesLeaveTheOriginalAlone(t *testing.T) {
	v, _ := ordered.DecodeString(`{"a": 1, "b": 2}`)
	w := v.With("a", ordered.NewString("x")).With("c", ordered.NewBool(true)).Without("b")
	if v.String() != `{"a": 1, "b": 2}` || w.String() != `{"a": "x", "c": true}` || v.Equal(w) || !v.Equal(v.With("a", ordered.NewInt(1))) {
		t.Errorf("%s, %s", v, w)
	}
}

// What we read, encoding/json reads too, and the other way round, but for the surrogates that we refuse.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x\u00e9",null,true]}`, `"\ud83d\ude00"`, `[[[]]]`, `{"a":1,"a":2}`, `1e999`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ordered.DecodeString(text)
		if err != nil {
			if json.Valid([]byte(text)) && !strings.Contains(err.Error(), "surrogate") && !strings.Contains(err.Error(), "UTF-8") && !strings.Contains(err.Error(), "deeper") {
				t.Fatalf("%q is JSON, and refused: %v", text, err)
			}
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("%q is no JSON, and read", text)
		}
		w, err := ordered.DecodeString(v.String())
		if err != nil || !v.Equal(w) {
			t.Fatalf("%q: %s, %v", text, w, err)
		}
	})
}
