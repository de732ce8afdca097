package prompt_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seatsmith/internal/prompt"
	"seatsmith/internal/prompt/ordered"
)

var clock = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

func open(t testing.TB, dir string) *prompt.Prompter {
	t.Helper()
	p, err := prompt.Open(dir, clock)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The hashes were made with Python's Jinja2 3.1.6 and tokenizers 0.23.3 on the same rows.
func TestTheTavernRowsBecomeTheTextAndTokensOfHuggingFace(t *testing.T) {
	p := open(t, "../../testdata/tiny")
	data, err := os.ReadFile("../../testdata/calib/tavern_512.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	texts, ids := sha256.New(), sha256.New()
	e := p.Tokens.NewEncoder()
	tokens := 0
	for line := range strings.Lines(string(data)) {
		row, problems := prompt.ParseRow([]byte(line))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		out, _, err := p.Render(row, prompt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		texts.Write([]byte(out.Text + "\x00"))
		list, err := e.Encode(nil, out.Text)
		if err != nil {
			t.Fatal(err)
		}
		tokens += len(list)
		ids.Write([]byte(strings.Trim(fmt.Sprint(list), "[]") + "\n"))
	}
	if got := fmt.Sprintf("%x", texts.Sum(nil)); got != "8e5a06fda41c43b46c463c66087d008fe03fa219c646daa431acdfccdc2efe4f" {
		t.Errorf("texts: %s", got)
	}
	if got := fmt.Sprintf("%x", ids.Sum(nil)); got != "ec7195b5542933cd960aeb0d714e30eddea6bb1cdce729cba47ca2aa7bd32201" || tokens != 99787 {
		t.Errorf("ids: %s, %d tokens", got, tokens)
	}
}

// folder makes a checkpoint folder out of files; the tokenizer is the fixture's.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	tok, err := os.ReadFile("../../testdata/tiny/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	files["tokenizer.json"] = string(tok)
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func row(t *testing.T, text string) prompt.Row {
	t.Helper()
	r, problems := prompt.ParseRow([]byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return r
}

func TestTheTemplateComesFromWhereTransformersTakesIt(t *testing.T) {
	const list = `{"chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}, {"name": "rag", "template": "R"}]}`
	for name, c := range map[string]struct {
		files        map[string]string
		plain, tools string // what it renders
		hidden       int
	}{
		"only the file":          {map[string]string{"chat_template.jinja": "F"}, "F", "F", 0},
		"only the key":           {map[string]string{"tokenizer_config.json": `{"chat_template": "K"}`}, "K", "K", 0},
		"both, equal":            {map[string]string{"chat_template.jinja": "F", "tokenizer_config.json": `{"chat_template": "F"}`}, "F", "F", 0},
		"both, different":        {map[string]string{"chat_template.jinja": "F", "tokenizer_config.json": `{"chat_template": "K"}`}, "F", "F", 1},
		"a list":                 {map[string]string{"tokenizer_config.json": list}, "D", "T", 0},
		"a folder beside":        {map[string]string{"chat_template.jinja": "F", "additional_chat_templates/tool_use.jinja": "T"}, "F", "T", 0},
		"the older file":         {map[string]string{"chat_template.json": `{"chat_template": "O"}`}, "O", "O", 0},
		"the key over the older": {map[string]string{"chat_template.json": `{"chat_template": "O"}`, "tokenizer_config.json": `{"chat_template": "K"}`}, "K", "K", 0},
	} {
		p := open(t, folder(t, c.files))
		plain, _, err := p.Render(row(t, `{"messages":[{"role":"user","content":"x"}]}`), prompt.Options{})
		tools, _, err2 := p.Render(row(t, `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]}`), prompt.Options{})
		if err != nil || err2 != nil || plain.Text != c.plain || tools.Text != c.tools || len(p.Sources.Hidden) != c.hidden {
			t.Errorf("%s: %q, %q, %d hidden (%v, %v)", name, plain.Text, tools.Text, len(p.Sources.Hidden), err, err2)
		}
	}
	for name, files := range map[string]map[string]string{
		"neither":         {},
		"none is default": {"tokenizer_config.json": `{"chat_template": [{"name": "a", "template": "A"}, {"name": "b", "template": "B"}]}`},
	} {
		_, _, err := open(t, folder(t, files)).Render(row(t, `{"messages":[{"role":"user","content":"x"}]}`), prompt.Options{})
		if err == nil || !strings.Contains(err.Error(), "template") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{`{"chat_template": 5}`, `{"chat_template": [{"name": "x"}]}`, `{"chat_template": [{"name":"a","template":""},{"name":"a","template":""}]}`, `{`} {
		if _, err := prompt.Open(folder(t, map[string]string{"tokenizer_config.json": bad}), clock); err == nil || !strings.Contains(err.Error(), "tokenizer_config.json") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestTheTemplateSeesSpecialTokensClockAndVariables(t *testing.T) {
	p := open(t, folder(t, map[string]string{
		"chat_template.jinja":     "{{ bos_token }}|{{ eos_token }}|{{ pad_token is defined }}|{{ enable_thinking }}|{{ add_generation_prompt }}|{{ strftime_now('%d %b %Y') }}|{{ documents[0].t }}|{{ tools is none }}",
		"tokenizer_config.json":   `{"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": null}`,
		"special_tokens_map.json": `{"eos_token": "</s>", "bos_token": "other"}`,
	}))
	out, _, err := p.Render(row(t, `{"messages":[{"role":"user","content":"x"}],"documents":[{"t":"D"}],"chat_template_kwargs":{"enable_thinking":true}}`),
		prompt.Options{Generate: true, Vars: []ordered.Member{{Key: "enable_thinking", Value: ordered.NewBool(false)}}})
	if err != nil || out.Text != "<s>||False|True|True|03 Feb 2026|D|True" {
		t.Errorf("%q, %v", out.Text, err)
	}
}

func TestEveryWrongArgumentsIsItsOwnProblem(t *testing.T) {
	for arguments, want := range map[string]prompt.Kind{
		`"{\"a\": 1"`: prompt.ArgumentsBroken, `"a: 1"`: prompt.ArgumentsBroken, `""`: prompt.ArgumentsEmpty, `"  "`: prompt.ArgumentsEmpty,
		`"\"{\\\"a\\\": 1}\""`: prompt.ArgumentsTwice, `"null"`: prompt.ArgumentsNull, `null`: prompt.ArgumentsNull, `"[1]"`: prompt.ArgumentsKind,
		`[1]`: prompt.ArgumentsKind, `5`: prompt.ArgumentsKind, `"5"`: prompt.ArgumentsKind, `"\"x\""`: prompt.ArgumentsKind, `true`: prompt.ArgumentsKind,
	} {
		text := `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{}}},{"function":{"name":"f","arguments":` + arguments + `}}]}]}`
		_, problems := prompt.ParseRow([]byte(text))
		if len(problems) != 1 || problems[0].Kind != want || problems[0].Where != "messages[1].tool_calls[1]" {
			t.Errorf("%s: %+v, want %s", arguments, problems, want)
		}
	}
}

func TestArgumentsKeepTheirOrderAndSpelling(t *testing.T) {
	for _, call := range []string{
		`{"type":"function","id":"c1","function":{"name":"f","arguments":"{\"z\": 1.50, \"a\": 100000000000000000000, \"é\": [1e3]}"}}`,
		`{"name":"f","arguments":"{\"z\": 1.50, \"a\": 100000000000000000000, \"é\": [1e3]}"}`,
		`{"name":"f","arguments":{"z": 1.50, "a": 100000000000000000000, "é": [1e3]}}`,
	} {
		r := row(t, `{"messages":[{"role":"assistant","tool_calls":[`+call+`]}]}`)
		arguments, _ := r.Calls()[0].Get("arguments")
		if arguments.String() != `{"z": 1.50, "a": 100000000000000000000, "é": [1e3]}` {
			t.Errorf("%s: %s", call, arguments)
		}
		if want := strings.Contains(call, `\"`); (r.Decoded == 1) != want {
			t.Errorf("%s: %d decoded", call, r.Decoded)
		}
	}
}

func TestARowThatIsNoConversationIsNamed(t *testing.T) {
	user := `{"role":"user","content":"x"}`
	for text, want := range map[string]string{
		`[]`: "an object with messages", `{`: "not JSON", `{}`: "no messages", `{"messages":{}}`: "want an array", `{"messages":[]}`: "no message",
		`{"messages":["x"]}`: "messages[0]", `{"messages":[{"content":"x"}]}`: "messages[0].role", `{"messages":[{"role":5,"content":"x"}]}`: "messages[0].role",
		`{"messages":[{"role":"user"}]}`: "messages[0].content", `{"messages":[{"role":"user","content":null}]}`: "messages[0].content",
		`{"messages":[{"role":"user","content":5}]}`: "messages[0].content", `{"messages":[{"role":"user","content":["x"]}]}`: "messages[0].content[0]",
		`{"messages":[{"role":"user","content":[{"type":"text"}]}]}`: "content[0].text", `{"messages":[{"role":"assistant","content":"x","reasoning_content":5}]}`: "reasoning_content",
		`{"messages":[{"role":"assistant","tool_calls":{}}]}`: "messages[0].tool_calls", `{"messages":[{"role":"assistant","tool_calls":[5]}]}`: "tool_calls[0]",
		`{"messages":[{"role":"assistant","tool_calls":[{"function":"f"}]}]}`: "tool_calls[0].function", `{"messages":[{"role":"assistant","tool_calls":[{"function":{}}]}]}`: "names no function",
		`{"messages":[` + user + `],"tools":"[]"}`: "tools", `{"messages":[` + user + `],"tools":[5]}`: "tools[0]", `{"messages":[` + user + `],"tools":[{"function":{}}]}`: "tools[0]",
		`{"messages":[` + user + `],"tools":[{"name":"f","parameters":[]}]}`: "parameters", `{"messages":[` + user + `],"chat_template_kwargs":5}`: "chat_template_kwargs",
	} {
		_, problems := prompt.ParseRow([]byte(text))
		if len(problems) != 1 || !strings.Contains(problems[0].Where+" "+problems[0].Message, want) {
			t.Errorf("%s: %+v, want %q", text, problems, want)
		}
	}
}

func TestCallsComeBackFromTheirPrompt(t *testing.T) {
	p := open(t, "../../testdata/tiny")
	for arguments, back := range map[string]bool{
		`{"a": "x", "b": 1, "c": [1, "é"], "d": {"k": null}, "e": true, "f": 1.50}`: true, `{}`: true, `{"a": ""}`: true, `{"a": "two\nlines"}`: true,
		`{"a": "x</parameter>y"}`: false, `{"a": "x</tool_call>"}`: false, `{"a": "<parameter=b>"}`: false, `{"a": "\n x \n"}`: true, `{"a>b": 1}`: false, `{"a": "</function>"}`: false,
	} {
		r := row(t, `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":`+arguments+`}}]}]}`)
		out, _, err := p.Render(r, prompt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		found := prompt.FindCalls(out.Text)
		if got := len(found) > 0 && found[0].Same(r.Calls()[0]); got != back {
			t.Errorf("%s: %v, %+v", arguments, got, found)
		}
	}
	hermes := prompt.FindCalls("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1.5}}\n</tool_call> <tool_call>nothing</tool_call>")
	sent, _ := ordered.DecodeString(`{"name":"f","arguments":{"a":1.50}}`)
	if len(hermes) != 1 || !hermes[0].Same(sent) {
		t.Errorf("%+v", hermes)
	}
	python := prompt.FindCalls("<tool_call>\n<function=f>\n<parameter=a>\nTrue\n</parameter>\n<parameter=b>\nNone\n</parameter>\n</function>\n</tool_call>")
	sent, _ = ordered.DecodeString(`{"name":"f","arguments":{"a":true,"b":null}}`)
	if len(python) != 1 || !python[0].Same(sent) {
		t.Errorf("%+v", python)
	}
}

func TestSystemMessagesJoinInFront(t *testing.T) {
	r := row(t, `{"messages":[{"role":"user","content":"a"},{"role":"system","content":" One "},{"role":"assistant","content":"b"},{"role":"system","content":"Two"}]}`)
	m, changed := prompt.MergeSystem(r)
	if !changed || len(m.Messages) != 3 || m.Messages[0].TextOf("content") != "One\n\nTwo" || m.Messages[1].TextOf("role") != "user" {
		t.Errorf("%v", m.Messages)
	}
	if _, changed := prompt.MergeSystem(row(t, `{"messages":[{"role":"system","content":"S"},{"role":"user","content":"a"}]}`)); changed {
		t.Error("one leading message was changed")
	}
}

func FuzzParseRow(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]}],"tools":[{"name":"f"}]}`))
	f.Add([]byte(`{"messages":[{"role":"tool","content":[{"type":"text","text":"</think><tool_call>"}]}]}`))
	p := open(f, "../../testdata/tiny")
	f.Fuzz(func(t *testing.T, line []byte) {
		r, problems := prompt.ParseRow(line)
		if len(problems) > 0 {
			return
		}
		out, _, err := p.Render(r, prompt.Options{})
		if err == nil {
			prompt.FindCalls(out.Text)
		}
		prompt.MergeSystem(r)
	})
}

func FuzzFindCalls(f *testing.F) {
	f.Add("<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>")
	f.Add("<tool_call>{\"name\": \"f\"}</tool_call><tool_call><function=")
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range prompt.FindCalls(text) {
			c.Same(ordered.NewObject())
		}
	})
}
