package dialect_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seatsmith/internal/dialect"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// qwen lists the Linears of a dense Qwen3.5 with vision and a head, as a server builds them; full attention every
// fourth layer. scheme decides by leaf name and layer.
func qwen(layers int, scheme func(layer int, leaf string) dialect.Scheme) []dialect.Module {
	var out []dialect.Module
	add := func(prefix, fused string, layer int, leaves ...string) {
		for _, leaf := range leaves {
			m := dialect.Module{Name: prefix + leaf, Scheme: dialect.BF16, Head: strings.HasPrefix(prefix, "mtp."), Vision: strings.Contains(prefix, "visual")}
			if fused != "" {
				m.Fused = prefix + fused
			}
			if layer >= 0 && !m.Head && !m.Vision {
				m.Scheme = scheme(layer, leaf)
			}
			out = append(out, m)
		}
	}
	attention := func(prefix string, layer int) {
		add(prefix+"self_attn.", "qkv_proj", layer, "q_proj", "k_proj", "v_proj")
		add(prefix+"self_attn.", "", layer, "o_proj")
	}
	mlp := func(prefix string, layer int) {
		add(prefix+"mlp.", "gate_up_proj", layer, "gate_proj", "up_proj")
		add(prefix+"mlp.", "", layer, "down_proj")
	}
	for i := range layers {
		prefix := fmt.Sprintf("model.language_model.layers.%d.", i)
		mlp(prefix, i)
		if i%4 == 3 {
			attention(prefix, i)
			continue
		}
		add(prefix+"linear_attn.", "in_proj_qkvz", i, "in_proj_qkv", "in_proj_z")
		add(prefix+"linear_attn.", "in_proj_ba", -1, "in_proj_b", "in_proj_a")
		add(prefix+"linear_attn.", "", i, "out_proj")
	}
	for i := range 2 {
		prefix := fmt.Sprintf("model.visual.blocks.%d.", i)
		add(prefix, "", -1, "attn.qkv", "attn.proj", "mlp.linear_fc1", "mlp.linear_fc2")
	}
	add("model.visual.merger.", "", -1, "linear_fc1", "linear_fc2")
	add("mtp.", "", -1, "fc")
	attention("mtp.layers.0.", 0)
	mlp("mtp.layers.0.", 0)
	add("", "", -1, "lm_head")
	return out
}

// mixed is the default recipe.
func mixed(_ int, leaf string) dialect.Scheme {
	if slices.Contains([]string{"gate_proj", "up_proj", "down_proj"}, leaf) {
		return dialect.NVFP4W4A16
	}
	return dialect.FP8Channel
}

func allNVFP4(int, string) dialect.Scheme { return dialect.NVFP4W4A16 }

func render(t *testing.T, modules []dialect.Module) []byte {
	t.Helper()
	raw, err := dialect.CompressedTensors().Config(modules)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestConfigOfTheDefaultRecipe(t *testing.T) {
	var got bytes.Buffer
	if err := json.Indent(&got, render(t, qwen(4, mixed)), "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	golden := filepath.Join("testdata", "config_tiny.json")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("config_tiny.json (-golden +got):\n%s", diff)
	}
}

// peer reads the quantization_config that a peer wrote for the same model.
func peer(t *testing.T, name string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "numeric", "testdata", "peer_configs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	q, ok := all[name]["quantization_config"].(map[string]any)
	if !ok {
		t.Fatalf("no %s in peer_configs.json", name)
	}
	return q
}

func TestConfigSaysWhatThePeerSays(t *testing.T) {
	var ours map[string]any
	if err := json.Unmarshal(render(t, qwen(4, allNVFP4)), &ours); err != nil {
		t.Fatal(err)
	}
	theirs := peer(t, "lc_tiny_config.json")
	group := func(q map[string]any, name string) map[string]any {
		g := q["config_groups"].(map[string]any)[name].(map[string]any)
		delete(g, "targets")
		return g
	}
	if diff := cmp.Diff(group(theirs, "NVFP4A16"), group(ours, "group_0")); diff != "" {
		t.Errorf("the group (-peer +ours):\n%s", diff)
	}
	for _, q := range []map[string]any{ours, theirs} {
		delete(q, "config_groups")
		delete(q, "ignore")
	}
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("the top level (-peer +ours):\n%s", diff)
	}
}

func TestConfigWritesKeysSortedAsThePeersDo(t *testing.T) {
	raw := render(t, qwen(4, mixed))
	var any map[string]any
	if err := json.Unmarshal(raw, &any); err != nil {
		t.Fatal(err)
	}
	var sorted bytes.Buffer // maps are encoded in key order
	enc := json.NewEncoder(&sorted)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(any); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(sorted.String()), string(raw)); diff != "" {
		t.Errorf("keys are not sorted (-sorted +got):\n%s", diff)
	}
}

func TestFP8GroupCarriesItsOwnFormat(t *testing.T) { // R27
	got := parse(t, render(t, qwen(4, mixed)))
	if got.Format != "mixed-precision" || got.Groups["group_0"].Format != "nvfp4-pack-quantized" || got.Groups["group_1"].Format != "float-quantized" {
		t.Errorf("formats %q, %q, %q", got.Format, got.Groups["group_0"].Format, got.Groups["group_1"].Format)
	}
	one := parse(t, render(t, qwen(4, func(int, string) dialect.Scheme { return dialect.FP8Channel })))
	if one.Format != "float-quantized" || len(one.Groups) != 1 {
		t.Errorf("one scheme gives format %q and %d groups", one.Format, len(one.Groups))
	}
}

func TestConfigDoesNotDependOnTheOrderOfModules(t *testing.T) {
	modules := qwen(12, mixed)
	want := render(t, modules)
	for seed := range uint64(5) {
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(modules), func(i, j int) { modules[i], modules[j] = modules[j], modules[i] })
		if got := render(t, modules); !bytes.Equal(got, want) {
			t.Fatalf("another order gives\n%s\nwant\n%s", got, want)
		}
	}
}

func TestConfigIsNilWhenNothingIsQuantized(t *testing.T) {
	raw, err := dialect.CompressedTensors().Config(qwen(4, func(int, string) dialect.Scheme { return dialect.BF16 }))
	if raw != nil || err != nil {
		t.Errorf("got %s, %v", raw, err)
	}
}

func TestConfigRefusesWhatTheServerWouldRefuse(t *testing.T) {
	half := qwen(4, mixed)
	for i := range half {
		if half[i].Name == "model.language_model.layers.3.self_attn.v_proj" {
			half[i].Scheme = dialect.BF16
		}
	}
	for name, c := range map[string]struct {
		modules []dialect.Module
		want    string
	}{
		"half a fused group (Q24)": {half, "v_proj is bf16"},
		"a name without a dot":     {[]dialect.Module{{Name: "proj_out", Scheme: dialect.FP8Channel}}, "without a dot"},
		"a pattern for a name":     {[]dialect.Module{{Name: "re:.*", Scheme: dialect.BF16}}, "read as a pattern"},
		"a module twice":           {[]dialect.Module{{Name: "a.b", Scheme: dialect.BF16}, {Name: "a.b", Scheme: dialect.FP8Channel}}, "twice"},
		"an unknown scheme":        {[]dialect.Module{{Name: "a.b", Scheme: "int4"}}, `"int4"`},
		"a module without a name":  {[]dialect.Module{{Scheme: dialect.BF16}}, "no name"},
		"a quantized fused name":   {[]dialect.Module{{Name: "a.gate_proj", Fused: "a.b", Scheme: dialect.BF16}, {Name: "a.b", Scheme: dialect.FP8Channel}}, "ignore list selects it"},
	} {
		if _, err := dialect.CompressedTensors().Config(c.modules); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// llm-compressor's oneshot wrote the same model with NVFP4, inputs included.
func TestConfigOfFP4InputsSaysWhatThePeerSays(t *testing.T) {
	var ours map[string]any
	if err := json.Unmarshal(render(t, qwen(4, func(int, string) dialect.Scheme { return dialect.NVFP4W4A4 })), &ours); err != nil {
		t.Fatal(err)
	}
	group := func(q map[string]any) map[string]any {
		g := q["config_groups"].(map[string]any)["group_0"].(map[string]any)
		delete(g, "targets")
		return g
	}
	if diff := cmp.Diff(group(peer(t, "oneshot_tiny_config.json")), group(ours)); diff != "" {
		t.Errorf("the group (-peer +ours):\n%s", diff)
	}
}

func TestAQuantizedLMHeadIsATargetUnderBothNames(t *testing.T) { // R15
	modules := qwen(4, mixed)
	for i := range modules {
		if modules[i].Name == "lm_head" {
			modules[i].Scheme = dialect.FP8Channel
		}
	}
	got := parse(t, render(t, modules))
	if !slices.Contains(got.Groups["group_1"].Targets, "re:.*lm_head$") {
		t.Errorf("targets %v", got.Groups["group_1"].Targets)
	}
	for _, entry := range got.Ignore {
		if strings.Contains(entry, "lm_head") {
			t.Errorf("the ignore list holds %s", entry)
		}
	}
}
