package engine_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/sjson"

	"seatsmith/internal/engine"
)

// nvfp4 is the arguments of a weight-only NVFP4 group.
const nvfp4 = `{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16,"symmetric":true,"dynamic":false}`

// fixture reads the config.json of a fixture.
func fixture(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", name, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// set changes one path of a JSON document.
func set(t *testing.T, config []byte, path, raw string) []byte {
	t.Helper()
	out, err := sjson.SetRawBytes(slices.Clone(config), path, []byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// quoted is a JSON list of strings.
func quoted(list ...string) string {
	for i, s := range list {
		list[i] = `"` + strings.ReplaceAll(s, `\`, `\\`) + `"`
	}
	return "[" + strings.Join(list, ",") + "]"
}

// oneGroup is a block that quantizes targets as NVFP4 W4A16 and ignores what it is told to.
func oneGroup(targets, ignore string) string {
	return `{"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized","config_groups":{"group_0":{"targets":` + targets +
		`,"weights":` + nvfp4 + `,"input_activations":null}},"ignore":` + ignore + `}`
}

// server builds the default engine with the drafter, and resolves every linear.
func server(t *testing.T, config []byte, block string) (*engine.Server, map[string]engine.Resolution) {
	t.Helper()
	e, err := engine.Parse(engine.Default)
	if err != nil {
		t.Fatal(err)
	}
	config = set(t, config, "quantization_config", block)
	q, _, err := engine.ReadQuantization(config)
	if err != nil {
		t.Fatal(err)
	}
	s, err := engine.Build(e, config, true)
	if err != nil {
		t.Fatal(err)
	}
	b := s.Bind(q)
	out := map[string]engine.Resolution{}
	for i := range s.Linears {
		l := &s.Linears[i]
		out[key(l)] = b.Resolve(l)
	}
	return s, out
}

// key tells the drafter's lm_head from a text-only target's.
func key(l *engine.Linear) string {
	if l.Drafter {
		return "drafter:" + l.Runtime
	}
	return l.Runtime
}

// quantized lists what is quantized, shortened to what tells modules apart; layers are folded.
func quantized(res map[string]engine.Resolution, want engine.State) []string {
	fold := strings.NewReplacer("language_model.model.", "", "layers.0.", "", "layers.1.", "", "layers.2.", "", "layers.3.", "", "blocks.0.", "", "blocks.1.", "")
	var out []string
	for k, r := range res {
		if r.State == want {
			if name := fold.Replace(k); !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

var (
	bodyDense = []string{"linear_attn.in_proj_ba", "linear_attn.in_proj_qkvz", "linear_attn.out_proj", "mlp.down_proj", "mlp.gate_up_proj", "self_attn.o_proj", "self_attn.qkv_proj"}
	tower     = []string{"visual.attn.proj", "visual.attn.qkv", "visual.merger.linear_fc1", "visual.merger.linear_fc2", "visual.mlp.linear_fc1", "visual.mlp.linear_fc2"}
	headDense = []string{"drafter:mtp.fc", "drafter:mtp.mlp.down_proj", "drafter:mtp.mlp.gate_up_proj", "drafter:mtp.self_attn.o_proj", "drafter:mtp.self_attn.qkv_proj"}
)

func sorted(lists ...[]string) []string {
	out := slices.Concat(lists...)
	slices.Sort(out)
	return out
}

func without(list []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(names, s) })
}

// The results that vLLM's own functions gave for these ignore lists with targets ["Linear"] (017e9f4448, executed on
// sample names: compressed_tensors/utils.py should_ignore_layer, find_matched_target). One row here per row there.
func TestIgnoreListsDoWhatTheServersFunctionsSay(t *testing.T) {
	everything := sorted(bodyDense, tower, headDense)
	split := []string{"mtp.fc"}
	for _, p := range []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"} {
		split = append(split, "mtp.layers.0."+p)
	}
	var linearAttention []string
	for _, layer := range []string{"0", "1", "2"} {
		for _, p := range []string{"qkv", "z", "b", "a"} {
			linearAttention = append(linearAttention, "model.language_model.layers."+layer+".linear_attn.in_proj_"+p)
		}
	}
	for _, c := range []struct {
		name    string
		ignore  []string
		want    []string // quantized
		refused []string
	}{
		{"only lm_head: all else is quantized, vision, gates, fc and head too", []string{"lm_head"}, everything, nil},
		{"re:.*mtp.*: the head is plain", []string{"re:.*mtp.*"}, sorted(bodyDense, tower), nil},
		{"re:^mtp.*: the head is plain", []string{"re:^mtp.*"}, sorted(bodyDense, tower), nil},
		{"exact split names: the head is plain", split, sorted(bodyDense, tower), nil},
		{"mtp: no effect", []string{"mtp"}, everything, nil},
		{"mtp.layers.0: no effect", []string{"mtp.layers.0"}, everything, nil},
		{"mtp*: no effect", []string{"mtp*"}, everything, nil},
		{"a pattern on checkpoint names: no effect", []string{`re:model\.language_model\..*`}, everything, nil},
		{"re:.*linear_attn.*: as meant", []string{"re:.*linear_attn.*"}, sorted(without(bodyDense, "linear_attn.in_proj_ba", "linear_attn.in_proj_qkvz", "linear_attn.out_proj"), tower, headDense), nil},
		{"re:.*visual.*: as meant", []string{"re:.*visual.*"}, sorted(bodyDense, headDense), nil},
		{"exact split linear attention: as meant", linearAttention, sorted(without(bodyDense, "linear_attn.in_proj_ba", "linear_attn.in_proj_qkvz"), tower, headDense), nil},
		{"re:.*q_proj alone: ValueError for qkv_proj", []string{"re:.*q_proj"}, without(everything, "self_attn.qkv_proj", "drafter:mtp.self_attn.qkv_proj"), []string{"drafter:mtp.self_attn.qkv_proj", "self_attn.qkv_proj"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, res := server(t, fixture(t, "tiny"), oneGroup(quoted("Linear"), quoted(slices.Clone(c.ignore)...)))
			if got := quantized(res, engine.Quantized); !slices.Equal(got, c.want) {
				t.Errorf("quantized:\n got %v\nwant %v", got, c.want)
			}
			if got := quantized(res, engine.Refused); !slices.Equal(got, c.refused) {
				t.Errorf("refused: got %v, want %v", got, c.refused)
			}
		})
	}
}

func TestTargetWithoutMTPInMindCatchesTheHead(t *testing.T) {
	_, res := server(t, fixture(t, "tiny"), oneGroup(quoted(`re:.*mlp\.(gate|up|down)_proj$`), "[]"))
	want := []string{"drafter:mtp.mlp.down_proj", "drafter:mtp.mlp.gate_up_proj", "mlp.down_proj", "mlp.gate_up_proj"}
	if got := quantized(res, engine.Quantized); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLMHeadTargets(t *testing.T) {
	for _, c := range []struct {
		target          string
		target_, drafer bool // quantized for the target, for the drafter
	}{
		{"Linear", false, false},
		{"lm_head", false, true}, // never the wrapper's language_model.lm_head
		{"re:.*lm_head$", true, true},
		{"re:lm_head", false, true},
		{"ParallelLMHead", true, true},
	} {
		_, res := server(t, fixture(t, "tiny"), oneGroup(quoted(c.target), "[]"))
		got := [2]bool{res["language_model.lm_head"].State == engine.Quantized, res["drafter:lm_head"].State == engine.Quantized}
		if got != [2]bool{c.target_, c.drafer} {
			t.Errorf("target %q: got %v, want target %v, drafter %v", c.target, got, c.target_, c.drafer)
		}
	}
	_, res := server(t, fixture(t, "tiny"), oneGroup(quoted("re:.*lm_head$"), quoted("language_model.lm_head")))
	if res["language_model.lm_head"].State != engine.Unquantized || res["drafter:lm_head"].State != engine.Quantized {
		t.Error("an entry language_model.lm_head covers the target only")
	}
	_, res = server(t, fixture(t, "tiny"), oneGroup(quoted("re:.*lm_head$"), quoted("lm_head")))
	if res["language_model.lm_head"].State != engine.Quantized || res["drafter:lm_head"].State != engine.Unquantized {
		t.Error("a bare entry lm_head is not mapped and covers the drafter only")
	}
}

func TestExpertsAreAskedByTheNamesOfExpertZero(t *testing.T) {
	const target, head = "language_model.model.layers.0.mlp.experts", "drafter:mtp.layers.0.mlp.experts"
	for _, c := range []struct {
		ignore       []string
		target, head engine.State
	}{
		{[]string{"lm_head"}, engine.Quantized, engine.Quantized},
		{[]string{"mtp.layers.0.mlp.experts"}, engine.Quantized, engine.Quantized},
		{[]string{"re:.*mtp.*"}, engine.Quantized, engine.Unquantized},
		{[]string{"mtp.layers.0.mlp.experts.0.gate_proj", "mtp.layers.0.mlp.experts.0.up_proj", "mtp.layers.0.mlp.experts.0.down_proj"}, engine.Quantized, engine.Unquantized},
		{[]string{"mtp.layers.0.mlp.experts.1.gate_proj"}, engine.Quantized, engine.Quantized},
		{[]string{"mtp.layers.0.mlp.experts.0.gate_proj"}, engine.Quantized, engine.Refused},
	} {
		_, res := server(t, fixture(t, "moe"), oneGroup(quoted("Linear"), quoted(slices.Clone(c.ignore)...)))
		if res[target].State != c.target || res[head].State != c.head {
			t.Errorf("ignore %v: target %d, head %d; want %d, %d", c.ignore, res[target].State, res[head].State, c.target, c.head)
		}
	}
}

func TestNamesBeatClassesAndTheOrderOfGroupsDecidesInsideAStep(t *testing.T) {
	fp8 := `{"num_bits":8,"type":"float","strategy":"channel","symmetric":true,"dynamic":false}`
	token := `{"num_bits":8,"type":"float","strategy":"token","symmetric":true,"dynamic":true}`
	block := func(first, second string) string {
		return `{"quant_method":"compressed-tensors","format":"mixed-precision","config_groups":{
			"a":{"format":"nvfp4-pack-quantized","targets":` + first + `,"weights":` + nvfp4 + `},
			"b":{"format":"float-quantized","targets":` + second + `,"weights":` + fp8 + `,"input_activations":` + token + `}},"ignore":[]}`
	}
	const down, gateUp = "language_model.model.layers.1.mlp.down_proj", "language_model.model.layers.1.mlp.gate_up_proj"
	for _, c := range []struct {
		first, second string
		runtime       string
		group         string
		overlap       []string
	}{
		{quoted("Linear"), quoted("re:.*mlp.*"), down, "b", nil},                                                                  // a name beats a class
		{quoted("Linear"), quoted("Linear"), down, "b", nil},                                                                      // the same target twice: the later group takes its place
		{quoted("re:.*down_proj"), quoted(`re:.*layers\.1\..*`), down, "a", []string{"b"}},                                        // both by name: first group
		{quoted(`re:.*layers\.1\..*`), quoted("re:.*mlp.*"), down, "a", []string{"b"}},                                            //
		{quoted("re:.*gate_proj"), quoted("re:.*mlp.*"), gateUp, "b", nil},                                                        // the fused name matches b by name; of a only a shard
		{quoted("Linear"), quoted("re:.*mlp.gate_proj$"), gateUp, "a", nil},                                                       // not all shards: b does not match
		{quoted("Linear"), quoted("re:.*mlp.gate_proj$", "re:.*mlp.up_proj$"), gateUp, "b", nil},                                  // all shards beat a class
		{quoted("model.language_model.layers.1.mlp.down_proj"), quoted("re:.*layers.1.mlp.down_proj$"), down, "a", []string{"b"}}, // exact names are mapped
		{quoted("MergedColumnParallelLinear"), quoted("columnparallellinear"), gateUp, "a", []string{"b"}},                        // classes: contained, any case
		{quoted("RowParallelLinear"), quoted("ColumnParallelLinear"), gateUp, "b", nil},                                           //
	} {
		_, res := server(t, fixture(t, "tiny"), block(c.first, c.second))
		r := res[c.runtime]
		if r.State != engine.Quantized || r.Group != c.group || !slices.Equal(r.Overlap, c.overlap) {
			t.Errorf("a=%s b=%s: %s is in %q (state %d), overlap %v; want %q, %v", c.first, c.second, c.runtime, r.Group, r.State, r.Overlap, c.group, c.overlap)
		}
	}
}

func TestAFusedNameInTheIgnoreListCoversTheModule(t *testing.T) {
	_, res := server(t, fixture(t, "tiny"), oneGroup(quoted("Linear"), quoted("model.language_model.layers.3.self_attn.qkv_proj", "mtp.layers.0.self_attn.qkv_proj")))
	for _, k := range []string{"language_model.model.layers.3.self_attn.qkv_proj", "drafter:mtp.layers.0.self_attn.qkv_proj"} {
		if !res[k].Ignored {
			t.Errorf("%s is not ignored: %+v", k, res[k])
		}
	}
	// a pattern on the fused name is asked of the shards, which it does not match
	_, res = server(t, fixture(t, "tiny"), oneGroup(quoted("Linear"), quoted(`re:.*qkv_proj$`)))
	if res["language_model.model.layers.3.self_attn.qkv_proj"].State != engine.Quantized {
		t.Error("a pattern on the fused name covers the module, the server asks the shards")
	}
}
