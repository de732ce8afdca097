package template

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// getAttr is a.name in Jinja2's sandbox: first an attribute of the Python object, then an item. What the sandbox calls
// unsafe (names with a leading underscore, methods that change a list or dict) is undefined with SecurityError.
func getAttr(v value, name string) (value, error) {
	if u, ok := v.(*undefined); ok {
		if slices.Contains(objectAttrs, name) {
			return unsafe(v, name), nil
		}
		return nil, u.err()
	}
	if ns, ok := v.(*namespace); ok {
		if x, ok := ns.attrs.get(name); ok {
			return x, nil
		}
	}
	if x, found, err := attribute(v, name); found || err != nil {
		return x, err
	}
	if d, ok := v.(*dict); ok {
		if x, ok := d.get(name); ok {
			return x, nil
		}
	}
	return missing(v, name), nil
}

func missing(v value, name string) *undefined {
	if v == nil {
		return &undefined{"'None' has no attribute '" + name + "'", "UndefinedError"}
	}
	return &undefined{fmt.Sprintf("'%s object' has no attribute '%s'", typeName(v), name), "UndefinedError"}
}

func unsafe(v value, name string) *undefined {
	return &undefined{fmt.Sprintf("access to attribute '%s' of '%s' object is unsafe.", name, typeName(v)), "SecurityError"}
}

// getItem is a[key]: first an item, then, for a string, an attribute.
func getItem(v, key value) (value, error) {
	switch v := v.(type) {
	case *undefined:
		return nil, v.err()
	case *dict:
		if k, ok := hashKey(key); ok {
			if i := v.find(k); i >= 0 {
				return v.values[i], nil
			}
		}
	case *seq:
		if isInt(key) && v.kind != kindView && v.kind != kindGenerator {
			if i, ok := index(key, len(v.items)); ok {
				return v.items[i], nil
			}
		}
	case string, markup:
		if isInt(key) {
			s, _ := asText(v)
			runes := []rune(s)
			if i, ok := index(key, len(runes)); ok {
				if _, m := v.(markup); m {
					return markup(string(runes[i])), nil
				}
				return string(runes[i]), nil
			}
		}
	}
	if name, ok := asText(key); ok {
		if x, found, err := attribute(v, name); found || err != nil {
			return x, err
		}
		return missing(v, name), nil
	}
	text, err := str(key)
	if err != nil {
		text = "?"
	}
	return missing(v, text), nil
}

func index(key value, n int) (int, bool) {
	k := bigOf(key)
	if !k.IsInt64() {
		return 0, false
	}
	i := k.Int64()
	if i < 0 {
		i += int64(n)
	}
	return int(i), i >= 0 && i < int64(n)
}

// sliceOf is a[from:to:step], which Jinja2 leaves to Python: on the wrong type it raises.
func sliceOf(r *render, v value, bounds [3]value) (value, error) {
	n := 0
	var runes []rune
	var items []value
	switch w := v.(type) {
	case *undefined:
		return nil, w.err()
	case string, markup:
		s, _ := asText(w)
		runes = []rune(s)
		n = len(runes)
	case *seq:
		if w.kind == kindView || w.kind == kindGenerator {
			return nil, typeError("'%s' object is not subscriptable", typeName(v))
		}
		items = w.items
		n = len(items)
	case *dict:
		return nil, typeError("unhashable type: 'slice'")
	default:
		return nil, typeError("'%s' object is not subscriptable", typeName(v))
	}
	from, to, step, err := sliceBounds(bounds, n)
	if err != nil {
		return nil, err
	}
	if step == 1 { // the common case
		to = max(from, to)
		if err := r.made(to - from); err != nil {
			return nil, err
		}
		if items != nil || runes == nil {
			if s, ok := v.(*seq); ok {
				return &seq{kind: s.kind, items: items[from:to:to]}, nil
			}
		}
		return sameText(v, string(runes[from:to])), nil
	}
	var picked []value
	var text []rune
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		if runes != nil {
			text = append(text, runes[i])
		} else if items != nil {
			picked = append(picked, items[i])
		}
	}
	if err := r.made(16*len(picked) + len(text)); err != nil {
		return nil, err
	}
	if s, ok := v.(*seq); ok {
		return &seq{kind: s.kind, items: picked}, nil
	}
	return sameText(v, string(text)), nil
}

// sameText gives a string the type of the one it came from.
func sameText(from value, s string) value {
	if _, m := from.(markup); m {
		return markup(s)
	}
	return s
}

// sliceBounds is Python's slice.indices.
func sliceBounds(bounds [3]value, n int) (from, to, step int, err error) {
	step = 1
	clamp := func(v value) (int, error) {
		if u, ok := v.(*undefined); ok {
			return 0, u.err()
		}
		if !isInt(v) {
			return 0, typeError("slice indices must be integers or None or have an __index__ method")
		}
		b := bigOf(v)
		limit := big.NewInt(int64(n) + 1)
		if b.CmpAbs(limit) > 0 {
			return int(limit.Int64()) * b.Sign(), nil
		}
		return int(b.Int64()), nil
	}
	if bounds[2] != nil {
		if step, err = clamp(bounds[2]); err != nil {
			return
		}
		if step == 0 {
			return 0, 0, 0, raise("ValueError", "slice step cannot be zero")
		}
	}
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	ends := [2]int{low, high}
	if step < 0 {
		ends = [2]int{high, low}
	}
	for i := range 2 {
		if bounds[i] == nil {
			continue
		}
		k, err := clamp(bounds[i])
		if err != nil {
			return 0, 0, 0, err
		}
		if k < 0 {
			k += n
		}
		ends[i] = min(max(k, low), high)
	}
	return ends[0], ends[1], step, nil
}

// objectAttrs are attributes of every Python object; the sandbox gives an unsafe undefined for each.
var objectAttrs = []string{"__class__", "__doc__", "__init__", "__str__", "__repr__", "__eq__", "__ne__", "__hash__", "__dir__", "__module__",
	"__getattribute__", "__setattr__", "__delattr__", "__reduce__", "__reduce_ex__", "__new__", "__format__", "__sizeof__",
	"__subclasshook__", "__init_subclass__"}

// Attributes that Python's objects have: what is not built here must not look undefined.
var (
	dictMethods = []string{"clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"}
	listMethods = []string{"append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"}
	mutators    = []string{"clear", "pop", "popitem", "setdefault", "update", "append", "extend", "insert", "remove", "reverse", "sort"}
	numberAttrs = []string{"real", "imag", "numerator", "denominator", "bit_length", "bit_count", "conjugate", "to_bytes", "from_bytes", "as_integer_ratio", "is_integer", "hex", "fromhex"}
)

// attribute is Python's getattr; found is false for an AttributeError.
func attribute(v value, name string) (x value, found bool, err error) {
	if strings.HasPrefix(name, "__") {
		if slices.Contains(objectAttrs, name) {
			return unsafe(v, name), true, nil
		}
		switch name {
		case "__lt__", "__le__", "__gt__", "__ge__", "__len__", "__iter__", "__contains__", "__getitem__",
			"__globals__", "__code__", "__closure__", "__dict__", "__call__", "__mro__", "__base__", "__bases__":
			return unsafe(v, name), true, nil
		}
	}
	switch v := v.(type) {
	case string, markup:
		return stringMethod(v, name)
	case *dict:
		if !slices.Contains(dictMethods, name) {
			return nil, false, nil
		}
		if slices.Contains(mutators, name) {
			return unsafe(v, name), true, nil
		}
		return dictMethod(v, name), true, nil
	case *seq:
		return seqMethod(v, name)
	case bool, int64, *big.Int, float64:
		if slices.Contains(numberAttrs, name) {
			return nil, false, unknown("the attribute %s of a number", name)
		}
	case *loopVar:
		return v.attribute(name)
	case *cycler:
		return v.attribute(name)
	case *macro:
		switch name {
		case "name":
			return v.def.name, true, nil
		case "arguments":
			args := &seq{kind: kindTuple}
			for _, p := range v.def.params {
				args.items = append(args.items, p)
			}
			return args, true, nil
		case "catch_kwargs":
			return v.def.kwargs, true, nil
		case "catch_varargs":
			return v.def.varargs, true, nil
		case "caller":
			return v.def.caller, true, nil
		}
	}
	return nil, false, nil
}

func dictMethod(d *dict, name string) *function {
	none := func(do func() value) func(*render, []value, []keyword) (value, error) {
		return func(r *render, args []value, named []keyword) (value, error) {
			if len(args)+len(named) > 0 {
				return nil, typeError("dict.%s() takes no arguments (%d given)", name, len(args))
			}
			return do(), r.made(16 * len(d.keys))
		}
	}
	f := &function{name: "dict." + name}
	switch name {
	case "items":
		f.do = none(func() value {
			s := &seq{kind: kindView, items: make([]value, len(d.keys))}
			for i := range d.keys {
				s.items[i] = &seq{kind: kindTuple, items: []value{d.keys[i], d.values[i]}}
			}
			return s
		})
	case "keys":
		f.do = none(func() value { return &seq{kind: kindView, items: d.keys} })
	case "values":
		f.do = none(func() value { return &seq{kind: kindView, items: d.values} })
	case "copy":
		f.do = none(func() value {
			c := &dict{}
			for i := range d.keys {
				c.set(d.keys[i], d.values[i])
			}
			return c
		})
	case "get":
		f.do = func(_ *render, args []value, named []keyword) (value, error) {
			if len(args) < 1 || len(args) > 2 || len(named) > 0 {
				return nil, typeError("dict.get() takes one or two positional arguments")
			}
			k, ok := hashKey(args[0])
			if !ok {
				return nil, typeError("unhashable type: '%s'", typeName(args[0]))
			}
			if i := d.find(k); i >= 0 {
				return d.values[i], nil
			}
			if len(args) == 2 {
				return args[1], nil
			}
			return nil, nil
		}
	default:
		f.do = func(*render, []value, []keyword) (value, error) { return nil, unknown("dict.%s", name) }
	}
	return f
}

func seqMethod(s *seq, name string) (value, bool, error) {
	switch {
	case s.kind == kindGenerator || s.kind == kindView || s.kind == kindRange:
		if name == "send" || name == "close" || name == "throw" || name == "mapping" || name == "isdisjoint" || name == "start" || name == "stop" || name == "step" {
			return nil, false, unknown("the attribute %s of a %s", name, typeName(s))
		}
		return nil, false, nil
	case name != "count" && name != "index" && (s.kind == kindTuple || !slices.Contains(listMethods, name)):
		return nil, false, nil
	case slices.Contains(mutators, name):
		return unsafe(s, name), true, nil
	}
	return &function{"list." + name, func(r *render, args []value, named []keyword) (value, error) {
		if name == "copy" {
			return list(s.items), nil
		}
		if len(args) == 0 || len(named) > 0 {
			return nil, typeError("%s.%s() takes at least one argument", typeName(s), name)
		}
		if len(args) > 1 {
			return nil, unknown("%s.%s with bounds", typeName(s), name)
		}
		n, first := int64(0), int64(-1)
		for i, item := range s.items {
			if equal(item, args[0]) {
				if n++; first < 0 {
					first = int64(i)
				}
			}
		}
		if name == "count" {
			return n, nil
		}
		if first < 0 {
			return nil, raise("ValueError", "the value is not in the %s", typeName(s))
		}
		return first, nil
	}}, true, nil
}
