package template

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// percent is Python's "…" % args with the conversions d i u s r f F e g x X o c a and %%.
func percent(r *render, format, args value) (value, error) {
	if _, m := format.(markup); m {
		return nil, unknown("%% on Markup")
	}
	s, _ := asText(format)
	items := []value{args}
	if t, ok := args.(*seq); ok && t.kind == kindTuple {
		items = t.items
	}
	d, _ := args.(*dict)
	// Whatever has items by key or place counts as a mapping, of which nothing need be used; a str does not.
	loose := false
	switch v := args.(type) {
	case *dict, *undefined:
		loose = true
	case *seq:
		loose = v.kind == kindList || v.kind == kindRange
	}
	used := 0
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			b.WriteString(s)
			break
		}
		b.WriteString(s[:i])
		s = s[i+1:]
		var arg value
		have := false
		if strings.HasPrefix(s, "(") {
			end := strings.IndexByte(s, ')')
			if end < 0 {
				return nil, raise("ValueError", "incomplete format key")
			}
			if d == nil {
				return nil, typeError("format requires a mapping")
			}
			v, ok := d.get(s[1:end])
			if !ok {
				return nil, raise("KeyError", "'%s'", s[1:end])
			}
			arg, have, used = v, true, 1
			s = s[end+1:]
		}
		n := 0
		for n < len(s) && strings.IndexByte("-+ #0123456789.", s[n]) >= 0 {
			n++
		}
		if n >= len(s) {
			return nil, raise("ValueError", "incomplete format")
		}
		flags, verb := s[:n], s[n]
		s = s[n+1:]
		if verb == '%' {
			b.WriteByte('%')
			continue
		}
		if verb == '*' {
			return nil, unknown("a width from the arguments in %%")
		}
		if !have {
			if used >= len(items) {
				return nil, typeError("not enough arguments for format string")
			}
			arg = items[used]
			used++
		}
		text, err := convert(flags, verb, arg)
		if err != nil {
			return nil, err
		}
		if err := r.made(len(text)); err != nil {
			return nil, err
		}
		b.WriteString(text)
	}
	if used < len(items) && !loose {
		return nil, typeError("not all arguments converted during string formatting")
	}
	return b.String(), r.made(b.Len())
}

func convert(flags string, verb byte, arg value) (string, error) {
	if digits := strings.TrimLeft(flags, "-+ #0"); len(digits) > 6 {
		return "", &Limit{What: "a width in % is too large"}
	}
	if u, ok := arg.(*undefined); ok && verb != 's' && verb != 'r' && verb != 'a' {
		return "", u.err()
	}
	switch verb {
	case 's', 'r', 'a':
		text, err := str(arg)
		if verb != 's' {
			text, err = reprText(arg)
			if verb == 'a' && strings.IndexFunc(text, func(r rune) bool { return r >= 0x80 }) >= 0 {
				return "", unknown("%%a outside ASCII")
			}
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%"+strings.Trim(flags, "+ #0")+"s", text), nil
	case 'd', 'i', 'u':
		n := new(big.Int)
		switch v := arg.(type) {
		case float64:
			if v-v != 0 {
				return "", raise("OverflowError", "cannot convert float infinity or NaN to integer")
			}
			big.NewFloat(v).Int(n)
		default:
			if !isInt(arg) {
				return "", typeError("%%%c format: a real number is required, not %s", verb, typeName(arg))
			}
			n = bigOf(arg)
		}
		return fmt.Sprintf("%"+flags+"d", n), nil
	case 'x', 'X', 'o':
		if !isInt(arg) {
			return "", typeError("%%%c format: an integer is required, not %s", verb, typeName(arg))
		}
		if strings.Contains(flags, "#") && verb == 'o' {
			return "", unknown("%%#o")
		}
		return fmt.Sprintf("%"+flags+string(verb), bigOf(arg)), nil
	case 'f', 'F', 'e', 'E', 'g', 'G':
		if !isNumber(arg) {
			return "", typeError("must be real number, not %s", typeName(arg))
		}
		f, err := floatOf(arg)
		if err != nil {
			return "", err
		}
		if strings.Contains(flags, "#") || f != f || f-f != 0 {
			return "", unknown("%% of an infinite number or with #")
		}
		if (verb == 'g' || verb == 'G') && !strings.Contains(flags, ".") {
			flags += ".6"
		}
		return fmt.Sprintf("%"+flags+string(verb), f), nil
	case 'c':
		if s, ok := asText(arg); ok && utf8.RuneCountInString(s) == 1 {
			return s, nil
		}
		return "", unknown("%%c of %s", typeName(arg))
	}
	return "", raise("ValueError", "unsupported format character %s", strconv.QuoteRune(rune(verb)))
}

// formatBraces is "…".format(…) with plain fields; a format spec, a conversion or an attribute is not known here.
func formatBraces(r *render, s string, args []value, named []keyword) (value, error) {
	var b strings.Builder
	auto := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '{' && c != '}' {
			b.WriteByte(c)
			continue
		}
		if i+1 < len(s) && s[i+1] == c {
			b.WriteByte(c)
			i++
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if c == '}' || end < 0 {
			return nil, raise("ValueError", "Single '%c' encountered in format string", c)
		}
		field := s[i+1 : i+end]
		i += end
		if strings.ContainsAny(field, "!:.[{") {
			return nil, unknown("the format field {%s}", field)
		}
		var v value
		found := false
		if n, err := strconv.Atoi(field); err == nil || field == "" {
			if field == "" {
				n = auto
				auto++
			}
			if n >= len(args) || n < 0 {
				return nil, raise("IndexError", "Replacement index %d out of range for positional args tuple", n)
			}
			v, found = args[n], true
		}
		for _, k := range named {
			if k.name == field {
				v, found = k.v, true
			}
		}
		if !found {
			return nil, raise("KeyError", "'%s'", field)
		}
		text, err := str(v)
		if err != nil {
			return nil, err
		}
		if err := r.made(len(text)); err != nil {
			return nil, err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}
