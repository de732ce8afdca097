package template

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type filterFunc func(r *render, v value, args []value, named []keyword) (value, error)

// unbuiltFilters exist in Jinja2 and not here: a template that names one is not known, not wrong.
var unbuiltFilters = map[string]bool{"filesizeformat": true, "pprint": true, "random": true, "striptags": true, "urlencode": true,
	"urlize": true, "wordwrap": true, "xmlattr": true}

var filters map[string]filterFunc

func init() { // filters look filters up
	filters = map[string]filterFunc{
		"abs": absolute, "attr": attrFilter, "batch": lazy(batch), "capitalize": textFilter("capitalize"), "center": center,
		"count": lengthFilter, "d": defaultFilter, "default": defaultFilter, "dictsort": dictSort, "e": escapeFilter,
		"escape": escapeFilter, "first": first, "float": floatFilter, "forceescape": escapeFilter, "format": formatFilter,
		"groupby": groupBy, "indent": indent, "int": intFilter, "items": itemsFilter, "join": join, "last": last,
		"length": lengthFilter, "list": listFilter, "lower": textFilter("lower"), "map": lazy(mapFilter), "max": extremum(true),
		"min": extremum(false), "reject": lazy(selecting(false, false)), "rejectattr": lazy(selecting(false, true)), "replace": replaceFilter,
		"reverse": reverse, "round": round, "safe": safe, "select": lazy(selecting(true, false)), "selectattr": lazy(selecting(true, true)),
		"slice": lazy(sliceFilter), "sort": sortFilter, "string": stringFilter, "sum": sum, "title": title, "tojson": toJSON, "trim": trim,
		"truncate": truncate, "unique": lazy(unique), "upper": textFilter("upper"), "wordcount": wordCount,
	}
}

// lazy makes a filter raise when its result is read, as Python's generators do: one that nobody reads raises nothing.
func lazy(f filterFunc) filterFunc {
	return func(r *render, v value, args []value, named []keyword) (value, error) {
		out, err := f(r, v, args, named)
		if raised, ok := err.(*Raised); ok {
			return &seq{kind: kindGenerator, fail: raised}, nil
		}
		return out, err
	}
}

func textFilter(method string) filterFunc {
	return func(r *render, v value, args []value, named []keyword) (value, error) {
		if _, err := bind(method, args, named); err != nil {
			return nil, err
		}
		s, err := str(v)
		if err != nil {
			return nil, err
		}
		return caseOf(s, method)
	}
}

// title splits at blanks, hyphens and opening brackets: Jinja2's own, not str.title.
func title(_ *render, v value, args []value, named []keyword) (value, error) {
	if _, err := bind("title", args, named); err != nil {
		return nil, err
	}
	s, err := str(v)
	if err != nil {
		return nil, err
	}
	for _, r := range s {
		if fullCase(r) {
			return nil, unknown("the title of %q", r)
		}
	}
	start := true
	return strings.Map(func(r rune) rune {
		begin := start
		start = isSpace(r) || strings.ContainsRune("-({[<", r)
		if begin && !start {
			return unicode.ToUpper(r)
		}
		return unicode.ToLower(r)
	}, s), nil
}

func stringFilter(_ *render, v value, args []value, named []keyword) (value, error) {
	if m, ok := v.(markup); ok {
		return m, nil
	}
	if _, err := bind("string", args, named); err != nil {
		return nil, err
	}
	return str(v)
}

func safe(_ *render, v value, _ []value, _ []keyword) (value, error) {
	s, err := str(v)
	return markup(s), err
}

func escapeFilter(_ *render, v value, _ []value, _ []keyword) (value, error) {
	if m, ok := v.(markup); ok {
		return m, nil
	}
	s, err := str(v)
	return markup(escapeHTML(s)), err
}

func trim(_ *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("trim", args, named, "chars", nil)
	if err != nil {
		return nil, err
	}
	s, err := str(v)
	if err != nil {
		return nil, err
	}
	out, err := strip(s, "strip", a[0])
	if err != nil {
		return nil, err
	}
	return sameText(v, out.(string)), nil
}

func replaceFilter(r *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("replace", args, named, "old", required, "new", required, "count", nil)
	if err != nil {
		return nil, err
	}
	for i := range 2 {
		if a[i], err = str(a[i]); err != nil {
			return nil, err
		}
	}
	s, err := str(v)
	if err != nil {
		return nil, err
	}
	return replace(r, s, a)
}

func defaultFilter(_ *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("default", args, named, "default_value", "", "boolean", false)
	if err != nil {
		return nil, err
	}
	if _, u := v.(*undefined); u || truth(a[1]) && !truth(v) {
		return a[0], nil
	}
	return v, nil
}

func lengthFilter(_ *render, v value, args []value, named []keyword) (value, error) {
	if _, err := bind("length", args, named); err != nil {
		return nil, err
	}
	n, err := length(v)
	return int64(n), err
}

func absolute(_ *render, v value, _ []value, _ []keyword) (value, error) {
	if f, ok := v.(float64); ok {
		return math.Abs(f), nil
	}
	if !isInt(v) {
		return nil, typeError("bad operand type for abs(): '%s'", typeName(v))
	}
	return normal(new(big.Int).Abs(bigOf(v))), nil
}

func round(_ *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("round", args, named, "precision", int64(0), "method", "common")
	if err != nil {
		return nil, err
	}
	method, _ := asText(a[1])
	if method != "common" && method != "ceil" && method != "floor" {
		return nil, raise("FilterArgumentError", "method must be common, ceil or floor")
	}
	n, err := intArg(a[0])
	if err != nil {
		return nil, err
	}
	if !isNumber(v) {
		return nil, typeError("type %s doesn't define __round__ method", typeName(v))
	}
	if isInt(v) && method == "common" {
		if n < 0 {
			return nil, unknown("rounding an integer to tens")
		}
		return normal(bigOf(v)), nil
	}
	f, err := floatOf(v)
	if err != nil {
		return nil, err
	}
	if n > 300 || n < -300 {
		return nil, unknown("rounding to %d digits", n)
	}
	switch {
	case method == "ceil":
		return math.Ceil(f*math.Pow(10, float64(n))) / math.Pow(10, float64(n)), nil
	case method == "floor":
		return math.Floor(f*math.Pow(10, float64(n))) / math.Pow(10, float64(n)), nil
	case math.IsInf(f, 0) || math.IsNaN(f):
		return f, nil
	case n < 0:
		return nil, unknown("rounding a float to tens")
	}
	out, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', n, 64), 64) // correctly rounded decimals, as Python's
	return out, nil
}

func intFilter(_ *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("int", args, named, "default", int64(0), "base", int64(10))
	if err != nil {
		return nil, err
	}
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	if isInt(v) {
		return normal(bigOf(v)), nil
	}
	f, isFloat := v.(float64)
	if s, ok := asText(v); ok {
		base, err := intArg(a[1])
		if err != nil {
			return nil, err
		}
		text := strings.TrimFunc(s, isSpace)
		if base < 2 || base > 36 {
			return nil, unknown("an integer in base %d", base)
		}
		if plainNumber(text) && len(text) < maxDigits {
			if n, ok := new(big.Int).SetString(strings.ReplaceAll(text, "_", ""), base); ok {
				return normal(n), nil
			}
		}
		if f, isFloat = parseFloat(text); !isFloat {
			return a[0], nil
		}
	}
	if !isFloat || math.IsInf(f, 0) || math.IsNaN(f) {
		return a[0], nil
	}
	n, _ := big.NewFloat(math.Trunc(f)).Int(nil)
	return normal(n), nil
}

// plainNumber says that Python's underscores are where it allows them.
func plainNumber(s string) bool {
	return s != "" && !strings.HasPrefix(s, "_") && !strings.HasSuffix(s, "_") && !strings.Contains(s, "__") &&
		!strings.HasPrefix(strings.TrimLeft(s, "+-"), "_")
}

func parseFloat(s string) (float64, bool) {
	if !plainNumber(s) || strings.ContainsAny(s, "xXpP") {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0)
}

func floatFilter(_ *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("float", args, named, "default", 0.0)
	if err != nil {
		return nil, err
	}
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	if isNumber(v) {
		return floatOf(v)
	}
	if s, ok := asText(v); ok {
		if f, ok := parseFloat(strings.TrimFunc(s, isSpace)); ok {
			return f, nil
		}
	}
	return a[0], nil
}

func indent(r *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("indent", args, named, "width", int64(4), "first", false, "blank", false)
	if err != nil {
		return nil, err
	}
	s, ok := asText(v)
	if !ok {
		if u, bad := v.(*undefined); bad {
			return nil, u.err()
		}
		if l, ok := v.(*seq); ok && l.kind == kindList {
			return nil, raise("AttributeError", "'list' object has no attribute 'splitlines'")
		}
		return nil, typeError(`can only concatenate str (not "%s") to str`, typeName(v))
	}
	pad, ok := asText(a[0])
	if !ok {
		n, err := intArg(a[0])
		if err != nil {
			return nil, err
		}
		if err := r.made(n); err != nil {
			return nil, err
		}
		pad = strings.Repeat(" ", max(n, 0))
	}
	lines := splitLines(s + "\n")
	if err := r.made(len(lines)*len(pad) + len(s)); err != nil {
		return nil, err
	}
	for i := range lines {
		if i > 0 && (lines[i] != "" || truth(a[2])) || i == 0 && truth(a[1]) {
			lines[i] = pad + lines[i]
		}
	}
	return sameText(v, strings.Join(lines, "\n")), nil
}

func truncate(_ *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("truncate", args, named, "length", int64(255), "killwords", false, "end", "...", "leeway", int64(5))
	if err != nil {
		return nil, err
	}
	n, err := intArg(a[0])
	if err != nil {
		return nil, err
	}
	end, err := textArg(a[2])
	if err != nil {
		return nil, err
	}
	leeway := 5
	if a[3] != nil {
		if leeway, err = intArg(a[3]); err != nil {
			return nil, err
		}
	}
	keep := n - utf8.RuneCountInString(end)
	if keep < 0 || leeway < 0 {
		return nil, raise("AssertionError", "expected length >= %d", utf8.RuneCountInString(end))
	}
	size, err := length(v)
	if err != nil {
		return nil, err
	}
	if size <= n+leeway {
		return v, nil
	}
	s, ok := asText(v)
	if !ok {
		return nil, typeError("a %s cannot be cut and joined with a str", typeName(v))
	}
	runes := []rune(s)
	out := string(runes[:keep])
	if !truth(a[1]) {
		if i := strings.LastIndex(out, " "); i >= 0 {
			out = out[:i]
		}
	}
	return sameText(v, out+end), nil
}

func center(r *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("center", args, named, "width", int64(80))
	if err != nil {
		return nil, err
	}
	s, err := str(v)
	if err != nil {
		return nil, err
	}
	return justify(r, s, "center", a, nil)
}

func wordCount(_ *render, v value, _ []value, _ []keyword) (value, error) {
	s, err := str(v)
	if err != nil {
		return nil, err
	}
	return int64(len(strings.FieldsFunc(s, func(r rune) bool { return !isWord(r) }))), nil
}

func formatFilter(r *render, v value, args []value, named []keyword) (value, error) {
	if len(args) > 0 && len(named) > 0 {
		return nil, raise("FilterArgumentError", "can't handle positional and keyword arguments at the same time")
	}
	s, err := str(v)
	if err != nil {
		return nil, err
	}
	if len(named) > 0 {
		d := &dict{}
		for _, k := range named {
			d.set(k.name, k.v)
		}
		return percent(r, sameText(v, s), d)
	}
	return percent(r, sameText(v, s), &seq{kind: kindTuple, items: args})
}

func attrFilter(_ *render, v value, args []value, named []keyword) (value, error) {
	a, err := bind("attr", args, named, "name", required)
	if err != nil {
		return nil, err
	}
	name, err := str(a[0])
	if err != nil {
		return nil, err
	}
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	if ns, ok := v.(*namespace); ok {
		if x, ok := ns.attrs.get(name); ok {
			return x, nil
		}
	}
	x, found, err := attribute(v, name)
	if err != nil || found {
		return x, err
	}
	return missing(v, name), nil
}

func itemsFilter(r *render, v value, args []value, named []keyword) (value, error) {
	if _, u := v.(*undefined); u {
		return generator(nil), nil
	}
	d, ok := v.(*dict)
	if !ok {
		return &seq{kind: kindGenerator, fail: typeError("Can only get item pairs from a mapping.")}, nil
	}
	s, err := dictMethod(d, "items").do(r, args, named)
	if err != nil {
		return nil, err
	}
	return generator(slices.Clone(s.(*seq).items)), nil
}
