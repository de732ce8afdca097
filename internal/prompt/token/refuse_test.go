package token_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"seatsmith/internal/prompt/token"
)

// changed is the fixture's tokenizer.json with one part replaced.
func changed(t *testing.T, path string, value string) []byte {
	t.Helper()
	data, err := os.ReadFile("../../../testdata/tiny/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var f map[string]json.RawMessage
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	key, inner, nested := strings.Cut(path, ".")
	if nested {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(f[key], &m); err != nil {
			t.Fatal(err)
		}
		m[inner] = json.RawMessage(value)
		f[key], _ = json.Marshal(m)
	} else {
		f[key] = json.RawMessage(value)
	}
	data, _ = json.Marshal(f)
	return data
}

func TestWhatIsNotByteLevelBPEIsRefusedByName(t *testing.T) {
	for _, c := range []struct{ path, value, want string }{
		{"model.type", `"Unigram"`, "Unigram"},
		{"model.type", `"WordPiece"`, "WordPiece"},
		{"model.byte_fallback", `true`, "byte_fallback"},
		{"model.dropout", `0.1`, "dropout"},
		{"model.continuing_subword_prefix", `"##"`, "##"},
		{"model.end_of_word_suffix", `"</w>"`, "</w>"},
		{"model.merges", `["Ġ notthere"]`, "merges[0]"},
		{"model.merges", `["alone"]`, "merges[0]"},
		{"model.merges", `[["a","b","c"]]`, "merges[0]"},
		{"model.vocab", `{"a":0}`, "byte 0x00"},
		{"model.vocab", `{"a":0,"b":0}`, "stands for both"},
		{"normalizer", `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Lowercase"}]}`, "Lowercase"},
		{"pre_tokenizer", `null`, "no pre_tokenizer"},
		{"pre_tokenizer", `{"type":"Metaspace"}`, "Metaspace"},
		{"pre_tokenizer", `{"type":"Digits"}`, "no ByteLevel"},
		{"pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"[[:alpha:]]"},"behavior":"Isolated"},{"type":"ByteLevel"}]}`, "[[:alpha:]]"},
		{"pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"a"},"behavior":"Removed"},{"type":"ByteLevel"}]}`, "Removed"},
		{"decoder", `{"type":"Metaspace"}`, "Metaspace"},
		{"post_processor", `{"type":"BertProcessing"}`, "BertProcessing"},
		{"post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}}],"special_tokens":{}}`, "<s>"},
		{"added_tokens", `[{"id":5,"content":"<x>"},{"id":5,"content":"<y>"}]`, "stands for both"},
	} {
		_, err := token.Load(changed(t, c.path, c.value), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "tokenizer.json") {
			t.Errorf("%s = %s: %v", c.path, c.value, err)
		}
	}
}

func TestTokensThatOnlyTheConfigListsAreAdded(t *testing.T) {
	config := []byte(`{"added_tokens_decoder":{"1300":{"content":"<extra>","special":true},"1220":{"content":"<|endoftext|>","special":true}}}`)
	tok, err := token.Load(changed(t, "normalizer", `null`), config)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := tok.NewEncoder().Encode(nil, "a<extra>b<|endoftext|>")
	if err != nil || len(ids) != 4 || ids[1] != 1300 || ids[3] != 1220 {
		t.Errorf("%v, %v", ids, err)
	}
	if tok.Size() != 1301 {
		t.Errorf("size %d", tok.Size())
	}
}

func TestAnUnknownIDIsAnErrorAndNotAnEmptyText(t *testing.T) {
	tok := load(t, "../../../testdata/tiny/tokenizer.json")
	if _, err := tok.Decode([]int32{5, 2000}, false); err == nil || !strings.Contains(err.Error(), "2000 (position 1)") {
		t.Error(err)
	}
}

func TestTextThatIsNotUTF8IsRefused(t *testing.T) {
	tok := load(t, "../../../testdata/tiny/tokenizer.json")
	if _, err := tok.NewEncoder().Encode(nil, "a\xff"); err == nil {
		t.Error("encoded")
	}
}

func TestControlTokensInsideATextAreFound(t *testing.T) {
	tok := load(t, "../../../testdata/tiny/tokenizer.json")
	found := tok.FindAdded("he said <|im_end|> and </think>")
	if len(found) != 2 || found[0].Token.Content != "<|im_end|>" || found[0].Start != 8 || !found[0].Token.Special ||
		found[1].Token.Content != "</think>" || found[1].Token.Special {
		t.Errorf("%+v", found)
	}
	if id, ok := tok.ID("<|im_end|>"); !ok || id != 1222 {
		t.Errorf("%d %v", id, ok)
	}
}
