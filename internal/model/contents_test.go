package model_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/model"
)

const (
	pointer  = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12807982\n"
	htmlPage = "\n<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n"
	denied   = `{"error": "Access to this repository is restricted"}`
)

// Testers left each of these under each of these names: the run said ok, and the server did not start or could not chat.
func TestAFileThatIsNotWhatItsNamePromisesIsAnError(t *testing.T) {
	dir := like(t, "tiny").write()
	for _, name := range []string{
		"tokenizer.json", "tokenizer_config.json", "preprocessor_config.json", "generation_config.json", "chat_template.jinja",
		"chat_template.json", "video_preprocessor_config.json", "processor_config.json", "special_tokens_map.json",
		"added_tokens.json", "vocab.json", "merges.txt", "tokenizer.model",
	} {
		for what, c := range map[string]struct{ text, says string }{
			"pointer":       {pointer, "Git LFS pointer of 133 bytes; the real file has 12807982 bytes"},
			"empty":         {"", "the file is empty"},
			"web page":      {htmlPage, "a web page"},
			"error message": {denied, "a server's error message"},
			"cut short":     {`{"model": {"type": "BPE", "vocab": {"a": 0, "b"`, "ends in the middle of a value, after 47 bytes"},
			"a list":        {`[1, 2]`, "want a JSON object, got a list"},
			"a text":        {"not found", "not JSON"},
			"twice":         {"{}\n{}", "something follows"},
			"with a mark":   {"\xef\xbb\xbf{}", "byte order mark"},
			"blank":         {" \n", ""},
			"binary":        {"\x00\x01\xff", ""},
			"compressed":    {"\x1f\x8b\x08\x00rest", "a gzip archive"},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				m := openWith(t, dir, name, c.text)
				want := []string{"error companion-broken"}
				says := []string{name, c.says}
				switch {
				case filepath.Ext(name) == ".json", what == "pointer", what == "empty", what == "web page", what == "error message", what == "compressed":
				case name == "chat_template.jinja" && (what == "blank" || what == "binary"):
					says[1] = "this is no chat template"
				default:
					want = nil // text that nobody parses, or a template in odd words
				}
				only(t, m.Findings, want...)
				if want != nil {
					saysOf(t, m, "companion-broken", append(says, "again")...)
				}
			})
		}
	}
}

// openWith opens a folder with another text under one name, and puts the folder back.
func openWith(t *testing.T, dir, name, text string) *model.Model {
	t.Helper()
	path := filepath.Join(dir, name)
	before, err := os.ReadFile(path)
	if err == nil {
		defer os.WriteFile(path, before, 0o666)
	} else {
		defer os.Remove(path)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

func saysOf(t *testing.T, m *model.Model, rule string, texts ...string) {
	t.Helper()
	says(t, m.Findings, rule, texts...)
}

func TestFilesThatNoServerReadsAreWarnings(t *testing.T) {
	f := like(t, "tiny")
	f.files["trainer_state.json"] = `{"loss": NaN}`
	f.files["LICENSE"] = ""
	f.files["older.jinja"] = "{% if"
	m := f.open()
	only(t, m.Findings, "warning companion-broken", "warning companion-broken")
	says(t, m.Findings[1:], "companion-broken", "trainer_state.json", "not JSON")

	f = like(t, "tiny").dropPrefix("model.visual.").set("architectures.0", "Qwen3_5ForCausalLM").unset("vision_config")
	f.files["preprocessor_config.json"] = pointer
	for _, x := range f.open().Findings {
		if x.Rule == "companion-broken" && string(x.Severity) != "warning" {
			t.Errorf("a text-only class reads no processor: %+v", x)
		}
	}
}

func TestATokenizerNeedsAModelWithAVocabulary(t *testing.T) {
	dir := like(t, "tiny").write()
	for text, want := range map[string]string{
		`{}`:                               "model: want an object, the field is missing",
		`{"model": []}`:                    "model: want an object, got a list",
		`{"model": {}}`:                    "model.vocab: the field is missing",
		`{"model": {"vocab": "x"}}`:        `model.vocab: want an object or a list, got "x"`,
		`{"model": {"vocab": {"a": 1.5}}}`: `the id of "a" is 1.5: want a whole number`,
		`{"model": {"vocab": {"a": "1"}}}`: `the id of "a" is "1": want a whole number`,
		`{"model": {"vocab": {}}, "added_tokens": {}}`:                         "added_tokens: want a list, got an object",
		`{"model": {"vocab": {}}, "added_tokens": [{"id": 1}, {"id": -1}]}`:    "added_tokens[1].id: want a whole number, got -1",
		`{"model": {"vocab": {}}, "added_tokens": [{"id": 1}, {"content":1}]}`: "added_tokens[1].id: want a whole number",
	} {
		m := openWith(t, dir, "tokenizer.json", text)
		only(t, m.Findings, "error companion-broken")
		says(t, m.Findings, "companion-broken", "tokenizer.json", want)
	}
}

// The vocabulary of the fixture has 2048 rows.
func TestTokenIDsBeyondTheVocabularyAreNamed(t *testing.T) {
	dir := like(t, "tiny").write()
	unigram := `{"model": {"vocab": [` + strings.Repeat(`["a", 0], `, 2048) + `["last", 0]]}}`
	for _, c := range []struct {
		file, text string
		subject    string
		says       []string
	}{
		{"tokenizer.json", `{"model": {"vocab": {"a": 2047, "b": 2048, "c": 9000, "d": 2048}}}`, "tokenizer.json: model.vocab",
			[]string{"2 token ids are", "vocab_size 2048", `the largest is 9000 ("c")`, "take the tokenizer that belongs"}},
		{"tokenizer.json", `{"added_tokens": [{"id": 2048, "content": "<|new|>"}], "model": {"vocab": {}}}`, "tokenizer.json: added_tokens",
			[]string{"1 token id is", `2048 ("<|new|>")`}},
		{"tokenizer.json", unigram, "tokenizer.json: model.vocab", []string{"1 token id is", `2048 ("last")`}},
		{"tokenizer_config.json", `{"added_tokens_decoder": {"5": {"content": "x"}, "4000": {"content": "y"}}}`, "tokenizer_config.json: added_tokens_decoder", []string{`4000 ("y")`}},
		{"added_tokens.json", `{"<z>": 2049}`, "added_tokens.json", []string{`2049 ("<z>")`}},
		{"vocab.json", `{"a": 0, "z": 1000000}`, "vocab.json", []string{`1000000 ("z")`}},
		{"generation_config.json", `{"eos_token_id": [7, 248046], "pad_token_id": 2048}`, "generation_config.json: eos_token_id",
			[]string{"2 token ids are", "248046", "take the ids from the configuration"}},
		{"generation_config.json", `{"pad_token_id": 2048, "eos_token_id": 1}`, "generation_config.json: pad_token_id", []string{"1 token id is"}},
	} {
		m := openWith(t, dir, c.file, c.text)
		only(t, m.Findings, "error tokenizer-vocab")
		if m.Findings[0].Subject != c.subject {
			t.Errorf("subject %q, want %q", m.Findings[0].Subject, c.subject)
		}
		says(t, m.Findings, "tokenizer-vocab", c.says...)
	}
}

func TestTokenIDsOfTheConfigurationAreNamedByTheirPlace(t *testing.T) {
	f := like(t, "tiny").set("text_config.eos_token_id", 248044).set("image_token_id", 2048)
	m := f.open()
	only(t, m.Findings, "error tokenizer-vocab", "error tokenizer-vocab")
	if a, b := m.Findings[0].Subject, m.Findings[1].Subject; a != "config.json: image_token_id" || b != "config.json: text_config.eos_token_id" {
		t.Errorf("subjects %q, %q", a, b)
	}
	only(t, like(t, "tiny").set("pad_token_id", nil).set("bos_token_id", -1).open().Findings)
	m = like(t, "tiny").set("eos_token_id", "end").open()
	only(t, m.Findings, "error config-invalid")
	says(t, m.Findings, "config-invalid", "config.json: eos_token_id", `got "end"`)
}

func TestATemplateMustBeWholeText(t *testing.T) {
	whole, err := os.ReadFile(fixtures + "tiny/chat_template.jinja")
	if err != nil {
		t.Fatal(err)
	}
	text, dir := string(whole), like(t, "tiny").write()
	for _, good := range []string{
		text, "x", "{{ messages }}", "{# {% if #}x", "{% raw %}{% if %}{{ {% endraw -%}x", `{{ {"a": {"b": 1}} }}`, `{{ "}}" ~ '%}' ~ "\"}}" }}`,
		"{% set x = 1 %}{% set y %}{{ x }}{% endset %}", "{%- for m in messages if m -%}{% else %}{%- endfor -%}", "{% set x | replace('=', '') %}y{% endset %}",
		"{%- macro f(a) %}{% endmacro %}{% generation %}{% endgeneration %}", "{ % } {", "{% if a %}{% elif b == '{% if' %}{% endif %}",
	} {
		only(t, openWith(t, dir, "chat_template.jinja", good).Findings)
	}
	for bad, says := range map[string]string{
		"a\nb {{ messages": "{{ of line 2 is never closed", "{% if x": "{% of line 1 is never closed", "{# x": "{# of line 1",
		"\n\n{% if x %}y": "the if of line 3 has no partner", "{% endfor %}": "the endfor of line 1 has no partner",
		"{% for a in b %}{% if c %}{% endfor %}": "the endfor of line 1", "{% raw %}{{": "the raw of line 1", `{{ "}}`: "{{ of line 1",
		"\xff\xfe{\x00": "it is not text in UTF-8",
	} {
		m := openWith(t, dir, "chat_template.jinja", bad)
		only(t, m.Findings, "error companion-broken")
		saysOf(t, m, "companion-broken", "chat_template.jinja", "this is no chat template", says)
	}
	// Wherever a real template is cut inside its outermost loop, it shows.
	from, to := strings.Index(text, "{%- for message"), strings.LastIndex(text, "{%- endfor")
	if from < 0 || to < from {
		t.Fatalf("the fixture's template has no loop over messages: %d, %d", from, to)
	}
	for cut := from + 10; cut < to; cut += (to - from) / 50 {
		only(t, openWith(t, dir, "chat_template.jinja", text[:cut]).Findings, "error companion-broken")
	}
}

func TestTheTemplateOfTheTokenizerConfigCountsWhenThereIsNoFile(t *testing.T) {
	for config, want := range map[string]string{
		`{"chat_template": ""}`:                                        "chat_template: this is no chat template: there is no text in it",
		`{"chat_template": "{% if x"}`:                                 "never closed",
		`{"chat_template": 7}`:                                         "chat_template: want a text or a list",
		`{"chat_template": [{"name": "default"}]}`:                     "chat_template[0].template: want a text",
		`{"chat_template": [{"name": "default", "template": "{{ x"}]}`: "chat_template[0].template: this is no chat template",
	} {
		f := like(t, "tiny")
		f.files["tokenizer_config.json"] = config
		only(t, f.open().Findings) // the file is used
		delete(f.files, "chat_template.jinja")
		m := f.open()
		only(t, m.Findings, "error companion-broken")
		says(t, m.Findings, "companion-broken", "tokenizer_config.json: ", want)
	}
}

func TestACompanionOfTheDonorIsLookedIntoToo(t *testing.T) {
	f, d := like(t, "tiny").dropPrefix("mtp."), like(t, "tiny")
	delete(f.files, "generation_config.json")
	d.files["generation_config.json"] = pointer
	d.files["tokenizer.json"] = pointer // not taken, so nobody's business
	v := overlay(t, f.open(), openDonor(t, d.write()))
	only(t, v.Findings, "info companion-missing", "error companion-broken")
	says(t, v.Findings, "companion-broken", "donor generation_config.json", "run git lfs pull")
}

func TestAFileLargerThanAnyOfItsKindIsNotRead(t *testing.T) {
	dir := like(t, "tiny").write()
	path := filepath.Join(dir, "tokenizer.json")
	if err := os.Truncate(path, 64<<20+1); err != nil {
		t.Fatal(err)
	}
	m := open(t, dir)
	only(t, m.Findings, "error companion-broken")
	says(t, m.Findings, "companion-broken", "tokenizer.json", "67108865 bytes")
}

// bigTokenizer has the size and the form of a real one: 250,000 tokens and as many merges.
func bigTokenizer() string {
	var b strings.Builder
	b.WriteString(`{"version": "1.0", "added_tokens": [{"id": 1, "content": "<|end|>", "special": true}], "model": {"type": "BPE", "vocab": {`)
	for i := range 250_000 {
		fmt.Fprintf(&b, "%s\"\\u0120tok%dx\": %d", sep(i), i*7919, i)
	}
	b.WriteString(`}, "merges": [`)
	for i := range 250_000 {
		fmt.Fprintf(&b, "%s[\"to\", \"k%d\"]", sep(i), i)
	}
	b.WriteString(`]}}`)
	return b.String()
}

func sep(i int) string {
	if i == 0 {
		return ""
	}
	return ", "
}

func TestARealVocabularyIsReadToTheEnd(t *testing.T) {
	f := like(t, "tiny")
	f.files["tokenizer.json"] = bigTokenizer()
	m := f.open()
	only(t, m.Findings, "error tokenizer-vocab")
	says(t, m.Findings, "tokenizer-vocab", "247952 token ids are", `the largest is 249999 ("\u0120tok`)
}

func BenchmarkOpenWithARealTokenizer(b *testing.B) {
	f := like(b, "tiny")
	f.files["tokenizer.json"] = bigTokenizer()
	dir := f.write()
	b.SetBytes(int64(len(f.files["tokenizer.json"])))
	for b.Loop() {
		m, err := model.Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		m.Close()
	}
}
