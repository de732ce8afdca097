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
	text string         // without "re:"
	re   *regexp.Regexp // nil: cannot be judged
}

// compile turns a Python pattern into a Go one. The server uses the third-party module regex, whose language is larger
// than Go's (look-around, back-references, possessive quantifiers, fuzzy matching). re stays nil where Go refuses the
// pattern, and where both accept it with different meanings.
func compile(text string) pattern {
	p := pattern{text: text}
	if !sameMeaning(text) {
		return p
	}
	if _, err := regexp.Compile(text); err != nil { // also refuses "a)(b", which wrapping would balance
		return p
	}
	p.re, _ = regexp.Compile(`\A(?:` + text + `)`)
	return p
}

func (p pattern) match(name string) Answer {
	if p.re == nil {
		return Unknown
	}
	return answer(p.re.MatchString(name))
}

// sameMeaning is false for constructs that both languages accept and read differently, or that only Go accepts:
// "a{,3}" (a count in Python, literal text in Go), "{e<=1}" (fuzzy matching in regex), \Q \C \z and \x{…} (Go only, or
// other meanings), "[[", "&&", "--", "||" and "~~" inside a class (set operations in regex), flags anywhere but at the
// start and flags other than i, s, m.
func sameMeaning(text string) bool {
	class := false
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case text[i] >= 0x80 || text[i] == '\n':
			return false
		case text[i] == '\\':
			if i+1 < len(text) && strings.IndexByte("QCzpPUG", text[i+1]) >= 0 || strings.HasPrefix(rest, `\x{`) {
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
