package model_test

import (
	"fmt"
	"strings"
	"testing"
)

// One accident of merging, saving or exporting at a time, in the families beside Qwen3.5, each named by its rule.
func TestEachAccidentOfStructureIsNamedInOtherFamilies(t *testing.T) {
	const gptOss, deepseek, glm46 = 5, 0, 3
	hand := func(i int) (string, string) { return byHand[i].config, byHand[i].tensors }
	sure := func(i int) (string, string) { return wholes[i].config, wholes[i].tensors }
	part := func(i int) (string, string) { return sketched[i].config, sketched[i].body + sketched[i].head }
	const llama, qwen2tied, qwenMoE, qwenNext, nemotron = 0, 3, 5, 6, 4
	for _, c := range []struct {
		what   string
		of     func(int) (string, string)
		which  int
		config func(string) string
		make   func(f *folder)
		want   []string
		says   []string
	}{
		{what: "an ending that stands twice (heretic#211)", of: sure, which: gptOss, make: func(f *folder) {
			f.rename("model.layers.0.mlp.experts.down_proj_blocks", "model.layers.0.mlp.experts.down_proj_blocks_blocks")
			f.rename("model.layers.1.mlp.experts.down_proj_blocks", "model.layers.1.mlp.experts.down_proj_blocks_blocks")
		}, want: []string{"error name-doubled"}, says: []string{"2 tensors", `rename them: "model.layers.0.mlp.experts.down_proj_blocks_blocks" to "model.layers.0.mlp.experts.down_proj_blocks"`}},
		{what: "weight.weight", of: hand, which: llama, make: func(f *folder) { f.rename("model.norm.weight", "model.norm.weight.weight") },
			want: []string{"error name-doubled"}, says: []string{`"model.norm.weight.weight" to "model.norm.weight"`}},
		{what: "experts beside their MXFP4 blocks", of: sure, which: gptOss, make: func(f *folder) { f.add("model.layers.0.mlp.experts.down_proj", "BF16", 2, 64, 32) },
			want: []string{"error tensor-unexpected"}, says: []string{"model.layers.N.mlp.experts.down_proj"}},
		{what: "one expert lost", of: sure, which: deepseek, make: func(f *folder) { f.dropPrefix("model.layers.1.mlp.experts.1.") },
			want: []string{"error tensor-missing"}, says: []string{"3 of 6 tensors of role expert are missing", "model.layers.1.mlp.experts.1.down_proj.weight"}},
		{what: "an expert too many", of: sure, which: deepseek, make: func(f *folder) { f.add("model.layers.1.mlp.experts.2.up_proj.weight", "BF16", 16, 32) },
			want: []string{"error tensor-unexpected"}, says: []string{"experts.N.up_proj"}},
		{what: "experts along the wrong axis (tinker-cookbook#554)", of: hand, which: qwenMoE, make: func(f *folder) {
			for _, e := range []string{"0", "1"} {
				f.add("model.layers.1.mlp.experts."+e+".down_proj.weight", "BF16", 16, 32)
			}
		}, want: []string{"error tensor-shape"}, says: []string{"stored as [16 32], config.json makes it [32 16]", "transposed", "2 tensors"}},
		{what: "a whole layer lost", of: sure, which: glm46, make: func(f *folder) { f.dropPrefix("model.layers.0.") },
			want: []string{"error tensor-missing"}, says: []string{"1 of 2 layers are missing as a whole", ": 0"}},
		{what: "the biases lost", of: hand, which: qwen2tied, make: func(f *folder) { f.drop(has(".bias")) },
			want: []string{"error tensor-missing"}, says: []string{"6 of 14 tensors of role attention"}},
		{what: "biases that nothing promises", of: hand, which: llama, make: func(f *folder) { f.add("model.layers.0.self_attn.q_proj.bias", "BF16", 32) },
			want: []string{"error tensor-unexpected"}, says: []string{"q_proj.bias"}},
		{what: "norms of q and k of another family", of: hand, which: llama, make: func(f *folder) { f.add("model.layers.0.self_attn.q_norm.weight", "BF16", 8) },
			want: []string{"error tensor-unexpected"}, says: []string{"q_norm"}},
		{what: "lm_head lost", of: hand, which: llama, make: func(f *folder) { f.dropPrefix("lm_head.") },
			want: []string{"error lm-head-tied"}, says: []string{"lm_head.weight is missing"}},
		{what: "tied, and an lm_head of another size", of: hand, which: qwen2tied, make: func(f *folder) { f.add("lm_head.weight", "BF16", 95, 32) },
			want: []string{"error lm-head-tied"}, says: []string{"lm_head.weight (BF16 [95 32])"}},
		{what: "names of a wrapper", of: hand, which: llama, make: func(f *folder) { f.rename("model.", "model.language_model.") },
			want: []string{"error layout-prefix"}, says: []string{`rename the prefix "model.language_model." to "model."`}},
		{what: "names of an adapter", of: hand, which: llama, make: func(f *folder) { f.rename("model.", "base_model.model.model.") },
			want: []string{"error layout-prefix"}, says: []string{`"base_model.model.model." to "model."`}},
		{what: "doubled names", of: sure, which: deepseek, make: func(f *folder) { f.rename("model.layers.0.", "model.model.layers.0.") },
			want: []string{"error layout-prefix"}, says: []string{`"model.model." to "model."`}},
		{what: "split delta nets under a class that stores them joined", of: hand, which: qwenNext, make: func(f *folder) {
			f.drop(has("in_proj_qkvz")).add("model.layers.0.linear_attn.in_proj_qkv.weight", "BF16", 64, 32).add("model.layers.0.linear_attn.in_proj_z.weight", "BF16", 32, 32)
		}, want: []string{"error tensor-missing", "error tensor-unexpected", "error tensor-unexpected"}, says: []string{"in_proj_qkvz"}},
		{what: "a head of another model", of: hand, which: qwenNext, make: func(f *folder) { f.add("mtp.fc.weight", "BF16", 48, 96) },
			want: []string{"error tensor-shape"}, says: []string{"mtp.fc.weight", "stored as [48 96], config.json makes it [32 64]"}},
		{what: "the head a layer too deep", of: sure, which: deepseek, make: func(f *folder) { f.rename("model.layers.2.", "model.layers.3.") },
			want: []string{"error head-misplaced"}, says: []string{"model.layers.3.", "stands at layer 3, and with num_hidden_layers 2 the drafter reads layer 2"}},
		{what: "a configuration that says one layer too many", of: sure, which: deepseek, config: func(c string) string {
			return strings.Replace(c, `"num_hidden_layers":2`, `"num_hidden_layers":3`, 1)
		}, want: []string{"error head-misplaced"}, says: []string{"stands at layer 2", "reads layer 3"}},
		{what: "a list cut short", of: hand, which: qwenMoE, config: list(`"layer_types":["full_attention"]`),
			want: []string{"error layer-list"}, says: []string{"layer_types", "cut short: 1 entries for the 2 layers"}},
		{what: "a list that counts the head in", of: sure, which: glm46, config: list(`"layer_types":["full_attention","full_attention","full_attention"]`),
			want: []string{"warning layer-list"}, says: []string{"3 entries: 2 layers and 1 of the head"}},
		{what: "a list that counts a head in twice", of: sure, which: glm46, config: list(`"mlp_layer_types":["dense","sparse","sparse","sparse"]`),
			want: []string{"error layer-list"}, says: []string{"mlp_layer_types", "4 entries for the 2 layers of num_hidden_layers and 1 of the head"}},
		{what: "a pattern cut short", of: part, which: nemotron, config: list(`"hybrid_override_pattern":"M"`),
			want: []string{"error layer-list"}, says: []string{"hybrid_override_pattern"}},
		{what: "a tower that no table has", of: part, which: nemotron, make: func(f *folder) { f.add("sound_encoder.fc.weight", "BF16", 4, 4) },
			want: []string{"warning names-unread"}, says: []string{"1 of ", "sound_encoder.fc.weight"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			config, tensors := c.of(c.which)
			if c.config != nil {
				config = c.config(config)
			}
			f, _ := build(t, config, tensors)
			f.bytesOf()
			if c.make != nil {
				c.make(f)
			}
			m := f.open()
			var got []string
			for _, j := range judged(m.Findings) {
				if j != "info already-quantized" {
					got = append(got, j)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("findings %v, want %v: %v", got, c.want, m.Findings)
			}
			_, rule, _ := strings.Cut(c.want[0], " ")
			says(t, m.Findings, rule, c.says...)
		})
	}
}

// list adds a key to a configuration.
func list(entry string) func(string) string {
	return func(config string) string { return strings.TrimSuffix(config, "}") + "," + entry + "}" }
}

// A doubled ending in the head is neither a head under another prefix nor a missing one.
func TestADoubledEndingInTheHeadIsNamedOnce(t *testing.T) {
	m := like(t, "tiny").rename("mtp.fc.weight", "mtp.fc.weight.weight").open()
	only(t, m.Findings, "error name-doubled")
	if m.Head.Present != 14 {
		t.Errorf("the server would not find it: %+v", m.Head)
	}
}

// A layer_types that counts the head's layers in is read as far as the body goes, and told.
func TestTheLayersOfTheHeadMayBeCountedIn(t *testing.T) {
	m := like(t, "tiny")
	m.set("text_config.layer_types", append(append([]string{}, open(t, fixtures+"tiny").Config.LayerTypes...), "full_attention"))
	opened := m.open()
	only(t, opened.Findings, "warning layer-list")
	if n := len(opened.Config.LayerTypes); n != 4 {
		t.Errorf("%d layer types", n)
	}
}
