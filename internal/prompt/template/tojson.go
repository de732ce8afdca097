package template

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"unicode/utf16"

	"seatsmith/internal/prompt/ordered"
)

// toJSON is the tojson that Hugging Face puts in the place of Jinja2's (transformers, utils/chat_template_utils.py):
// json.dumps(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False). No HTML escapes.
func toJSON(r *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("tojson", args, named, "ensure_ascii", false, "indent", nil, "separators", nil, "sort_keys", false)
	if err != nil {
		return nil, err
	}
	d := dumper{r: r, ascii: truth(a[0]), sort: truth(a[3]), comma: ", ", colon: ": "}
	switch indent := a[1].(type) {
	case nil:
	case string:
		d.indent, d.lines, d.comma = indent, true, ","
	default:
		n, err := intArg(indent)
		if err != nil {
			return nil, err
		}
		if n > 1000 {
			return nil, &Limit{What: "an indent of tojson is too wide"}
		}
		d.indent, d.lines, d.comma = strings.Repeat(" ", max(n, 0)), true, ","
	}
	if a[2] != nil {
		s, ok := a[2].(*seq)
		if !ok || s.kind > kindTuple || len(s.items) != 2 {
			return nil, typeError("separators must be a pair of strings")
		}
		var ok1, ok2 bool
		d.comma, ok1 = asText(s.items[0])
		d.colon, ok2 = asText(s.items[1])
		if !ok1 || !ok2 {
			return nil, typeError("separators must be a pair of strings")
		}
	}
	if err := d.value(v, 0); err != nil {
		return nil, err
	}
	return string(d.out), r.made(len(d.out))
}

type dumper struct {
	r            *render
	out          []byte
	ascii, sort  bool
	lines        bool
	indent       string
	comma, colon string
	n            budget
}

func (d *dumper) newline(depth int) {
	if d.lines {
		d.out = append(d.out, '\n')
		for range depth {
			d.out = append(d.out, d.indent...)
		}
	}
}

func (d *dumper) value(v value, depth int) error {
	d.n.spend()
	if depth > 2*maxNesting {
		return raise("RecursionError", "maximum recursion depth exceeded")
	}
	if len(d.out) > d.r.limits.Bytes {
		return &Limit{What: "tojson makes too much text"}
	}
	switch v := v.(type) {
	case nil:
		d.out = append(d.out, "null"...)
	case bool:
		d.out = fmt.Append(d.out, v)
	case int64:
		d.out = fmt.Append(d.out, v)
	case *big.Int, float64:
		text, err := jsonNumber(v)
		if err != nil {
			return err
		}
		d.out = append(d.out, text...)
	case string:
		d.str(v)
	case markup:
		d.str(string(v))
	case *seq:
		if v.kind > kindTuple {
			return typeError("Object of type %s is not JSON serializable", typeName(v))
		}
		d.out = append(d.out, '[')
		for i, item := range v.items {
			if i > 0 {
				d.out = append(d.out, d.comma...)
			}
			d.newline(depth + 1)
			if err := d.value(item, depth+1); err != nil {
				return err
			}
		}
		if len(v.items) > 0 {
			d.newline(depth)
		}
		d.out = append(d.out, ']')
	case *dict:
		return d.dict(v, depth)
	default:
		return typeError("Object of type %s is not JSON serializable", typeName(v))
	}
	return nil
}

func (d *dumper) dict(v *dict, depth int) error {
	order := make([]int, len(v.keys))
	for i := range order {
		order[i] = i
	}
	if d.sort {
		var bad error
		slices.SortStableFunc(order, func(i, j int) int {
			lower, err := less(v.keys[i], v.keys[j])
			higher, err2 := less(v.keys[j], v.keys[i])
			if err != nil || err2 != nil {
				bad = err
			}
			switch {
			case lower:
				return -1
			case higher:
				return 1
			}
			return 0
		})
		if bad != nil {
			return bad
		}
	}
	d.out = append(d.out, '{')
	for n, i := range order {
		if n > 0 {
			d.out = append(d.out, d.comma...)
		}
		d.newline(depth + 1)
		key := ""
		switch k := v.keys[i].(type) {
		case string:
			key = k
		case markup:
			key = string(k)
		case nil:
			key = "null"
		case bool:
			key = fmt.Sprint(k)
		case int64, *big.Int, float64:
			var err error
			if key, err = jsonNumber(k); err != nil {
				return err
			}
		default:
			return typeError("keys must be str, int, float, bool or None, not %s", typeName(k))
		}
		d.str(key)
		d.out = append(d.out, d.colon...)
		if err := d.value(v.values[i], depth+1); err != nil {
			return err
		}
	}
	if len(order) > 0 {
		d.newline(depth)
	}
	d.out = append(d.out, '}')
	return nil
}

func jsonNumber(v value) (string, error) {
	if f, ok := v.(float64); ok {
		switch {
		case math.IsNaN(f):
			return "NaN", nil
		case math.IsInf(f, 1):
			return "Infinity", nil
		case math.IsInf(f, -1):
			return "-Infinity", nil
		}
	}
	return str(v)
}

func (d *dumper) str(s string) {
	from := len(d.out)
	d.out = ordered.AppendString(d.out, s)
	if !d.ascii {
		return
	}
	text := string(d.out[from:])
	d.out = d.out[:from]
	for _, r := range text {
		if r < 0x7f {
			d.out = append(d.out, byte(r))
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			d.out = fmt.Appendf(d.out, `\u%04x`, u)
		}
	}
}
