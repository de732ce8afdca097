package template

import (
	"slices"
	"strconv"
	"strings"
)

func listFilter(r *render, v value, args []value, named []keyword) (value, error) {
	if _, err := bind("list", args, named); err != nil {
		return nil, err
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	return list(slices.Clone(items)), r.made(16 * len(items))
}

func first(_ *render, v value, _ []value, _ []keyword) (value, error) {
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return &undefined{"No first item, sequence was empty.", "UndefinedError"}, nil
	}
	return items[0], nil
}

func last(_ *render, v value, _ []value, _ []keyword) (value, error) {
	if s, ok := v.(*seq); ok && s.kind == kindGenerator {
		return nil, typeError("'generator' object is not reversible")
	}
	items, err := iterate(v)
	if err != nil {
		return nil, typeError("'%s' object is not reversible", typeName(v))
	}
	if len(items) == 0 {
		return &undefined{"No last item, sequence was empty.", "UndefinedError"}, nil
	}
	return items[len(items)-1], nil
}

func reverse(r *render, v value, _ []value, _ []keyword) (value, error) {
	if s, ok := asText(v); ok {
		runes := []rune(s)
		slices.Reverse(runes)
		return string(runes), r.made(len(s))
	}
	items, err := iterate(v)
	if err != nil {
		return nil, raise("FilterArgumentError", "argument must be iterable")
	}
	out := slices.Clone(items)
	slices.Reverse(out)
	if s, ok := v.(*seq); ok && s.kind == kindGenerator {
		return list(out), r.made(16 * len(out))
	}
	return generator(out), r.made(16 * len(out))
}

func join(r *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("join", args, named, "d", "", "attribute", nil)
	if err != nil {
		return nil, err
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	get, err := getter(a[1], nil)
	if err != nil {
		return nil, err
	}
	sep, err := str(a[0])
	if err != nil {
		return nil, err
	}
	parts := make([]string, len(items))
	n := 0
	for i, item := range items {
		if item, err = get(item); err != nil {
			return nil, err
		}
		if parts[i], err = str(item); err != nil {
			return nil, err
		}
		n += len(parts[i]) + len(sep)
	}
	if err := r.made(n); err != nil {
		return nil, err
	}
	return strings.Join(parts, sep), nil
}

// getter is Jinja2's make_attrgetter: "a.b.0" walks attributes and items; None is the item itself.
func getter(attribute, fallback value) (func(value) (value, error), error) {
	if attribute == nil {
		return func(v value) (value, error) { return v, nil }, nil
	}
	var parts []value
	if s, ok := asText(attribute); ok {
		for _, p := range strings.Split(s, ".") {
			if n, err := strconv.ParseInt(p, 10, 64); err == nil && n >= 0 && !strings.HasPrefix(p, "+") {
				parts = append(parts, n)
			} else {
				parts = append(parts, p)
			}
		}
	} else {
		parts = []value{attribute}
	}
	return func(v value) (value, error) {
		var err error
		for _, p := range parts {
			if v, err = getItem(v, p); err != nil {
				return nil, err
			}
			if _, u := v.(*undefined); u && fallback != nil {
				v = fallback
			}
		}
		return v, nil
	}, nil
}

func lowered(v value) value {
	if s, ok := asText(v); ok {
		return strings.ToLower(s)
	}
	return v
}

// sorted sorts by keys; what has no order raises.
func sorted(items, keys []value, reverse bool) ([]value, error) {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	var bad error
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := i, j
		if reverse {
			a, b = j, i
		}
		lower, err := less(keys[a], keys[b])
		if err != nil {
			bad = err
			return 0
		}
		if lower {
			return -1
		}
		if higher, _ := less(keys[b], keys[a]); higher {
			return 1
		}
		return 0
	})
	out := make([]value, len(items))
	for i, k := range order {
		out[i] = items[k]
	}
	return out, bad
}

func keysOf(items []value, get func(value) (value, error), caseSensitive bool) ([]value, error) {
	keys := make([]value, len(items))
	for i, item := range items {
		k, err := get(item)
		if err != nil {
			return nil, err
		}
		if !caseSensitive {
			k = lowered(k)
		}
		keys[i] = k
	}
	return keys, nil
}

func sortFilter(r *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("sort", args, named, "reverse", false, "case_sensitive", false, "attribute", nil)
	if err != nil {
		return nil, err
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	keys := make([]value, len(items)) // a key is a list of one value for each attribute, so equal ones are never compared by <
	for i := range keys {
		keys[i] = &seq{}
	}
	by := []value{a[2]}
	if s, ok := asText(a[2]); ok {
		by = nil
		for _, name := range strings.Split(s, ",") {
			by = append(by, name)
		}
	}
	for _, attribute := range by {
		get, err := getter(attribute, nil)
		if err != nil {
			return nil, err
		}
		column, err := keysOf(items, get, truth(a[1]))
		if err != nil {
			return nil, err
		}
		for i, k := range keys {
			k.(*seq).items = append(k.(*seq).items, column[i])
		}
	}
	out, err := sorted(items, keys, truth(a[0]))
	if err != nil {
		return nil, err
	}
	r.steps += len(items)
	return list(out), r.made(16 * len(out))
}

func dictSort(_ *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("dictsort", args, named, "case_sensitive", false, "by", "key", "reverse", false)
	if err != nil {
		return nil, err
	}
	d, ok := v.(*dict)
	if !ok {
		if u, bad := v.(*undefined); bad {
			return nil, u.err()
		}
		return nil, raise("AttributeError", "'%s' object has no attribute 'items'", typeName(v))
	}
	by := d.keys
	if s, _ := asText(a[1]); s == "value" {
		by = d.values
	} else if s != "key" {
		return nil, raise("FilterArgumentError", `You can only sort by either "key" or "value"`)
	}
	pairs := make([]value, len(d.keys))
	for i := range pairs {
		pairs[i] = &seq{kind: kindTuple, items: []value{d.keys[i], d.values[i]}}
	}
	self := func(v value) (value, error) { return v, nil }
	keys, err := keysOf(by, self, truth(a[0]))
	if err != nil {
		return nil, err
	}
	out, err := sorted(pairs, keys, truth(a[2]))
	return list(out), err
}

func unique(_ *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("unique", args, named, "case_sensitive", false, "attribute", nil)
	if err != nil {
		return nil, err
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	get, err := getter(a[1], nil)
	if err != nil {
		return nil, err
	}
	keys, err := keysOf(items, get, truth(a[0]))
	if err != nil {
		return nil, err
	}
	seen := map[any]bool{}
	var out []value
	for i, k := range keys {
		h, ok := hashKey(k)
		if !ok {
			return nil, typeError("unhashable type: '%s'", typeName(k))
		}
		if !seen[h] {
			seen[h] = true
			out = append(out, items[i])
		}
	}
	return generator(out), nil
}

func extremum(largest bool) filterFunc {
	return func(_ *render, v value, args []value, named []keyword) (value, error) {
		a, err := bind("max", args, named, "case_sensitive", false, "attribute", nil)
		if err != nil {
			return nil, err
		}
		items, err := iterate(v)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return &undefined{"No aggregated item, sequence was empty.", "UndefinedError"}, nil
		}
		get, err := getter(a[1], nil)
		if err != nil {
			return nil, err
		}
		keys, err := keysOf(items, get, truth(a[0]))
		if err != nil {
			return nil, err
		}
		best := 0
		for i := 1; i < len(keys); i++ {
			x, y := keys[i], keys[best]
			if largest {
				x, y = y, x
			}
			lower, err := less(x, y)
			if err != nil {
				return nil, err
			}
			if lower {
				best = i
			}
		}
		return items[best], nil
	}
}

func sum(r *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("sum", args, named, "attribute", nil, "start", int64(0))
	if err != nil {
		return nil, err
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	get, err := getter(a[0], nil)
	if err != nil {
		return nil, err
	}
	total := a[1]
	if _, text := asText(total); text {
		return nil, typeError("sum() can't sum strings [use ''.join(seq) instead]")
	}
	floats := 0
	for _, item := range items {
		if item, err = get(item); err != nil {
			return nil, err
		}
		if _, f := item.(float64); f {
			floats++
		}
		if total, err = binary(r, "+", total, item); err != nil {
			return nil, err
		}
	}
	if floats > 2 {
		return nil, unknown("a sum of floats, which newer Pythons compensate")
	}
	return total, nil
}

func batch(_ *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("batch", args, named, "linecount", required, "fill_with", nil)
	if err != nil {
		return nil, err
	}
	n, err := intArg(a[0])
	if err != nil {
		return nil, err
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, unknown("batches of %d", n)
	}
	var out []value
	for i := 0; i < len(items); i += n {
		part := slices.Clone(items[i:min(i+n, len(items))])
		if a[1] != nil && n < 100000 {
			for len(part) < n {
				part = append(part, a[1])
			}
		}
		out = append(out, list(part))
	}
	return generator(out), nil
}

func sliceFilter(_ *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("slice", args, named, "slices", required, "fill_with", nil)
	if err != nil {
		return nil, err
	}
	n, err := intArg(a[0])
	if err != nil {
		return nil, err
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	if n <= 0 || n > 100000 {
		return nil, unknown("%d slices", n)
	}
	per, extra := len(items)/n, len(items)%n
	var out []value
	at := 0
	for i := range n {
		k := per
		if i < extra {
			k++
		}
		part := slices.Clone(items[at : at+k])
		at += k
		if a[1] != nil && i >= extra {
			part = append(part, a[1])
		}
		out = append(out, list(part))
	}
	return generator(out), nil
}

func groupBy(_ *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("groupby", args, named, "attribute", required, "default", nil, "case_sensitive", false)
	if err != nil {
		return nil, err
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	get, err := getter(a[0], a[1])
	if err != nil {
		return nil, err
	}
	keys, err := keysOf(items, get, truth(a[2]))
	if err != nil {
		return nil, err
	}
	idx := make([]value, len(items))
	for i := range idx {
		idx[i] = int64(i)
	}
	order, err := sorted(idx, keys, false)
	if err != nil {
		return nil, err
	}
	var out []value
	for n, o := range order {
		i := o.(int64)
		if n == 0 || !equal(keys[order[n-1].(int64)], keys[i]) {
			name, err := get(items[i])
			if err != nil {
				return nil, err
			}
			out = append(out, &seq{kind: kindTuple, items: []value{name, list(nil)}})
		}
		group := out[len(out)-1].(*seq).items[1].(*seq)
		group.items = append(group.items, items[i])
	}
	return list(out), nil
}

func mapFilter(r *render, v value, args []value, named []keyword) (value, error) {
	if !truth(v) { // None too: Jinja2 asks "if value" first
		return generator(nil), nil
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	var do func(value) (value, error)
	if len(args) == 0 {
		a, err := bind("map", args, named, "attribute", required, "default", nil)
		if err != nil {
			return nil, err
		}
		if do, err = getter(a[0], a[1]); err != nil {
			return nil, err
		}
	} else {
		name, err := textArg(args[0])
		if err != nil {
			return nil, err
		}
		f := filters[name]
		switch {
		case unbuiltFilters[name]:
			return nil, unknown("the filter %s is not built here", name)
		case f == nil:
			return nil, raise("TemplateRuntimeError", "No filter named '%s'.", name)
		}
		do = func(v value) (value, error) { return f(r, v, args[1:], named) }
	}
	out := make([]value, len(items))
	for i, item := range items {
		if err := r.step(); err != nil {
			return nil, err
		}
		if out[i], err = do(item); err != nil {
			return nil, err
		}
	}
	return generator(out), r.made(16 * len(out))
}

func selecting(want, byAttribute bool) filterFunc {
	return func(r *render, v value, args []value, named []keyword) (value, error) {
		if !truth(v) {
			return generator(nil), nil
		}
		if len(named) > 0 {
			return nil, unknown("select or reject with named arguments")
		}
		items, err := iterate(v)
		if err != nil {
			return nil, err
		}
		get := func(v value) (value, error) { return v, nil }
		if byAttribute {
			if len(args) == 0 {
				return nil, raise("FilterArgumentError", "Missing parameter for attribute name")
			}
			if get, err = getter(args[0], nil); err != nil {
				return nil, err
			}
			args = args[1:]
		}
		test := func(_ *render, v value, _ []value) (value, error) { return truth(v), nil }
		if len(args) > 0 {
			name, err := textArg(args[0])
			if err != nil {
				return nil, err
			}
			if tests[name] == nil {
				return nil, raise("TemplateRuntimeError", "No test named '%s'.", name)
			}
			test = tests[name]
			args = args[1:]
		}
		var out []value
		for _, item := range items {
			if err := r.step(); err != nil {
				return nil, err
			}
			x, err := get(item)
			if err != nil {
				return nil, err
			}
			yes, err := test(r, x, args)
			if err != nil {
				return nil, err
			}
			if truth(yes) == want {
				out = append(out, item)
			}
		}
		return generator(out), r.made(16 * len(out))
	}
}
