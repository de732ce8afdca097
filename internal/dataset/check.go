package dataset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lukechampine.com/blake3"

	"seatsmith/internal/playbook"
	"seatsmith/internal/prompt"
	"seatsmith/internal/prompt/ordered"
	"seatsmith/internal/prompt/peer"
	"seatsmith/internal/prompt/template"
	"seatsmith/internal/prompt/token"
)

// Options say what a check demands.
type Options struct {
	MaxLength   int // tokens that the run keeps of a row; 0 means no bound
	AllowBad    int // so many bad rows are allowed
	MergeSystem bool
	Prompt      prompt.Options
	Second      *peer.Client // a second engine's opinion on every render; nil asks nobody
}

// checker goes through the rows of one file.
type checker struct {
	ctx     context.Context
	p       *prompt.Prompter
	o       Options
	encoder *token.Encoder
	report  *Report
	seen    map[[32]byte]int // row by the hash of its prompt
	lengths []int
	found   []playbook.Finding // of the row at hand
	shown   map[string]int
	file    string
}

// Check renders and tokenizes every row. The error is a cancelled context or a template that is not there; everything about
// rows is in the report.
func Check(ctx context.Context, file string, lines []Line, p *prompt.Prompter, o Options) (*Report, error) {
	c := &checker{ctx: ctx, p: p, o: o, encoder: p.Tokens.NewEncoder(), report: newReport(file, lines, o), seen: map[[32]byte]int{}, shown: map[string]int{}, file: file}
	if err := c.sources(); err != nil {
		return nil, err
	}
	for _, line := range lines {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("checking %s: %w", file, err)
		}
		c.row(line)
	}
	if len(lines) == 0 {
		c.note("dataset-empty", file, "there is no row", "")
		c.report.Findings = append(c.report.Findings, c.found...)
	}
	c.report.finish(c.lengths)
	return c.report, nil
}

// note keeps a finding about the row at hand.
func (c *checker) note(rule, subject, message, fix string) {
	c.found = append(c.found, playbook.New(rule, subject, message, fix))
}

// sources judges the template before any row.
func (c *checker) sources() error {
	if _, err := c.p.Sources.Pick(false); err != nil {
		return err
	}
	for _, s := range c.p.Sources.List {
		hash := blake3.Sum256([]byte(s.Text))
		c.report.Templates = append(c.report.Templates, TemplateUsed{Name: s.Name, From: s.From, BLAKE3: fmt.Sprintf("%x", hash)})
		for _, control := range controlTokens(s.Text) {
			if ids, err := c.encoder.Encode(nil, control); err == nil && len(ids) > 1 {
				c.note("control-split", s.From, fmt.Sprintf("the template writes %s, and the tokenizer splits it into %d pieces", control, len(ids)),
					"take the tokenizer.json and tokenizer_config.json that belong to this template")
			}
		}
	}
	for _, s := range c.p.Sources.Hidden {
		c.note("template-differs", s.From, fmt.Sprintf("another template than chat_template.jinja, which is the one that is used: %s", firstDifference(c.p.Sources, s)),
			"remove one of the two, so that every server renders the same prompts")
	}
	c.report.Findings = append(c.report.Findings, c.found...)
	c.found = nil
	return nil
}

// controlTokens are the <|…|> that a template writes.
func controlTokens(text string) []string {
	var out []string
	for {
		i := strings.Index(text, "<|")
		if i < 0 {
			return out
		}
		text = text[i:]
		j := strings.Index(text, "|>")
		if j < 0 {
			return out
		}
		if t := text[:j+2]; len(t) <= 64 && !strings.ContainsAny(t[2:], " \t\n'\"{}<") && len(t) > 4 && !slices.Contains(out, t) {
			out = append(out, t)
		}
		text = text[2:]
	}
}

func firstDifference(s prompt.Sources, hidden prompt.Source) string {
	for _, t := range s.List {
		if t.Name != hidden.Name {
			continue
		}
		a, b := strings.Split(t.Text, "\n"), strings.Split(hidden.Text, "\n")
		for i := range max(len(a), len(b)) {
			x, y := "", ""
			if i < len(a) {
				x = a[i]
			}
			if i < len(b) {
				y = b[i]
			}
			if x != y {
				return fmt.Sprintf("line %d is %.60q there and %.60q in %s", i+1, y, x, t.From)
			}
		}
	}
	return fmt.Sprintf("%s has no template called %q", "chat_template.jinja", hidden.Name)
}

func (c *checker) row(line Line) {
	c.found = nil
	where := fmt.Sprintf("%s: row %d", c.file, line.Number)
	c.judge(where, line)
	c.report.add(line.Number, c.found, c.shown)
}

func (c *checker) judge(where string, line Line) {
	row, problems := prompt.ParseRow(line.Data)
	c.found = append(c.found, Findings(where, problems)...)
	if len(row.Tools) > 0 {
		c.report.ToolRows++
	}
	if len(problems) > 0 {
		return
	}
	if row.Decoded > 0 {
		c.report.Normalised++
	}
	if c.o.MergeSystem {
		merged := false
		if row, merged = prompt.MergeSystem(row); merged {
			c.report.Merged++
		}
	}
	out, src, err := c.p.Render(row, c.o.Prompt)
	if err != nil {
		f := RenderFinding(where, row, err)
		if f.Rule == "template-unknown" {
			c.report.Unknown++
		}
		c.found = append(c.found, f)
		return
	}
	c.report.Rendered++
	c.second(where, row, out, src)
	c.content(where, row, out.Text)
	c.calls(where, row, out.Text, src)
	if first, twice := c.seen[blake3.Sum256([]byte(out.Text))]; twice {
		c.report.Duplicates++
		c.note("row-duplicate", where, fmt.Sprintf("gives the same prompt as row %d", first), "keep one of them")
	} else {
		c.seen[blake3.Sum256([]byte(out.Text))] = line.Number
	}
	c.length(where, row, out.Text)
}

// ruleOf names the playbook's rule for each kind of problem.
var ruleOf = map[prompt.Kind]string{
	prompt.RowSyntax: "row-syntax", prompt.RowShape: "row-shape", prompt.ArgumentsBroken: "arguments-broken",
	prompt.ArgumentsEmpty: "arguments-empty", prompt.ArgumentsTwice: "arguments-twice", prompt.ArgumentsNull: "arguments-null",
	prompt.ArgumentsKind: "arguments-kind",
}

// Findings are the problems of a row as the playbook names them.
func Findings(where string, problems []prompt.Problem) []playbook.Finding {
	var out []playbook.Finding
	for _, p := range problems {
		subject := where
		if p.Where != "" {
			subject += ": " + p.Where
		}
		out = append(out, playbook.New(ruleOf[p.Kind], subject, p.Message, ""))
	}
	return out
}

// RenderFinding says what a failed render means: the template refuses the row, or what it gives is not known.
func RenderFinding(where string, row prompt.Row, err error) playbook.Finding {
	var raised *template.Raised
	if !errors.As(err, &raised) {
		return playbook.New("template-unknown", where, err.Error(), "render the row with transformers, or leave it out")
	}
	message, fix := err.Error(), ""
	for i, m := range row.Messages {
		if i > 0 && m.TextOf("role") == "system" {
			message += fmt.Sprintf(" (messages[%d] is a system message that is not the first)", i)
			fix = "--merge-system joins system messages into one that comes first"
			break
		}
	}
	return playbook.New("template-raises", where, message, fix)
}

// second asks the other engine, where ours rendered.
func (c *checker) second(where string, row prompt.Row, out template.Output, src prompt.Source) {
	if c.o.Second == nil {
		return
	}
	s := &c.report.Second
	if strings.Contains(src.Text, "strftime_now") {
		s.Unanswered++ // it has no clock to set
		return
	}
	text, err := c.o.Second.Render(c.ctx, src.Text, "", c.p.Vars(row, c.o.Prompt))
	switch {
	case err != nil:
		s.Unanswered++
		s.Why = err.Error()
	case text == out.Text:
		s.Agreed++
	default:
		s.Differed++
		i := 0
		for i < len(text) && i < len(out.Text) && text[i] == out.Text[i] {
			i++
		}
		c.note("template-doubt", where, fmt.Sprintf("two engines render it differently from byte %d: %.60q here, %.60q there", i, out.Text[i:], text[i:]), "")
	}
}

// length tokenizes the prompt and says what truncation would leave.
func (c *checker) length(where string, row prompt.Row, text string) {
	ids, err := c.encoder.Encode(nil, text)
	if err != nil {
		c.note("row-shape", where, fmt.Sprintf("tokenizing: %v", err), "")
		return
	}
	c.lengths = append(c.lengths, len(ids))
	if c.o.MaxLength == 0 || len(ids) <= c.o.MaxLength {
		return
	}
	c.report.Long++
	_, n, dropped, err := Fit(c.p, c.encoder, row, c.o)
	if err != nil {
		c.note("row-too-long", where, fmt.Sprintf("%d tokens, and %v", len(ids), err), "shorten it, raise --max-length, or leave it out")
		return
	}
	c.note("row-long", where, fmt.Sprintf("%d tokens, over %d: without the oldest %s it has %d", len(ids), c.o.MaxLength, plural(dropped, "message"), n), "")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Fit drops the oldest turns until a row has at most o.MaxLength tokens: always up to a user message, so that no answer loses
// its question and no tool result its call; system messages stay, and so do the last user message and all that follows. The
// error says that even those are too long.
func Fit(p *prompt.Prompter, e *token.Encoder, row prompt.Row, o Options) (fit prompt.Row, tokens, dropped int, err error) {
	system := 0
	for system < len(row.Messages) && row.Messages[system].TextOf("role") == "system" {
		system++
	}
	users := []int{}
	for i := system; i < len(row.Messages); i++ {
		if row.Messages[i].TextOf("role") == "user" {
			users = append(users, i)
		}
	}
	for _, from := range users {
		if from == system {
			continue // nothing would go
		}
		fit = row
		fit.Messages = append(append([]ordered.Value{}, row.Messages[:system]...), row.Messages[from:]...)
		out, _, err := p.Render(fit, o.Prompt)
		if err != nil {
			return row, 0, 0, fmt.Errorf("without its oldest %s it does not render: %w", plural(from-system, "message"), err)
		}
		ids, err := e.Encode(nil, out.Text)
		if err != nil {
			return row, 0, 0, err
		}
		if len(ids) <= o.MaxLength {
			return fit, len(ids), from - system, nil
		}
		tokens = len(ids)
	}
	if tokens == 0 {
		return row, 0, 0, fmt.Errorf("over %d; there is no older turn to drop: the last user turn and what follows must stay", o.MaxLength)
	}
	return row, 0, 0, fmt.Errorf("the last user turn and what follows still have %d, over %d", tokens, o.MaxLength)
}
