package template

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Limits bound what one render may do. The zero value of a field means the default.
type Limits struct {
	Steps int           // evaluated expressions and statements; default 5,000,000
	Bytes int           // bytes of text made on the way, the output included; default 256 MiB
	Time  time.Duration // of the wall clock; default 10 s. The only bound that depends on the machine
	Calls int           // macros inside macros; default 190, about where Python's recursion limit of 1,000 frames ends
}

// Span is a piece of the output, in bytes: what {% generation %} marks.
type Span struct{ From, To int }

// render is one run of a template.
type render struct {
	limits Limits
	now    time.Time
	out    *strings.Builder
	top    *strings.Builder // the page itself, not a macro's text
	steps  int
	bytes  int
	calls  int
	spans  []Span
	end    time.Time
	asked  int // the step at which the clock was last looked at
}

// scope is a chain of names. Jinja2 gives a new one to every loop round, macro, call, with, filter and set block.
type scope struct {
	names  []string
	values []value
	parent *scope
}

func (s *scope) set(name string, v value) {
	for i := range s.names {
		if s.names[i] == name {
			s.values[i] = v
			return
		}
	}
	s.names, s.values = append(s.names, name), append(s.values, v)
}

func (s *scope) get(name string) (value, bool) {
	for ; s != nil; s = s.parent {
		for i := range s.names {
			if s.names[i] == name {
				return s.values[i], true
			}
		}
	}
	return nil, false
}

func (s *scope) inner() *scope { return &scope{parent: s} }

func (r *render) step() error {
	if r.steps++; r.steps > r.limits.Steps {
		return &Limit{What: fmt.Sprintf("it takes more than %d steps", r.limits.Steps)}
	}
	if r.steps-r.asked >= 256 {
		r.asked = r.steps
		if time.Now().After(r.end) {
			return &Limit{What: fmt.Sprintf("it takes longer than %s", r.limits.Time)}
		}
	}
	return nil
}

// cost counts steps for values that take long to look through.
func (r *render) cost(values ...value) {
	for _, v := range values {
		switch v := v.(type) {
		case string:
			r.steps += len(v) >> 10
		case markup:
			r.steps += len(v) >> 10
		case *seq:
			r.steps += len(v.items) >> 6
		case *dict:
			r.steps += len(v.keys) >> 6
		}
	}
}

// maxNodes is how many values one comparison, hash or text may look at. A value can hold itself twice at every level, so
// its size as a tree has no bound.
const maxNodes = 1 << 18

// budget counts them down. Comparisons and hashes are deep inside expressions, so running out unwinds to Render.
type budget int

type exhausted struct{}

func (b *budget) spend() {
	if *b++; *b > maxNodes {
		panic(exhausted{})
	}
}

// made counts text that was built.
func (r *render) made(n int) error {
	if r.bytes += n; n < 0 || r.bytes > r.limits.Bytes {
		return &Limit{What: fmt.Sprintf("it makes more than %d bytes of text", r.limits.Bytes)}
	}
	return nil
}

func (r *render) write(s string) error {
	if err := r.made(len(s)); err != nil {
		return err
	}
	r.out.WriteString(s)
	return nil
}

// capture runs a body and gives its text instead of writing it.
func (r *render) capture(body []stmt, s *scope) (string, error) {
	outer := r.out
	r.out = &strings.Builder{}
	err := run(r, body, s)
	text := r.out.String()
	r.out = outer
	return text, err
}

var (
	errBreak    = errors.New("break")
	errContinue = errors.New("continue")
)

func run(r *render, body []stmt, s *scope) error {
	for _, st := range body {
		if err := r.step(); err != nil {
			return err
		}
		if err := st.exec(r, s); err != nil {
			return err
		}
	}
	return nil
}
