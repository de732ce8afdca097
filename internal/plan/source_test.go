package plan

import (
	"fmt"
	"strings"
	"testing"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// understand gives a name of a dense Qwen3.5 the role, place and fused spelling that package model gives it.
func understand(name string, dtype safetensors.Dtype, shape ...int64) model.Tensor {
	t := model.Tensor{Name: name, Base: name, Layer: -1, Role: model.RoleOther, Origin: model.Body}
	cut := strings.LastIndexByte(name, '.')
	t.Module, t.Suffix = name[:cut], name[cut+1:]
	parent := t.Module[:strings.LastIndexByte(t.Module, '.')+1]
	for i, p := range strings.Split(name, ".") {
		if p == "layers" || p == "blocks" {
			fmt.Sscan(strings.Split(name, ".")[i+1], &t.Layer)
		}
	}
	l := leaf(t.Module)
	switch {
	case strings.HasPrefix(name, "model.visual."):
		t.Role, t.Linear = model.RoleVision, t.Suffix == "weight" && len(shape) == 2 && !strings.Contains(name, "embed")
	case strings.HasPrefix(name, "mtp."):
		t.Role, t.Linear = model.RoleHead, strings.HasSuffix(l, "_proj") || l == "fc"
	case l == "lm_head":
		t.Role, t.Linear = model.RoleLMHead, true
	case l == "embed_tokens":
		t.Role = model.RoleEmbedding
	case strings.HasSuffix(l, "norm"):
		t.Role = model.RoleNorm
	case l == "conv1d":
		t.Role = model.RoleConv
	case t.Suffix == "A_log" || t.Suffix == "dt_bias":
		t.Role = model.RoleState
	case l == "in_proj_a" || l == "in_proj_b":
		t.Role, t.Linear = model.RoleLinearGate, true
	case strings.Contains(name, "linear_attn"):
		t.Role, t.Linear = model.RoleLinearAttention, true
	case strings.Contains(name, "self_attn"):
		t.Role, t.Linear = model.RoleAttention, true
	case strings.Contains(name, ".mlp."):
		t.Role, t.Linear = model.RoleMLP, true
	}
	switch l {
	case "q_proj", "k_proj", "v_proj":
		t.Fused = parent + "qkv_proj"
	case "gate_proj", "up_proj":
		t.Fused = parent + "gate_up_proj"
	case "in_proj_qkv", "in_proj_z":
		t.Fused = parent + "in_proj_qkvz"
	case "in_proj_a", "in_proj_b":
		t.Fused = parent + "in_proj_ba"
	}
	bits, _ := dtype.Bits()
	t.Ref.Tensor = safetensors.Tensor{Name: name, Dtype: dtype, Shape: shape, End: elements(shape) * bits / 8}
	return t
}

// qwen is a dense Qwen3.5 with the shapes of testdata/tiny: full attention every fourth layer, a vision block, a head.
func qwen(layers int) source {
	src := source{
		fingerprint: "fingerprint", family: "qwen3_5",
		config:     &model.Config{Architecture: "Qwen3_5ForConditionalGeneration", AttnOutputGate: true},
		configJSON: []byte(`{"architectures": ["Qwen3_5ForConditionalGeneration"], "z": 1, "a": {"é": 1e-06}}`),
		files: []model.CompanionFile{
			{Name: "tokenizer.json", Path: "/somewhere/tokenizer.json", Origin: model.Body},
			{Name: "preprocessor_config.json", Path: "/else/preprocessor_config.json", Origin: model.Donor},
		},
	}
	add := func(name string, shape ...int64) {
		src.tensors = append(src.tensors, understand(name, safetensors.BF16, shape...))
	}
	mlp := func(p string) {
		add(p+"mlp.down_proj.weight", 128, 384)
		add(p+"mlp.gate_proj.weight", 384, 128)
		add(p+"mlp.up_proj.weight", 384, 128)
	}
	attention := func(p string) {
		add(p+"self_attn.k_norm.weight", 32)
		add(p+"self_attn.k_proj.weight", 64, 128)
		add(p+"self_attn.o_proj.weight", 128, 128)
		add(p+"self_attn.q_norm.weight", 32)
		add(p+"self_attn.q_proj.weight", 256, 128)
		add(p+"self_attn.v_proj.weight", 64, 128)
	}
	add("lm_head.weight", 2048, 128)
	add("model.language_model.embed_tokens.weight", 2048, 128)
	for i := range layers {
		p := fmt.Sprintf("model.language_model.layers.%d.", i)
		add(p+"input_layernorm.weight", 128)
		mlp(p)
		if i%4 == 3 {
			attention(p)
			continue
		}
		src.tensors = append(src.tensors, understand(p+"linear_attn.A_log", safetensors.F32, 4))
		add(p+"linear_attn.conv1d.weight", 256, 1, 4)
		add(p+"linear_attn.in_proj_a.weight", 4, 128)
		add(p+"linear_attn.in_proj_b.weight", 4, 128)
		add(p+"linear_attn.in_proj_qkv.weight", 256, 128)
		add(p+"linear_attn.in_proj_z.weight", 128, 128)
		add(p+"linear_attn.norm.weight", 32)
		add(p+"linear_attn.out_proj.weight", 128, 128)
	}
	add("model.language_model.norm.weight", 128)
	add("model.visual.blocks.0.attn.qkv.weight", 192, 64)
	add("model.visual.blocks.0.attn.qkv.bias", 192)
	add("mtp.fc.weight", 128, 256)
	attention("mtp.layers.0.")
	mlp("mtp.layers.0.")
	add("mtp.norm.weight", 128)
	for i := range src.tensors {
		if t := &src.tensors[i]; t.Role == model.RoleHead {
			t.Origin = model.Donor
		}
		t := &src.tensors[i]
		src.expected = append(src.expected, model.Expected{Name: t.Name, Role: t.Role, Layer: t.Layer, Module: t.Module, Linear: t.Linear, Fused: t.Fused, Shape: t.Shape()})
	}
	return src
}

// reshape gives one tensor another dtype and shape.
func (src source) reshape(name string, dtype safetensors.Dtype, shape ...int64) source {
	for i := range src.tensors {
		if t := &src.tensors[i]; t.Name == name {
			bits, _ := dtype.Bits()
			t.Ref.Tensor = safetensors.Tensor{Name: name, Dtype: dtype, Shape: shape, End: elements(shape) * bits / 8}
		}
	}
	return src
}

// drop removes one tensor.
func (src source) drop(name string) source {
	var kept []model.Tensor
	for _, t := range src.tensors {
		if t.Name != name {
			kept = append(kept, t)
		}
	}
	src.tensors = kept
	return src
}

// with plans src under recipe rules given as YAML.
func (src source) with(t *testing.T, rules string) *Plan {
	t.Helper()
	return src.under(t, Options{}, rules)
}

// under is with under other options than the defaults.
func (src source) under(t *testing.T, o Options, rules string) *Plan {
	t.Helper()
	r, err := ParseRecipe("test.yaml", []byte("name: test\nrules:\n"+rules))
	if err != nil {
		t.Fatal(err)
	}
	a, err := o.resolve()
	if err != nil {
		t.Fatal(err)
	}
	a.recipe = r
	p, err := src.plan(a)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustDecide(t *testing.T, src source, o Options) *Plan {
	t.Helper()
	p, err := decide(src, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Plan) item(t *testing.T, name string) Item {
	t.Helper()
	for _, i := range p.Items {
		if i.Source == name {
			return i
		}
	}
	t.Fatalf("no item for %s", name)
	return Item{}
}

// found returns the findings of a rule.
func (p *Plan) found(rule string) []playbook.Finding {
	var out []playbook.Finding
	for _, f := range p.Findings {
		if f.Rule == rule {
			out = append(out, f)
		}
	}
	return out
}

// one asserts exactly one finding of a rule, with its severity and every text in it.
func (p *Plan) one(t *testing.T, rule string, severity playbook.Severity, texts ...string) {
	t.Helper()
	found := p.found(rule)
	if len(found) != 1 || found[0].Severity != severity {
		t.Errorf("findings of %s: %v, want one %s (all: %v)", rule, found, severity, p.Findings)
		return
	}
	for _, text := range texts {
		if !strings.Contains(found[0].String(), text) {
			t.Errorf("%s does not say %q", found[0], text)
		}
	}
}

func schemesOf(p *Plan) map[string]dialect.Scheme {
	out := map[string]dialect.Scheme{}
	for _, i := range p.Items {
		out[i.Source] = i.Scheme
	}
	return out
}
