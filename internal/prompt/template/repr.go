package template

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// str is Python's str(): what {{ x }} prints.
func str(v value) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case markup:
		return string(v), nil
	case *undefined:
		return "", nil
	}
	return reprText(v)
}

// reprText is Python's repr().
func reprText(v value) (string, error) {
	var b strings.Builder
	var n budget
	err := repr(&b, v, 0, &n)
	return b.String(), err
}

// maxText bounds the text of one value, in bytes.
const maxText = 64 << 20

func repr(b *strings.Builder, v value, depth int, n *budget) error {
	n.spend()
	if depth > 2*maxNesting || b.Len() > maxText {
		return &Limit{What: "a value nests too deep or is too long to print"}
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		if v {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		s := v.String()
		if len(s) > maxDigits {
			return raise("ValueError", "Exceeds the limit (%d digits) for integer string conversion", maxDigits)
		}
		b.WriteString(s)
	case float64:
		b.WriteString(floatText(v))
	case string:
		reprString(b, v)
	case markup:
		b.WriteString("Markup(")
		reprString(b, string(v))
		b.WriteByte(')')
	case *undefined:
		b.WriteString("Undefined")
	case *seq:
		return reprSeq(b, v, depth, n)
	case *dict:
		b.WriteByte('{')
		for i := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			if err := repr(b, v.keys[i], depth+1, n); err != nil {
				return err
			}
			b.WriteString(": ")
			if err := repr(b, v.values[i], depth+1, n); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	case *namespace:
		b.WriteString("<Namespace ")
		if err := repr(b, &v.attrs, depth+1, n); err != nil {
			return err
		}
		b.WriteByte('>')
	case *loopVar:
		fmt.Fprintf(b, "<LoopContext %d/%d>", v.index+1, len(v.items))
	case *macro:
		fmt.Fprintf(b, "<Macro '%s'>", v.def.name)
	default:
		return unknown("the text of a function, which in Python is its address")
	}
	return nil
}

func reprSeq(b *strings.Builder, v *seq, depth int, n *budget) error {
	open, end := "[", "]"
	switch v.kind {
	case kindTuple:
		open, end = "(", ")"
		if len(v.items) == 1 {
			end = ",)"
		}
	case kindView:
		return unknown("the text of a dict's view")
	case kindRange:
		return unknown("the text of a range")
	case kindGenerator:
		return unknown("the text of a generator, which in Python is its address: |list was forgotten")
	}
	b.WriteString(open)
	for i, item := range v.items {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := repr(b, item, depth+1, n); err != nil {
			return err
		}
	}
	b.WriteString(end)
	return nil
}

// reprString is Python's repr of a str: single quotes unless only they occur inside; what cannot be printed is escaped.
func reprString(b *strings.Builder, s string) {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b.WriteByte(quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r >= 0x20 && r < 0x7f || r > 0xa0 && r != 0xad && unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			fmt.Fprintf(b, `\U%08x`, r)
		}
	}
	b.WriteByte(quote)
}

// floatText is Python's repr of a float: the shortest digits that read back, fixed between 1e-4 and 1e16.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		format = 'e'
	}
	s := strconv.FormatFloat(f, format, -1, 64)
	if format == 'f' && !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
