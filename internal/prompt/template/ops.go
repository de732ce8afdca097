package template

import (
	"math"
	"math/big"
	"slices"
	"strings"
)

func isInt(v value) bool {
	switch v.(type) {
	case bool, int64, *big.Int:
		return true
	}
	return false
}

func isNumber(v value) bool {
	_, float := v.(float64)
	return float || isInt(v)
}

func bigOf(v value) *big.Int {
	switch v := v.(type) {
	case bool:
		if v {
			return big.NewInt(1)
		}
		return new(big.Int)
	case int64:
		return big.NewInt(v)
	case *big.Int:
		return v
	}
	return new(big.Int)
}

// floatOf is Python's float(int): an integer too large raises.
func floatOf(v value) (float64, error) {
	if f, ok := v.(float64); ok {
		return f, nil
	}
	if n, ok := v.(int64); ok {
		return float64(n), nil
	}
	f, _ := new(big.Float).SetInt(bigOf(v)).Float64()
	if math.IsInf(f, 0) {
		return 0, raise("OverflowError", "int too large to convert to float")
	}
	return f, nil
}

// binary is + - * / // % ** with Python's types: nothing is converted silently.
func binary(r *render, op string, a, b value) (value, error) {
	if _, text := asText(a); text && op == "%" {
		return percent(r, a, b)
	}
	for _, v := range []value{a, b} {
		if u, ok := v.(*undefined); ok {
			return nil, u.err()
		}
	}
	if isNumber(a) && isNumber(b) {
		return arithmetic(op, a, b)
	}
	sa, aText := asText(a)
	sb, bText := asText(b)
	switch {
	case op == "+" && aText && bText:
		if err := r.made(len(sa) + len(sb)); err != nil {
			return nil, err
		}
		return joinMarkup(a, b, sa, sb), nil
	case op == "+":
		x, ok := a.(*seq)
		y, ok2 := b.(*seq)
		if ok && ok2 && x.kind == y.kind && x.kind <= kindTuple {
			if err := r.made(16 * (len(x.items) + len(y.items))); err != nil {
				return nil, err
			}
			return &seq{kind: x.kind, items: slices.Concat(x.items, y.items)}, nil
		}
		if aText {
			return nil, typeError(`can only concatenate str (not "%s") to str`, typeName(b))
		}
	case op == "*" && isInt(a):
		return repeat(r, b, a)
	case op == "*" && isInt(b):
		return repeat(r, a, b)
	}
	return nil, typeError("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
}

// joinMarkup is a + b of strings: beside Markup the other one is escaped.
func joinMarkup(a, b value, sa, sb string) value {
	_, am := a.(markup)
	_, bm := b.(markup)
	switch {
	case am && bm:
		return markup(sa + sb)
	case am:
		return markup(sa + escapeHTML(sb))
	case bm:
		return markup(escapeHTML(sa) + sb)
	}
	return sa + sb
}

func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(s)
}

func repeat(r *render, v, times value) (value, error) {
	n := bigOf(times)
	count := 0
	if n.Sign() > 0 {
		if !n.IsInt64() || n.Int64() > math.MaxInt32 {
			return nil, &Limit{What: "a repetition makes too much text"}
		}
		count = int(n.Int64())
	}
	if s, ok := asText(v); ok {
		if err := r.made(len(s) * count); err != nil {
			return nil, err
		}
		out := strings.Repeat(s, count)
		if _, m := v.(markup); m {
			return markup(out), nil
		}
		return out, nil
	}
	if s, ok := v.(*seq); ok && s.kind <= kindTuple {
		if err := r.made(16 * len(s.items) * count); err != nil {
			return nil, err
		}
		return &seq{kind: s.kind, items: slices.Repeat(s.items, count)}, nil
	}
	return nil, typeError("unsupported operand type(s) for *: '%s' and 'int'", typeName(v))
}

// maxBits bounds integers: Python would compute on, and then refuse to print more than 4,300 digits.
const maxBits = 1 << 16

func arithmetic(op string, a, b value) (value, error) {
	if isInt(a) && isInt(b) && op != "/" {
		return integers(op, a, b)
	}
	x, err := floatOf(a)
	if err != nil {
		return nil, err
	}
	y, err := floatOf(b)
	if err != nil {
		return nil, err
	}
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "**":
		return power(x, y)
	}
	if y == 0 {
		if op == "/" && isInt(a) && isInt(b) {
			return nil, raise("ZeroDivisionError", "division by zero")
		}
		return nil, raise("ZeroDivisionError", "float %s by zero", map[string]string{"/": "division", "//": "floor division", "%": "modulo"}[op])
	}
	if op == "/" {
		if isInt(a) && isInt(b) {
			f, _ := new(big.Rat).SetFrac(bigOf(a), bigOf(b)).Float64()
			return f, nil
		}
		return x / y, nil
	}
	// Python's float divmod: the remainder has the divisor's sign.
	mod := math.Mod(x, y)
	div := (x - mod) / y
	if mod != 0 {
		if (y < 0) != (mod < 0) {
			mod += y
			div--
		}
	} else {
		mod = math.Copysign(0, y)
	}
	if op == "%" {
		return mod, nil
	}
	if div == 0 {
		return math.Copysign(0, x/y), nil
	}
	floor := math.Floor(div)
	if div-floor > 0.5 {
		floor++
	}
	return floor, nil
}

func power(x, y float64) (value, error) {
	if x == 0 && y < 0 {
		return nil, raise("ZeroDivisionError", "0.0 cannot be raised to a negative power")
	}
	if x < 0 && y != math.Trunc(y) && !math.IsInf(x, 0) {
		return nil, unknown("a complex number")
	}
	f := math.Pow(x, y)
	if math.IsInf(f, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		return nil, raise("OverflowError", "(34, 'Numerical result out of range')")
	}
	return f, nil
}

func integers(op string, a, b value) (value, error) {
	if x, ok := a.(int64); ok {
		if y, ok := b.(int64); ok {
			switch { // the common case, far from overflow
			case op == "+" && x>>62 == x>>63 && y>>62 == y>>63:
				return x + y, nil
			case op == "-" && x>>62 == x>>63 && y>>62 == y>>63:
				return x - y, nil
			}
		}
	}
	x, y := bigOf(a), bigOf(b)
	z := new(big.Int)
	switch op {
	case "+":
		z.Add(x, y)
	case "-":
		z.Sub(x, y)
	case "*":
		if x.BitLen()+y.BitLen() > maxBits {
			return nil, &Limit{What: "an integer grows too large"}
		}
		z.Mul(x, y)
	case "**":
		if y.Sign() < 0 {
			fx, err := floatOf(a)
			if err != nil {
				return nil, err
			}
			fy, err := floatOf(b)
			if err != nil {
				return nil, err
			}
			return power(fx, fy)
		}
		if x.BitLen() > 1 && (!y.IsInt64() || y.Int64() > maxBits || int64(x.BitLen())*y.Int64() > maxBits) {
			return nil, &Limit{What: "an integer grows too large"}
		}
		if x.BitLen() <= 1 { // 0, 1 and -1
			if x.Sign() < 0 && y.Bit(0) == 0 || y.Sign() == 0 {
				return int64(1), nil
			}
			return normal(new(big.Int).Set(x)), nil
		}
		z.Exp(x, y, nil)
	default:
		if y.Sign() == 0 {
			return nil, raise("ZeroDivisionError", "integer division or modulo by zero")
		}
		m := new(big.Int)
		z.DivMod(x, y, m) // Euclidean: the remainder is never negative
		if y.Sign() < 0 && m.Sign() != 0 {
			z.Sub(z, big.NewInt(1))
			m.Add(m, y)
		}
		if op == "%" {
			z = m
		}
	}
	return normal(z), nil
}

// equal is Python's ==: numbers by value across types, str and Markup alike.
func equal(a, b value) bool {
	var n budget
	return equalIn(a, b, &n)
}

func equalIn(a, b value, n *budget) bool {
	n.spend()
	if isNumber(a) && isNumber(b) {
		return order(a, b) == 0
	}
	if x, ok := asText(a); ok {
		y, ok := asText(b)
		return ok && x == y
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case *undefined:
		_, ok := b.(*undefined)
		return ok
	case *seq:
		y, ok := b.(*seq)
		if !ok || x.kind != y.kind {
			return false
		}
		if x == y || x.kind == kindGenerator {
			return x == y
		}
		return slices.EqualFunc(x.items, y.items, func(a, b value) bool { return equalIn(a, b, n) })
	case *dict:
		y, ok := b.(*dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false
		}
		for i, k := range x.keys {
			h, _ := hashKey(k)
			j := y.find(h)
			if j < 0 || !equalIn(x.values[i], y.values[j], n) {
				return false
			}
		}
		return true
	}
	return a == b
}

// order compares two numbers exactly; a NaN is neither, which 2 stands for.
func order(a, b value) int {
	x, xf := a.(float64)
	y, yf := b.(float64)
	switch {
	case xf && math.IsNaN(x) || yf && math.IsNaN(y):
		return 2
	case xf && yf:
		return compareFloats(x, y)
	case xf:
		return -order(b, a)
	case yf:
		if math.IsInf(y, 0) {
			return -int(math.Copysign(1, y))
		}
		return new(big.Float).SetInt(bigOf(a)).Cmp(big.NewFloat(y))
	}
	if m, ok := a.(int64); ok {
		if n, ok := b.(int64); ok {
			switch {
			case m < n:
				return -1
			case m > n:
				return 1
			}
			return 0
		}
	}
	return bigOf(a).Cmp(bigOf(b))
}

func compareFloats(x, y float64) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// less is Python's <; what has no order raises.
func less(a, b value) (bool, error) {
	var n budget
	return lessIn(a, b, &n)
}

func lessIn(a, b value, n *budget) (bool, error) {
	n.spend()
	for _, v := range []value{a, b} {
		if u, ok := v.(*undefined); ok {
			return false, u.err()
		}
	}
	if isNumber(a) && isNumber(b) {
		return order(a, b) == -1, nil
	}
	x, ok := asText(a)
	y, ok2 := asText(b)
	if ok && ok2 {
		return x < y, nil // UTF-8 sorts as its code points do
	}
	l, ok := a.(*seq)
	m, ok2 := b.(*seq)
	if ok && ok2 && l.kind == m.kind && l.kind <= kindTuple {
		for i := range min(len(l.items), len(m.items)) {
			if !equalIn(l.items[i], m.items[i], n) {
				return lessIn(l.items[i], m.items[i], n)
			}
		}
		return len(l.items) < len(m.items), nil
	}
	return false, typeError("'<' not supported between instances of '%s' and '%s'", typeName(a), typeName(b))
}

func compare(op string, a, b value) (bool, error) {
	switch op {
	case "==":
		return equal(a, b), nil
	case "!=":
		return !equal(a, b), nil
	case "in":
		return contains(b, a)
	case "not in":
		in, err := contains(b, a)
		return !in, err
	case "<":
		return less(a, b)
	case ">":
		return less(b, a)
	}
	if isNumber(a) && isNumber(b) && order(a, b) == 2 {
		return false, nil
	}
	if op == "<=" {
		more, err := less(b, a)
		return !more, err
	}
	fewer, err := less(a, b)
	return !fewer, err
}

// contains is Python's "in".
func contains(in, v value) (bool, error) {
	if s, ok := asText(in); ok {
		part, ok := asText(v)
		if !ok {
			return false, typeError("'in <string>' requires string as left operand, not %s", typeName(v))
		}
		return strings.Contains(s, part), nil
	}
	switch in := in.(type) {
	case *dict:
		k, ok := hashKey(v)
		if !ok {
			return false, typeError("unhashable type: '%s'", typeName(v))
		}
		return in.find(k) >= 0, nil
	case *seq, *undefined:
		items, err := iterate(in)
		return slices.ContainsFunc(items, func(item value) bool { return equal(item, v) }), err
	}
	return false, typeError("argument of type '%s' is not iterable", typeName(in))
}
