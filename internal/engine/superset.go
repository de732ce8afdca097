package engine

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// superset rewrites a Python pattern that Go cannot run into one that matches at least the same ASCII names: what looks
// around is taken for empty, a reference to a group for any text, possessive and atomic parts for ordinary ones, and
// anchors are left out. Where even that matches nothing, the pattern surely does not. nil for a construct that is not
// known.
func superset(text string) *regexp.Regexp {
	w := widener{text: text}
	if !w.run() {
		return nil
	}
	re, err := regexp.Compile(`\A(?s:` + w.out.String() + `)`)
	if w.fold && err == nil {
		re, err = regexp.Compile(`(?i)\A(?s:` + w.out.String() + `)`)
	}
	if err != nil {
		return nil
	}
	return re
}

type widener struct {
	text string
	out  strings.Builder
	fold bool // a flag asks for upper and lower case alike
}

var (
	lookAround = regexp.MustCompile(`\A\(\?<?[=!]`)
	plainGroup = regexp.MustCompile(`\A\(\?(:|>|P?<[A-Za-z_][A-Za-z0-9_]*>|[ims]+:)`)
	reference  = regexp.MustCompile(`\A(\(\?P=[A-Za-z_][A-Za-z0-9_]*\)|\\[1-9][0-9]*)`)
	anyFlags   = regexp.MustCompile(`\A\(\?[ims]+\)`)
	fromZero   = regexp.MustCompile(`\A\{,[0-9]+\}`)
)

const nothing = `(?:)`

func (w *widener) run() bool {
	for i := 0; i < len(w.text); {
		n, ok := w.step(w.text[i:])
		if !ok {
			return false
		}
		i += n
	}
	return true
}

// step rewrites what rest starts with and says how long that was.
func (w *widener) step(rest string) (int, bool) {
	put := func(s string, n int) (int, bool) {
		w.out.WriteString(s)
		return n, true
	}
	if m := reference.FindString(rest); m != "" {
		return put(`(?:.*)`, len(m))
	}
	if m := anyFlags.FindString(rest); m != "" {
		w.fold = w.fold || strings.Contains(m, "i")
		return len(m), true // a quantifier behind it is about what stands before it
	}
	if lookAround.MatchString(rest) {
		n := groupLength(rest)
		return n, n > 0 && w.write(nothing)
	}
	if m := plainGroup.FindString(rest); m != "" {
		w.fold = w.fold || strings.HasSuffix(m, ":") && strings.Contains(m, "i")
		return put(`(?:`, len(m))
	}
	switch c := rest[0]; c {
	case '(':
		return 1, !strings.HasPrefix(rest, "(?") && w.write(`(?:`)
	case '^', '$':
		return put(nothing, 1)
	case '*', '+', '?':
		return w.repeat(rest, rest[:1])
	case '{':
		if m := count.FindString(rest); m != "" {
			return w.repeat(rest, m)
		}
		if m := fromZero.FindString(rest); m != "" {
			n, ok := w.repeat("*"+rest[len(m):], "*")
			return n - 1 + len(m), ok
		}
		return 0, false
	case '[':
		n := classLength(rest)
		return n, n > 0 && w.write(rest[:n])
	case '\\':
		if len(rest) < 2 {
			return 0, false
		}
		switch e := rest[1]; {
		case strings.IndexByte("bBAZ", e) >= 0:
			return put(nothing, 2)
		case strings.IndexByte("dDwWsS", e) >= 0, !alphanumeric(e) && e < utf8.RuneSelf:
			return put(rest[:2], 2)
		}
		return 0, false
	case ']', '}':
		return put(`\`+rest[:1], 1)
	case '.', '|', ')':
		return put(rest[:1], 1)
	}
	r, n := utf8.DecodeRuneInString(rest)
	if r >= utf8.RuneSelf { // with folding, some of them equal an ASCII letter
		return put(".", n)
	}
	return put(regexp.QuoteMeta(rest[:n]), n)
}

func (w *widener) write(s string) bool {
	w.out.WriteString(s)
	return true
}

// repeat copies a quantifier: "+" behind it makes it possessive, "?" lazy, which changes what is taken and not whether
// something matches.
func (w *widener) repeat(rest, quantifier string) (int, bool) {
	w.out.WriteString(quantifier)
	n := len(quantifier)
	if n < len(rest) && (rest[n] == '+' || rest[n] == '?') {
		n++
	}
	return n, true
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// classLength is the length of the bracketed set that s starts with; 0 for one that has no end or that the two languages
// could read differently.
func classLength(s string) int {
	i := 1
	if strings.HasPrefix(s[i:], "^") {
		i++
	}
	for first := i; i < len(s); i++ {
		switch c := s[i]; {
		case c == ']' && i > first:
			return i + 1
		case c == '\\':
			if i++; i >= len(s) || alphanumeric(s[i]) && strings.IndexByte("dDwWsS", s[i]) < 0 || s[i] >= utf8.RuneSelf {
				return 0
			}
		case c == '[' || c >= utf8.RuneSelf:
			return 0
		case i+1 < len(s) && s[i+1] == c && strings.IndexByte("&-|~", c) >= 0:
			return 0
		}
	}
	return 0
}

// groupLength is the length of the group that s starts with, 0 where it has no end.
func groupLength(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '[':
			n := classLength(s[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

var (
	plainRange = regexp.MustCompile(`\A[^\\]-[^\\]\z`)
	verbose    = regexp.MustCompile(`\(\?([A-Za-z]*x|#)`) // parentheses may stand in a remark
)

// invalid says why no engine compiles the pattern, "" when one may. The server stops with regex.error at the first module
// that it asks about.
func invalid(text string) string {
	if verbose.MatchString(text) || !utf8.ValidString(text) {
		return ""
	}
	if why := unbalanced(text); why != "" {
		return why
	}
	switch slashes := len(text) - len(strings.TrimRight(text, `\`)); {
	case slashes%2 == 1:
		return "a backslash at its end"
	case text != "" && strings.IndexByte("*+?", text[0]) >= 0:
		return "nothing stands before " + text[:1]
	case !sameMeaning(text):
		return ""
	}
	_, err := syntax.Parse(text, syntax.Perl)
	e, _ := err.(*syntax.Error)
	if e == nil {
		return ""
	}
	switch e.Code {
	case syntax.ErrMissingBracket, syntax.ErrMissingRepeatArgument:
		return e.Code.String()
	case syntax.ErrInvalidRepeatOp:
		if strings.HasSuffix(e.Expr, "*") { // a + there would be possessive
			return "a repeat of a repeat, " + e.Expr
		}
	case syntax.ErrInvalidCharRange:
		if plainRange.MatchString(e.Expr) {
			return "the range " + e.Expr + " runs backwards"
		}
	}
	if m := backwards.FindStringSubmatch(e.Expr); e.Code == syntax.ErrInvalidRepeatSize && m != nil && less(m[2], m[1]) {
		return "the count " + m[0] + " runs backwards"
	}
	return ""
}

var backwards = regexp.MustCompile(`\A\{([0-9]+),([0-9]+)\}\z`)

func less(a, b string) bool {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return len(a) < len(b) || len(a) == len(b) && a < b
}

// unbalanced says which parenthesis has no partner.
func unbalanced(text string) string {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '[':
			n := classLength(text[i:])
			if n == 0 {
				return "" // told otherwise, or not known
			}
			i += n - 1
		case '(':
			depth++
		case ')':
			if depth--; depth < 0 {
				return "a ) without its ("
			}
		}
	}
	if depth > 0 {
		return "a ( without its )"
	}
	return ""
}
