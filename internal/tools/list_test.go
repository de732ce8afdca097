package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/playbook"
)

func captureOf(t *testing.T, text string) *Capture {
	t.Helper()
	c := &Capture{Kind: "file", From: "list"}
	if err := c.document([]byte(text)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

func TestEveryFormOfADefinitionBecomesTheSameTool(t *testing.T) {
	const want = `[
{"type": "function", "function": {"name": "a", "description": "d", "parameters": {"type": "object", "z": 1.0, "b": 1e2}}}
]
`
	for _, text := range []string{
		`[{"type": "function", "function": {"name": "a", "description": "d", "parameters": {"type": "object", "z": 1.0, "b": 1e2}}}]`,
		`{"tools": [{"function": {"name": "a", "description": "d", "parameters": {"type": "object", "z": 1.0, "b": 1e2}}}]}`,
		`{"data": [{"type": "function", "name": "a", "description": "d", "parameters": {"type": "object", "z": 1.0, "b": 1e2}}], "has_more": false}`,
		`{"tools": [{"inputSchema": {"type": "object", "z": 1.0, "b": 1e2}, "name": "a", "title": "T", "description": "d", "annotations": {}}], "nextCursor": ""}`,
		`[{"name": "a", "description": "d", "input_schema": {"type": "object", "z": 1.0, "b": 1e2}}]`,
	} {
		if got := string(Encode(captureOf(t, text).Tools)); got != want {
			t.Errorf("%s became %s", text, got)
		}
	}
}

func TestWhatOpenAIsFormCarriesBesidesIsKept(t *testing.T) {
	text := "[\n" + `{"function": {"parameters": {"type": "object"}, "strict": true, "name": "a", "description": ""}, "type": "function", "extra": [1]}` + "\n]\n"
	if got := string(Encode(captureOf(t, text).Tools)); got != text {
		t.Errorf("became %s", got)
	}
	if got := captureOf(t, `[{"name": "a", "description": null, "strict": false, "parameters": {}}]`).Tools[0].Value.String(); got != `{"type": "function", "function": {"name": "a", "parameters": {}, "strict": false}}` {
		t.Error(got)
	}
}

func TestADocumentThatIsNoWholeListIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`3`:                                     "neither an array",
		`{}`:                                    `no "tools" and no "data"`,
		`{"tools": {}}`:                         "is an object, not an array",
		`{"tools": [], "data": []}`:             "which is the list is unknown",
		`{"openapi": "3.1.0", "tools": []}`:     "OpenAPI",
		`{"tools": [], "nextCursor": "2"}`:      "one page of several",
		`{"data": [], "has_more": true}`:        "one page of several",
		`{"data": [], "next": "http://x/?p=2"}`: "one page of several",
		`<html>`:                                "not JSON at byte 0",
	} {
		if err := (&Capture{}).document([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	many := "[" + strings.Repeat(`{"name": "a", "parameters": {}},`, MaxTools) + `{"name": "a", "parameters": {}}]`
	if err := (&Capture{}).document([]byte(many)); err == nil || !strings.Contains(err.Error(), "more than 4096 tools") {
		t.Error(err)
	}
}

func TestWhatIsNoToolIsNamedAndNeverLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		`null`:                  "it is null, not an object",
		`{"type": "retrieval"}`: `its type is "retrieval"`,
		`{"name": "a"}`:         "it has none of parameters, inputSchema, input_schema",
		`{"name": "a", "parameters": {}, "inputSchema": {}}`: "more than one of",
		`{"type": "function", "function": []}`:               "its function is an array",
		`{"function": {}}`:                                   "no name that is a string",
		`{"name": 7, "parameters": {}}`:                      "no name that is a string",
		`{"name": "a", "description": 7, "parameters": {}}`:  "its description is a number",
	} {
		c := captureOf(t, `[{"name": "good", "parameters": {"type": "object"}, "description": "d"}, `+text+`]`)
		found := c.Judge()
		if len(found) != 1 || found[0].Rule != "tool-shape" || !strings.Contains(found[0].Message, want) || !strings.HasPrefix(found[0].Subject, "list: tool 1") {
			t.Errorf("%s: %v, want %q", text, found, want)
		}
	}
}

func TestTheJudgeNamesToolAndPath(t *testing.T) {
	for text, want := range map[string]string{
		`[]`: "tools-empty: list",
		`[{"name": "", "description": "d", "parameters": {"type": "object"}}]`:                                           "tool-name: tool 0 ()",
		`[{"name": "a b", "description": "d", "parameters": {"type": "object"}}]`:                                        "tool-name: tool 0 (a b)",
		`[{"name": "` + strings.Repeat("a", 65) + `", "description": "d", "parameters": {"type": "object"}}]`:            "it has 65 bytes",
		`[{"name": "a", "parameters": {"type": "object"}}]`:                                                              "tool-undescribed: tool 0 (a)",
		`[{"type": "function", "name": "a", "description": "d"}, {"type": "function", "name": "a", "description": "e"}]`: "tool-duplicate: tool 1 (a): tool 0 has this name too",
		`[{"name": "a", "description": "d", "parameters": {"type": "object", "properties": {"q": {"type": "str"}}}}]`:    "tool-schema: tool 0 (a): parameters/properties/q/type: ",
	} {
		found := captureOf(t, text).Judge()
		if len(found) != 1 || !strings.Contains(found[0].String(), want) || found[0].Fix == "" {
			t.Errorf("%s: %v, want %q", text, found, want)
		}
	}
	if found := captureOf(t, `[{"type": "function", "function": {"name": "a-B_9", "description": "takes nothing"}}]`).Judge(); len(found) != 0 {
		t.Errorf("a function without parameters: %v", found)
	}
}

func TestAPrefixIsPartOfTheNameThatIsJudged(t *testing.T) {
	c := captureOf(t, `[{"name": "b", "description": "d", "parameters": {"type": "object"}}, {"name": "a", "description": "d", "parameters": {"type": "object"}}]`)
	c.Prefix("shop_")
	c.Sort()
	if c.Tools[0].Name() != "shop_a" || c.Tools[1].Name() != "shop_b" {
		t.Errorf("%s", Encode(c.Tools))
	}
	c.Prefix("ü")
	if found := c.Judge(); len(found) != 2 || found[0].Rule != "tool-name" {
		t.Error(found)
	}
}

func TestADifferenceIsSaidWithItsPath(t *testing.T) {
	base := `[{"name": "a", "description": "d", "parameters": {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer", "minimum": 1}}, "required": ["q"]}},
		{"name": "b", "description": "d", "parameters": {"type": "object"}}]`
	edit := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(base) }
	for text, want := range map[string]string{
		edit(`"minimum": 1`, `"minimum": 1.0`):                   "/parameters/properties/n/minimum is 1.0, before 1",
		edit(`, "minimum": 1`, ``):                               "/parameters/properties/n/minimum is gone: 1",
		edit(`"required": ["q"]`, `"required": ["q", "n"]`):      `/parameters/required is ["q", "n"], before ["q"]`,
		edit(`{"type": "string"}`, `{"type": "string", "x": 5}`): "/parameters/properties/q/x is new: 5",
		edit(`"q": {"type": "string"}, "n": {"type": "integer", "minimum": 1}`, `"n": {"type": "integer", "minimum": 1}, "q": {"type": "string"}`): "/parameters/properties has its keys in another order: n, q, before q, n",
		edit(`"name": "b"`, `"name": "c"`): "list: b: the tool is gone",
		`[{"name": "b", "description": "d", "parameters": {"type": "object"}},` + strings.TrimSuffix(base, `,
		{"name": "b", "description": "d", "parameters": {"type": "object"}}]`)[1:] + "]": "in another order",
	} {
		found := Compare(captureOf(t, base), captureOf(t, text)).Findings()
		if len(found) == 0 || found[0].Rule != "tools-differ" || !strings.Contains(found[0].String(), want) {
			t.Errorf("%s: %v, want %q", text, found, want)
		}
	}
	d := Compare(captureOf(t, base), captureOf(t, base))
	if d.Differs() || d.Same != 2 || len(d.Findings()) != 0 {
		t.Errorf("equal lists differ: %+v", d)
	}
	if got := playbook.Worst(Compare(captureOf(t, `[]`), captureOf(t, base)).Findings()); got != playbook.Error {
		t.Error(got)
	}
}

func TestAnOldListIsReadOrRefusedByName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.json")
	if _, err := Read(path); err == nil {
		t.Error("a missing file is read")
	}
	for text, want := range map[string]string{`{`: "old.json: not JSON", `[1]`: "old.json: tool 0: it is a number", `{"x": 1}`: `old.json: it has no "tools"`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
