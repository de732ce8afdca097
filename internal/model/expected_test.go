package model_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/sjson"

	"seatsmith/internal/model"
)

// shapes lists names with shapes.
func expectedShapes(m *model.Model, keep func(model.Expected) bool) []string {
	var out []string
	for _, e := range m.Expected {
		if keep(e) {
			out = append(out, fmt.Sprint(e.Name, e.Shape))
		}
	}
	return out
}

func storedShapes(m *model.Model) []string {
	var out []string
	for i := range m.Tensors {
		out = append(out, fmt.Sprint(m.Tensors[i].Name, m.Tensors[i].Shape()))
	}
	return out
}

func TestExpectedIsExactlyWhatTheFixturesStore(t *testing.T) {
	all := func(model.Expected) bool { return true }
	body := func(e model.Expected) bool { return e.Role != model.RoleHead }
	for _, c := range []struct {
		fixture string
		keep    func(model.Expected) bool
		tensors int
	}{{"tiny", all, 104}, {"moe", all, 124}, {"tiny-finetune", body, 89}} {
		m := open(t, fixtures+c.fixture)
		if d := cmp.Diff(expectedShapes(m, c.keep), storedShapes(m)); d != "" {
			t.Errorf("%s: expected (-) against stored (+), names, shapes and order:\n%s", c.fixture, d)
		}
		if len(m.Tensors) != c.tensors {
			t.Errorf("%s: %d tensors, want %d", c.fixture, len(m.Tensors), c.tensors)
		}
	}
}

// big is a fixture's configuration with the sizes of a published model.
func big(t *testing.T, fixture string, sizes map[string]any) *folder {
	f := like(t, fixture)
	for path, v := range sizes {
		f.set(path, v)
	}
	for name := range f.tensors {
		delete(f.tensors, name)
	}
	f.shards = 1
	return f.add("mtp.norm.weight", "BF16", 8)
}

func count(m *model.Model, match func(model.Expected) bool) (n int) {
	for _, e := range m.Expected {
		if match(e) {
			n++
		}
	}
	return n
}

// The counts of public headers: text 851, vision 333, head 15 of the dense 27B; 693 + 333 + 19 of the 35B with experts.
func TestCountsOfPublishedModels(t *testing.T) {
	tower := map[string]any{"vision_config.depth": 27, "vision_config.hidden_size": 1152, "vision_config.intermediate_size": 4304, "vision_config.num_position_embeddings": 2304}
	dense := big(t, "tiny", map[string]any{
		"text_config.hidden_size": 5120, "text_config.num_hidden_layers": 64, "text_config.num_attention_heads": 24, "text_config.num_key_value_heads": 4,
		"text_config.head_dim": 256, "text_config.intermediate_size": 17408, "text_config.linear_num_key_heads": 16, "text_config.linear_num_value_heads": 48,
		"text_config.linear_key_head_dim": 128, "text_config.linear_value_head_dim": 128, "text_config.vocab_size": 248320, "vision_config.out_hidden_size": 5120,
		"vision_config.patch_size": 16,
	})
	moe := big(t, "moe", map[string]any{"text_config.num_hidden_layers": 40, "text_config.num_experts": 256})
	for path, v := range tower {
		dense.set(path, v)
		moe.set(path, v)
	}
	for _, c := range []struct {
		name              string
		m                 *model.Model
		text, vision, mtp int
	}{{"27B", dense.open(), 851, 333, 15}, {"35B", moe.open(), 693, 333, 19}} {
		vision := count(c.m, func(e model.Expected) bool { return e.Role == model.RoleVision })
		head := count(c.m, func(e model.Expected) bool { return e.Role == model.RoleHead })
		if text := len(c.m.Expected) - vision - head; text != c.text || vision != c.vision || head != c.mtp {
			t.Errorf("%s: text %d, vision %d, head %d; want %d, %d, %d", c.name, text, vision, head, c.text, c.vision, c.mtp)
		}
	}
	want := map[string][]int64{
		"mtp.fc.weight":                                                 {5120, 10240},
		"mtp.layers.0.self_attn.q_proj.weight":                          {12288, 5120},
		"mtp.layers.0.self_attn.k_proj.weight":                          {1024, 5120},
		"model.language_model.layers.62.linear_attn.conv1d.weight":      {10240, 1, 4},
		"model.language_model.layers.62.linear_attn.in_proj_qkv.weight": {10240, 5120},
		"model.language_model.layers.62.linear_attn.out_proj.weight":    {5120, 6144},
		"model.language_model.layers.63.self_attn.o_proj.weight":        {5120, 6144},
		"model.language_model.layers.63.mlp.down_proj.weight":           {5120, 17408},
		"model.visual.merger.linear_fc2.weight":                         {5120, 4608},
		"model.visual.patch_embed.proj.weight":                          {1152, 3, 2, 16, 16},
		"lm_head.weight":                                                {248320, 5120},
	}
	for _, e := range dense.open().Expected {
		if shape, ok := want[e.Name]; ok {
			if !slices.Equal(shape, e.Shape) {
				t.Errorf("%s: %v, want %v", e.Name, e.Shape, shape)
			}
			delete(want, e.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("never expected: %v", want)
	}
}

func expects(m *model.Model, name string) []int64 {
	for _, e := range m.Expected {
		if e.Name == name {
			return e.Shape
		}
	}
	return nil
}

func TestWithoutTheOutputGateQProjIsHalfAsHigh(t *testing.T) {
	m := like(t, "tiny").set("text_config.attn_output_gate", false).open()
	if got := expects(m, "mtp.layers.0.self_attn.q_proj.weight"); !slices.Equal(got, []int64{128, 128}) {
		t.Errorf("q_proj %v", got)
	}
}

// addBiases stores the biases of the attention in the body's full layer and in the head.
func addBiases(f *folder, names ...string) *folder {
	rows := map[string]int64{"q_proj": 256, "k_proj": 64, "v_proj": 64, "o_proj": 128}
	for _, layer := range []string{"model.language_model.layers.3.", "mtp.layers.0."} {
		for _, name := range names {
			f.add(layer+"self_attn."+name+".bias", "BF16", rows[name])
		}
	}
	return f
}

func TestBiasesAreExpectedWhereTheConfigurationPromisesThem(t *testing.T) {
	const layer = "model.language_model.layers.3.self_attn."
	all := []string{"q_proj", "k_proj", "v_proj", "o_proj"}
	for _, c := range []struct {
		keys   []string
		stored []string
		want   []string // findings
		says   []string // of the first
	}{
		{nil, nil, nil, nil},
		{nil, all, []string{"error tensor-unexpected", "error tensor-unexpected", "error tensor-unexpected", "error tensor-unexpected",
			"error tensor-unexpected", "error tensor-unexpected", "error tensor-unexpected", "error tensor-unexpected"}, []string{layer + "k_proj.bias", "skips it without a word"}},
		{[]string{"attention_bias"}, nil, []string{"error tensor-missing", "error head-missing"}, []string{layer + "k_proj.bias", "4 of 8 tensors of role attention"}},
		{[]string{"attention_bias"}, all, []string{"error bias-unread"}, []string{"text_config.attention_bias", "8 tensors of the kind", "serves another model"}},
		{[]string{"qkv_bias"}, all[:3], nil, nil},
		{[]string{"qkv_bias"}, all[:2], []string{"error tensor-missing", "error head-missing"}, []string{layer + "v_proj.bias"}},
		{[]string{"qkv_bias"}, all, []string{"error tensor-unexpected", "error tensor-unexpected"}, []string{layer + "o_proj.bias", "skips it"}},
		{[]string{"qkv_bias", "attention_bias"}, all, []string{"error bias-unread"}, []string{"2 tensors of the kind model.language_model.layers.N.self_attn.o_proj.bias"}},
	} {
		f := addBiases(like(t, "tiny"), c.stored...)
		for _, key := range c.keys {
			f.set("text_config."+key, true)
		}
		m := f.open()
		only(t, m.Findings, c.want...)
		if len(c.want) > 0 {
			for _, text := range c.says {
				if !strings.Contains(m.Findings[0].String(), text) {
					t.Errorf("%v, %v: %s does not say %q", c.keys, c.stored, m.Findings[0], text)
				}
			}
		}
		for i := range m.Tensors {
			if x := &m.Tensors[i]; x.Suffix == "bias" && x.Linear {
				t.Errorf("%s is taken for the weight of a Linear", x.Name)
			}
		}
	}
	m := like(t, "tiny").set("text_config.attention_bias", true).open()
	if got := expects(m, layer+"k_proj.bias"); !slices.Equal(got, []int64{64}) {
		t.Errorf("bias %v", got)
	}
}

func TestDeepstackMergersAreExpected(t *testing.T) {
	m := like(t, "tiny").set("vision_config.deepstack_visual_indexes", []int{0, 1}).open()
	if got := expects(m, "model.visual.deepstack_merger_list.1.norm.weight"); !slices.Equal(got, []int64{256}) {
		t.Errorf("the norm of a deepstack merger works on the shuffled width: %v", got)
	}
	if got := expects(m, "model.visual.deepstack_merger_list.0.linear_fc2.bias"); !slices.Equal(got, []int64{128}) {
		t.Errorf("fc2 bias %v", got)
	}
	only(t, m.Findings, "error tensor-missing")
	says(t, m.Findings, "tensor-missing", "12 of 45 tensors of role vision")
}

func TestTiedModelsExpectNoOutputLayer(t *testing.T) {
	f := like(t, "tiny").set("text_config.tie_word_embeddings", true).set("tie_word_embeddings", true).dropPrefix("lm_head.")
	m := f.open()
	if expects(m, "lm_head.weight") != nil {
		t.Error("lm_head.weight is expected of a tied model")
	}
	only(t, m.Findings)
}

// splitExperts stores the experts of matching layers one by one, as the 397B and most quantized repositories do.
func (f *folder) splitExperts(match func(layer string) bool) *folder {
	for name := range f.tensors {
		layer, ok := strings.CutSuffix(name, "mlp.experts.gate_up_proj")
		if !ok || !match(layer) {
			continue
		}
		f.drop(func(n string) bool { return strings.HasPrefix(n, layer+"mlp.experts.") })
		for e := range 8 {
			for _, p := range []string{"gate", "up", "down"} {
				f.add(fmt.Sprintf("%smlp.experts.%d.%s_proj.weight", layer, e, p), "BF16", 128, 128)
			}
		}
	}
	return f
}

func TestExpertsMayBeStoredOneByOneLayerByLayer(t *testing.T) {
	for _, c := range []struct {
		what  string
		match func(string) bool
		head  int
	}{
		{"all", func(string) bool { return true }, 41},
		{"the body only", func(l string) bool { return !strings.HasPrefix(l, "mtp.") }, 19},
		{"the head only", func(l string) bool { return strings.HasPrefix(l, "mtp.") }, 41},
	} {
		m := like(t, "moe").splitExperts(c.match).open()
		only(t, m.Findings)
		if m.Head.Expected != c.head || m.Head.Present != c.head {
			t.Errorf("%s: head %+v, want %d tensors", c.what, m.Head, c.head)
		}
	}
}

func TestALostExpertOfASplitLayerIsMissed(t *testing.T) {
	f := like(t, "moe").splitExperts(func(string) bool { return true })
	m := f.dropPrefix("model.language_model.layers.1.mlp.experts.3.").open()
	only(t, m.Findings, "error tensor-missing")
	says(t, m.Findings, "tensor-missing", "3 of 96 tensors of role expert are missing", "layers.1.mlp.experts.3.down_proj.weight")
}

func TestTwoHeadLayersAreExpectedWhenPromised(t *testing.T) {
	m := like(t, "tiny").set("text_config.mtp_num_hidden_layers", 2).open()
	if m.Head.Promised != 2 || m.Head.Expected != 26 || m.Head.Present != 15 || len(m.Head.Missing) != 11 {
		t.Errorf("%+v", m.Head)
	}
	only(t, m.Findings, "error head-missing")
}

func TestTextOnlyModelsExpectFlatNames(t *testing.T) {
	m := flat(t).open()
	if m.Family != "qwen3_5" || len(m.Expected) != 104-33 {
		t.Errorf("family %q, %d expected", m.Family, len(m.Expected))
	}
	only(t, m.Findings)
}

// flat is the tiny model saved by the text-only class.
func flat(t *testing.T) *folder {
	f := like(t, "tiny").dropPrefix("model.visual.").rename("model.language_model.", "model.")
	config, err := sjson.SetBytes([]byte(flatConfig), "tie_word_embeddings", false)
	if err != nil {
		t.Fatal(err)
	}
	f.config = config
	delete(f.files, "preprocessor_config.json")
	return f
}
