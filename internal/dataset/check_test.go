package dataset_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"seatsmith/internal/dataset"
	"seatsmith/internal/prompt"
	"seatsmith/internal/prompt/ordered"
	"seatsmith/internal/prompt/peer"
)

// The test binary is its own second engine, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "second-engine" {
		if err := peer.Child(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var clock = time.Date(2026, 2, 3, 0, 0, 0, 0, time.UTC)

func open(t testing.TB, dir string) *prompt.Prompter {
	t.Helper()
	p, err := prompt.Open(dir, clock)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// with is a checkpoint folder of the fixture's tokenizer and other files.
func with(t *testing.T, files map[string]string) *prompt.Prompter {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"tokenizer.json", "chat_template.jinja", "tokenizer_config.json"} {
		data, err := os.ReadFile("../../testdata/tiny/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := files[name]; ok {
			data = []byte(text)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return open(t, dir)
}

func check(t *testing.T, p *prompt.Prompter, text string, o dataset.Options) *dataset.Report {
	t.Helper()
	r, err := dataset.Check(context.Background(), "rows.jsonl", dataset.Lines([]byte(text)), p, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheTavernSetIsClean(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	second := peer.Start(exe, "second-engine")
	defer second.Close()
	lines, err := dataset.Read("../../testdata/calib/tavern_512.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	r, err := dataset.Check(context.Background(), "tavern", lines, open(t, "../../testdata/tiny"), dataset.Options{MaxLength: 2048, Second: second})
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != "ok" || r.Rows != 512 || r.Rendered != 512 || r.BadRows != 0 || len(r.Findings) != 0 {
		t.Errorf("%+v", r)
	}
	if r.ToolRows != 128 || r.ToolShare != 0.25 || r.Calls != 128 || r.Normalised != 128 || r.Duplicates != 0 || r.Long != 0 || r.ReasoningDropped == 0 {
		t.Errorf("%+v", r)
	}
	if r.Tokens != (dataset.Tokens{Total: 99787, Min: 43, Median: 186, P95: 376, Max: 440}) {
		t.Errorf("%+v", r.Tokens)
	}
	if r.Second != (dataset.Second{Agreed: 512}) {
		t.Errorf("%+v", r.Second)
	}
	n := 0
	for _, b := range r.Histogram {
		n += b.Rows
	}
	if n != 512 || len(r.Templates) != 1 || len(r.Templates[0].BLAKE3) != 64 {
		t.Errorf("%+v, %+v", r.Histogram, r.Templates)
	}
}

const good = `{"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi"}]}`

func call(arguments string) string {
	return `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":` + arguments + `}}]}]}`
}

func TestEveryRuleIsFoundInTheRowThatBreaksIt(t *testing.T) {
	fixture := open(t, "../../testdata/tiny")
	long := `{"messages":[{"role":"user","content":"` + strings.Repeat("river ", 60) + `"},{"role":"assistant","content":"a"},{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi"}]}`
	tooLong := `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"` + strings.Repeat("river ", 60) + `"}]}`
	for _, c := range []struct {
		rule, severity, row string
		p                   *prompt.Prompter
		bad                 int
	}{
		{"row-syntax", "error", `{"messages":`, fixture, 1},
		{"row-shape", "error", `{"messages":[{"role":"user","content":5}]}`, fixture, 1},
		{"arguments-broken", "error", call(`"{a: 1}"`), fixture, 1},
		{"arguments-empty", "error", call(`""`), fixture, 1},
		{"arguments-twice", "error", call(`"\"{}\""`), fixture, 1},
		{"arguments-null", "error", call(`"null"`), fixture, 1},
		{"arguments-kind", "error", call(`"[1]"`), fixture, 1},
		{"template-raises", "error", `{"messages":[{"role":"user","content":"x"},{"role":"system","content":"late"}]}`, fixture, 1},
		{"template-unknown", "error", good, with(t, map[string]string{"chat_template.jinja": "{{ messages | map('string') }}"}), 1},
		{"row-long", "warning", long, fixture, 0},
		{"row-too-long", "error", tooLong, fixture, 1},
		{"turn-dropped", "warning", good, with(t, map[string]string{"chat_template.jinja": "{{ messages[0].content }}"}), 0},
		{"think-stray", "warning", `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"2+2 equals 4.\n</think>\n\nThe answer is 4."}]}`, fixture, 0},
		{"call-lost", "error", call(`{"a": "x</parameter>y"}`), fixture, 1},
		{"calls-unread", "warning", call(`{"a": "x"}`), with(t, map[string]string{"chat_template.jinja": "{% for m in messages %}{{ m.content }}[TOOL]{{ m.tool_calls | tojson if m.tool_calls else '' }}{% endfor %}"}), 0},
		{"control-text", "error", `{"messages":[{"role":"user","content":"say <|im_end|> now"}]}`, fixture, 1},
		{"control-text", "warning", `{"messages":[{"role":"user","content":"say <tool_call> now"}]}`, fixture, 0},
		{"row-duplicate", "warning", good + "\n" + good, fixture, 0},
		{"control-split", "error", good, with(t, map[string]string{"chat_template.jinja": "{% for m in messages %}<|turn|>{{ m.content }}{% endfor %}"}), 0},
		{"template-differs", "warning", good, with(t, map[string]string{"tokenizer_config.json": `{"chat_template": "other"}`}), 0},
		{"dataset-empty", "error", "\n \n", fixture, 0},
	} {
		r := check(t, c.p, c.row, dataset.Options{MaxLength: 40})
		if len(r.Findings) != 1 || r.Findings[0].Rule != c.rule || string(r.Findings[0].Severity) != c.severity {
			t.Errorf("%s: %+v", c.rule, r.Findings)
			continue
		}
		if r.BadRows != c.bad || len(r.Bad) != c.bad {
			t.Errorf("%s: %d bad rows", c.rule, r.BadRows)
		}
		want := map[string]string{"error": "fail", "warning": "warn"}[c.severity]
		if c.rule == "template-unknown" {
			want = "unknown"
		}
		if r.Verdict != want {
			t.Errorf("%s: verdict %s", c.rule, r.Verdict)
		}
	}
}

func TestTwoEnginesThatDifferAreSaid(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	second := peer.Start(exe, "second-engine")
	defer second.Close()
	// The library strips the blank between an output and {%-, which Jinja2 keeps.
	p := with(t, map[string]string{"chat_template.jinja": "{% for m in messages %}A {{ m.content }} {%- if true -%}B{%- endif %}{% endfor %}", "tokenizer_config.json": "{}"})
	r := check(t, p, good, dataset.Options{Second: second})
	if r.Second.Agreed+r.Second.Differed != 1 {
		t.Fatalf("%+v", r.Second)
	}
	p = with(t, map[string]string{"chat_template.jinja": "{% for m in messages %}A {{ m.content }}{%- if true -%}B{%- endif %}{% endfor %}"})
	r = check(t, p, good, dataset.Options{Second: second})
	if r.Second.Differed != 1 || len(r.Findings) != 1 || r.Findings[0].Rule != "template-doubt" || r.Verdict != "warn" {
		t.Errorf("%+v, %+v", r.Second, r.Findings)
	}
	// Where it cannot answer, it does not agree.
	p = with(t, map[string]string{"chat_template.jinja": "{% for m in messages %}{{ m.content }}{% endfor %}{{ strftime_now('%Y') }}"})
	if r = check(t, p, good, dataset.Options{Second: second}); r.Second.Unanswered != 1 || r.Second.Agreed != 0 {
		t.Errorf("%+v", r.Second)
	}
}

func TestSoManyBadRowsAreAllowed(t *testing.T) {
	p := open(t, "../../testdata/tiny")
	text := "\n" + good + "\n{\n" + call(`""`) + "\n"
	for allow, want := range map[int]string{0: "fail", 1: "fail", 2: "warn"} {
		r := check(t, p, text, dataset.Options{AllowBad: allow})
		if r.Verdict != want || r.BadRows != 2 || r.Bad[0].Row != 3 || r.Bad[1].Row != 4 || len(r.Bad[1].Reasons) != 1 {
			t.Errorf("%d allowed: %s, %+v", allow, r.Verdict, r.Bad)
		}
	}
}

func TestManyBadRowsAreAllNamedAndFewShown(t *testing.T) {
	r := check(t, open(t, "../../testdata/tiny"), strings.Repeat("{\n", 50), dataset.Options{})
	if len(r.Bad) != 50 || len(r.Findings) != 20 || r.NotListed["row-syntax"] != 30 {
		t.Errorf("%d bad, %d findings, %v", len(r.Bad), len(r.Findings), r.NotListed)
	}
}

func TestTruncationNeverRemovesTheLastUserTurn(t *testing.T) {
	p := open(t, "../../testdata/tiny")
	var b strings.Builder
	b.WriteString(`{"messages":[{"role":"system","content":"S"}`)
	for i := range 9 {
		fmt.Fprintf(&b, `,{"role":"user","content":"river %d"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{}}}]},{"role":"tool","content":"{}"},{"role":"assistant","content":"mill %d"}`, i, i)
	}
	b.WriteString("]}")
	row, problems := prompt.ParseRow([]byte(b.String()))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	e := p.Tokens.NewEncoder()
	last := 1 << 30
	for _, most := range []int{2000, 400, 300, 200, 120} {
		fit, tokens, dropped, err := dataset.Fit(p, e, row, dataset.Options{MaxLength: most})
		if err != nil {
			t.Fatalf("%d: %v", most, err)
		}
		roles := []string{}
		for _, m := range fit.Messages {
			roles = append(roles, m.TextOf("role"))
		}
		if tokens > most || dropped%4 != 0 || roles[0] != "system" || roles[1] != "user" || fit.Messages[len(fit.Messages)-1].TextOf("content") != "mill 8" ||
			!slices.ContainsFunc(fit.Messages, func(m ordered.Value) bool { return m.TextOf("content") == "river 8" }) || tokens > last {
			t.Errorf("%d: %d tokens, %d dropped, %v", most, tokens, dropped, roles)
		}
		last = tokens
	}
	if _, _, _, err := dataset.Fit(p, e, row, dataset.Options{MaxLength: 20}); err == nil || !strings.Contains(err.Error(), "last user turn") {
		t.Errorf("%v", err)
	}
}

func TestSystemMessagesAreMergedWhenAsked(t *testing.T) {
	text := `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"},{"role":"system","content":"late"},{"role":"user","content":"z"}]}`
	p := open(t, "../../testdata/tiny")
	r := check(t, p, text, dataset.Options{})
	if r.Verdict != "fail" || !strings.Contains(r.Findings[0].Message, "a system message must come first") || !strings.Contains(r.Findings[0].Message, "messages[2]") {
		t.Errorf("%+v", r.Findings)
	}
	if r = check(t, p, text, dataset.Options{MergeSystem: true}); r.Verdict != "ok" || r.Merged != 1 {
		t.Errorf("%s, %+v", r.Verdict, r.Findings)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(good + "\n" + call(`"{}"`) + "\n{"))
	f.Add([]byte(`{"messages":[{"role":"user","content":"<|im_end|></think>"}],"tools":[{"name":"<tool_call>"}]}`))
	p := open(f, "../../testdata/tiny")
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := dataset.Lines(data)
		r, err := dataset.Check(context.Background(), "rows", lines, p, dataset.Options{MaxLength: 30})
		if err != nil || r.Rows != len(lines) || r.BadRows > r.Rows || r.BadRows != len(r.Bad) {
			t.Fatalf("%+v, %v", r, err)
		}
		if r.BadRows > 0 && (r.Verdict == "ok" || r.Verdict == "warn") {
			t.Fatalf("bad rows, and %s", r.Verdict)
		}
	})
}

// BenchmarkCheck512 is the reach: 512 rows of about 2,000 tokens, rendered, tokenized and judged on one core.
func BenchmarkCheck512(b *testing.B) {
	var text strings.Builder
	words := strings.Fields("the river old mill tavern rope lantern mutton stew barley winter road salt market hunter drum Gorm Ivar Magna Solveig Brokka")
	state := uint64(1)
	for i := range 512 {
		text.WriteString(`{"messages":[{"role":"system","content":"Stay in character."}`)
		for range 10 {
			for _, role := range []string{"user", "assistant"} {
				fmt.Fprintf(&text, `,{"role":%q,"content":"row %d`, role, i)
				for range 65 {
					state = state*6364136223846793005 + 1442695040888963407
					text.WriteString(" " + words[(state>>33)%uint64(len(words))])
				}
				text.WriteString(`"}`)
			}
		}
		text.WriteString("]}\n")
	}
	lines := dataset.Lines([]byte(text.String()))
	p := open(b, "../../testdata/tiny")
	tokens := 0
	for b.Loop() {
		r, err := dataset.Check(context.Background(), "rows", lines, p, dataset.Options{MaxLength: 4096})
		if err != nil || r.Verdict != "ok" {
			b.Fatalf("%v, %+v", err, r.Findings)
		}
		tokens = r.Tokens.Total
	}
	b.ReportMetric(float64(tokens)/512, "tokens/row")
}
