package numeric_test

import (
	"strings"
	"testing"

	"seatsmith/internal/numeric"
)

func TestEveryArithmeticIsReadBackFromItsName(t *testing.T) {
	names := map[numeric.Math]string{numeric.Modelopt: "modelopt", numeric.ModeloptCPU: "modelopt-cpu", numeric.CT: "ct"}
	for m, name := range names {
		if m.String() != name {
			t.Errorf("%d is called %q, want %q", m, m, name)
		}
		if got, err := numeric.ParseMath(name); err != nil || got != m {
			t.Errorf("ParseMath(%q) = %v, %v", name, got, err)
		}
	}
	if numeric.Math(0) != numeric.Modelopt {
		t.Error("the zero Math must be the default")
	}
}

func TestAnUnknownArithmeticIsRefusedByName(t *testing.T) {
	for _, s := range []string{"", "CT", "modelopt-gpu", "math(9)"} {
		if _, err := numeric.ParseMath(s); err == nil || !strings.Contains(err.Error(), "modelopt-cpu") {
			t.Errorf("ParseMath(%q): %v", s, err)
		}
	}
	if s := numeric.Math(9).String(); s != "math(9)" {
		t.Errorf("an unknown Math prints as %q", s)
	}
}
