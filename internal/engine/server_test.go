package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/engine"
)

func shapeText(shape []int64) string {
	var p []string
	for _, n := range shape {
		p = append(p, fmt.Sprint(n))
	}
	return "[" + strings.Join(p, ",") + "]"
}

func build(t *testing.T, spec string, config []byte, drafter bool) *engine.Server {
	t.Helper()
	e, err := engine.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	s, err := engine.Build(e, config, drafter)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestModulesOfTheDenseWrapper(t *testing.T) {
	s := build(t, engine.Default, fixture(t, "tiny"), true)
	var got []string
	for _, l := range s.Linears {
		if !strings.Contains(l.Runtime, "layers.0.") && !strings.Contains(l.Runtime, "layers.3.") && strings.Contains(l.Runtime, "layers.") || strings.Contains(l.Runtime, "blocks.1") {
			continue
		}
		var shards []string
		for _, sh := range l.Shards {
			shards = append(shards, fmt.Sprintf("%s %dx%d", sh.Name, sh.Out, sh.In))
		}
		got = append(got, fmt.Sprintf("%s <- %s", l.Runtime, strings.Join(shards, ", ")))
	}
	want := []string{
		"visual.blocks.0.attn.qkv <- model.visual.blocks.0.attn.qkv 192x64",
		"visual.blocks.0.attn.proj <- model.visual.blocks.0.attn.proj 64x64",
		"visual.blocks.0.mlp.linear_fc1 <- model.visual.blocks.0.mlp.linear_fc1 128x64",
		"visual.blocks.0.mlp.linear_fc2 <- model.visual.blocks.0.mlp.linear_fc2 64x128",
		"visual.merger.linear_fc1 <- model.visual.merger.linear_fc1 256x256",
		"visual.merger.linear_fc2 <- model.visual.merger.linear_fc2 128x256",
		"language_model.model.layers.0.linear_attn.in_proj_qkvz <- model.language_model.layers.0.linear_attn.in_proj_qkv 256x128, model.language_model.layers.0.linear_attn.in_proj_z 128x128",
		"language_model.model.layers.0.linear_attn.in_proj_ba <- model.language_model.layers.0.linear_attn.in_proj_b 4x128, model.language_model.layers.0.linear_attn.in_proj_a 4x128",
		"language_model.model.layers.0.linear_attn.out_proj <- model.language_model.layers.0.linear_attn.out_proj 128x128",
		"language_model.model.layers.0.mlp.gate_up_proj <- model.language_model.layers.0.mlp.gate_proj 384x128, model.language_model.layers.0.mlp.up_proj 384x128",
		"language_model.model.layers.0.mlp.down_proj <- model.language_model.layers.0.mlp.down_proj 128x384",
		"language_model.model.layers.3.self_attn.qkv_proj <- model.language_model.layers.3.self_attn.q_proj 256x128, model.language_model.layers.3.self_attn.k_proj 64x128, model.language_model.layers.3.self_attn.v_proj 64x128",
		"language_model.model.layers.3.self_attn.o_proj <- model.language_model.layers.3.self_attn.o_proj 128x128",
		"language_model.model.layers.3.mlp.gate_up_proj <- model.language_model.layers.3.mlp.gate_proj 384x128, model.language_model.layers.3.mlp.up_proj 384x128",
		"language_model.model.layers.3.mlp.down_proj <- model.language_model.layers.3.mlp.down_proj 128x384",
		"language_model.lm_head <- lm_head 2048x128",
		"mtp.fc <- mtp.fc 128x256",
		"mtp.layers.0.self_attn.qkv_proj <- mtp.layers.0.self_attn.q_proj 256x128, mtp.layers.0.self_attn.k_proj 64x128, mtp.layers.0.self_attn.v_proj 64x128",
		"mtp.layers.0.self_attn.o_proj <- mtp.layers.0.self_attn.o_proj 128x128",
		"mtp.layers.0.mlp.gate_up_proj <- mtp.layers.0.mlp.gate_proj 384x128, mtp.layers.0.mlp.up_proj 384x128",
		"mtp.layers.0.mlp.down_proj <- mtp.layers.0.mlp.down_proj 128x384",
		"lm_head <- lm_head 2048x128",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheDenseHeadIsFifteenTensors(t *testing.T) {
	s := build(t, engine.Default, fixture(t, "tiny"), true)
	n := 0
	for _, p := range s.Params {
		if strings.HasPrefix(p.Name, "mtp.") {
			n++
		}
	}
	for _, l := range s.Linears {
		if l.InHead() {
			n += len(l.Shards)
		}
	}
	if n != 15 {
		t.Errorf("the head has %d tensors, want 15", n)
	}
}

func TestEveryStoredNameHasItsPlaceOrNone(t *testing.T) {
	s := build(t, engine.Default, fixture(t, "tiny"), true)
	moe := build(t, engine.Default, fixture(t, "moe"), true)
	for _, c := range []struct {
		s       *engine.Server
		name    string
		fate    engine.Fate
		runtime string
		attr    string
	}{
		{s, "model.language_model.layers.3.self_attn.q_proj.weight_packed", engine.InLinear, "language_model.model.layers.3.self_attn.qkv_proj.weight_packed", "weight_packed"},
		{s, "model.language_model.layers.0.linear_attn.in_proj_z.weight_scale", engine.InLinear, "language_model.model.layers.0.linear_attn.in_proj_qkvz.weight_scale", "weight_scale"},
		{s, "model.language_model.layers.0.mlp.down_proj.weight_shape", engine.InLinear, "language_model.model.layers.0.mlp.down_proj.weight_shape", "weight_shape"},
		{s, "lm_head.weight", engine.InLinear, "language_model.lm_head.weight", "weight"},
		{s, "mtp.fc.weight", engine.InLinear, "mtp.fc.weight", "weight"},
		{s, "model.language_model.layers.0.linear_attn.A_log", engine.InParam, "language_model.model.layers.0.linear_attn.A_log", ""},
		{s, "model.visual.patch_embed.proj.bias", engine.InParam, "visual.patch_embed.proj.bias", ""},
		{s, "model.language_model.layers.3.self_attn.k_scale", engine.CacheScale, "language_model.model.layers.3.self_attn.attn.k_scale", "k_scale"},
		{s, "model.language_model.layers.3.self_attn.v_proj.v_scale", engine.CacheScale, "language_model.model.layers.3.self_attn.attn.v_scale", "v_scale"},
		{s, "model.language_model.layers.0.self_attn.k_scale", engine.Tolerated, "language_model.model.layers.0.self_attn.attn.k_scale", ""},
		{s, "model.language_model.rotary_emb.inv_freq", engine.Tolerated, "language_model.model.rotary_emb.inv_freq", ""},
		{s, "model.language_model.layers.0.linear_attn.in_proj_qkvz.weight", engine.NoPlace, "language_model.model.layers.0.linear_attn.in_proj_qkvz.weight", ""},
		{s, "model.language_model.layers.9.mlp.down_proj.weight", engine.NoPlace, "language_model.model.layers.9.mlp.down_proj.weight", ""},
		{s, "model.layers.0.mlp.down_proj.weight", engine.NoPlace, "model.layers.0.mlp.down_proj.weight", ""},
		{s, "model.mtp.fc.weight", engine.NoPlace, "model.mtp.fc.weight", ""},
		{s, "language_model.mtp.fc.weight", engine.Skipped, "language_model.mtp.fc.weight", ""},
		{s, "model.language_model.embed_tokens.weight_packed", engine.NoPlace, "language_model.model.embed_tokens.weight_packed", ""},
		{s, "", engine.NoPlace, "", ""},
		{s, "weight", engine.NoPlace, "weight", ""},
		{moe, "model.language_model.layers.1.mlp.experts.7.up_proj.weight_packed", engine.InLinear, "language_model.model.layers.1.mlp.experts.7.up_proj.weight_packed", "weight_packed"},
		{moe, "model.language_model.layers.1.mlp.experts.8.up_proj.weight_packed", engine.NoPlace, "language_model.model.layers.1.mlp.experts.8.up_proj.weight_packed", ""},
		{moe, "mtp.layers.0.mlp.experts.gate_up_proj", engine.InExperts, "mtp.layers.0.mlp.experts.gate_up_proj", "gate_up_proj"},
		{moe, "model.language_model.layers.0.mlp.gate.weight_packed", engine.NoPlace, "language_model.model.layers.0.mlp.gate.weight_packed", ""},
		{moe, "model.language_model.layers.0.mlp.shared_expert.up_proj.weight", engine.InLinear, "language_model.model.layers.0.mlp.shared_expert.gate_up_proj.weight", "weight"},
	} {
		got := c.s.Place(c.name)
		if got.Fate != c.fate || got.Runtime != c.runtime || got.Attr != c.attr {
			t.Errorf("%q: %+v, want fate %d, runtime %q, attribute %q", c.name, got, c.fate, c.runtime, c.attr)
		}
	}
	for _, name := range []string{"model.language_model.embed_tokens.weight_packed", "model.language_model.norm.weight_scale"} {
		if got := s.Place(name); got.Never == "" {
			t.Errorf("%s: a module that is never quantized is not named: %+v", name, got)
		}
	}
	if got := build(t, engine.Default, fixture(t, "tiny"), false).Place("mtp.fc.weight"); got.Fate != engine.Skipped {
		t.Errorf("without speculation the head is read: %+v", got)
	}
}

func TestTextOnlyNamesAndVersions(t *testing.T) {
	config := set(t, fixture(t, "tiny"), "architectures", `["Qwen3_5ForCausalLM"]`)
	flat := "model.layers.0.mlp.down_proj.weight"
	nested := "model.language_model.layers.0.mlp.down_proj.weight"
	s := build(t, "vllm@0.28", config, false)
	if s.Place(flat).Fate != engine.InLinear || s.Place(nested).Fate != engine.InLinear {
		t.Error("vllm 0.28 takes flat and nested names for a text-only class")
	}
	s = build(t, "vllm@0.27", config, false)
	if s.Place(flat).Fate != engine.InLinear || s.Place(nested).Fate != engine.NoPlace {
		t.Error("vllm 0.27 takes flat names only")
	}
	old, _ := engine.Parse("vllm@0.26")
	if _, err := engine.Build(old, config, false); err == nil || !strings.Contains(err.Error(), "0.27") {
		t.Errorf("vllm 0.26 knows the text-only class: %v", err)
	}
	if len(s.Linears) == 0 || s.Linears[0].Place == engine.Tower {
		t.Error("a text-only class has a vision tower")
	}
}

func TestConfigsThatStopTheServer(t *testing.T) {
	base := fixture(t, "tiny")
	for _, c := range []struct{ path, raw, want string }{
		{"architectures", `["GptOssForCausalLM"]`, "not simulated"},
		{"architectures", `[]`, "is missing"},
		{"architectures", `["Qwen9ForCausalLM"]`, "no class that vLLM registers"},
		{"text_config.model_type", `"qwen3_5"`, "Invalid model_type"},
		{"text_config.model_type", `"qwen3_5_text "`, "Invalid model_type"},
		{"text_config.model_type", `"qwen3_5_moe_text"`, "does not go with"},
		{"text_config.layer_types", `["linear_attention"]`, "layer_types has 1 entries"},
		{"text_config.layer_types", `["sliding","a","b","c"]`, "Invalid layer_type"},
		{"text_config", `null`, "text_config is missing"},
		{"vision_config", `null`, "vision_config is missing"},
		{"text_config.num_hidden_layers", `1e12`, "out of range"},
		{"text_config.hidden_size", `-1`, "out of range"},
		{"text_config.head_dim", `"wide"`, "whole number"},
	} {
		e, _ := engine.Parse(engine.Default)
		if _, err := engine.Build(e, set(t, base, c.path, c.raw), true); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %s: %v, want %q", c.path, c.raw, err, c.want)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		spec, want string
		read       bool
	}{
		{"vllm", "vllm@0.28", true}, {"vllm@0.20", "vllm@0.20", true}, {"vllm@v0.25.1", "vllm@0.25", true}, {"vllm@0.19", "vllm@0.19", false}, {"vllm@0.33.0", "vllm@0.33", false},
	} {
		e, err := engine.Parse(c.spec)
		if err != nil || e.String() != c.want || e.Read() != c.read {
			t.Errorf("%s: %v read %v, %v", c.spec, e, e.Read(), err)
		}
	}
	for _, spec := range []string{"sglang", "llama.cpp@1.0", "vllm@", "vllm@1", "vllm@0.x", "vllm@0.28.1.2", ""} {
		if _, err := engine.Parse(spec); err == nil {
			t.Errorf("%q was accepted", spec)
		}
	}
	old, _ := engine.Parse("vllm@0.24")
	new, _ := engine.Parse("vllm@0.25")
	if old.Has(engine.StrictNames) || !new.Has(engine.StrictNames) || new.Has("no such fact") {
		t.Error("strict names hold since 0.25")
	}
}

func TestDeadEntries(t *testing.T) {
	for _, c := range []struct {
		ignore []string
		dead   string // the entry that is dead, "" for none
		means  int
	}{
		{[]string{"lm_head", "re:.*mtp.*", "re:.*visual.*"}, "", 0},
		{[]string{"model.language_model.layers.0.mlp.qate_proj"}, "model.language_model.layers.0.mlp.qate_proj", 0},
		{[]string{"mtp"}, "mtp", 8},
		{[]string{"mtp*"}, "mtp*", 8},
		{[]string{"mtp", "re:.*mtp.*"}, "", 0}, // what it means is left alone anyway
		{[]string{`re:model\.language_model\.layers\.0\.mlp.*`}, `re:model\.language_model\.layers\.0\.mlp.*`, 3},
		{[]string{`re:.*layers\.0\.mlp.*`, `re:model\.language_model\.layers\.0\.mlp.*`}, "", 0},
		{[]string{"model.language_model.layers.0.linear_attn.conv1d", "model.language_model.norm", "re:.*norm.*"}, "", 0},
		{[]string{"model.language_model.layers.0.linear_attn.in_proj_ba", "model.language_model.layers.0.linear_attn.in_proj_b", "model.language_model.layers.0.linear_attn.in_proj_a"}, "", 0},
		{[]string{"mtp.layers.0.self_attn.qkv_proj", "mtp.layers.0.self_attn.q_proj", "mtp.layers.0.self_attn.k_proj", "mtp.layers.0.self_attn.v_proj"}, "", 0},
	} {
		config := set(t, fixture(t, "tiny"), "quantization_config", oneGroup(quoted("Linear"), quoted(slices.Clone(c.ignore)...)))
		q, _, err := engine.ReadQuantization(config)
		if err != nil {
			t.Fatal(err)
		}
		s := build(t, engine.Default, config, true)
		b := s.Bind(q)
		var res []engine.Resolution
		for i := range s.Linears {
			res = append(res, b.Resolve(&s.Linears[i]))
		}
		got := b.Dead(res)
		switch {
		case c.dead == "" && len(got) > 0:
			t.Errorf("%v: dead %+v", c.ignore, got)
		case c.dead != "" && (len(got) != 1 || got[0].Entry != c.dead || len(got[0].Means) != c.means):
			t.Errorf("%v: got %+v, want %s meaning %d modules", c.ignore, got, c.dead, c.means)
		}
	}
}

func TestCoversAsksTheVeryName(t *testing.T) {
	config := set(t, fixture(t, "tiny"), "quantization_config", oneGroup(quoted("Linear"), quoted("mtp.layers.0.self_attn.q_proj", "mtp.layers.0.self_attn.k_proj", "mtp.layers.0.self_attn.v_proj")))
	q, _, _ := engine.ReadQuantization(config)
	b := build(t, engine.Default, config, true).Bind(q)
	if b.Covers("mtp.layers.0.self_attn.qkv_proj") != engine.No || b.Covers("mtp.layers.0.self_attn.q_proj") != engine.Yes {
		t.Error("Covers fuses names")
	}
}

func FuzzConfigNeverPanics(f *testing.F) {
	f.Add([]byte(`{"architectures":["Qwen3_5ForConditionalGeneration"],"text_config":{"model_type":"qwen3_5_text","num_hidden_layers":2},"vision_config":{"depth":1},
		"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4}}},"ignore":["re:("]}}`), "mtp.fc.weight")
	f.Add([]byte(`{"architectures":["Qwen3_5MoeForCausalLM"],"model_type":"qwen3_5_moe_text","num_hidden_layers":1,"num_experts":2,"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],"weights":null}}}}`), "model.layers.0.mlp.experts.0.gate_proj.weight")
	f.Fuzz(func(t *testing.T, config []byte, name string) {
		e, _ := engine.Parse(engine.Default)
		q, _, err := engine.ReadQuantization(config)
		if err != nil {
			return
		}
		s, err := engine.Build(e, config, true)
		if err != nil || len(s.Linears) > 4000 {
			return
		}
		s.Place(name)
		if q != nil && q.Method != engine.CompressedTensors {
			return
		}
		b := s.Bind(q)
		var res []engine.Resolution
		for i := range s.Linears {
			res = append(res, b.Resolve(&s.Linears[i]))
		}
		b.Dead(res)
	})
}
