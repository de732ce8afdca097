package dialect_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"seatsmith/internal/dialect"
)

type config struct {
	Format string `json:"format"`
	Groups map[string]struct {
		Format  string   `json:"format"`
		Targets []string `json:"targets"`
	} `json:"config_groups"`
	Ignore []string `json:"ignore"`
}

func parse(t interface{ Fatal(...any) }, raw []byte) config {
	var c config
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// mapping is how a served class spells names, and the exact entries of a configuration.
type mapping func(name string) string

func prefixes(pairs map[string]string) mapping {
	return func(name string) string {
		for from, to := range pairs {
			if rest, ok := strings.CutPrefix(name, from); ok {
				return to + rest
			}
		}
		return name
	}
}

var (
	asStored  = prefixes(nil)
	asWrapper = prefixes(map[string]string{"model.language_model.": "language_model.model.", "model.visual.": "visual.", "lm_head.": "language_model.lm_head."})
	asText    = prefixes(map[string]string{"model.language_model.": "model."}) // vLLM from 0.28 on
)

// selects is what a server does with one list: equal, or a pattern from the start of the name. Exact entries with a dot
// are mapped first, as vLLM does before it asks for run-time names.
func selects(entries []string, name string, toRuntime mapping) bool {
	for _, e := range entries {
		if pattern, ok := strings.CutPrefix(e, "re:"); ok {
			if at := regexp.MustCompile(pattern).FindStringIndex(name); at != nil && at[0] == 0 {
				return true
			}
			continue
		}
		if strings.Contains(e, ".") {
			e = toRuntime(e)
		}
		if e == name {
			return true
		}
	}
	return false
}

// resolve answers as a server would: "ignored", the group that selects the name, "" when nothing does, or "ambiguous".
func resolve(c config, name string, toRuntime mapping) string {
	name = toRuntime(name)
	if selects(c.Ignore, name, toRuntime) {
		return "ignored"
	}
	found := ""
	for group, g := range c.Groups {
		if selects(g.Targets, name, toRuntime) {
			if found != "" {
				return "ambiguous"
			}
			found = group
		}
	}
	return found
}

// mustResolve fails unless every module is selected as its scheme says, by checkpoint name and by the
// run-time names of both classes.
func mustResolve(t rapid.TB, c config, modules []dialect.Module) {
	for _, m := range modules {
		want := "ignored"
		for name, g := range c.Groups {
			if (m.Scheme.NVFP4() && g.Format == "nvfp4-pack-quantized") || (m.Scheme.FP8() && g.Format == "float-quantized") {
				want = name
			}
		}
		for _, toRuntime := range []mapping{asStored, asWrapper, asText} {
			if got := resolve(c, m.Name, toRuntime); got != want {
				t.Fatalf("%s (%s), asked for as %s: resolves to %q, want %q", m.Name, m.Scheme, toRuntime(m.Name), got, want)
			}
		}
	}
}

func TestEveryModuleIsSelectedAsMeantUnderEveryName(t *testing.T) {
	for name, scheme := range map[string]func(int, string) dialect.Scheme{
		"default":   mixed,
		"all nvfp4": allNVFP4,
		"fp8 in the last layers": func(layer int, leaf string) dialect.Scheme { // Q35
			if layer >= 8 {
				return dialect.FP8Channel
			}
			return mixed(layer, leaf)
		},
		"layer 1 kept": func(layer int, leaf string) dialect.Scheme {
			if layer == 1 {
				return dialect.BF16
			}
			return mixed(layer, leaf)
		},
	} {
		t.Run(name, func(t *testing.T) {
			modules := qwen(12, scheme)
			mustResolve(t, parse(t, render(t, modules)), modules)
		})
	}
}

func TestWholeKindsBecomePatternsAndOthersExactNames(t *testing.T) {
	whole := parse(t, render(t, qwen(12, mixed)))
	if want := []string{`re:^(.*language_model\.)?(model\.)?layers\.\d+\.mlp\.(down_proj|gate_proj|up_proj)$`}; !slices.Equal(whole.Groups["group_0"].Targets, want) {
		t.Errorf("targets %q, want %q", whole.Groups["group_0"].Targets, want)
	}
	but := parse(t, render(t, qwen(12, func(layer int, leaf string) dialect.Scheme {
		if leaf == "down_proj" && layer == 10 {
			return dialect.BF16
		}
		return mixed(layer, leaf)
	})))
	targets := but.Groups["group_0"].Targets
	if targets[0] != `re:^(.*language_model\.)?(model\.)?layers\.\d+\.mlp\.(gate_proj|up_proj)$` || len(targets) != 12 ||
		targets[3] != "model.language_model.layers.2.mlp.down_proj" || targets[11] != "model.language_model.layers.11.mlp.down_proj" {
		t.Errorf("targets %q", targets)
	}
}

func TestIgnoreNamesSplitAndFusedSpellings(t *testing.T) {
	ignore := parse(t, render(t, qwen(4, mixed))).Ignore
	for _, want := range []string{
		"mtp.layers.0.self_attn.q_proj", "mtp.layers.0.self_attn.qkv_proj", "mtp.layers.0.mlp.gate_up_proj", // Q03
		"mtp.fc", // Q05
		"model.language_model.layers.0.linear_attn.in_proj_a", // Q08
		"model.language_model.layers.0.linear_attn.in_proj_ba",
		"model.visual.blocks.0.attn.qkv", // Q21
		"re:^mtp.*", "re:.*mtp.*", "re:.*visual.*", "lm_head", "re:.*lm_head$",
	} {
		if !slices.Contains(ignore, want) {
			t.Errorf("ignore has no %s", want)
		}
	}
	seen := map[string]bool{}
	for _, e := range ignore {
		if seen[e] {
			t.Errorf("%s is listed twice", e)
		}
		seen[e] = true
		if strings.Contains(e, "qkvz") {
			t.Errorf("%s is ignored, though both its parts are quantized", e)
		}
	}
}

func TestIgnoreHasNoVisionFormWithoutVision(t *testing.T) {
	modules := slices.DeleteFunc(qwen(4, mixed), func(m dialect.Module) bool { return m.Vision || m.Head })
	for _, e := range parse(t, render(t, modules)).Ignore {
		if strings.Contains(e, "visual") || e == "mtp.fc" {
			t.Errorf("%s names nothing that is there", e)
		}
	}
}

func TestAFormThatWouldCatchAQuantizedModuleIsLeftOut(t *testing.T) {
	modules := qwen(4, mixed)
	for i := range modules {
		if strings.HasPrefix(modules[i].Name, "mtp.layers.0.mlp.") {
			modules[i].Scheme = dialect.FP8Channel
		}
	}
	c := parse(t, render(t, modules))
	mustResolve(t, c, modules)
	if slices.Contains(c.Ignore, "re:.*mtp.*") || slices.Contains(c.Ignore, "re:^mtp.*") || !slices.Contains(c.Ignore, "mtp.fc") {
		t.Errorf("ignore %q", c.Ignore)
	}
}

func TestAnyModulesAreSelectedAsMeantOrRefused(t *testing.T) {
	part := rapid.SampledFrom([]string{"model", "language_model", "layers", "visual", "mtp", "lm_head", "mlp", "a+b", "x(", "$", "up_proj", "0", "17", ".*", "ü", "\\d"})
	rapid.Check(t, func(t *rapid.T) {
		var modules []dialect.Module
		seen := map[string]bool{}
		for range rapid.IntRange(1, 12).Draw(t, "modules") {
			parts := rapid.SliceOfN(part, 1, 6).Draw(t, "parts")
			name := strings.Join(append([]string{rapid.SampledFrom([]string{"model.language_model.layers.1", "model.layers.2", "mtp.layers.0", "x"}).Draw(t, "prefix")}, parts...), ".")
			if !seen[name] {
				seen[name] = true
				modules = append(modules, dialect.Module{Name: name, Scheme: rapid.SampledFrom([]dialect.Scheme{dialect.BF16, dialect.NVFP4W4A16, dialect.FP8Channel}).Draw(t, "scheme")})
			}
		}
		raw, err := dialect.CompressedTensors().Config(modules)
		if err != nil || raw == nil {
			return
		}
		mustResolve(t, parse(t, raw), modules)
	})
}
