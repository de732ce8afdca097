package template

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// strMethods are the methods of Python's str. What is not built says so when it is called.
var strMethods = []string{"capitalize", "casefold", "center", "count", "encode", "endswith", "expandtabs", "find", "format", "format_map",
	"index", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable", "isspace",
	"istitle", "isupper", "join", "ljust", "lower", "lstrip", "maketrans", "partition", "removeprefix", "removesuffix", "replace", "rfind",
	"rindex", "rjust", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase", "title", "translate",
	"upper", "zfill"}

func stringMethod(v value, name string) (value, bool, error) {
	if !slices.Contains(strMethods, name) {
		return nil, false, nil
	}
	s, _ := asText(v)
	return &function{"str." + name, func(r *render, args []value, named []keyword) (value, error) {
		for _, a := range args {
			if u, ok := a.(*undefined); ok {
				return nil, typeError("%s() argument must be str, not %s", name, typeName(u))
			}
		}
		r.cost(s)
		out, err := callString(r, s, name, args, named)
		if err != nil {
			return nil, err
		}
		if text, ok := out.(string); ok {
			if err := r.made(len(text)); err != nil {
				return nil, err
			}
			if _, m := v.(markup); m {
				if name == "replace" || name == "join" || name == "format" {
					return nil, unknown("the method %s of Markup", name)
				}
				return markup(text), nil
			}
		}
		return out, nil
	}}, true, nil
}

func callString(r *render, s, name string, args []value, named []keyword) (value, error) {
	switch name {
	case "upper", "lower", "capitalize", "title", "casefold", "swapcase":
		if len(args)+len(named) > 0 {
			return nil, typeError("str.%s() takes no arguments (%d given)", name, len(args)+len(named))
		}
		return caseOf(s, name)
	case "strip", "lstrip", "rstrip":
		a, err := positional(name, args, named, 0, 1)
		if err != nil {
			return nil, err
		}
		return strip(s, name, a[0])
	case "split", "rsplit":
		return split(r, s, name, args, named)
	case "splitlines":
		a, err := bind(name, args, named, "keepends", false)
		if err != nil {
			return nil, err
		}
		if truth(a[0]) {
			return nil, unknown("splitlines with keepends")
		}
		return textList(r, splitLines(s))
	case "startswith", "endswith", "count", "find", "rfind", "index", "rindex":
		a, err := positional(name, args, named, 1, 3)
		if err != nil {
			return nil, err
		}
		return search(s, name, a)
	case "replace":
		a, err := positional(name, args, named, 2, 3)
		if err != nil {
			return nil, err
		}
		return replace(r, s, a)
	case "join":
		a, err := positional(name, args, named, 1, 1)
		if err != nil {
			return nil, err
		}
		items, err := iterate(a[0])
		if err != nil {
			return nil, typeError("can only join an iterable")
		}
		parts := make([]string, len(items))
		n := 0
		for i, item := range items {
			var ok bool
			if parts[i], ok = asText(item); !ok {
				return nil, typeError("sequence item %d: expected str instance, %s found", i, typeName(item))
			}
			n += len(parts[i]) + len(s)
		}
		if err := r.made(n); err != nil {
			return nil, err
		}
		return strings.Join(parts, s), nil
	case "removeprefix", "removesuffix", "partition", "rpartition":
		a, err := positional(name, args, named, 1, 1)
		if err != nil {
			return nil, err
		}
		part, err := textArg(a[0])
		if err != nil {
			return nil, err
		}
		return cut(s, name, part)
	case "ljust", "rjust", "center", "zfill":
		return justify(r, s, name, args, named)
	case "format":
		return formatBraces(r, s, args, named)
	}
	if strings.HasPrefix(name, "is") {
		if len(args)+len(named) > 0 {
			return nil, typeError("str.%s() takes no arguments (%d given)", name, len(args))
		}
		return isOf(s, name)
	}
	return nil, unknown("the method %s of a string", name)
}

// positional checks the number of arguments of a method that takes no names; absent ones are None.
func positional(f string, args []value, named []keyword, least, most int) ([]value, error) {
	if len(named) > 0 {
		return nil, typeError("%s() takes no keyword arguments", f)
	}
	if len(args) < least || len(args) > most {
		return nil, typeError("%s() takes %d to %d arguments (%d given)", f, least, most, len(args))
	}
	out := make([]value, most)
	copy(out, args)
	return out, nil
}

// caseOf changes case. Python's full mappings (ß to SS) are those of Go's special casing only in part, so a character
// whose full mapping differs from the simple one is not known here.
func caseOf(s, name string) (value, error) {
	for _, r := range s {
		if r >= 0x80 && fullCase(r) {
			return nil, unknown("the %s of %q", name, r)
		}
	}
	switch name {
	case "upper":
		return strings.ToUpper(s), nil
	case "lower", "casefold":
		return strings.ToLower(s), nil
	case "capitalize":
		_, w := utf8.DecodeRuneInString(s)
		return strings.ToTitle(s[:w]) + strings.ToLower(s[w:]), nil
	case "swapcase":
		return strings.Map(func(r rune) rune {
			if unicode.IsUpper(r) {
				return unicode.ToLower(r)
			}
			return unicode.ToUpper(r)
		}, s), nil
	}
	inside := false
	return strings.Map(func(r rune) rune {
		cased := unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r)
		out := unicode.ToTitle(r)
		if inside {
			out = unicode.ToLower(r)
		}
		inside = cased
		return out
	}, s), nil
}

// fullCase says whether Unicode's SpecialCasing.txt gives a character more than one, or one that depends on its place.
func fullCase(r rune) bool {
	switch r {
	case 'ß', 'ŉ', 'ǰ', 'ΐ', 'ΰ', 'և', 'İ', 'Σ', 'ς', 'ẖ', 'ẗ', 'ẘ', 'ẙ', 'ẚ', 'ẞ':
		return true
	}
	return r >= 0x1f50 && r <= 0x1fff || r >= 0xfb00 && r <= 0xfb17
}

func strip(s, name string, chars value) (value, error) {
	in := isSpace
	if chars != nil {
		set, ok := asText(chars)
		if !ok {
			return nil, typeError("%s arg must be None or str", name)
		}
		in = func(r rune) bool { return strings.ContainsRune(set, r) }
	}
	if name != "rstrip" {
		s = strings.TrimLeftFunc(s, in)
	}
	if name != "lstrip" {
		s = strings.TrimRightFunc(s, in)
	}
	return s, nil
}

func textList(r *render, parts []string) (value, error) {
	out := make([]value, len(parts))
	for i, p := range parts {
		out[i] = p
	}
	return list(out), r.made(16 * len(parts))
}

func split(r *render, s, name string, args []value, named []keyword) (value, error) {
	a, err := bind(name, args, named, "sep", nil, "maxsplit", int64(-1))
	if err != nil {
		return nil, err
	}
	most, err := intArg(a[1])
	if err != nil {
		return nil, err
	}
	if a[0] != nil {
		sep, ok := asText(a[0])
		switch {
		case !ok:
			return nil, typeError("must be str or None, not %s", typeName(a[0]))
		case sep == "":
			return nil, raise("ValueError", "empty separator")
		case most < 0:
			return textList(r, strings.Split(s, sep))
		case name == "split":
			return textList(r, strings.SplitN(s, sep, most+1))
		}
		var parts []string
		for len(parts) < most {
			i := strings.LastIndex(s, sep)
			if i < 0 {
				break
			}
			parts = append(parts, s[i+len(sep):])
			s = s[:i]
		}
		parts = append(parts, s)
		slices.Reverse(parts)
		return textList(r, parts)
	}
	if most < 0 {
		return textList(r, strings.FieldsFunc(s, isSpace))
	}
	var parts []string
	if name == "split" {
		for s = strings.TrimLeftFunc(s, isSpace); s != ""; s = strings.TrimLeftFunc(s, isSpace) {
			i := strings.IndexFunc(s, isSpace)
			if i < 0 || len(parts) == most {
				parts = append(parts, s)
				break
			}
			parts = append(parts, s[:i])
			s = s[i:]
		}
		return textList(r, parts)
	}
	for s = strings.TrimRightFunc(s, isSpace); s != ""; s = strings.TrimRightFunc(s, isSpace) {
		i := strings.LastIndexFunc(s, isSpace)
		if i < 0 || len(parts) == most {
			parts = append(parts, s)
			break
		}
		_, w := utf8.DecodeRuneInString(s[i:])
		parts = append(parts, s[i+w:])
		s = s[:i]
	}
	slices.Reverse(parts)
	return textList(r, parts)
}

// splitLines is Python's str.splitlines: CR LF, LF, CR, VT, FF, FS, GS, RS, NEL, LS and PS end a line.
func splitLines(s string) []string {
	var out []string
	start := 0
	for i := 0; i < len(s); {
		r, w := utf8.DecodeRuneInString(s[i:])
		switch r {
		case '\n', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029, '\r':
			out = append(out, s[start:i])
			if r == '\r' && strings.HasPrefix(s[i+1:], "\n") {
				w = 2
			}
			start = i + w
		}
		i += w
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

func search(s, name string, a []value) (value, error) {
	needles := []value{a[0]}
	if t, ok := a[0].(*seq); ok && t.kind == kindTuple && strings.HasSuffix(name, "with") {
		needles = t.items
	}
	shift := 0
	if a[1] != nil || a[2] != nil {
		runes := []rune(s)
		from, to, _, err := sliceBounds([3]value{a[1], a[2], nil}, len(runes))
		if err != nil {
			return nil, err
		}
		if from > to || a[1] != nil && isInt(a[1]) && order(a[1], int64(len(runes))) > 0 {
			if name == "index" || name == "rindex" {
				return nil, raise("ValueError", "substring not found")
			}
			return map[string]value{"startswith": false, "endswith": false, "count": int64(0), "find": int64(-1), "rfind": int64(-1)}[name], nil
		}
		shift = from
		s = string(runes[from:to])
	}
	for _, n := range needles {
		needle, ok := asText(n)
		if !ok {
			return nil, typeError("%s first arg must be str, not %s", name, typeName(n))
		}
		switch name {
		case "startswith", "endswith":
			if name == "startswith" && strings.HasPrefix(s, needle) || name == "endswith" && strings.HasSuffix(s, needle) {
				return true, nil
			}
			continue
		case "count":
			return int64(strings.Count(s, needle)), nil
		}
		i := strings.Index(s, needle)
		if name[0] == 'r' {
			i = strings.LastIndex(s, needle)
		}
		if i >= 0 {
			return int64(shift + utf8.RuneCountInString(s[:i])), nil
		}
		if strings.HasSuffix(name, "find") {
			return int64(-1), nil
		}
		return nil, raise("ValueError", "substring not found")
	}
	return false, nil
}

func replace(r *render, s string, a []value) (value, error) {
	old, err := textArg(a[0])
	if err != nil {
		return nil, err
	}
	with, err := textArg(a[1])
	if err != nil {
		return nil, err
	}
	count := -1
	if a[2] != nil {
		if count, err = intArg(a[2]); err != nil {
			return nil, err
		}
	}
	n := strings.Count(s, old)
	if count >= 0 {
		n = min(n, count)
	}
	if err := r.made(n * len(with)); err != nil {
		return nil, err
	}
	return strings.Replace(s, old, with, count), nil
}

func cut(s, name, part string) (value, error) {
	switch name {
	case "removeprefix":
		return strings.TrimPrefix(s, part), nil
	case "removesuffix":
		return strings.TrimSuffix(s, part), nil
	}
	if part == "" {
		return nil, raise("ValueError", "empty separator")
	}
	i := strings.Index(s, part)
	out := []value{s, "", ""}
	if name == "rpartition" {
		i = strings.LastIndex(s, part)
		out = []value{"", "", s}
	}
	if i >= 0 {
		out = []value{s[:i], part, s[i+len(part):]}
	}
	return &seq{kind: kindTuple, items: out}, nil
}

func justify(r *render, s, name string, args []value, named []keyword) (value, error) {
	a, err := positional(name, args, named, 1, 2)
	if err != nil {
		return nil, err
	}
	width, err := intArg(a[0])
	if err != nil {
		return nil, err
	}
	fill := " "
	if a[1] != nil && name != "zfill" {
		if fill, err = textArg(a[1]); err != nil {
			return nil, err
		}
		if utf8.RuneCountInString(fill) != 1 {
			return nil, typeError("The fill character must be exactly one character long")
		}
	}
	n := width - utf8.RuneCountInString(s)
	if n <= 0 {
		return s, nil
	}
	if err := r.made(n * len(fill)); err != nil {
		return nil, err
	}
	switch name {
	case "ljust":
		return s + strings.Repeat(fill, n), nil
	case "rjust":
		return strings.Repeat(fill, n) + s, nil
	case "zfill":
		if s != "" && (s[0] == '-' || s[0] == '+') {
			return s[:1] + strings.Repeat("0", n) + s[1:], nil
		}
		return strings.Repeat("0", n) + s, nil
	}
	left := n/2 + (n & width & 1) // Python's own rounding
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, n-left), nil
}

func isOf(s, name string) (value, error) {
	all := func(in func(rune) bool) (value, error) {
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !in(r) }) < 0, nil
	}
	ascii := strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
	switch name {
	case "isascii":
		return ascii, nil
	case "isspace":
		return all(isSpace)
	case "isalpha":
		return all(unicode.IsLetter)
	case "isdecimal":
		return all(func(r rune) bool { return unicode.Is(unicode.Nd, r) })
	case "islower", "isupper":
		cased := false
		for _, r := range s {
			up, low := unicode.IsUpper(r) || unicode.IsTitle(r), unicode.IsLower(r)
			if name == "islower" && up || name == "isupper" && (low || unicode.IsTitle(r)) {
				return false, nil
			}
			cased = cased || up || low
		}
		return cased, nil
	}
	if !ascii {
		return nil, unknown("%s of a string outside ASCII", name)
	}
	switch name {
	case "isdigit", "isnumeric":
		return all(unicode.IsDigit)
	case "isalnum":
		return all(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	case "isprintable":
		return strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }) < 0, nil
	}
	return nil, unknown("the method %s of a string", name)
}
