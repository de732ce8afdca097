package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

const (
	layer0 = "model.language_model.layers.0."
	layer3 = "model.language_model.layers.3."
)

func TestDefaultRecipe(t *testing.T) {
	p := mustDecide(t, qwen(4), Options{})
	if e := playbook.Errors(p.Findings); e != nil {
		t.Fatalf("refused: %v", e)
	}
	for name, want := range map[string]dialect.Scheme{
		layer0 + "mlp.down_proj.weight":            dialect.NVFP4W4A16,
		layer3 + "mlp.gate_proj.weight":            dialect.NVFP4W4A16,
		layer3 + "self_attn.q_proj.weight":         dialect.FP8Channel,
		layer3 + "self_attn.o_proj.weight":         dialect.FP8Channel,
		layer0 + "linear_attn.in_proj_qkv.weight":  dialect.FP8Channel,
		layer0 + "linear_attn.in_proj_z.weight":    dialect.FP8Channel,
		layer0 + "linear_attn.out_proj.weight":     dialect.FP8Channel,
		layer0 + "linear_attn.in_proj_a.weight":    dialect.BF16,
		layer0 + "linear_attn.in_proj_b.weight":    dialect.BF16,
		layer0 + "linear_attn.conv1d.weight":       dialect.BF16,
		layer0 + "linear_attn.A_log":               dialect.BF16,
		"lm_head.weight":                           dialect.BF16,
		"model.language_model.embed_tokens.weight": dialect.BF16,
		"model.visual.blocks.0.attn.qkv.weight":    dialect.BF16, // Q21
		"mtp.layers.0.mlp.gate_proj.weight":        dialect.BF16,
		"mtp.fc.weight":                            dialect.BF16,
	} {
		if got := p.item(t, name).Scheme; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if n := p.Schemes[dialect.NVFP4W4A16].Tensors; n != 12 {
		t.Errorf("%d tensors in NVFP4, want 12", n)
	}
	if got := p.found("scheme-gpus"); len(got) != 2 || got[0].Severity != playbook.Info || !strings.Contains(got[0].Message, "sm_75") || !strings.Contains(got[1].Message, "sm_89") {
		t.Errorf("where it runs: %v", got)
	}
	if p.found("gated-q-fp4") != nil {
		t.Error("FP8 in q_proj is reported as if it were FP4")
	}
}

func TestEveryTensorIsOneItemAndOneShard(t *testing.T) {
	src := qwen(8)
	p := mustDecide(t, src, Options{})
	if len(p.Items) != len(src.tensors) {
		t.Fatalf("%d items for %d tensors", len(p.Items), len(src.tensors))
	}
	var in, out int64
	for i := range p.Items {
		if i > 0 && !safetensors.NaturalLess(p.Items[i-1].Source, p.Items[i].Source) {
			t.Errorf("%s comes after %s", p.Items[i].Source, p.Items[i-1].Source)
		}
		before, after := p.Items[i].bytes()
		in, out = in+before, out+after
	}
	var tallied Tally
	for _, tally := range p.Schemes {
		tallied.Tensors += tally.Tensors
		tallied.BytesIn += tally.BytesIn
		tallied.BytesOut += tally.BytesOut
	}
	if p.BytesIn != in || p.BytesOut != out || tallied != (Tally{len(p.Items), in, out}) {
		t.Errorf("bytes %d to %d, tallied %+v, items say %d to %d", p.BytesIn, p.BytesOut, tallied, in, out)
	}
}

func TestFusedPartnersShareAGlobalScaleInNVFP4Only(t *testing.T) {
	all := mustDecide(t, qwen(4), Options{Recipe: "nvfp4-all-linear"})
	for name, want := range map[string]string{
		layer3 + "self_attn.q_proj.weight":        layer3 + "self_attn.qkv_proj",
		layer3 + "self_attn.v_proj.weight":        layer3 + "self_attn.qkv_proj",
		layer3 + "self_attn.o_proj.weight":        "",
		layer0 + "mlp.up_proj.weight":             layer0 + "mlp.gate_up_proj",
		layer0 + "linear_attn.in_proj_qkv.weight": layer0 + "linear_attn.in_proj_qkvz",
		layer0 + "linear_attn.in_proj_z.weight":   layer0 + "linear_attn.in_proj_qkvz",
		layer0 + "linear_attn.in_proj_a.weight":   "", // kept
	} {
		if got := all.item(t, name).Group; got != want {
			t.Errorf("%s is in group %q, want %q", name, got, want)
		}
	}
	if g := mustDecide(t, qwen(4), Options{}).item(t, layer3+"self_attn.q_proj.weight").Group; g != "" {
		t.Errorf("an FP8 weight is in group %q", g)
	}
}

func TestForeignGroupsAreSmallerAndSaidSo(t *testing.T) {
	p := mustDecide(t, qwen(4), Options{Recipe: "nvfp4-all-linear", Groups: "llm-compressor"})
	if g := p.item(t, layer0+"linear_attn.in_proj_z.weight").Group; g != "" {
		t.Errorf("in_proj_z is in group %q, llm-compressor shares nothing there", g)
	}
	if g := p.item(t, layer3+"self_attn.k_proj.weight").Group; g != layer3+"self_attn.qkv_proj" {
		t.Errorf("k_proj is in group %q", g)
	}
	p.one(t, "groups-foreign", playbook.Warning, "--groups server")
}

func TestQ09GatedQInFP4IsReportedOnce(t *testing.T) {
	p := mustDecide(t, qwen(12), Options{Recipe: "nvfp4-all-linear"})
	p.one(t, "gated-q-fp4", playbook.Warning, "model.language_model.layers.*.self_attn.q_proj", "in 3 places: 3, 7, 11")
	src := qwen(4)
	src.config.AttnOutputGate = false
	if f := mustDecide(t, src, Options{Recipe: "nvfp4-all-linear"}).found("gated-q-fp4"); f != nil {
		t.Errorf("without a gate: %v", f)
	}
}

func TestQ23ARoleRuleKeepsWhatHasNoWholeBlocks(t *testing.T) {
	p := mustDecide(t, qwen(4).reshape(layer0+"mlp.down_proj.weight", safetensors.BF16, 64, 24), Options{})
	p.one(t, "plan-kept", playbook.Warning, layer0+"mlp.down_proj", "24 mod 16 = 8", "stays BF16")
	if i := p.item(t, layer0+"mlp.down_proj.weight"); i.Scheme != dialect.BF16 || !strings.Contains(i.Reason, "24 mod 16 = 8") {
		t.Errorf("down_proj is %s: %s", i.Scheme, i.Reason)
	}
	if !strings.Contains(string(p.Config), `"`+layer0+`mlp.down_proj"`) || strings.Contains(string(p.Config), `(down_proj|`) {
		t.Error("the configuration does not list the kept module and name the others one by one")
	}
}

func TestARoleRuleKeepsTheWholeFusedGroup(t *testing.T) { // Q24
	for name, src := range map[string]source{
		"a partner is too narrow": qwen(4).reshape(layer3+"mlp.up_proj.weight", safetensors.BF16, 384, 24),
		"a partner is absent":     qwen(4).drop(layer3 + "mlp.up_proj.weight"),
		"a partner is no matrix":  qwen(4).reshape(layer3+"mlp.up_proj.weight", safetensors.BF16, 384, 128, 1),
	} {
		p := mustDecide(t, src, Options{})
		p.one(t, "plan-kept", playbook.Warning, layer3+"mlp.gate_up_proj", "up_proj")
		if i := p.item(t, layer3+"mlp.gate_proj.weight"); i.Scheme != dialect.BF16 {
			t.Errorf("%s: gate_proj is %s", name, i.Scheme)
		}
		if i := p.item(t, layer0+"mlp.gate_proj.weight"); i.Scheme != dialect.NVFP4W4A16 {
			t.Errorf("%s: gate_proj of another layer is %s", name, i.Scheme)
		}
	}
}

func TestKeepingOneFusedPartnerByNameKeepsAll(t *testing.T) {
	p := qwen(4).with(t, `
- {name: "*.layers.3.self_attn.q_proj", scheme: bf16}
- {roles: [attention, mlp], scheme: fp8-channel}
`)
	p.one(t, "plan-kept", playbook.Warning, "qkv_proj", "q_proj is bf16", "v_proj is fp8-channel", "whole fused group")
	for _, l := range []string{"q_proj", "k_proj", "v_proj"} {
		if i := p.item(t, layer3+"self_attn."+l+".weight"); i.Scheme != dialect.BF16 {
			t.Errorf("%s is %s", l, i.Scheme)
		}
	}
	if i := p.item(t, layer3+"self_attn.o_proj.weight"); i.Scheme != dialect.FP8Channel {
		t.Errorf("o_proj, which stands alone, is %s", i.Scheme)
	}
}

func TestANameRuleIsRefusedWhereARoleRuleWouldKeep(t *testing.T) {
	narrow := qwen(4).reshape(layer0+"mlp.down_proj.weight", safetensors.BF16, 64, 24)
	narrow.with(t, `- {name: "model.*.mlp.down_proj", scheme: nvfp4-w4a16}`).one(t, "scheme-unservable", playbook.Error, layer0+"mlp.down_proj", "24 mod 16 = 8", "a rule names it")
	qwen(4).with(t, `- {name: "*.3.self_attn.q_proj", scheme: fp8-channel}`).one(t, "scheme-unservable", playbook.Error, "qkv_proj", "k_proj is bf16")
	two := qwen(4).with(t, `
- {name: "*.3.self_attn.q_proj", scheme: nvfp4-w4a16}
- {roles: [attention], scheme: fp8-channel}
`)
	two.one(t, "scheme-unservable", playbook.Error, "q_proj is nvfp4-w4a16", "k_proj is fp8-channel")
	if two.Config != nil || len(two.Shards) != 0 {
		t.Error("a refused plan has a configuration or shards")
	}
}

func TestProtectedRolesAreRefused(t *testing.T) { // Q21, Q26
	free := []model.Role{model.RoleAttention, model.RoleLinearAttention, model.RoleMLP, model.RoleExpert, model.RoleSharedExpert}
	for _, role := range roles {
		why, protected := Protected(role)
		if protected == slices.Contains(free, role) {
			t.Errorf("role %s: protected is %v", role, protected)
		}
		if !protected {
			continue
		}
		qwen(4).with(t, "- {roles: ["+string(role)+"], scheme: bf16}\n- {roles: [mlp], scheme: fp8-channel}").none(t)
		if role == model.RoleHead || role == model.RoleLMHead {
			continue // they can be quantized when a rule asks
		}
		p := qwen(4).with(t, "- {roles: [mlp, "+string(role)+"], scheme: fp8-channel}")
		p.one(t, "scheme-unservable", playbook.Error, "rule 1", "role "+string(role), why)
	}
}

// none asserts that a plan is not refused.
func (p *Plan) none(t *testing.T) {
	t.Helper()
	if e := playbook.Errors(p.Findings); e != nil {
		t.Errorf("refused: %v", e)
	}
}

func TestANameRuleOnProtectedModulesIsRefusedByName(t *testing.T) {
	for pattern, want := range map[string]string{
		"model.visual.blocks.0.attn.qkv":    "role vision",
		"mtp.fc":                            "vllm-project/vllm#53414",
		"*.in_proj_a":                       "layers.0.linear_attn.in_proj_a",
		"model.language_model.embed_tokens": "vllm-project/vllm#54304",
		"*.input_layernorm":                 "and 1 more: role norm",
	} {
		qwen(4).with(t, `- {name: "`+pattern+`", scheme: fp8-channel}`).one(t, "scheme-unservable", playbook.Error, "rule 1", want)
	}
	qwen(4).with(t, `
- {name: "*.in_proj_[ab]", scheme: bf16}
- {name: "*.linear_attn.in_proj_*", scheme: fp8-channel}
`).none(t)
}

func TestSchemesThatNeedStatisticsAreRefusedPerRule(t *testing.T) {
	for _, rule := range []string{`- {roles: [mlp], scheme: nvfp4-w4a4}`, `- {roles: [mlp], scheme: fp8-tensor}`, `- {name: "*.down_proj", scheme: nvfp4-w4a4}`} {
		for _, d := range []string{"compressed-tensors", "modelopt"} {
			p := qwen(4).under(t, Options{Dialect: d}, rule)
			p.one(t, "stats-missing", playbook.Error, "rule 1", "--stats", "uninitialised")
			if p.Config != nil || len(p.Shards) != 0 {
				t.Errorf("%s: a refused plan has a configuration or shards", rule)
			}
		}
	}
	for _, name := range []string{"w4a4-mlp", "w4a4-reference"} {
		mustDecide(t, qwen(4), Options{Recipe: name}).one(t, "stats-missing", playbook.Error, name)
	}
	for _, r := range Recipes() {
		if needs := strings.Contains(r.About, "needs statistics"); needs != (mustDecide(t, qwen(4), Options{Recipe: r.Name}).found("stats-missing") != nil) {
			t.Errorf("recipe %s says %q", r.Name, r.About)
		}
	}
}

func TestFirstMatchingRuleWins(t *testing.T) {
	p := qwen(8).with(t, `
- {name: model.language_model.layers.5.mlp.down_proj, scheme: bf16}
- {name: "*.layers.5.mlp.*", scheme: fp8-channel}
- {roles: [mlp], scheme: nvfp4-w4a16}
- {name: "*.layers.6.*", scheme: fp8-channel}
- {name: "*.layers.9.*", scheme: fp8-channel}
`)
	got := schemesOf(p)
	for name, want := range map[string]dialect.Scheme{"5.mlp.down_proj": dialect.BF16, "5.mlp.up_proj": dialect.FP8Channel, "6.mlp.up_proj": dialect.NVFP4W4A16} {
		if s := got["model.language_model.layers."+name+".weight"]; s != want {
			t.Errorf("%s is %s, want %s", name, s, want)
		}
	}
	p.one(t, "rule-idle", playbook.Warning, "rule 5", "*.layers.9.*")
}

func TestWidthsThatKernelsPadAreReported(t *testing.T) { // C12
	src := qwen(4)
	for _, l := range []string{"0", "1", "3"} {
		src = src.reshape("model.language_model.layers."+l+".mlp.down_proj.weight", safetensors.BF16, 128, 48)
	}
	p := mustDecide(t, src, Options{})
	p.one(t, "width-kernel", playbook.Warning, "layers.*.mlp.down_proj", "48 mod 32 = 16", "in 3 places: 0, 1, 3")
	if i := p.item(t, layer0+"mlp.down_proj.weight"); i.Scheme != dialect.NVFP4W4A16 {
		t.Errorf("down_proj is %s", i.Scheme)
	}
}

func TestOtherSourceDtypesAreRefusedByName(t *testing.T) {
	p := mustDecide(t, qwen(4).reshape(layer3+"self_attn.q_proj.weight", "I16", 256, 128), Options{})
	p.one(t, "source-dtype", playbook.Error, layer3+"self_attn.q_proj", "I16")
	p = mustDecide(t, qwen(4).reshape("mtp.fc.weight", safetensors.F8E4M3, 128, 256), Options{})
	p.one(t, "source-dtype", playbook.Error, "mtp.fc", "F8_E4M3")
	mustDecide(t, qwen(4).reshape("lm_head.weight", safetensors.F32, 2048, 128), Options{}).none(t)
}

func TestASourceThatIsQuantizedAlreadyIsRefused(t *testing.T) {
	src := qwen(4)
	src.config.Quantization = json.RawMessage(`{"quant_method": "fp8"}`)
	mustDecide(t, src, Options{}).one(t, "already-quantized", playbook.Error, "quantization_config")

	src = qwen(4)
	src.config.Quantization = json.RawMessage(` null `)
	mustDecide(t, src, Options{}).none(t)

	src = qwen(4)
	src.files = append(src.files, model.CompanionFile{Name: "hf_quant_config.json"})
	mustDecide(t, src, Options{}).one(t, "already-quantized", playbook.Error, "hf_quant_config.json")

	src = qwen(4)
	packed := understand(layer0+"mlp.down_proj.weight_packed", safetensors.U8, 128, 192)
	packed.Base = layer0 + "mlp.down_proj.weight"
	src = src.drop(packed.Base)
	src.tensors = append(src.tensors, packed)
	mustDecide(t, src, Options{}).one(t, "already-quantized", playbook.Error, "down_proj.weight_packed", "1 tensors")
}

func TestAFamilyThatIsNotKnownIsRefused(t *testing.T) {
	src := qwen(4)
	src.supported = errors.New("glm4_moe is not known")
	p := mustDecide(t, src, Options{})
	p.one(t, "family-unsupported", playbook.Error, "glm4_moe is not known")
	if len(p.Items) != 0 || p.Items == nil || p.Config != nil {
		t.Errorf("items %v, config %s", p.Items, p.Config)
	}
	src = qwen(4)
	src.config = nil
	mustDecide(t, src, Options{}).one(t, "family-unsupported", playbook.Error, "config.json")
}

func TestErrorsOfTheViewMeanRefusal(t *testing.T) {
	src := qwen(4)
	bad := playbook.New("shard-missing", "model-00002-of-00002.safetensors", "gone", "copy it")
	src.findings = []playbook.Finding{bad, bad.As(playbook.Info), bad}
	p := mustDecide(t, src, Options{})
	if len(p.Findings) != 2 || p.Findings[0] != bad || p.Config != nil || len(p.Shards) != 0 {
		t.Errorf("findings %v, %d shards", p.Findings, len(p.Shards))
	}
}

func TestARecipeThatQuantizesNothingIsRefused(t *testing.T) {
	qwen(4).with(t, `- {roles: [expert], scheme: fp8-channel}`).one(t, "nothing-quantized", playbook.Error, "recipe test")
	empty := source{family: "qwen3_5", config: &model.Config{}, configJSON: []byte(`{}`)}
	mustDecide(t, empty, Options{}).one(t, "nothing-quantized", playbook.Error, "0 tensors")
}

func TestFinalConfigKeepsTheBodysOrder(t *testing.T) {
	src := qwen(4)
	src.configJSON = []byte(`{"quantization_config": null, "z": 1, "a": {"é": 1e-06, "u": "\u00e9"}, "list": []}`)
	got := string(mustDecide(t, src, Options{}).Config)
	const want = "{\n  \"z\": 1,\n  \"a\": {\n    \"é\": 1e-06,\n    \"u\": \"\\u00e9\"\n  },\n  \"list\": [],\n  \"quantization_config\": {\n    \"config_groups\": {"
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "}\n") || !json.Valid([]byte(got)) {
		t.Errorf("config.json is\n%s\nwant it to begin\n%s", got, want)
	}
	for _, bad := range []string{"", "[]", "{", "null"} {
		src.configJSON = []byte(bad)
		if _, err := decide(src, Options{}); err == nil || !strings.Contains(err.Error(), "config.json") {
			t.Errorf("config.json %q: %v", bad, err)
		}
	}
}

func TestCompanionsAreSortedAndWhatIsWrittenIsNotCopied(t *testing.T) {
	src := qwen(4)
	src.files = append(src.files, model.CompanionFile{Name: "config.json"}, model.CompanionFile{Name: model.ProvenanceFile}, model.CompanionFile{Name: "chat_template.jinja", Origin: model.Body})
	want := []File{{"chat_template.jinja", model.Body}, {"preprocessor_config.json", model.Donor}, {"tokenizer.json", model.Body}}
	if got := mustDecide(t, src, Options{}).Files; !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
}

func TestAViewThatContradictsItselfIsAnError(t *testing.T) {
	src := qwen(4)
	src.tensors = append(src.tensors, src.tensors[3])
	if _, err := decide(src, Options{}); err == nil || !strings.Contains(err.Error(), src.tensors[3].Name) {
		t.Errorf("a tensor twice: %v", err)
	}
	src = qwen(4)
	src.tensors = append(src.tensors, understand(layer3+"self_attn.o_proj.weight_scale", safetensors.F32, 128))
	if _, err := decide(src, Options{}); err == nil || !strings.Contains(err.Error(), "o_proj.weight_scale") {
		t.Errorf("a leftover scale: %v", err)
	}
}

func TestOptionsAreCheckedByName(t *testing.T) {
	for want, o := range map[string]Options{
		"search":       {Search: "gptq"},
		"groups":       {Groups: "mine"},
		"shard size":   {ShardSize: -1},
		"dialect":      {Dialect: "gguf"},
		"recipe":       {Recipe: "w4a4"},
		"nothere.yaml": {Recipe: "nothere.yaml"},
		"math":         {Math: numeric.Math(77)},
	} {
		if _, err := decide(qwen(4), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

func TestOrderOfTensorsChangesNothing(t *testing.T) {
	src := qwen(12).reshape(layer0+"mlp.down_proj.weight", safetensors.BF16, 128, 48).reshape(layer3+"mlp.up_proj.weight", safetensors.BF16, 384, 24)
	want, err := json.Marshal(mustDecide(t, src, Options{ShardSize: 300_000}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		shuffled := src
		shuffled.tensors, shuffled.expected, shuffled.files = slices.Clone(src.tensors), slices.Clone(src.expected), slices.Clone(src.files)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		r.Shuffle(len(shuffled.tensors), func(i, j int) { shuffled.tensors[i], shuffled.tensors[j] = shuffled.tensors[j], shuffled.tensors[i] })
		r.Shuffle(len(shuffled.expected), func(i, j int) {
			shuffled.expected[i], shuffled.expected[j] = shuffled.expected[j], shuffled.expected[i]
		})
		r.Shuffle(len(shuffled.files), func(i, j int) { shuffled.files[i], shuffled.files[j] = shuffled.files[j], shuffled.files[i] })
		p, err := decide(shuffled, Options{ShardSize: 300_000})
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("another order gives\n%s\nwant\n%s", got, want)
		}
	})
}

func TestShardsHoldEverythingOnceAndNeverSplitAGroup(t *testing.T) {
	src := qwen(8)
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Int64Range(1, 600_000).Draw(t, "shard size")
		p, err := decide(src, Options{Recipe: "nvfp4-all-linear", ShardSize: most})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		groupIn := map[string]string{}
		for _, s := range p.Shards {
			units := map[string]bool{}
			var sum int64
			for _, i := range s.Items {
				item := &p.Items[i]
				if seen[i] {
					t.Fatalf("%s is in two shards", item.Source)
				}
				seen[i] = true
				_, after := item.bytes()
				sum += after
				unit := item.Source
				if item.Group != "" {
					unit = item.Group
					if other := groupIn[unit]; other != "" && other != s.File {
						t.Fatalf("group %s is in %s and %s", unit, other, s.File)
					}
					groupIn[unit] = s.File
				}
				units[unit] = true
			}
			if sum != s.Bytes || (sum > most && len(units) > 1) {
				t.Fatalf("%s: %d bytes (says %d) of %d units, limit %d", s.File, sum, s.Bytes, len(units), most)
			}
		}
		if len(seen) != len(p.Items) {
			t.Fatalf("%d of %d items are in shards", len(seen), len(p.Items))
		}
	})
	p := mustDecide(t, src, Options{ShardSize: 500_000})
	if n := len(p.Shards); n < 3 || p.Shards[0].File != "model-00001-of-0000"+string(rune('0'+n))+".safetensors" {
		t.Errorf("%d shards, the first is %s", n, p.Shards[0].File)
	}
}

func TestHashIdentifiesThePlanAndNothingElse(t *testing.T) {
	p := mustDecide(t, qwen(4), Options{Version: "1"})
	want := p.Hash()
	moved := qwen(4)
	for i := range moved.files {
		moved.files[i].Path = "/moved/" + moved.files[i].Name
	}
	moved.findings = []playbook.Finding{playbook.New("shard-leftover", "x", "y", "z")}
	if got := mustDecide(t, moved, Options{Version: "1"}).Hash(); got != want {
		t.Error("another place or another warning changes the hash")
	}
	if p.Hash() != want || len(want) != 64 || p.Items == nil || p.Findings == nil {
		t.Error("hashing changes the plan")
	}
	other := qwen(4)
	other.fingerprint = "other"
	for name, q := range map[string]*Plan{
		"source":     mustDecide(t, other, Options{Version: "1"}),
		"version":    mustDecide(t, qwen(4), Options{Version: "2"}),
		"recipe":     mustDecide(t, qwen(4), Options{Version: "1", Recipe: "fp8-dynamic"}),
		"math":       mustDecide(t, qwen(4), Options{Version: "1", Math: numeric.CT}),
		"shard size": mustDecide(t, qwen(4), Options{Version: "1", ShardSize: 400_000}),
		"a shape":    mustDecide(t, qwen(4).reshape("mtp.norm.weight", safetensors.BF16, 127), Options{Version: "1"}),
	} {
		if q.Hash() == want {
			t.Errorf("another %s gives the same hash", name)
		}
	}
	var back Plan
	data, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &back); err != nil || back.Hash() != want {
		t.Errorf("a plan read back from its JSON has another hash (%v)", err)
	}
}

func TestArithmeticDecidesTheFP8ScaleDtype(t *testing.T) {
	for m, want := range map[numeric.Math]safetensors.Dtype{numeric.Modelopt: safetensors.F32, numeric.CT: safetensors.BF16} {
		p := mustDecide(t, qwen(4), Options{Math: m})
		if got := p.item(t, layer3+"self_attn.o_proj.weight").Outputs[1]; got.Dtype != want || got.Name != layer3+"self_attn.o_proj.weight_scale" {
			t.Errorf("math %s: %+v, want %s", p.Math, got, want)
		}
	}
}
