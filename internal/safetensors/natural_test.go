package safetensors_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"seatsmith/internal/safetensors"
)

func TestNumbersInNamesCompareAsNumbers(t *testing.T) {
	want := []string{
		"",
		"layers.-1.w",
		"layers.0.w",
		"layers.2.a",
		"layers.2.w",
		"layers.002.w2",
		"layers.10.w",
		"layers.99999999999999999999.w",
		"layers.100000000000000000000.w",
		"layers.w",
		"model-00002-of-00010.safetensors",
		"model-00010-of-00010.safetensors",
		"x0",
		"x00",
		"x01",
		"x1",
		"x1a",
		"y",
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, func(a, b string) int {
		if safetensors.NaturalLess(a, b) {
			return -1
		}
		if safetensors.NaturalLess(b, a) {
			return 1
		}
		return 0
	})
	if !slices.Equal(got, want) {
		t.Errorf("sorted\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestNaturalLessIsATotalOrder(t *testing.T) {
	name := rapid.StringMatching(`[0-9a.\-é]{0,7}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		less := safetensors.NaturalLess
		if less(a, a) {
			t.Errorf("%q is before itself", a)
		}
		if a != b && less(a, b) == less(b, a) {
			t.Errorf("%q and %q: before both ways is %v", a, b, less(a, b))
		}
		if less(a, b) && less(b, c) && !less(a, c) {
			t.Errorf("%q before %q before %q, but not the first before the last", a, b, c)
		}
	})
}
