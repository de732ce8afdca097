package ordered

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may nest. Python's json gives up near 1,000; nothing that a model reads comes
// near 200, and a reader that recurses must have an end.
const MaxDepth = 200

// SyntaxError says where a text stops being JSON.
type SyntaxError struct {
	Offset int // byte
	What   string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("not JSON at byte %d: %s", e.Offset, e.What) }

// Decode reads one JSON document; white space may follow it, and nothing else. The error is a *[SyntaxError].
func Decode(data []byte) (Value, error) { return DecodeString(string(data)) }

// DecodeString is [Decode] of a string; what it returns may share the string's memory.
func DecodeString(text string) (Value, error) {
	if !utf8.ValidString(text) {
		at := 0
		for at < len(text) {
			r, w := utf8.DecodeRuneInString(text[at:])
			if r == utf8.RuneError && w == 1 {
				break
			}
			at += w
		}
		return Value{}, &SyntaxError{at, "not UTF-8"}
	}
	d := decoder{text: text}
	v, err := d.value(0)
	if err != nil {
		return Value{}, err
	}
	d.space()
	if d.at < len(text) {
		return Value{}, d.fail("text after the end of the value")
	}
	return v, nil
}

type decoder struct {
	text string
	at   int
}

func (d *decoder) fail(format string, args ...any) error {
	return &SyntaxError{d.at, fmt.Sprintf(format, args...)}
}

func (d *decoder) space() {
	for d.at < len(d.text) && strings.IndexByte(" \t\r\n", d.text[d.at]) >= 0 {
		d.at++
	}
}

func (d *decoder) value(depth int) (Value, error) {
	d.space()
	if d.at >= len(d.text) {
		return Value{}, d.fail("the text ends where a value should be")
	}
	if depth > MaxDepth {
		return Value{}, d.fail("nested deeper than %d", MaxDepth)
	}
	switch c := d.text[d.at]; {
	case c == '{':
		return d.object(depth)
	case c == '[':
		return d.array(depth)
	case c == '"':
		s, err := d.str()
		return Value{kind: String, text: s}, err
	case c == '-' || c >= '0' && c <= '9':
		return d.number()
	}
	switch rest := d.text[d.at:]; {
	case strings.HasPrefix(rest, "null"):
		d.at += 4
		return Value{}, nil
	case strings.HasPrefix(rest, "true"):
		d.at += 4
		return NewBool(true), nil
	case strings.HasPrefix(rest, "false"):
		d.at += 5
		return NewBool(false), nil
	}
	for _, word := range []string{"NaN", "Infinity"} {
		if strings.HasPrefix(d.text[d.at:], word) {
			return Value{}, d.fail("%s is not JSON, though Python reads it", word)
		}
	}
	return Value{}, d.fail("a value cannot start with %q", firstRune(d.text[d.at:]))
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

func (d *decoder) object(depth int) (Value, error) {
	v := Value{kind: Object}
	d.at++
	d.space()
	if d.take('}') {
		return v, nil
	}
	for {
		d.space()
		if d.at >= len(d.text) || d.text[d.at] != '"' {
			return v, d.fail("a key in double quotes should be here")
		}
		key, err := d.str()
		if err != nil {
			return v, err
		}
		d.space()
		if !d.take(':') {
			return v, d.fail("a colon should follow the key %.40q", key)
		}
		m, err := d.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.members = append(v.members, Member{key, m})
		d.space()
		if d.take('}') {
			v.members = unique(v.members)
			return v, nil
		}
		if !d.take(',') {
			return v, d.fail("a comma or the object's end should follow the value of %.40q", key)
		}
	}
}

func (d *decoder) array(depth int) (Value, error) {
	v := Value{kind: Array}
	d.at++
	d.space()
	if d.take(']') {
		return v, nil
	}
	for {
		item, err := d.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.items = append(v.items, item)
		d.space()
		if d.take(']') {
			return v, nil
		}
		if !d.take(',') {
			return v, d.fail("a comma or the array's end should be here")
		}
	}
}

func (d *decoder) take(c byte) bool {
	if d.at < len(d.text) && d.text[d.at] == c {
		d.at++
		return true
	}
	return false
}

// number reads -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)? and keeps its spelling.
func (d *decoder) number() (Value, error) {
	start := d.at
	d.take('-')
	digits := func() int {
		n := d.at
		for d.at < len(d.text) && d.text[d.at] >= '0' && d.text[d.at] <= '9' {
			d.at++
		}
		return d.at - n
	}
	zero := d.at < len(d.text) && d.text[d.at] == '0'
	if n := digits(); n == 0 || zero && n > 1 {
		d.at = start
		return Value{}, d.fail("not a number")
	}
	if d.take('.') && digits() == 0 {
		return Value{}, d.fail("a digit should follow the point")
	}
	if d.take('e') || d.take('E') {
		if !d.take('+') {
			d.take('-')
		}
		if digits() == 0 {
			return Value{}, d.fail("a digit should follow the exponent")
		}
	}
	return Value{kind: Number, text: d.text[start:d.at]}, nil
}

// str reads a string. A pair of surrogates becomes one character; a lone one is refused.
func (d *decoder) str() (string, error) {
	d.at++
	start := d.at
	for d.at < len(d.text) && d.text[d.at] >= 0x20 && d.text[d.at] != '"' && d.text[d.at] != '\\' {
		d.at++
	}
	if d.at < len(d.text) && d.text[d.at] == '"' {
		d.at++
		return d.text[start : d.at-1], nil
	}
	var b strings.Builder
	b.WriteString(d.text[start:d.at])
	for d.at < len(d.text) {
		c := d.text[d.at]
		switch {
		case c == '"':
			d.at++
			return b.String(), nil
		case c < 0x20:
			return "", d.fail("a raw control character inside a string")
		case c != '\\':
			b.WriteByte(c)
			d.at++
			continue
		}
		if d.at+1 >= len(d.text) {
			break
		}
		e := d.text[d.at+1]
		if i := strings.IndexByte(`"\/bfnrt`, e); i >= 0 {
			b.WriteByte("\"\\/\b\f\n\r\t"[i])
			d.at += 2
			continue
		}
		if e != 'u' {
			return "", d.fail(`no escape \%c`, firstRune(d.text[d.at+1:]))
		}
		r, ok := hex4(d.text[d.at+2:])
		if !ok {
			return "", d.fail(`four hexadecimal digits should follow \u`)
		}
		width := 6
		if r >= 0xd800 && r < 0xe000 {
			low, ok := rune(0), false
			if strings.HasPrefix(d.text[d.at+6:], `\u`) {
				low, ok = hex4(d.text[d.at+8:])
			}
			if r >= 0xdc00 || !ok || low < 0xdc00 || low >= 0xe000 {
				return "", d.fail(`\u%04x is half of a surrogate pair: no UTF-8 text can hold it`, r)
			}
			r = 0x10000 + (r-0xd800)<<10 + (low - 0xdc00)
			width = 12
		}
		b.WriteRune(r)
		d.at += width
	}
	return "", d.fail("the text ends inside a string")
}

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for i := range 4 {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
