package plan

import (
	"strings"
	"testing"

	"seatsmith/internal/dialect"
	"seatsmith/internal/safetensors"
)

// A vision tower of a public report, whose width no kernel takes: no recipe quantizes it, also where a rule names every
// Linear, and the configuration says so in either dialect.
func TestQ21NoRecipeQuantizesTheVisionTower(t *testing.T) {
	const fc1 = "model.visual.blocks.0.mlp.linear_fc1.weight"
	for _, recipe := range []string{"default", "nvfp4-all-linear", "fp8-dynamic"} {
		for _, d := range []string{"compressed-tensors", "modelopt"} {
			if recipe == "fp8-dynamic" && d == "modelopt" {
				continue // refused: modelopt has no such scheme
			}
			p := mustDecide(t, qwen(4).reshape(fc1, safetensors.BF16, 4304, 1152), Options{Recipe: recipe, Dialect: d})
			kept := 0
			for _, i := range p.Items {
				if strings.HasPrefix(i.Source, "model.visual.") {
					if kept++; i.Scheme != dialect.BF16 {
						t.Errorf("%s, %s: %s is %s", recipe, d, i.Source, i.Scheme)
					}
				}
			}
			if kept < 2 {
				t.Errorf("%s, %s: the plan has %d tensors of the tower", recipe, d, kept)
			}
			if !strings.Contains(string(p.Config), "visual") {
				t.Errorf("%s, %s: the configuration does not keep the tower out", recipe, d)
			}
		}
	}
}
