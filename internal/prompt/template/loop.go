package template

import "strings"

// namespace is what namespace(…) gives: the only thing that a template may change.
type namespace struct{ attrs dict }

// loopVar is the loop object of a for.
type loopVar struct {
	items []value
	index int
	depth int
	last  []value // what changed() saw
	seen  bool
	again func(over value) (value, error)
}

func (l *loopVar) attribute(name string) (value, bool, error) {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.index + 1), true, nil
	case "index0":
		return int64(l.index), true, nil
	case "revindex":
		return int64(n - l.index), true, nil
	case "revindex0":
		return int64(n - l.index - 1), true, nil
	case "first":
		return l.index == 0, true, nil
	case "last":
		return l.index == n-1, true, nil
	case "length":
		return int64(n), true, nil
	case "depth":
		return int64(l.depth + 1), true, nil
	case "depth0":
		return int64(l.depth), true, nil
	case "previtem":
		if l.index == 0 {
			return &undefined{"there is no previous item", "UndefinedError"}, true, nil
		}
		return l.items[l.index-1], true, nil
	case "nextitem":
		if l.index == n-1 {
			return &undefined{"there is no next item", "UndefinedError"}, true, nil
		}
		return l.items[l.index+1], true, nil
	case "cycle":
		return &function{"loop.cycle", func(_ *render, args []value, _ []keyword) (value, error) {
			if len(args) == 0 {
				return nil, typeError("no items for cycling given")
			}
			return args[l.index%len(args)], nil
		}}, true, nil
	case "changed":
		return &function{"loop.changed", func(_ *render, args []value, _ []keyword) (value, error) {
			same := l.seen && equal(&seq{kind: kindTuple, items: l.last}, &seq{kind: kindTuple, items: args})
			l.last, l.seen = args, true
			return !same, nil
		}}, true, nil
	}
	return nil, false, nil
}

// cycler is what cycler(…) gives.
type cycler struct {
	items []value
	at    int
}

func (c *cycler) attribute(name string) (value, bool, error) {
	switch name {
	case "current":
		return c.items[c.at], true, nil
	case "next":
		return &function{"cycler.next", func(*render, []value, []keyword) (value, error) {
			v := c.items[c.at]
			c.at = (c.at + 1) % len(c.items)
			return v, nil
		}}, true, nil
	case "reset":
		return &function{"cycler.reset", func(*render, []value, []keyword) (value, error) {
			c.at = 0
			return nil, nil
		}}, true, nil
	}
	return nil, false, nil
}

// maxRange is Jinja2's sandbox's MAX_RANGE.
const maxRange = 100000

// globals are the names that every template has: Jinja2's own and those that Hugging Face adds.
var globals = map[string]*function{
	"range":     {"range", rangeOf},
	"dict":      {"dict", makeDict},
	"namespace": {"namespace", makeNamespace},
	"cycler": {"cycler", func(_ *render, args []value, _ []keyword) (value, error) {
		if len(args) == 0 {
			return nil, raise("RuntimeError", "at least one item has to be provided")
		}
		return &cycler{items: args}, nil
	}},
	"joiner": {"joiner", func(_ *render, args []value, named []keyword) (value, error) {
		a, err := bind("joiner", args, named, "sep", ", ")
		if err != nil {
			return nil, err
		}
		used := false
		return &function{"joiner", func(*render, []value, []keyword) (value, error) {
			if !used {
				used = true
				return "", nil
			}
			return a[0], nil
		}}, nil
	}},
	"raise_exception": {"raise_exception", func(_ *render, args []value, named []keyword) (value, error) {
		a, err := bind("raise_exception", args, named, "message", required)
		if err != nil {
			return nil, err
		}
		text, err := str(a[0])
		if err != nil {
			return nil, err
		}
		return nil, raise("TemplateError", "%s", text)
	}},
	"strftime_now": {"strftime_now", func(r *render, args []value, named []keyword) (value, error) {
		a, err := bind("strftime_now", args, named, "format", required)
		if err != nil {
			return nil, err
		}
		format, ok := asText(a[0])
		if !ok {
			return nil, typeError("strftime() argument 1 must be str, not %s", typeName(a[0]))
		}
		return strftime(r.now, format)
	}},
}

func rangeOf(r *render, args []value, named []keyword) (value, error) {
	if len(named) > 0 || len(args) == 0 || len(args) > 3 {
		return nil, typeError("range expected 1 to 3 positional arguments")
	}
	n := make([]int64, len(args))
	for i, v := range args {
		if u, ok := v.(*undefined); ok {
			return nil, u.err()
		}
		b := bigOf(v)
		if !isInt(v) {
			return nil, typeError("'%s' object cannot be interpreted as an integer", typeName(v))
		}
		if !b.IsInt64() || b.Int64() > 1<<40 || b.Int64() < -1<<40 {
			return nil, raise("OverflowError", "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange)
		}
		n[i] = b.Int64()
	}
	from, to, step := int64(0), n[0], int64(1)
	if len(n) > 1 {
		from, to = n[0], n[1]
	}
	if len(n) > 2 {
		step = n[2]
	}
	if step == 0 {
		return nil, raise("ValueError", "range() arg 3 must not be zero")
	}
	count := max((to-from+step-1)/step, 0)
	if step < 0 {
		count = max((from-to-step-1)/-step, 0)
	}
	if count > maxRange {
		return nil, raise("OverflowError", "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange)
	}
	s := &seq{kind: kindRange, items: make([]value, count)}
	for i := range s.items {
		s.items[i] = from + int64(i)*step
	}
	return s, r.made(16 * int(count))
}

func makeDict(_ *render, args []value, named []keyword) (value, error) {
	d := &dict{}
	if len(args) > 1 {
		return nil, typeError("dict expected at most 1 argument, got %d", len(args))
	}
	if len(args) == 1 {
		if from, ok := args[0].(*dict); ok {
			for i, k := range from.keys {
				d.set(k, from.values[i])
			}
		} else {
			pairs, err := iterate(args[0])
			if err != nil {
				return nil, err
			}
			for _, p := range pairs {
				kv, err := iterate(p)
				if err != nil {
					return nil, typeError("cannot convert dictionary update sequence element to a sequence")
				}
				if len(kv) != 2 {
					return nil, raise("ValueError", "dictionary update sequence element has length %d; 2 is required", len(kv))
				}
				if !d.set(kv[0], kv[1]) {
					return nil, typeError("unhashable type: '%s'", typeName(kv[0]))
				}
			}
		}
	}
	for _, k := range named {
		d.set(k.name, k.v)
	}
	return d, nil
}

func makeNamespace(r *render, args []value, named []keyword) (value, error) {
	v, err := makeDict(r, args, named)
	if err != nil {
		return nil, err
	}
	d := v.(*dict)
	for _, k := range d.keys {
		if s, ok := k.(string); ok && strings.HasPrefix(s, "__") {
			return nil, unknown("a namespace with the attribute %s", s)
		}
	}
	return &namespace{*d}, nil
}
