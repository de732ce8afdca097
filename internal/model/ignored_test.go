package model_test

import (
	"slices"
	"testing"
)

// headLinears are the Linears of the dense head as a checkpoint names them.
func headLinears() []string {
	list := []string{"mtp.fc"}
	for _, p := range []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"} {
		list = append(list, "mtp.layers.0."+p)
	}
	return list
}

// One row per way to write an ignore list; a tester read "ignored" for "mtp*" under compressed-tensors, where a star
// means nothing, and the server quantized the head.
func TestHeadIsIgnoredAsItsMethodReadsTheList(t *testing.T) {
	all := headLinears()
	fused := []string{"mtp.fc", "mtp.layers.0.self_attn.qkv_proj", "mtp.layers.0.self_attn.o_proj", "mtp.layers.0.mlp.gate_up_proj", "mtp.layers.0.mlp.down_proj"}
	without := func(list []string, name string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == name })
	}
	const ct, mo = "compressed-tensors", "modelopt"
	for _, c := range []struct {
		method, key string
		list        []string
		want        bool
	}{
		{ct, "ignore", all, true},
		{ct, "ignore", fused, true},
		{ct, "ignore", without(all, "mtp.fc"), false},
		{ct, "ignore", without(all, "mtp.layers.0.self_attn.k_proj"), false}, // the server stops at such a list
		{ct, "ignore", []string{"re:^mtp.*"}, true},
		{ct, "ignore", []string{"re:.*mtp.*", "lm_head"}, true},
		{ct, "ignore", []string{"re:mtp"}, true},
		{ct, "ignore", []string{"re:fc"}, false},                 // re.match holds at the start only
		{ct, "ignore", []string{"re:(?!x)mtp.*", "re:("}, false}, // Python only, and broken
		{ct, "ignore", []string{"re:mtp.fc", `re:.*qkv_proj$`, `re:.*gate_up_proj$`, `re:mtp.*(o|down)_proj$`}, false}, // patterns are asked of the shards
		{ct, "ignore", []string{"mtp"}, false},
		{ct, "ignore", []string{"mtp*"}, false},
		{ct, "ignore", []string{"mtp.*"}, false},
		{ct, "ignore", []string{"mtp.layers.0*", "mtp.fc*"}, false},
		{ct, "exclude_modules", []string{"re:^mtp.*"}, false}, // not its key
		{ct, "ignore", nil, false},
		{mo, "ignore", all, true},
		{mo, "ignore", []string{"mtp*"}, true},
		{mo, "ignore", []string{"mtp.*"}, true},
		{mo, "ignore", []string{"mtp"}, true}, // part of every name
		{mo, "ignore", []string{"mtp.layers.0*"}, false},
		{mo, "ignore", []string{"mtp.layers.0*", "mtp.fc"}, true},
		{mo, "ignore", []string{"*tp.fc", "mtp.layers.?.self_attn*", "mtp.layers.[0-9].mlp*"}, true},
		{mo, "ignore", []string{"mtp.fc", "mtp.layers.[!0].*"}, false},
		{mo, "ignore", []string{"re:^mtp.*"}, false},
		{mo, "exclude_modules", []string{"mtp*"}, false}, // read below quantization only
		{mo, "quantization.exclude_modules", []string{"mtp*"}, true},
		{"modelopt_fp4", "ignore", []string{"mtp*"}, true},
		{"fp8", "ignored_layers", all, true},
		{"fp8", "modules_to_not_convert", fused, true},
		{"fp8", "modules_to_not_convert", []string{"mtp"}, false},
		{"awq", "modules_to_not_convert", []string{"mtp"}, true},
		{"awq", "modules_to_not_convert", []string{"visual"}, false},
	} {
		m := like(t, "tiny").set("quantization_config.quant_method", c.method).set("quantization_config."+c.key, c.list).open()
		if m.Head.Ignored != c.want {
			t.Errorf("%s, %s %v: ignored %t", c.method, c.key, c.list, m.Head.Ignored)
		}
	}
	if open(t, fixtures+"tiny").Head.Ignored {
		t.Error("without a quantization nothing is ignored")
	}
}

func TestTheNamesOfExpertZeroSpeakForAllExpertsOfTheHead(t *testing.T) {
	base := []string{"mtp.fc", "re:mtp.*self_attn.*", "re:mtp.*shared_expert\\..*"}
	zero := []string{"mtp.layers.0.mlp.experts.0.gate_proj", "mtp.layers.0.mlp.experts.0.up_proj", "mtp.layers.0.mlp.experts.0.down_proj"}
	for _, c := range []struct {
		method string
		list   []string
		want   bool
	}{
		{"compressed-tensors", slices.Concat(base, zero), true},
		{"compressed-tensors", slices.Concat(base, zero[:2]), false},
		{"compressed-tensors", slices.Concat(base, []string{"mtp.layers.0.mlp.experts"}), false},
		{"compressed-tensors", slices.Concat(base, []string{"mtp.layers.0.mlp.experts.gate_up_proj", "mtp.layers.0.mlp.experts.down_proj"}), false},
		{"compressed-tensors", []string{"re:^mtp.*"}, true},
		{"modelopt", []string{"mtp*"}, true},
		{"modelopt", []string{"mtp.fc", "*self_attn*", "*shared_expert*", zero[0]}, true},
		{"modelopt", []string{"mtp.fc", "*self_attn*", "*shared_expert*"}, false},
	} {
		m := like(t, "moe").set("quantization_config.quant_method", c.method).set("quantization_config.ignore", c.list).open()
		if m.Head.Ignored != c.want {
			t.Errorf("%s %v: ignored %t", c.method, c.list, m.Head.Ignored)
		}
	}
}
