package engine

import (
	"regexp"
	"strings"
)

// Answer is yes, no, or unknown: a pattern that cannot be run here must never pass for either.
type Answer uint8

const (
	No Answer = iota
	Yes
	Unknown
)

func answer(b bool) Answer {
	if b {
		return Yes
	}
	return No
}

// pattern is one "re:" entry, compiled with Python's meaning: re.match, anchored at the start and not at the end.
type pattern struct {
	text  string         // without "re:"
	re    *regexp.Regexp // nil: cannot be judged
	upper *regexp.Regexp // where re is nil: matches at least what the pattern matches; nil when not even that is known
	bad   string         // why no engine compiles it, "" when one may
}

// compile turns a Python pattern into a Go one. The server uses the third-party module regex, whose language is larger
// than Go's (look-around, back-references, possessive quantifiers, fuzzy matching). re stays nil where Go refuses the
// pattern, and where both accept it with different meanings.
func compile(text string) pattern {
	p := pattern{text: text, bad: invalid(text)}
	if p.bad != "" {
		return p
	}
	if sameMeaning(text) {
		if _, err := regexp.Compile(text); err == nil { // refuses "a)(b", which wrapping would balance
			p.re, _ = regexp.Compile(`\A(?:` + text + `)`)
		}
	}
	if p.re == nil {
		p.upper = superset(text)
	}
	return p
}

func (p pattern) match(name string) Answer {
	switch {
	case p.re == nil && p.upper != nil && ascii(name) && !p.upper.MatchString(name):
		return No
	case p.re == nil:
		return Unknown
	}
	return answer(p.re.MatchString(name))
}

func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7F }) < 0
}

// sameMeaning is false for constructs that both languages accept and read differently, or that only Go accepts:
// "a{,3}" (a count in Python, literal text in Go), "{e<=1}" (fuzzy matching in regex), \Q \C \z \13 and \x{…} (Go
// only, or other meanings), "[[", "&&", "--", "||" and "~~" inside a class (set operations in regex), flags anywhere but at the
// start and flags other than i, s, m.
func sameMeaning(text string) bool {
	class := false
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case text[i] >= 0x80 || text[i] == '\n':
			return false
		case text[i] == '\\':
			if i+1 < len(text) && strings.IndexByte("QCzpPUG0123456789", text[i+1]) >= 0 || strings.HasPrefix(rest, `\x{`) {
				return false
			}
			i++
		case class:
			if text[i] == '[' {
				return false
			}
			for _, op := range []string{"&&", "--", "||", "~~"} {
				if strings.HasPrefix(rest, op) {
					return false
				}
			}
			class = text[i] != ']'
		case text[i] == '[':
			class = true
			for _, first := range []string{"[^]", "[]", "[^", "["} { // a "]" that comes first is literal in both
				if strings.HasPrefix(rest, first) {
					i += len(first) - 1
					break
				}
			}
		case text[i] == '{' && !count.MatchString(rest):
			return false
		case strings.HasPrefix(rest, "(?") && !group.MatchString(rest) && !(i == 0 && flags.MatchString(rest)):
			return false
		}
	}
	return true
}

var (
	count = regexp.MustCompile(`\A\{[0-9]+(,[0-9]*)?\}`)
	group = regexp.MustCompile(`\A\(\?(:|P<[A-Za-z_][A-Za-z0-9_]*>)`)
	flags = regexp.MustCompile(`\A\(\?[ism]+\)`)
)
