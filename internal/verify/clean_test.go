package verify_test

import (
	"testing"

	"seatsmith/internal/plan"
	"seatsmith/internal/verify"
)

func TestACleanCheckpointIsOK(t *testing.T) {
	for _, recipe := range []string{"default", "fp8-dynamic"} {
		t.Run(recipe, func(t *testing.T) {
			dir, source := quantize(t, plan.Options{Recipe: recipe, ShardSize: 400_000})
			for name, o := range map[string]verify.Options{"with source": {Source: source}, "with hashes": {}} {
				r := judge(t, dir, o)
				expect(t, r)
				if r.Verdict != "ok" {
					t.Errorf("%s: verdict %s, not checked %v", name, r.Verdict, r.NotChecked)
				}
				t.Logf("%+v", r)
			}
		})
	}
}
