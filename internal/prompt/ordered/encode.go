package ordered

import "strings"

const hexDigits = "0123456789abcdef"

// Append writes the value as Python's json.dumps(ensure_ascii=False) does: ", " and ": " between, non-ASCII and HTML
// characters as they are, numbers as they were spelled.
func (v Value) Append(dst []byte) []byte {
	switch v.kind {
	case Bool:
		if v.yes {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case Number:
		return append(dst, v.text...)
	case String:
		return AppendString(dst, v.text)
	case Array:
		dst = append(dst, '[')
		for i, item := range v.items {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = item.Append(dst)
		}
		return append(dst, ']')
	case Object:
		dst = append(dst, '{')
		for i, m := range v.members {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = append(AppendString(dst, m.Key), ": "...)
			dst = m.Value.Append(dst)
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// String is the value as [Value.Append] writes it.
func (v Value) String() string { return string(v.Append(nil)) }

// MarshalJSON keeps order and spelling inside an encoding/json document.
func (v Value) MarshalJSON() ([]byte, error) { return v.Append(nil), nil }

// AppendString writes a JSON string with the escapes of Python's json.dumps(ensure_ascii=False): quote, backslash and
// control characters below 0x20, and no others.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for {
		i := strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == '"' || r == '\\' })
		if i < 0 {
			return append(append(dst, s...), '"')
		}
		dst = append(dst, s[:i]...)
		c := s[i]
		if j := strings.IndexByte("\"\\\b\f\n\r\t", c); j >= 0 {
			dst = append(dst, '\\', `"\bfnrt`[j])
		} else {
			dst = append(dst, `\u00`...)
			dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
		}
		s = s[i+1:]
	}
}
