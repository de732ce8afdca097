package plan

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
)

func TestWithoutAHeadTheListsStillNameIt(t *testing.T) {
	src := qwen(4)
	for i := len(src.tensors) - 1; i >= 0; i-- {
		if src.tensors[i].Role == model.RoleHead {
			src = src.drop(src.tensors[i].Name)
		}
	}
	src.expected = nil
	for d, want := range map[string]string{"compressed-tensors": `"re:.*mtp.*"`, "modelopt": `"mtp*"`} {
		p := mustDecide(t, src, Options{Dialect: d})
		p.none(t)
		if !strings.Contains(string(p.Config), want) { // a head may be spliced in later
			t.Errorf("%s: the list does not hold %s", d, want)
		}
	}
}

func TestAHeadInFP8IsNoLongerIgnored(t *testing.T) {
	p := mustDecide(t, qwen(4), Options{Recipe: "head-fp8"})
	p.none(t)
	p.one(t, "head-fp8", playbook.Warning, "7 modules", "measure acceptance")
	for name, want := range map[string]dialect.Scheme{
		"mtp.fc.weight": dialect.BF16, "mtp.norm.weight": dialect.BF16, "mtp.layers.0.self_attn.q_norm.weight": dialect.BF16,
		"mtp.layers.0.self_attn.q_proj.weight": dialect.FP8Channel, "mtp.layers.0.mlp.down_proj.weight": dialect.FP8Channel,
	} {
		if got := p.item(t, name); got.Scheme != want {
			t.Errorf("%s is %s: %s", name, got.Scheme, got.Reason)
		}
	}
	list := gjson.GetBytes(p.Config, "quantization_config.ignore").String()
	if !strings.Contains(list, `"mtp.fc"`) || strings.Contains(list, "re:^mtp") || strings.Contains(list, "mtp.layers") {
		t.Errorf("the ignore list is %s", list)
	}
	qwen(4).with(t, "- {roles: [head], scheme: nvfp4-w4a16}").one(t, "scheme-unservable", playbook.Error, "FP8 at most", "vllm-project/vllm#38832")
	without := mustDecide(t, qwen(4), Options{Recipe: "head-fp8", Dialect: "modelopt"})
	without.one(t, "plan-kept", playbook.Warning, "rule 2", "--stats")
	if without.item(t, "mtp.layers.0.mlp.down_proj.weight").Scheme != dialect.BF16 || without.found("head-fp8") != nil {
		t.Error("without statistics the head becomes FP8 in modelopt")
	}
}

func TestTheRoutedExpertsOfAHeadStayAsTheyAreStored(t *testing.T) {
	src := mixture(true)
	for i := range src.tensors {
		if t := &src.tensors[i]; t.Role == model.RoleExpert && t.Layer == 0 {
			t.Role = model.RoleHead
		}
	}
	p := src.with(t, "- {roles: [head, expert], scheme: fp8}")
	p.none(t)
	if i := p.item(t, experts0+".gate_up_proj"); i.Action != Keep || !strings.Contains(i.Reason, "routed experts of the head") {
		t.Errorf("a stack of the head: %+v", i)
	}
}

func TestLMHeadIsQuantizedWhenARuleAsks(t *testing.T) {
	for d, want := range map[string]string{"compressed-tensors": "since 0.19", "modelopt": "since 0.23"} {
		for _, scheme := range []string{"fp8", "nvfp4-w4a16"} {
			rules := "- {roles: [lm_head], scheme: " + scheme + "}\n- {roles: [mlp], scheme: nvfp4-w4a16}"
			o := Options{Dialect: d}
			if d == "modelopt" && scheme == "fp8" {
				o.Stats = statsFile(t, statsMetadata, everything(qwen(4), func(string) float32 { return 2 }))
			}
			p := qwen(4).under(t, o, rules)
			p.none(t)
			p.one(t, "lm-head-quantized", playbook.Warning, want, "drafter")
			list := gjson.GetBytes(p.Config, "quantization_config.ignore").String()
			if strings.Contains(list, "lm_head") {
				t.Errorf("%s %s: lm_head is quantized and ignored: %s", d, scheme, list)
			}
			if !p.item(t, "lm_head.weight").Scheme.Quantized() {
				t.Errorf("%s %s: lm_head is kept", d, scheme)
			}
			tied := qwen(4)
			tied.config.TieEmbeddings = true
			tied.under(t, o, rules).one(t, "scheme-unservable", playbook.Error, "tie_word_embeddings", "rule 1") // Q27
			tied.under(t, o, strings.Replace(rules, "roles: [lm_head]", "name: lm_head", 1)).one(t, "scheme-unservable", playbook.Error, "tie_word_embeddings", "rule 1")
		}
	}
}

func TestSchemesThatNoServerReadsAreRefusedWithTheReason(t *testing.T) {
	for scheme, want := range map[string]string{
		"nvfp4-w4a8": "W4A8_NVFP4_FP8", "fp8-block": "128 x 128", "mxfp4": "powers of two", "mxfp8": "Use fp8", "int4": "Use nvfp4-w4a16", "int8": "Use fp8",
	} {
		p := qwen(4).with(t, "- {roles: [mlp], scheme: "+scheme+"}\n- {roles: [attention], scheme: fp8}")
		p.one(t, "scheme-unservable", playbook.Error, "rule 1", want)
		if p.Config != nil {
			t.Errorf("%s: a refused plan has a configuration", scheme)
		}
	}
	qwen(4).under(t, Options{Dialect: "modelopt"}, "- {roles: [mlp], scheme: fp8-channel}").one(t, "scheme-unservable", playbook.Error, "MIXED_PRECISION", "rule 1")
	mustDecide(t, qwen(4), Options{Dialect: "modelopt", Recipe: "fp8-dynamic"}).one(t, "scheme-unservable", playbook.Error, "fp8-tensor")
}

func TestFP8IsTheDialectsOwnForm(t *testing.T) {
	stats := statsFile(t, statsMetadata, everything(qwen(4), func(string) float32 { return 2 }))
	attention := layer3 + "self_attn.q_proj.weight"
	for _, c := range []struct {
		o    Options
		want dialect.Scheme
	}{
		{Options{}, dialect.FP8Channel}, {Options{Stats: stats}, dialect.FP8Channel},
		{Options{Dialect: "modelopt", Stats: stats}, dialect.FP8Tensor}, {Options{Dialect: "modelopt"}, dialect.BF16},
	} {
		p := mustDecide(t, qwen(4), c.o)
		p.none(t)
		if got := p.item(t, attention); got.Scheme != c.want {
			t.Errorf("%+v: %s, want %s", c.o, got.Scheme, c.want)
		}
		if kept := p.found("plan-kept"); (kept != nil) != (c.want == dialect.BF16) {
			t.Errorf("%+v: %v", c.o, kept)
		}
	}
	p := mustDecide(t, qwen(4), Options{Dialect: "modelopt"})
	p.one(t, "plan-kept", playbook.Warning, "rule 2", "fp8-tensor", "--stats", "--dialect compressed-tensors")
	p.one(t, "modelopt-since", playbook.Info, "W4A16_NVFP4", "0.22")
	mustDecide(t, qwen(4), Options{Dialect: "modelopt", Stats: stats}).one(t, "modelopt-since", playbook.Info, "MIXED_PRECISION", "0.23", "2026-07-08")
	if got := gjson.GetBytes(p.Config, "quantization_config.quant_algo").Str; got != "W4A16_NVFP4" {
		t.Errorf("one scheme gives %s", got)
	}
	if got := gjson.GetBytes(mustDecide(t, qwen(4), Options{Dialect: "modelopt", Stats: stats}).Config, "quantization_config.quant_algo").Str; got != "MIXED_PRECISION" {
		t.Errorf("two schemes give %s", got)
	}
	qwen(4).under(t, Options{Dialect: "modelopt"}, `- {name: "model.*.o_proj", scheme: fp8}`).one(t, "stats-missing", playbook.Error, "rule 1")
}
