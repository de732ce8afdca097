package token

import (
	"os"
	"slices"
	"testing"
	"unicode/utf8"
)

func pieces(t testing.TB, s splitter, text string) []string {
	var out []string
	if err := s(text, func(p string) error { out = append(out, p); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

var handWritten = map[string]splitter{
	patternGPT2:   splitGPT2,
	patternQwen2:  scanner{letters: classL, digits: 1}.split,
	patternQwen35: scanner{letters: classL | classM, digits: 1}.split,
	patternLlama3: scanner{letters: classL, digits: 3}.split,
}

var texts = []string{"", "Don'T we'LL 'ſ 's'", "a  b\n\n c \r\n\t", " \n", "   ", "x\u0301\u0301y \u0301", "12345 ½ ⅣⅧ", "!!\n\n?\r", "中文 字",
	"\u00a0\u00a0a\u2028", "😀👩‍👩‍👧", "\u088f\u1acf\U0001e6c0", "a\u1add", "_x'''s", "é\u0327"}

func TestTheHandWrittenSplittersCutAsTheirExpressionsDo(t *testing.T) {
	for pattern, hand := range handWritten {
		slow, err := splitRegex(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if a, b := pieces(t, hand, text), pieces(t, slow, text); !slices.Equal(a, b) {
				t.Errorf("%q with %s: %q by hand, %q by expression", text, pattern, a, b)
			}
		}
	}
}

func FuzzSplittersAgree(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	slow := map[string]splitter{}
	for pattern := range handWritten {
		s, err := splitRegex(pattern)
		if err != nil {
			f.Fatal(err)
		}
		slow[pattern] = s
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || len(text) > 4096 {
			return
		}
		for pattern, hand := range handWritten {
			if a, b := pieces(t, hand, text), pieces(t, slow[pattern], text); !slices.Equal(a, b) {
				t.Errorf("%q with %s: %q by hand, %q by expression", text, pattern, a, b)
			}
		}
	})
}

func fixture(t testing.TB) *Tokenizer {
	data, err := os.ReadFile("../../../testdata/tiny/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Load(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestLongWordsMergeAsShortOnesDo(t *testing.T) {
	e := fixture(t).NewEncoder()
	for _, w := range []string{"theriverthetavernthemillstream", "aaaaaaaaaaaaaaaaaaaaa", "Ivar's", "\x00\xff", "xyzzy", "nn"} {
		e.out = nil
		e.merge(w)
		short := slices.Clone(e.out)
		e.out, e.ids = nil, nil
		for i := range len(w) {
			e.ids = append(e.ids, e.t.bytes[w[i]])
		}
		e.mergeLong()
		if !slices.Equal(short, e.out) {
			t.Errorf("%q: %v through the array, %v through the heap", w, short, e.out)
		}
	}
}

// Whatever the text, encoding ends, and decoding gives the normalized text back.
func FuzzEncodeDecode(f *testing.F) {
	for _, text := range append(texts, "<|im_start|>user\nhi<|im_end|>", "<|im_", "\ufffd", "a\u0334\u0345\u0301") {
		f.Add(text)
	}
	tok := fixture(f)
	e := tok.NewEncoder()
	f.Fuzz(func(t *testing.T, text string) {
		ids, err := e.Encode(nil, text)
		if !utf8.ValidString(text) {
			if err == nil {
				t.Fatal("not UTF-8, and encoded")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		_ = tok.early.split(text, func(s string) error { want = append(want, normalize(s)...); return nil },
			func(a Added, _, _ int) { want = append(want, a.Content...) })
		got, err := tok.Decode(ids, false)
		if err != nil || got != string(want) {
			t.Fatalf("%+q became %+q (%v)", want, got, err)
		}
	})
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a a"]},"pre_tokenizer":{"type":"ByteLevel"}}`))
	f.Add([]byte(`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"}}`))
	f.Add([]byte(`{"added_tokens":[{"id":-1,"content":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := Load(data, data)
		if (tok == nil) == (err == nil) && err == nil {
			t.Fatal("neither a tokenizer nor an error")
		}
	})
}

func TestMarksInLongRunsAreNormalizedWithoutAJoiner(t *testing.T) {
	s := "e"
	for range 60 {
		s += "\u0323\u0301"
	}
	got := []rune(normalize(s))
	if got[0] != 'ẹ' || len(got) != 120 || got[1] != '\u0323' || got[119] != '\u0301' || slices.Contains(got, 0x34f) {
		t.Errorf("%+q", string(got))
	}
}
