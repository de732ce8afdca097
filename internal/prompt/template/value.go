package template

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"seatsmith/internal/prompt/ordered"
)

// value is a Python value: nil (None), bool, int64, *big.Int (outside int64), float64, string, markup, *seq, *dict,
// *undefined, or something that can be called or looked at: *function, *macro, *namespace, *loopVar, *cycler.
type value = any

// markup is a string that |safe or |escape made: what is joined to it by + is HTML-escaped.
type markup string

// undefined is jinja2.Undefined: empty when printed, empty when iterated, false; anything else raises.
type undefined struct {
	hint  string
	class string // of the exception
}

func (u *undefined) err() error { return raise(u.class, "%s", u.hint) }

func undefinedName(name string) *undefined {
	return &undefined{fmt.Sprintf("'%s' is undefined", name), "UndefinedError"}
}

type seqKind uint8

const (
	kindList seqKind = iota
	kindTuple
	kindView      // dict.items(), keys(), values()
	kindRange     // range(…)
	kindGenerator // what map, select … give: read once, no length
)

// seq is a list or something like one. Nothing changes it after it is made: the sandbox refuses append and its kin.
type seq struct {
	kind  seqKind
	items []value
	spent bool  // a generator that was read
	fail  error // what reading a generator raises: Python finds out only then
}

func list(items []value) *seq      { return &seq{items: items} }
func generator(items []value) *seq { return &seq{kind: kindGenerator, items: items} }

// dict keeps its keys in order. Keys are hashable values; 1, 1.0 and true are one key.
type dict struct {
	keys   []value
	values []value
	index  map[any]int // by hash, once the dict is larger than a few keys
}

// hashKey is a value by which equal keys are found; ok is false for what Python cannot hash.
func hashKey(v value) (any, bool) {
	var b budget
	return hashIn(v, &b)
}

func hashIn(v value, n *budget) (any, bool) {
	n.spend()
	switch v := v.(type) {
	case nil:
		return struct{}{}, true
	case string:
		return v, true
	case markup:
		return string(v), true
	case bool:
		if v {
			return int64(1), true
		}
		return int64(0), true
	case int64:
		return v, true
	case *big.Int:
		return "\x00int" + v.String(), true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return int64(v), true
		}
		return v, true
	case *seq:
		if v.kind != kindTuple {
			return nil, false
		}
		var b strings.Builder
		b.WriteString("\x00tuple")
		for _, item := range v.items {
			k, ok := hashIn(item, n)
			if !ok {
				return nil, false
			}
			fmt.Fprintf(&b, "\x00%T%v", k, k)
		}
		return b.String(), true
	case *undefined:
		return "\x00undefined", true
	case *dict, *namespace:
		return nil, false
	}
	return v, true
}

func (d *dict) find(k any) int {
	if d.index != nil {
		if i, ok := d.index[k]; ok {
			return i
		}
		return -1
	}
	for i, key := range d.keys {
		if s, ok := key.(string); ok {
			if t, ok := k.(string); ok && s == t {
				return i
			}
			continue
		}
		if h, _ := hashKey(key); h == k {
			return i
		}
	}
	return -1
}

func (d *dict) get(name string) (value, bool) {
	if i := d.find(name); i >= 0 {
		return d.values[i], true
	}
	return nil, false
}

func (d *dict) set(key, v value) bool {
	k, ok := hashKey(key)
	if !ok {
		return false
	}
	if i := d.find(k); i >= 0 {
		d.values[i] = v
		return true
	}
	d.keys, d.values = append(d.keys, key), append(d.values, v)
	switch {
	case d.index != nil:
		d.index[k] = len(d.keys) - 1
	case len(d.keys) > 12:
		d.index = make(map[any]int, len(d.keys))
		for i, key := range d.keys {
			h, _ := hashKey(key)
			d.index[h] = i
		}
	}
	return true
}

// maxDigits is Python's bound on integers that become text (sys.int_info.default_max_str_digits).
const maxDigits = 4300

// normal is an integer as int64 where it fits.
func normal(n *big.Int) value {
	if n.IsInt64() {
		return n.Int64()
	}
	return n
}

// fromJSON is what Python's json.loads gives: integers exact, other numbers the nearest float64.
func fromJSON(v ordered.Value) (value, error) {
	switch v.Kind() {
	case ordered.Bool:
		return v.Bool(), nil
	case ordered.String:
		return v.Text(), nil
	case ordered.Number:
		text := v.Text()
		if strings.ContainsAny(text, ".eE") {
			f, _ := strconv.ParseFloat(text, 64) // out of range is infinite, as in Python
			return f, nil
		}
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		if len(text) > maxDigits {
			return nil, raise("ValueError", "an integer of %d digits: Python reads at most %d", len(text), maxDigits)
		}
		n, _ := new(big.Int).SetString(text, 10)
		return normal(n), nil
	case ordered.Array:
		s := &seq{items: make([]value, v.Len())}
		for i, item := range v.Items() {
			var err error
			if s.items[i], err = fromJSON(item); err != nil {
				return nil, err
			}
		}
		return s, nil
	case ordered.Object:
		d := &dict{keys: make([]value, 0, v.Len()), values: make([]value, 0, v.Len())}
		for _, m := range v.Members() {
			item, err := fromJSON(m.Value)
			if err != nil {
				return nil, err
			}
			d.set(m.Key, item)
		}
		return d, nil
	}
	return nil, nil
}

func truth(v value) bool {
	switch v := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	case *seq:
		return v.kind == kindGenerator || len(v.items) > 0
	case *dict:
		return len(v.keys) > 0
	}
	return true
}

// typeName is the name that Python's messages use.
func typeName(v value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case markup:
		return "Markup"
	case *dict:
		return "dict"
	case *undefined:
		return "Undefined"
	case *seq:
		return [...]string{"list", "tuple", "dict_view", "range", "generator"}[v.kind]
	case *namespace:
		return "Namespace"
	case *loopVar:
		return "LoopContext"
	}
	return "function"
}

// asText is the string in a str or Markup.
func asText(v value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	}
	return "", false
}

// iterate is Python's iter(): a generator is used up by it.
func iterate(v value) ([]value, error) {
	switch v := v.(type) {
	case *seq:
		if v.kind == kindGenerator {
			if v.spent {
				return nil, nil
			}
			v.spent = true
		}
		return v.items, v.fail
	case *dict:
		return v.keys, nil
	case *undefined:
		if v.class != "UndefinedError" {
			return nil, nil
		}
		return nil, nil
	case string:
		return characters(v), nil
	case markup:
		return characters(string(v)), nil
	case *loopVar:
		return nil, unknown("iterating over the loop object itself")
	}
	return nil, typeError("'%s' object is not iterable", typeName(v))
}

func characters(s string) []value {
	out := make([]value, 0, len(s))
	for _, r := range s {
		out = append(out, string(r))
	}
	return out
}

// length is Python's len().
func length(v value) (int, error) {
	switch v := v.(type) {
	case *seq:
		if v.kind != kindGenerator {
			return len(v.items), nil
		}
	case *dict:
		return len(v.keys), nil
	case string:
		return utf8.RuneCountInString(v), nil
	case markup:
		return utf8.RuneCountInString(string(v)), nil
	case *undefined:
		return 0, nil
	case *loopVar:
		return len(v.items), nil
	}
	return 0, typeError("object of type '%s' has no len()", typeName(v))
}
