package safetensors

import (
	"cmp"
	"strings"
)

// NaturalLess orders names with numbers compared as numbers, of any length: "layers.2" before "layers.10". It is a total
// order: names that differ only in leading zeros ("a1", "a01") fall back to byte order.
func NaturalLess(a, b string) bool { return NaturalCompare(a, b) < 0 }

// NaturalCompare is NaturalLess as a comparison, for sorting: negative, zero or positive.
func NaturalCompare(a, b string) int {
	return cmp.Or(compareNatural(a, b), strings.Compare(a, b))
}

// compareNatural compares token by token: a run of digits is one token (its value, leading zeros dropped), any other
// byte is one. A run of digits sorts against another byte as a digit does, whatever its value.
func compareNatural(a, b string) int {
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		ca, cb := a[i], b[j]
		if !isDigit(ca) || !isDigit(cb) {
			if ca != cb {
				return sign(ca < cb)
			}
			i++
			j++
			continue
		}
		va, vb := digits(a[i:]), digits(b[j:])
		i += len(va)
		j += len(vb)
		va, vb = significant(va), significant(vb)
		if len(va) != len(vb) {
			return sign(len(va) < len(vb))
		}
		if va != vb {
			return sign(va < vb)
		}
	}
	switch {
	case i < len(a):
		return 1
	case j < len(b):
		return -1
	}
	return 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// digits is the run of digits that s begins with.
func digits(s string) string {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return s[:n]
}

func significant(digits string) string {
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	return digits
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}
