package safetensors

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf16"
)

// IndexBytes renders model.safetensors.index.json for files (tensor name -> file name). totalSize is the sum of the
// tensors' bytes. The text is what transformers writes for the same content, json.dumps(index, indent=2, sort_keys=True)
// and a newline: keys in the order of their code points, everything above ASCII escaped.
func IndexBytes(weightMap map[string]string, totalSize int64) []byte {
	b := make([]byte, 0, 128*(len(weightMap)+1))
	b = append(b, "{\n  \"metadata\": {\n    \"total_size\": "...)
	b = strconv.AppendInt(b, totalSize, 10)
	b = append(b, "\n  },\n  \"weight_map\": {"...)
	for i, name := range slices.Sorted(maps.Keys(weightMap)) { // the byte order of UTF-8 is that of code points
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, "\n    "...)
		b = appendASCII(b, name)
		b = append(b, ": "...)
		b = appendASCII(b, weightMap[name])
	}
	if len(weightMap) > 0 {
		b = append(b, "\n  "...)
	}
	return append(b, "}\n}\n"...)
}

// appendQuoted spells a JSON string as serde_json does: the shortest escape where JSON demands one, the rest as it is.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' {
			b = appendEscape(b, c)
		} else {
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// appendASCII spells a JSON string as Python does by default: as appendQuoted, and \u with four digits for what is not printable ASCII.
func appendASCII(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r < 0x20 || r == '"' || r == '\\':
			b = appendEscape(b, byte(r))
		case r < 0x7f:
			b = append(b, byte(r))
		case r <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		}
	}
	return append(b, '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	return fmt.Appendf(b, `\u%04x`, c)
}
