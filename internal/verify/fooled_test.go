package verify_test

import (
	"encoding/json"
	"strings"
	"testing"

	"seatsmith/internal/model"
	"seatsmith/internal/verify"
)

// fooled is a folder that an earlier judge called good: what was done to it, and every rule that must tell of it, in any
// order, "?" behind warnings.
type fooled struct {
	name   string
	rules  string
	make   func(t *testing.T) *folder // nil: the default recipe
	do     func(f *folder)
	text   string // in the findings
	source bool   // judged with the source too
}

// fooledTables are the lists of all files.
var fooledTables = [][]fooled{fooledBlock, fooledPatterns, fooledBesides, fooledValues}

func expectFooled(t *testing.T, list []fooled) {
	t.Helper()
	var source *model.Model
	for _, c := range list {
		if c.source && source == nil {
			source = open(t)
		}
		t.Run(strings.ReplaceAll(c.name, "/", " "), func(t *testing.T) {
			var f *folder
			if c.make != nil {
				f = c.make(t)
			} else {
				f = copyOf(t, "default")
			}
			c.do(f)
			f.save()
			var o verify.Options
			if c.source {
				o.Source = source
			}
			r := judge(t, f.dir, o)
			expect(t, r, strings.Fields(c.rules)...)
			want := "ok"
			for _, id := range strings.Fields(c.rules) {
				if want = "warn"; !strings.HasSuffix(id, "?") {
					want = "fail"
					break
				}
			}
			if r.Verdict != want {
				t.Errorf("verdict %s, want %s", r.Verdict, want)
			}
			said := ""
			for _, x := range r.Findings {
				said += x.Subject + " " + x.Message + " " + x.Fix + "\n"
			}
			if !strings.Contains(said, c.text) {
				t.Errorf("%q is not said in: %s", c.text, said)
			}
		})
	}
}

// An unknown key is refused by some versions of the library only; it hid that the server refuses the same group, or
// another one, for good.
func TestAWarningAboutAGroupHidesNoRefusal(t *testing.T) {
	var list []fooled
	for _, c := range []struct{ name, path, raw, text string }{
		{"FP8 group without its format", group1 + "format", "", "group_1"},
		{"group_size 32", group0 + "weights.group_size", `32`, "group_size 32"},
		{"not symmetric", group0 + "weights.symmetric", `false`, "symmetric false"},
		{"strategy group", group0 + "weights.strategy", `"group"`, "strategy group"},
		{"num_bits 8", group0 + "weights.num_bits", `8`, "num_bits 8"},
		{"FP8 inputs of NVFP4", group0 + "input_activations", `{"num_bits":8,"type":"float","strategy":"token","symmetric":true,"dynamic":true}`, "NVFP4 weights go with NVFP4"},
	} {
		for _, key := range []string{group0 + "weights.is_mse", group1 + "weights.is_mse"} {
			list = append(list, fooled{name: c.name + ", unknown " + key, rules: "config-args config-args?", text: c.text, do: func(f *folder) {
				f.set(key, true)
				if c.raw == "" {
					f.del(c.path)
				} else {
					f.set(c.path, json.RawMessage(c.raw))
				}
			}})
		}
	}
	expectFooled(t, list)
}
