package plan

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
)

func TestAFamilyWhoseLoaderWasNotReadIsQuantizedWhereItIsCertain(t *testing.T) {
	src := qwen(4)
	src.unread, src.family = true, "glm4_moe"
	for i := range src.tensors {
		if t := &src.tensors[i]; t.Role == model.RoleLinearAttention {
			t.Linear = false
		}
	}
	p := mustDecide(t, src, Options{})
	p.none(t)
	p.one(t, "loader-unread", playbook.Warning, "glm4_moe", "nothing here says that the result loads")
	if i := p.item(t, layer0+"mlp.down_proj.weight"); i.Scheme != dialect.NVFP4W4A16 {
		t.Errorf("down_proj is %s: %s", i.Scheme, i.Reason)
	}
	if i := p.item(t, layer0+"linear_attn.out_proj.weight"); i.Scheme != dialect.BF16 || !strings.Contains(i.Reason, "not certain") {
		t.Errorf("out_proj is %s: %s", i.Scheme, i.Reason)
	}
	src.with(t, `- {name: "*.linear_attn.out_proj", scheme: fp8}`).one(t, "scheme-unservable", playbook.Error, "not certain")
	stats := statsFile(t, statsMetadata, everything(src, func(string) float32 { return 2 }))
	src.under(t, Options{Stats: stats}, `- {roles: [mlp], scheme: nvfp4-w4a4}`).one(t, "scheme-unservable", playbook.Error, "glm4_moe", "nvfp4-w4a16")

	mo := mustDecide(t, src, Options{Dialect: "modelopt"})
	mo.none(t)
	if got := gjson.GetBytes(mo.Config, "quantization_config.quant_algo").Str; got != "MIXED_PRECISION" {
		t.Errorf("modelopt says %s, which quantizes what it does not name", got)
	}
	if !strings.Contains(string(mo.Config), `"`+layer0+`linear_attn.out_proj"`) {
		t.Error("what is not certain is not named")
	}

	stack := mixture(true)
	stack.unread = true
	if i := mustDecide(t, stack, Options{}).item(t, experts0+".gate_up_proj"); i.Action != Keep || !strings.Contains(i.Reason, "not certain") {
		t.Errorf("experts in one tensor, whose order nobody read: %+v", i)
	}
	if f := mustDecide(t, qwen(4), Options{}).found("loader-unread"); f != nil {
		t.Errorf("a family that was read: %v", f)
	}
}
