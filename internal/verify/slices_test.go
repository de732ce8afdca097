package verify_test

import (
	"slices"
	"testing"

	"seatsmith/internal/plan"
	"seatsmith/internal/verify"
)

const experts0 = "model.language_model.layers.0.mlp.experts."

func TestStoredExpertsAreComparedWithTheirSliceOfTheStack(t *testing.T) {
	for _, dialect := range []string{"compressed-tensors", "modelopt"} {
		f, source := converted(t, "../../testdata/moe", plan.Options{Dialect: dialect})
		r := judge(t, f.dir, verify.Options{Source: source})
		if e, ok := r.ErrorByRole["expert"]; !ok || e.RelativeMSE == 0 || e.RelativeMSE > 0.02 {
			t.Errorf("%s: experts are not measured: %+v", dialect, r.ErrorByRole)
		}
	}
	f, source := converted(t, "../../testdata/moe", plan.Options{})
	for _, part := range []string{"weight_packed", "weight_scale"} { // of two experts, exchanged
		a, b := f.get(experts0+"1.down_proj."+part), f.get(experts0+"2.down_proj."+part)
		a.data, b.data = b.data, a.data
	}
	f.save()
	r := judge(t, f.dir, verify.Options{Source: source})
	expect(t, r, "error-bound")
	if got := r.Findings[0].Subject; got != experts0+"1.down_proj.weight" {
		t.Errorf("%s is named", got)
	}
}

func TestTheHalvesOfAGatedQueryAreMeasuredApart(t *testing.T) {
	f := copyOf(t, "nvfp4-all-linear")
	r := judge(t, f.dir, verify.Options{Source: open(t)})
	query, gate := r.ErrorByRole["q_proj.query"], r.ErrorByRole["q_proj.gate"]
	if query.RelativeMSE == 0 || gate.RelativeMSE == 0 || query == gate {
		t.Errorf("query %+v, gate %+v", query, gate)
	}
	if !slices.Contains(rules(r), "gated-q-fp4?") {
		t.Errorf("%v", rules(r))
	}
	if r = judge(t, copyOf(t, "fp8-dynamic").dir, verify.Options{}); r.ErrorByRole["q_proj.gate"] != (verify.RoleError{}) {
		t.Error("measured without a source")
	}
}
