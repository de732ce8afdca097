package template

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokPrintBegin
	tokPrintEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokInteger
	tokFloat
	tokOperator
)

type token struct {
	kind tokenKind
	text string // data, name, operator, or the value of a string
	num  value  // value of a number
	line int
}

// lexer cuts a template as jinja2/lexer.py (3.1.6) does with trim_blocks and lstrip_blocks: a newline after a block or a
// comment goes, blanks before one at the start of a line go, "-" takes all white space on its side up to the next tag,
// "+" keeps it.
type lexer struct {
	src    string
	at     int
	line   int
	tokens []token
	start  bool // the last thing read ended a line
}

func lex(src string) ([]token, error) {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	src = strings.TrimSuffix(src, "\n")
	l := &lexer{src: src, line: 1, start: true}
	for l.at < len(l.src) {
		if err := l.data(); err != nil {
			return nil, at(err, l.line)
		}
	}
	l.add(token{kind: tokEOF})
	return l.tokens, nil
}

func (l *lexer) add(t token) {
	t.line = l.line
	l.tokens = append(l.tokens, t)
}

func (l *lexer) advance(to int) {
	l.line += strings.Count(l.src[l.at:to], "\n")
	if to > l.at {
		l.start = l.src[to-1] == '\n'
	}
	l.at = to
}

func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func skipSpace(s string, i int) int {
	for i < len(s) {
		r, w := utf8.DecodeRuneInString(s[i:])
		if !isSpace(r) {
			break
		}
		i += w
	}
	return i
}

// text emits the data before a tag, stripped as the tag's sign asks.
func (l *lexer) text(end int, sign byte, lstrip bool) {
	data := l.src[l.at:end]
	switch {
	case sign == '-':
		data = strings.TrimRightFunc(data, isSpace)
	case sign != '+' && lstrip:
		from := strings.LastIndexByte(data, '\n') + 1
		if (from > 0 || l.start) && from < len(data) && skipSpace(data, from) == len(data) {
			data = data[:from]
		}
	}
	if data != "" {
		l.add(token{kind: tokData, text: data})
	}
	l.advance(end)
}

func sign(s string, i int) byte {
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		return s[i]
	}
	return 0
}

func (l *lexer) data() error {
	i := l.at
	for {
		k := strings.IndexByte(l.src[i:], '{')
		if k < 0 || i+k+1 >= len(l.src) {
			l.text(len(l.src), '+', false)
			return nil
		}
		i += k
		if c := l.src[i+1]; c == '{' || c == '%' || c == '#' {
			break
		}
		i++
	}
	mark := sign(l.src, i+2)
	body := i + 2
	if mark != 0 {
		body++
	}
	switch l.src[i+1] {
	case '#':
		l.text(i, mark, true)
		return l.comment(body)
	case '%':
		l.text(i, mark, true)
		if end, ok := rawBegin(l.src, body); ok {
			l.advance(end)
			return l.raw()
		}
		l.add(token{kind: tokBlockBegin})
		l.advance(body)
		return l.tag('%', tokBlockEnd)
	default:
		l.text(i, mark, false)
		l.add(token{kind: tokPrintBegin})
		l.advance(body)
		return l.tag('}', tokPrintEnd)
	}
}

func (l *lexer) comment(body int) error {
	k := strings.Index(l.src[body:], "#}")
	if k < 0 {
		return raise("TemplateSyntaxError", "Missing end of comment tag")
	}
	end := body + k
	mark := byte(0)
	if k > 0 {
		mark = sign(l.src, end-1)
	}
	l.advance(l.after(end+2, mark, true))
	return nil
}

// after is where reading goes on behind a closing tag.
func (l *lexer) after(end int, mark byte, trim bool) int {
	switch {
	case mark == '-':
		return skipSpace(l.src, end)
	case mark != '+' && trim && end < len(l.src) && l.src[end] == '\n':
		return end + 1
	}
	return end
}

func rawBegin(s string, i int) (int, bool) {
	i = skipSpace(s, i)
	if !strings.HasPrefix(s[i:], "raw") {
		return 0, false
	}
	i = skipSpace(s, i+3)
	if strings.HasPrefix(s[i:], "-%}") {
		return skipSpace(s, i+3), true
	}
	return i + 2, strings.HasPrefix(s[i:], "%}")
}

func (l *lexer) raw() error {
	for i := l.at; ; i += 2 {
		k := strings.Index(l.src[i:], "{%")
		if k < 0 {
			return raise("TemplateSyntaxError", "Missing end of raw directive")
		}
		i += k
		mark := sign(l.src, i+2)
		j := i + 2
		if mark != 0 {
			j++
		}
		j = skipSpace(l.src, j)
		if !strings.HasPrefix(l.src[j:], "endraw") {
			continue
		}
		j = skipSpace(l.src, j+6)
		tail := sign(l.src, j)
		if tail != 0 {
			j++
		}
		if !strings.HasPrefix(l.src[j:], "%}") {
			continue
		}
		l.text(i, mark, true)
		l.advance(l.after(j+2, tail, true))
		return nil
	}
}

// operators, longest first.
var operators = []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}

// tag reads the inside of {{ }} or {% %}.
func (l *lexer) tag(closer byte, end tokenKind) error {
	var open []byte
	for l.at < len(l.src) {
		s := l.src[l.at:]
		if len(open) == 0 {
			mark := sign(s, 0)
			if closer == '}' && mark == '+' {
				mark = 0 // +}} is no closing tag
			}
			k := 0
			if mark != 0 {
				k = 1
			}
			if len(s) >= k+2 && s[k] == closer && s[k+1] == '}' {
				l.add(token{kind: end})
				l.advance(l.after(l.at+k+2, mark, closer == '%'))
				return nil
			}
		}
		r, w := utf8.DecodeRuneInString(s)
		switch {
		case isSpace(r):
			l.advance(skipSpace(l.src, l.at))
		case r >= '0' && r <= '9':
			if err := l.number(); err != nil {
				return err
			}
		case isWord(r):
			n := w
			for n < len(s) {
				r, w := utf8.DecodeRuneInString(s[n:])
				if !isWord(r) {
					break
				}
				n += w
			}
			l.add(token{kind: tokName, text: s[:n]})
			l.advance(l.at + n)
		case r == '\'' || r == '"':
			if err := l.str(byte(r)); err != nil {
				return err
			}
		default:
			op := ""
			for _, o := range operators {
				if strings.HasPrefix(s, o) {
					op = o
					break
				}
			}
			switch op {
			case "":
				return raise("TemplateSyntaxError", "unexpected char %q", r)
			case "(":
				open = append(open, ')')
			case "[", "{":
				open = append(open, op[0]+2) // ] and } in ASCII
			case ")", "]", "}":
				if len(open) == 0 {
					return raise("TemplateSyntaxError", "unexpected '%s'", op)
				}
				if open[len(open)-1] != op[0] {
					return raise("TemplateSyntaxError", "unexpected '%s', expected '%c'", op, open[len(open)-1])
				}
				open = open[:len(open)-1]
			}
			l.add(token{kind: tokOperator, text: op})
			l.advance(l.at + len(op))
		}
	}
	return raise("TemplateSyntaxError", "unexpected end of template inside a tag")
}

func isWord(r rune) bool {
	return r == '_' || r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') ||
		r >= 0x80 && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Mn, r))
}

func (l *lexer) number() error {
	s := l.src[l.at:]
	if s[0] == '0' && len(s) > 1 && strings.IndexByte("bBoOxX", s[1]) >= 0 {
		n := 2
		for n < len(s) && (s[n] == '_' || isWord(rune(s[n])) && s[n] < 0x80) {
			n++
		}
		v, ok := new(big.Int).SetString(strings.ReplaceAll(s[:n], "_", ""), 0)
		if !ok {
			return raise("TemplateSyntaxError", "bad number %s", s[:n])
		}
		l.add(token{kind: tokInteger, num: normal(v), text: s[:n]})
		l.advance(l.at + n)
		return nil
	}
	digits := func(i int) int {
		for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '_' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9') {
			i++
		}
		return i
	}
	isDigit := func(i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }
	n := digits(0)
	float := false
	if !(l.at > 0 && l.src[l.at-1] == '.') { // 1.2.3 is an item of an item
		if n < len(s) && s[n] == '.' && isDigit(n+1) {
			n, float = digits(n+1), true
		}
		if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
			e := n + 1
			if e < len(s) && (s[e] == '+' || s[e] == '-') {
				e++
			}
			if isDigit(e) {
				n, float = digits(e), true
			}
		}
	}
	plain := strings.ReplaceAll(s[:n], "_", "")
	if float {
		f, _ := strconv.ParseFloat(plain, 64)
		l.add(token{kind: tokFloat, num: f, text: s[:n]})
		l.advance(l.at + n)
		return nil
	}
	if len(plain) > 1 && plain[0] == '0' && strings.Trim(plain, "0") != "" {
		return raise("TemplateSyntaxError", "leading zeros in %s", plain)
	}
	if len(plain) > maxDigits {
		return raise("ValueError", "Exceeds the limit (%d digits) for integer string conversion", maxDigits)
	}
	v, _ := new(big.Int).SetString(plain, 10)
	l.add(token{kind: tokInteger, num: normal(v), text: s[:n]})
	l.advance(l.at + n)
	return nil
}

// str reads a string literal with the escapes of Python's unicode-escape codec: an unknown escape keeps its backslash.
func (l *lexer) str(quote byte) error {
	s := l.src[l.at+1:]
	var b strings.Builder
	for i := 0; i < len(s); {
		c := s[i]
		if c == quote {
			l.add(token{kind: tokString, text: b.String()})
			l.advance(l.at + 1 + i + 1)
			return nil
		}
		if c != '\\' {
			b.WriteByte(c)
			i++
			continue
		}
		if i+1 >= len(s) {
			break
		}
		e := s[i+1]
		i += 2
		if k := strings.IndexByte(`\'"abfnrtv`, e); k >= 0 {
			b.WriteByte("\\'\"\a\b\f\n\r\t\v"[k])
			continue
		}
		width := 0
		switch e {
		case '\n':
			continue
		case 'x':
			width = 2
		case 'u':
			width = 4
		case 'U':
			width = 8
		case 'N':
			return unknown(`a character by its name, \N{…}, in a string`)
		}
		switch {
		case width > 0:
			if len(s) < i+width {
				return raise("TemplateSyntaxError", `truncated \%cXX escape`, e)
			}
			n, err := strconv.ParseUint(s[i:i+width], 16, 32)
			if err != nil || n > unicode.MaxRune {
				return raise("TemplateSyntaxError", `truncated or illegal \%c escape`, e)
			}
			if n >= 0xd800 && n < 0xe000 {
				return unknown(`half of a surrogate pair in a string`)
			}
			b.WriteRune(rune(n))
			i += width
		case e >= '0' && e <= '7':
			n := int(e - '0')
			for k := 0; k < 2 && i < len(s) && s[i] >= '0' && s[i] <= '7'; k++ {
				n = n*8 + int(s[i]-'0')
				i++
			}
			b.WriteRune(rune(n))
		default:
			b.WriteByte('\\')
			i--
		}
	}
	return raise("TemplateSyntaxError", "unexpected char '%c': a string has no end", quote)
}
