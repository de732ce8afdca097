package dialect_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"seatsmith/internal/dialect"
)

func flat(t *testing.T, modules []dialect.Module) gjson.Result {
	t.Helper()
	raw, err := dialect.ModelOpt().Config(modules)
	if err != nil {
		t.Fatal(err)
	}
	return gjson.ParseBytes(raw)
}

func nested(t *testing.T, modules []dialect.Module) gjson.Result {
	t.Helper()
	made, err := dialect.ModelOpt().Made(modules)
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Collect(maps.Keys(made)); len(names) != 1 || names[0] != dialect.ModelOptFile {
		t.Fatalf("files %v", names)
	}
	return gjson.Parse(made[dialect.ModelOptFile])
}

func names(v gjson.Result) []string {
	var out []string
	for _, e := range v.Array() {
		out = append(out, e.Str)
	}
	return out
}

// uniform gives every Linear of the decoder but in_proj_a and in_proj_b one scheme.
func uniform(s dialect.Scheme) func(int, string) dialect.Scheme {
	return func(int, string) dialect.Scheme { return s }
}

// modelopt 0.47.0 wrote peer_configs.json from the same model with NVFP4_DEFAULT_CFG.
func TestModelOptSaysWhatThePeerSays(t *testing.T) {
	var modules []dialect.Module // modelopt never sees the head
	for _, m := range qwen(4, uniform(dialect.NVFP4W4A4)) {
		if !m.Head {
			modules = append(modules, m)
		}
	}
	modules = append(modules, dialect.Module{Name: "model.language_model.embed_tokens", Scheme: dialect.BF16, Plain: true})
	for i := range 3 {
		modules = append(modules, dialect.Module{Name: fmt.Sprintf("model.language_model.layers.%d.linear_attn.conv1d", i), Scheme: dialect.BF16, Plain: true})
	}
	data, err := os.ReadFile(filepath.Join("..", "numeric", "testdata", "peer_configs.json"))
	if err != nil {
		t.Fatal(err)
	}
	peers := map[string]map[string]any{}
	if err := json.Unmarshal(data, &peers); err != nil {
		t.Fatal(err)
	}
	// lists takes the list out and says what the peer's names that ours does not.
	lists := func(ours, theirs map[string]any, key string) {
		var mine []string
		for _, e := range ours[key].([]any) {
			mine = append(mine, e.(string))
		}
		for _, e := range theirs[key].([]any) {
			if entry := e.(string); !slices.Contains(mine, entry) {
				t.Errorf("%s of the peer names %s, ours does not: %v", key, entry, mine)
			}
		}
		delete(ours, key)
		delete(theirs, key)
	}
	version := func(m map[string]any) { // a development build's
		m["producer"].(map[string]any)["version"] = ""
	}
	var ours map[string]any
	if err := json.Unmarshal([]byte(flat(t, modules).Raw), &ours); err != nil {
		t.Fatal(err)
	}
	theirs := peers["mo_tiny_mo.nvfp4_hf_config.json"]["quantization_config"].(map[string]any)
	lists(ours, theirs, "ignore")
	version(ours)
	version(theirs)
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("config.json (-peer +ours):\n%s", diff)
	}
	ours = map[string]any{}
	if err := json.Unmarshal([]byte(nested(t, modules).Raw), &ours); err != nil {
		t.Fatal(err)
	}
	theirs = peers["mo_tiny_mo.nvfp4_hf_hf_quant_config.json"]
	lists(ours["quantization"].(map[string]any), theirs["quantization"].(map[string]any), "exclude_modules")
	version(ours)
	version(theirs)
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("hf_quant_config.json (-peer +ours):\n%s", diff)
	}
}

func TestModelOptUniformAlgorithms(t *testing.T) { // Q06
	for scheme, want := range map[dialect.Scheme]string{
		dialect.NVFP4W4A4:  `{"input_activations":{"dynamic":false,"group_size":16,"num_bits":4,"type":"float"},"targets":["Linear"],"weights":{"dynamic":false,"group_size":16,"num_bits":4,"type":"float"}}`,
		dialect.NVFP4W4A16: `{"targets":["Linear"],"weights":{"dynamic":false,"group_size":16,"num_bits":4,"type":"float"}}`,
		dialect.FP8Tensor:  `{"input_activations":{"dynamic":false,"num_bits":8,"type":"float"},"targets":["Linear"],"weights":{"dynamic":false,"num_bits":8,"type":"float"}}`,
	} {
		c, n := flat(t, qwen(4, uniform(scheme))), nested(t, qwen(4, uniform(scheme)))
		algo := map[dialect.Scheme]string{dialect.NVFP4W4A4: "NVFP4", dialect.NVFP4W4A16: "W4A16_NVFP4", dialect.FP8Tensor: "FP8"}[scheme]
		if c.Get("quant_algo").Str != algo || c.Get("quant_method").Str != "modelopt" || c.Get("quantized_layers").Exists() || c.Get("kv_cache_scheme").Exists() {
			t.Errorf("%s: %s", scheme, c.Raw)
		}
		if got := c.Get("config_groups.group_0").Raw; got != want {
			t.Errorf("%s: the group is %s, want %s", scheme, got, want)
		}
		if n.Get("quantization.quant_algo").Str != algo || n.Get("quantization.group_size").Exists() != scheme.NVFP4() || n.Get("quantization.kv_cache_quant_algo").Raw != "null" {
			t.Errorf("%s: %s", scheme, n.Raw)
		}
		for _, entry := range []string{"mtp*", "mtp.fc", "mtp.layers.0.self_attn.q_proj", "mtp.layers.0.self_attn.qkv_proj", "model.visual*", "lm_head",
			"model.language_model.layers.0.linear_attn.in_proj_a", "model.language_model.layers.0.linear_attn.in_proj_ba"} {
			if !slices.Contains(names(c.Get("ignore")), entry) {
				t.Errorf("%s: the list does not hold %s", scheme, entry)
			}
		}
		if diff := cmp.Diff(names(c.Get("ignore")), names(n.Get("quantization.exclude_modules"))); diff != "" {
			t.Errorf("%s: the files disagree:\n%s", scheme, diff)
		}
	}
}

func TestModelOptMixedListsEachModule(t *testing.T) { // R24
	modules := qwen(4, func(layer int, leaf string) dialect.Scheme {
		if s := mixed(layer, leaf); s != dialect.FP8Channel {
			return s
		}
		return dialect.FP8Tensor
	})
	c, n := flat(t, modules), nested(t, modules)
	if c.Get("quant_algo").Str != "MIXED_PRECISION" || n.Get("quantization.quant_algo").Str != "MIXED_PRECISION" || n.Get("quantization.group_size").Exists() {
		t.Fatalf("algorithms %s, %s", c.Get("quant_algo"), n.Get("quantization.quant_algo"))
	}
	var listed map[string]map[string]any
	if err := json.Unmarshal([]byte(c.Get("quantized_layers").Raw), &listed); err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		got, ok := listed[m.Name]
		delete(listed, m.Name)
		switch want := map[dialect.Scheme]string{dialect.NVFP4W4A16: "map[group_size:16 quant_algo:W4A16_NVFP4]", dialect.FP8Tensor: "map[quant_algo:FP8]"}[m.Scheme]; {
		case want == "" && ok:
			t.Errorf("%s is kept and listed", m.Name)
		case want != "" && fmt.Sprint(got) != want:
			t.Errorf("%s is listed as %v, want %s", m.Name, got, want)
		}
	}
	if len(listed) > 0 {
		t.Errorf("listed without a module: %v", listed)
	}
	if c.Get("quantized_layers").Raw == "" || c.Get("quantized_layers|@ugly").Raw != n.Get("quantization.quantized_layers|@ugly").Raw {
		t.Error("the files list other layers")
	}
	if got := len(c.Get("config_groups").Map()); got != 2 {
		t.Errorf("%d groups", got)
	}
	if ignore := names(c.Get("ignore")); !slices.Contains(ignore, "mtp*") || !slices.Contains(ignore, "model.visual*") {
		t.Errorf("other runtimes find no list: %v", ignore)
	}
}

// A name that is a part of another name excludes both (C18), so a uniform configuration that needs it is not written.
func TestModelOptDoesNotExcludeByPartsOfNames(t *testing.T) {
	apart := []dialect.Module{
		{Name: "model.layers.0.mlp.gate", Scheme: dialect.BF16},
		{Name: "model.layers.0.mlp.gate_b", Scheme: dialect.NVFP4W4A16},
		{Name: "model.layers.1.mlp.down", Scheme: dialect.NVFP4W4A16},
		{Name: "model.layers.10.mlp.down", Scheme: dialect.NVFP4W4A16},
	}
	if _, err := dialect.ModelOpt().Config(apart); err == nil || !strings.Contains(err.Error(), "gate_b") || !strings.Contains(err.Error(), "is kept") {
		t.Errorf("got %v", err)
	}
	whole := slices.Clone(apart[1:])
	whole[1].Scheme = dialect.BF16 // layer 1, not layer 10
	if c := flat(t, whole); c.Get("quant_algo").Str != "W4A16_NVFP4" {
		t.Errorf("layer 1 kept, layer 10 not: %s", c.Raw)
	}
	named := []dialect.Module{{Name: "tower.mtp_like.fc1", Scheme: dialect.NVFP4W4A16}, {Name: "tower.other", Scheme: dialect.BF16}}
	if c := flat(t, named); slices.Contains(names(c.Get("ignore")), "mtp*") {
		t.Errorf("the list excludes what is quantized: %s", c.Get("ignore"))
	}
}

func TestModelOptRefusesWhatTheServerWouldRefuse(t *testing.T) {
	half := qwen(4, uniform(dialect.NVFP4W4A16))
	for i := range half {
		if strings.HasSuffix(half[i].Name, "layers.3.self_attn.v_proj") {
			half[i].Scheme = dialect.BF16
		}
	}
	expert := func(e, leaf string, s dialect.Scheme) dialect.Module {
		return dialect.Module{Name: "model.layers.0.mlp.experts." + e + "." + leaf, Scheme: s}
	}
	for name, c := range map[string]struct {
		modules []dialect.Module
		want    string
	}{
		"half a fused group (Q24)":       {half, "v_proj is bf16"},
		"experts of two schemes":         {[]dialect.Module{expert("0", "down_proj", dialect.NVFP4W4A16), expert("1", "down_proj", dialect.FP8Tensor)}, "builds both as model.layers.0.mlp.experts"},
		"a projection of experts kept":   {[]dialect.Module{expert("0", "down_proj", dialect.NVFP4W4A16), expert("0", "gate_proj", dialect.BF16)}, "one scheme"},
		"an unknown scheme":              {[]dialect.Module{{Name: "a.b", Scheme: "int4"}}, `"int4"`},
		"a module without a name":        {[]dialect.Module{{Scheme: dialect.BF16}}, "no name"},
		"a name without a dot":           {[]dialect.Module{{Name: "proj_out", Scheme: dialect.FP8Tensor}}, "without a dot"},
		"a kept name inside a quantized": {[]dialect.Module{{Name: "b.c", Scheme: dialect.BF16}, {Name: "a.b.c", Scheme: dialect.FP8Tensor}}, "would find that it is kept"},
	} {
		if _, err := dialect.ModelOpt().Config(c.modules); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if _, err := dialect.ModelOpt().Made(c.modules); err == nil {
			t.Errorf("%s: a file is made", name)
		}
	}
}

func TestModelOptQuantizesOnlyWhatItNamesInAClassThatNobodyRead(t *testing.T) {
	modules := []dialect.Module{
		{Name: "model.layers.0.mlp.down_proj", Scheme: dialect.NVFP4W4A16, Unread: true},
		{Name: "model.layers.0.mixer.in_proj", Scheme: dialect.BF16, Plain: true, Unread: true},
	}
	c := flat(t, modules)
	if c.Get("quant_algo").Str != "MIXED_PRECISION" || !slices.Contains(names(c.Get("ignore")), modules[1].Name) {
		t.Errorf("got %s", c.Raw)
	}
	if n := nested(t, modules); n.Get("quantization.quant_algo").Str != "MIXED_PRECISION" {
		t.Errorf("hf_quant_config.json: %s", n.Raw)
	}
}

// A router's name is a part of the dense gate_up_proj's: it is named only where that does no harm.
func TestModelOptNamesPlainModulesWhereThatIsSafe(t *testing.T) {
	router := dialect.Module{Name: "model.layers.0.mlp.gate", Scheme: dialect.BF16, Plain: true}
	dense := dialect.Module{Name: "model.layers.0.mlp.gate_proj", Fused: "model.layers.0.mlp.gate_up_proj", Scheme: dialect.NVFP4W4A16}
	other := dialect.Module{Name: "model.layers.1.mlp.down_proj", Scheme: dialect.NVFP4W4A16}
	if c := flat(t, []dialect.Module{router, other}); !slices.Contains(names(c.Get("ignore")), router.Name) {
		t.Errorf("the list does not name a router: %s", c.Get("ignore"))
	}
	if c := flat(t, []dialect.Module{router, dense}); slices.Contains(names(c.Get("ignore")), router.Name) {
		t.Errorf("the list excludes what is quantized: %s", c.Get("ignore"))
	}
	router.Scheme = dialect.FP8Tensor
	for _, d := range []dialect.Dialect{dialect.ModelOpt(), dialect.CompressedTensors()} {
		if _, err := d.Config([]dialect.Module{router, other}); err == nil {
			t.Errorf("%s takes a quantized router", d.Name())
		}
	}
	router.Scheme = dialect.BF16
	if raw := render(t, []dialect.Module{router, other}); strings.Contains(string(raw), router.Name) {
		t.Errorf("compressed-tensors names it, though only targets are quantized there: %s", raw)
	}
}

// Kept experts beside a quantized shared expert: the server looks beside a name that is not listed.
func TestModelOptKeepsRoutedExpertsBesideASharedOne(t *testing.T) {
	modules := []dialect.Module{
		{Name: "model.layers.0.mlp.experts.0.gate_proj", Scheme: dialect.BF16},
		{Name: "model.layers.0.mlp.shared_expert.down_proj", Scheme: dialect.FP8Tensor},
		{Name: "model.layers.0.self_attn.o_proj", Scheme: dialect.NVFP4W4A16},
	}
	if c := flat(t, modules); c.Get("quant_algo").Str != "MIXED_PRECISION" || !slices.Contains(names(c.Get("ignore")), modules[0].Name) {
		t.Errorf("got %s", c.Raw)
	}
}

func TestModelOptWritesNothingWhenNothingIsQuantized(t *testing.T) {
	modules := qwen(4, uniform(dialect.BF16))
	raw, err := dialect.ModelOpt().Config(modules)
	made, err2 := dialect.ModelOpt().Made(modules)
	if raw != nil || made != nil || err != nil || err2 != nil {
		t.Errorf("got %s, %v, %v, %v", raw, made, err, err2)
	}
	if made, err := dialect.CompressedTensors().Made(qwen(4, mixed)); made != nil || err != nil {
		t.Errorf("compressed-tensors makes %v, %v", made, err)
	}
}
