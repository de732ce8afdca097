package model_test

import (
	"testing"

	"seatsmith/internal/model"
)

func TestEveryNameIsUnderstoodOnce(t *testing.T) {
	const layer = "model.language_model.layers.3."
	const gdn = "model.language_model.layers.0.linear_attn."
	cases := []struct {
		name, base, module, fused string
		role                      model.Role
		layer                     int
		linear                    bool
	}{
		{layer + "self_attn.q_proj.weight", layer + "self_attn.q_proj.weight", layer + "self_attn.q_proj", layer + "self_attn.qkv_proj", model.RoleAttention, 3, true},
		{layer + "self_attn.q_proj.weight_packed", layer + "self_attn.q_proj.weight", layer + "self_attn.q_proj", layer + "self_attn.qkv_proj", model.RoleAttention, 3, true},
		{layer + "self_attn.v_proj.weight_scale", layer + "self_attn.v_proj.weight", layer + "self_attn.v_proj", layer + "self_attn.qkv_proj", model.RoleAttention, 3, true},
		{layer + "self_attn.o_proj.weight_global_scale", layer + "self_attn.o_proj.weight", layer + "self_attn.o_proj", "", model.RoleAttention, 3, true},
		{layer + "self_attn.k_proj.bias", layer + "self_attn.k_proj.bias", layer + "self_attn.k_proj", layer + "self_attn.qkv_proj", model.RoleAttention, 3, false},
		{layer + "self_attn.q_norm.weight", layer + "self_attn.q_norm.weight", layer + "self_attn.q_norm", "", model.RoleNorm, 3, false},
		{layer + "self_attn.k_proj.k_scale", layer + "self_attn.k_proj.weight", layer + "self_attn.k_proj", layer + "self_attn.qkv_proj", model.RoleAttention, 3, false},
		{layer + "self_attn.k_scale", layer + "self_attn.k_proj.weight", layer + "self_attn.k_proj", layer + "self_attn.qkv_proj", model.RoleAttention, 3, false},
		{layer + "self_attn.attn.v_scale", layer + "self_attn.v_proj.weight", layer + "self_attn.v_proj", layer + "self_attn.qkv_proj", model.RoleAttention, 3, false},
		{layer + "mlp.gate_proj.input_global_scale", layer + "mlp.gate_proj.weight", layer + "mlp.gate_proj", layer + "mlp.gate_up_proj", model.RoleMLP, 3, true},
		{layer + "mlp.up_proj.weight_scale_2", layer + "mlp.up_proj.weight", layer + "mlp.up_proj", layer + "mlp.gate_up_proj", model.RoleMLP, 3, true},
		{layer + "mlp.down_proj.input_scale", layer + "mlp.down_proj.weight", layer + "mlp.down_proj", "", model.RoleMLP, 3, true},
		{layer + "input_layernorm.weight", layer + "input_layernorm.weight", layer + "input_layernorm", "", model.RoleNorm, 3, false},
		{gdn + "in_proj_qkv.weight", gdn + "in_proj_qkv.weight", gdn + "in_proj_qkv", gdn + "in_proj_qkvz", model.RoleLinearAttention, 0, true},
		{gdn + "in_proj_z.weight_packed", gdn + "in_proj_z.weight", gdn + "in_proj_z", gdn + "in_proj_qkvz", model.RoleLinearAttention, 0, true},
		{gdn + "in_proj_a.weight", gdn + "in_proj_a.weight", gdn + "in_proj_a", gdn + "in_proj_ba", model.RoleLinearGate, 0, true},
		{gdn + "out_proj.weight", gdn + "out_proj.weight", gdn + "out_proj", "", model.RoleLinearAttention, 0, true},
		{gdn + "conv1d.weight", gdn + "conv1d.weight", gdn + "conv1d", "", model.RoleConv, 0, false},
		{gdn + "A_log", gdn + "A_log", "model.language_model.layers.0.linear_attn", "", model.RoleState, 0, false},
		{gdn + "norm.weight", gdn + "norm.weight", gdn + "norm", "", model.RoleNorm, 0, false},
		{"model.language_model.embed_tokens.weight", "model.language_model.embed_tokens.weight", "model.language_model.embed_tokens", "", model.RoleEmbedding, -1, false},
		{"model.language_model.norm.weight", "model.language_model.norm.weight", "model.language_model.norm", "", model.RoleNorm, -1, false},
		{"lm_head.weight", "lm_head.weight", "lm_head", "", model.RoleLMHead, -1, true},
		{"lm_head.weight_packed", "lm_head.weight", "lm_head", "", model.RoleLMHead, -1, true},
		{"mtp.fc.weight", "mtp.fc.weight", "mtp.fc", "", model.RoleHead, -1, true},
		{"mtp.norm.weight", "mtp.norm.weight", "mtp.norm", "", model.RoleHead, -1, false},
		{"mtp.layers.0.self_attn.k_proj.weight", "mtp.layers.0.self_attn.k_proj.weight", "mtp.layers.0.self_attn.k_proj", "mtp.layers.0.self_attn.qkv_proj", model.RoleHead, 0, true},
		{"mtp.layers.0.mlp.up_proj.weight", "mtp.layers.0.mlp.up_proj.weight", "mtp.layers.0.mlp.up_proj", "mtp.layers.0.mlp.gate_up_proj", model.RoleHead, 0, true},
		{"mtp.embed_tokens.weight", "mtp.embed_tokens.weight", "mtp.embed_tokens", "", model.RoleHead, -1, false},
		{"model.visual.blocks.1.attn.qkv.weight", "model.visual.blocks.1.attn.qkv.weight", "model.visual.blocks.1.attn.qkv", "", model.RoleVision, 1, true},
		{"model.visual.blocks.1.mlp.linear_fc2.bias", "model.visual.blocks.1.mlp.linear_fc2.bias", "model.visual.blocks.1.mlp.linear_fc2", "", model.RoleVision, 1, false},
		{"model.visual.merger.linear_fc1.weight", "model.visual.merger.linear_fc1.weight", "model.visual.merger.linear_fc1", "", model.RoleVision, -1, true},
		{"model.visual.deepstack_merger_list.2.linear_fc1.weight", "model.visual.deepstack_merger_list.2.linear_fc1.weight", "model.visual.deepstack_merger_list.2.linear_fc1", "", model.RoleVision, 2, true},
		{"model.visual.patch_embed.proj.weight", "model.visual.patch_embed.proj.weight", "model.visual.patch_embed.proj", "", model.RoleVision, -1, false},
		{"model.visual.pos_embed.weight", "model.visual.pos_embed.weight", "model.visual.pos_embed", "", model.RoleVision, -1, false},
		{"model.language_model.layers.x.mlp.up_proj.weight", "model.language_model.layers.x.mlp.up_proj.weight", "model.language_model.layers.x.mlp.up_proj", "", model.RoleOther, -1, false},
		{layer + "mlp.mystery.weight", layer + "mlp.mystery.weight", layer + "mlp.mystery", "", model.RoleOther, 3, false},
		{"rubbish", "rubbish", "rubbish", "", model.RoleOther, -1, false},
	}
	f := like(t, "tiny")
	for _, c := range cases {
		f.add(c.name, "F32", 1)
	}
	m := f.open()
	for _, c := range cases {
		understood(t, m, c.name, c.base, c.module, c.fused, c.role, c.layer, c.linear)
	}
}

func TestExpertNamesAreUnderstood(t *testing.T) {
	const mlp = "model.language_model.layers.2.mlp."
	cases := []struct {
		name, base, module, fused string
		role                      model.Role
		linear                    bool
	}{
		{mlp + "experts.gate_up_proj", mlp + "experts.gate_up_proj", mlp + "experts.gate_up_proj", "", model.RoleExpert, true},
		{mlp + "experts.gate_up_proj.weight_scale", mlp + "experts.gate_up_proj", mlp + "experts.gate_up_proj", "", model.RoleExpert, true},
		{mlp + "experts.12.gate_proj.weight", mlp + "experts.12.gate_proj.weight", mlp + "experts.12.gate_proj", mlp + "experts.12.gate_up_proj", model.RoleExpert, true},
		{mlp + "experts.12.up_proj.weight_packed", mlp + "experts.12.up_proj.weight", mlp + "experts.12.up_proj", mlp + "experts.12.gate_up_proj", model.RoleExpert, true},
		{mlp + "experts.0.down_proj.weight", mlp + "experts.0.down_proj.weight", mlp + "experts.0.down_proj", "", model.RoleExpert, true},
		{mlp + "gate.weight", mlp + "gate.weight", mlp + "gate", "", model.RoleRouter, false},
		{mlp + "gate.weight_packed", mlp + "gate.weight", mlp + "gate", "", model.RoleRouter, false},
		{mlp + "shared_expert_gate.weight", mlp + "shared_expert_gate.weight", mlp + "shared_expert_gate", "", model.RoleRouter, false},
		{mlp + "shared_expert.up_proj.weight", mlp + "shared_expert.up_proj.weight", mlp + "shared_expert.up_proj", mlp + "shared_expert.gate_up_proj", model.RoleSharedExpert, true},
	}
	f := like(t, "moe")
	for _, c := range cases {
		f.add(c.name, "F32", 1)
	}
	m := f.open()
	for _, c := range cases {
		understood(t, m, c.name, c.base, c.module, c.fused, c.role, 2, c.linear)
	}
}

func understood(t *testing.T, m *model.Model, name, base, module, fused string, role model.Role, layer int, linear bool) {
	t.Helper()
	got, ok := m.Lookup(name)
	if !ok {
		t.Fatalf("%s is not found", name)
	}
	if got.Base != base || got.Module != module || got.Fused != fused || got.Role != role || got.Layer != layer || got.Linear != linear {
		t.Errorf("%s: %+v", name, *got)
	}
}

func TestOnlyWeightsHoldValues(t *testing.T) {
	f := like(t, "tiny")
	for _, suffix := range []string{"weight_packed", "weight_scale", "input_scale"} {
		f.add("lm_head."+suffix, "F32", 1)
	}
	m := f.open()
	for name, want := range map[string]bool{"lm_head.weight": true, "lm_head.weight_packed": true, "lm_head.weight_scale": false, "lm_head.input_scale": false, "model.language_model.layers.0.linear_attn.A_log": true} {
		if got, _ := m.Lookup(name); got.Holds() != want {
			t.Errorf("%s holds values: %t", name, got.Holds())
		}
	}
}

func TestOfAnUnknownArchitectureNothingIsGuessed(t *testing.T) {
	m := like(t, "tiny").set("architectures.0", "FalconForCausalLM").open()
	for i := range m.Tensors {
		if tn := &m.Tensors[i]; tn.Role != model.RoleOther || tn.Layer != -1 || tn.Linear || tn.Fused != "" {
			t.Fatalf("%+v", tn)
		}
	}
	if m.Family != "" || len(m.Expected) != 0 || m.Supported() == nil {
		t.Errorf("family %q, %d expected, supported %v", m.Family, len(m.Expected), m.Supported())
	}
	only(t, m.Findings, "error arch-unknown")
	says(t, m.Findings, "arch-unknown", `"FalconForCausalLM"`, "Qwen3_5ForConditionalGeneration")
}

func TestDenseModelsAndMixturesOfExpertsCanBeQuantized(t *testing.T) {
	for _, name := range []string{"moe", "tiny"} {
		if err := open(t, fixtures+name).Supported(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
