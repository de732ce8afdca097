package safetensors

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads strict JSON (RFC 8259) from a string that is known to be valid UTF-8. It is written by hand because a
// header of 300,000 entries is 40 MB of one flat object: names are handed out as substrings, nothing is boxed, and
// nothing is allocated before its syntax has been seen.
type scanner struct {
	s string
	i int // the next byte
}

// syntaxError is a place in the text and what is wrong there.
type syntaxError struct {
	at  int
	msg string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.msg, e.at) }

func (sc *scanner) errorf(format string, args ...any) error {
	return &syntaxError{sc.i, fmt.Sprintf(format, args...)}
}

// space skips the four JSON whitespace bytes.
func (sc *scanner) space() {
	for sc.i < len(sc.s) {
		switch sc.s[sc.i] {
		case ' ', '\t', '\n', '\r':
			sc.i++
		default:
			return
		}
	}
}

// peek is the next byte after whitespace, 0 at the end (a NUL byte is no JSON either).
func (sc *scanner) peek() byte {
	sc.space()
	if sc.i == len(sc.s) {
		return 0
	}
	return sc.s[sc.i]
}

// expect takes the byte c after whitespace.
func (sc *scanner) expect(c byte) error {
	if got := sc.peek(); got != c {
		return sc.unexpected(fmt.Sprintf("%q", c))
	}
	sc.i++
	return nil
}

func (sc *scanner) unexpected(want string) error {
	if sc.i >= len(sc.s) {
		return sc.errorf("the text ends where %s should be", want)
	}
	r, _ := utf8.DecodeRuneInString(sc.s[sc.i:])
	return sc.errorf("%q where %s should be", r, want)
}

// object calls member for each key, with the scanner before the value, which member must take.
func (sc *scanner) object(member func(key string) error) error {
	if err := sc.expect('{'); err != nil {
		return err
	}
	if sc.peek() == '}' {
		sc.i++
		return nil
	}
	for {
		key, err := sc.str()
		if err != nil {
			return err
		}
		if err := sc.expect(':'); err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
		switch sc.peek() {
		case ',':
			sc.i++
		case '}':
			sc.i++
			return nil
		default:
			return sc.unexpected("',' or '}'")
		}
	}
}

// array calls element for each element, with the scanner before the value, which element must take.
func (sc *scanner) array(element func() error) error {
	if err := sc.expect('['); err != nil {
		return err
	}
	if sc.peek() == ']' {
		sc.i++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		switch sc.peek() {
		case ',':
			sc.i++
		case ']':
			sc.i++
			return nil
		default:
			return sc.unexpected("',' or ']'")
		}
	}
}

// str takes a string. Without escapes it is a substring of the text.
func (sc *scanner) str() (string, error) {
	if sc.peek() != '"' {
		return "", sc.unexpected("a string")
	}
	sc.i++
	start := sc.i
	for i := start; i < len(sc.s); i++ {
		switch c := sc.s[i]; {
		case c == '"':
			sc.i = i + 1
			return sc.s[start:i], nil
		case c == '\\':
			return sc.escaped(start)
		case c < 0x20:
			sc.i = i
			return "", sc.errorf("control character %#02x in a string", c)
		}
	}
	sc.i = len(sc.s)
	return "", sc.errorf("a string without its end")
}

// escaped takes a string that began at start and holds a backslash.
func (sc *scanner) escaped(start int) (string, error) {
	var b strings.Builder
	for i := start; i < len(sc.s); {
		c := sc.s[i]
		switch {
		case c == '"':
			sc.i = i + 1
			return b.String(), nil
		case c < 0x20:
			sc.i = i
			return "", sc.errorf("control character %#02x in a string", c)
		case c != '\\':
			b.WriteByte(c)
			i++
		default:
			r, n := unescape(sc.s[i:])
			if n == 0 {
				sc.i = i
				return "", sc.errorf("an escape that JSON does not know")
			}
			b.WriteRune(r)
			i += n
		}
	}
	sc.i = len(sc.s)
	return "", sc.errorf("a string without its end")
}

// unescape decodes the escape that s begins with and tells its length, 0 when it is none. Half a surrogate pair is none.
func unescape(s string) (r rune, n int) {
	if len(s) < 2 {
		return 0, 0
	}
	switch s[1] {
	case '"', '\\', '/':
		return rune(s[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, ok := hex4(s[2:])
		if !ok {
			return 0, 0
		}
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if len(s) < 12 || s[6] != '\\' || s[7] != 'u' {
			return 0, 0
		}
		low, ok := hex4(s[8:])
		pair := utf16.DecodeRune(r, low)
		if !ok || pair == utf8.RuneError {
			return 0, 0
		}
		return pair, 12
	}
	return 0, 0
}

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for i := range 4 {
		c := s[i]
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// number is an integer of the text. A number that is negative or above the largest int64 is legal JSON, so it is told
// and not refused: the caller knows which tensor it belongs to.
type number struct {
	v        int64
	negative bool
	huge     bool
}

// integer takes a number without fraction or exponent.
func (sc *scanner) integer() (number, error) {
	sc.space()
	start := sc.i
	var n number
	if sc.i < len(sc.s) && sc.s[sc.i] == '-' {
		n.negative = true
		sc.i++
	}
	run := digits(sc.s[sc.i:])
	switch {
	case run == "":
		return n, sc.unexpected("an integer")
	case len(run) > 1 && run[0] == '0':
		return n, sc.errorf("a number with a leading zero")
	}
	for _, c := range []byte(run) {
		d := int64(c - '0')
		if n.v > (1<<63-1-d)/10 {
			n.huge = true
			break
		}
		n.v = n.v*10 + d
	}
	sc.i += len(run)
	if sc.i < len(sc.s) {
		switch sc.s[sc.i] {
		case '.', 'e', 'E':
			sc.i = start
			return n, sc.errorf("a number that is not written as an integer")
		}
	}
	return n, nil
}

// maxDepth is how deep arrays and objects may nest in a value that is skipped; upstream's parser (serde_json) stops at
// the same depth.
const maxDepth = 128

// skip takes any value.
func (sc *scanner) skip(depth int) error {
	if depth > maxDepth {
		return sc.errorf("arrays and objects nested deeper than %d", maxDepth)
	}
	switch c := sc.peek(); {
	case c == '{':
		return sc.object(func(string) error { return sc.skip(depth + 1) })
	case c == '[':
		return sc.array(func() error { return sc.skip(depth + 1) })
	case c == '"':
		_, err := sc.str()
		return err
	case c == '-' || isDigit(c):
		_, err := sc.float()
		return err
	}
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(sc.s[sc.i:], word) {
			sc.i += len(word)
			return nil
		}
	}
	return sc.unexpected("a value")
}

// float takes any JSON number and gives its text.
func (sc *scanner) float() (string, error) {
	sc.space()
	start := sc.i
	if sc.i < len(sc.s) && sc.s[sc.i] == '-' {
		sc.i++
	}
	whole := digits(sc.s[sc.i:])
	if whole == "" || len(whole) > 1 && whole[0] == '0' {
		return "", sc.unexpected("a number")
	}
	sc.i += len(whole)
	if sc.i < len(sc.s) && sc.s[sc.i] == '.' {
		sc.i++
		fraction := digits(sc.s[sc.i:])
		if fraction == "" {
			return "", sc.unexpected("a digit")
		}
		sc.i += len(fraction)
	}
	if sc.i < len(sc.s) && (sc.s[sc.i] == 'e' || sc.s[sc.i] == 'E') {
		sc.i++
		if sc.i < len(sc.s) && (sc.s[sc.i] == '+' || sc.s[sc.i] == '-') {
			sc.i++
		}
		exponent := digits(sc.s[sc.i:])
		if exponent == "" {
			return "", sc.unexpected("a digit")
		}
		sc.i += len(exponent)
	}
	return sc.s[start:sc.i], nil
}
