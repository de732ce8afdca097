package prompt

import (
	"strconv"
	"strings"

	"seatsmith/internal/prompt/ordered"
)

// sameNumber compares two spellings: integers must be equal, and so must the float64 of anything with a point or exponent.
func sameNumber(a, b string) bool {
	if !strings.ContainsAny(a, ".eE") && !strings.ContainsAny(b, ".eE") {
		return a == b
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y
}

// pythonText is what str() prints for a scalar that is not a string.
func pythonText(v ordered.Value) string {
	switch v.Kind() {
	case ordered.Null:
		return "None"
	case ordered.Bool:
		if v.Bool() {
			return "True"
		}
		return "False"
	}
	return v.String()
}
