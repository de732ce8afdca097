package token_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/prompt/token"
)

// mixed is 1 MiB of prose in several scripts, code, JSON, white space and control tokens, no two paragraphs alike.
func mixed() string {
	words := strings.Fields(`the tavern river stood beside an old mill and nobody could lift its crooked rope while supper simmered
		Don't you've HTTPServer foo_bar(42); "value": 3.14159, naïve café Ünïcödé быстрая лиса прыгает через ленивую собаку
		中文字符漢字 ひらがな カタカナ 한국어 조선말 हिन्दी भाषा עברית العربية 😀🎉 if err != nil { return fmt.Errorf("x: %w", err) } <tool_call> </tool_call>`)
	var b strings.Builder
	state := uint64(1)
	for b.Len() < 1<<20 {
		state = state*6364136223846793005 + 1442695040888963407
		w := words[(state>>33)%uint64(len(words))]
		b.WriteString(w)
		switch (state >> 20) % 13 {
		case 0:
			b.WriteString(",\n")
		case 1:
			b.WriteString(string(rune('a' + (state>>40)%26)))
			b.WriteString(string(rune('a' + (state>>45)%26)))
			b.WriteByte(' ')
		case 2:
			b.WriteString("\n\n    ")
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func load(tb testing.TB, name string) *token.Tokenizer {
	tb.Helper()
	data, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		tb.Fatal(err)
	}
	tok, err := token.Load(data, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return tok
}

func BenchmarkEncodeMixed(b *testing.B) {
	tok := load(b, "../../../testdata/tiny/tokenizer.json")
	text := mixed()
	e := tok.NewEncoder()
	var ids []int32
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if ids, err = e.Encode(ids[:0], text); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncodeCold begins every megabyte with an empty cache.
func BenchmarkEncodeCold(b *testing.B) {
	tok := load(b, "../../../testdata/tiny/tokenizer.json")
	text := mixed()
	var ids []int32
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		var err error
		if ids, err = tok.NewEncoder().Encode(ids[:0], text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	tok := load(b, "../../../testdata/tiny/tokenizer.json")
	ids, err := tok.NewEncoder().Encode(nil, mixed())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(1 << 20)
	for b.Loop() {
		if _, err := tok.Decode(ids, false); err != nil {
			b.Fatal(err)
		}
	}
}
