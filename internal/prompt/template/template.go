package template

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"seatsmith/internal/prompt/ordered"
)

// MaxSource is how long a template may be, in bytes.
const MaxSource = 4 << 20

// Template is a parsed chat template. Any number of goroutines may render it.
type Template struct {
	body []stmt
	// Generates says that the template marks the assistant's text with {% generation %}.
	Generates bool
	// NeedsClock says that it asks for the date (strftime_now).
	NeedsClock bool
}

// Parse reads a template. The error is a *[Raised] where Jinja2 would refuse it (a syntax error, an unknown filter), an
// *[Unknown] where it uses something of Jinja2 that is not built here, a *[Limit] where it is too long or nests too deep.
func Parse(source string) (*Template, error) {
	if len(source) > MaxSource {
		return nil, &Limit{What: fmt.Sprintf("it has %d bytes; at most %d are read", len(source), MaxSource)}
	}
	if !utf8.ValidString(source) {
		return nil, raise("UnicodeDecodeError", "the template is not UTF-8")
	}
	body, err := parse(source)
	if err != nil {
		return nil, err
	}
	return &Template{
		body:       body,
		Generates:  strings.Contains(source, "endgeneration"),
		NeedsClock: strings.Contains(source, "strftime_now"),
	}, nil
}

// Input is what a template sees.
type Input struct {
	Vars   []ordered.Member // messages, tools, documents, add_generation_prompt, bos_token and what else is passed by name
	Now    time.Time        // the clock of strftime_now
	Limits Limits
}

// Output is one render.
type Output struct {
	Text  string
	Spans []Span // of {% generation %}, in bytes of Text, in order
}

// Render runs a template. The error is a *[Raised] where Python would raise, an *[Unknown] where that is not known, a
// *[Limit] where a bound was passed.
func (t *Template) Render(in Input) (out Output, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case exhausted:
			out, err = Output{}, &Limit{What: "a value is too large to compare, hash or print"}
		default:
			panic(p)
		}
	}()
	l := in.Limits
	if l.Steps == 0 {
		l.Steps = 5_000_000
	}
	if l.Bytes == 0 {
		l.Bytes = 256 << 20
	}
	if l.Calls == 0 {
		l.Calls = 190
	}
	if l.Time == 0 {
		l.Time = 10 * time.Second
	}
	var page strings.Builder
	r := &render{limits: l, now: in.Now, end: time.Now().Add(l.Time), out: &page, top: &page}
	vars := &scope{}
	for _, m := range in.Vars {
		v, err := fromJSON(m.Value)
		if err != nil {
			return Output{}, err
		}
		vars.set(m.Key, v)
	}
	if err := run(r, t.body, vars.inner()); err != nil {
		return Output{}, err
	}
	return Output{Text: page.String(), Spans: r.spans}, nil
}
