package plan

import (
	"fmt"
	"strings"
	"testing"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

const experts0 = layer0 + "mlp.experts"

// mixture turns the MLP of each layer of qwen(4) into 8 routed experts, stacked or one by one.
func mixture(stackedExperts bool) source {
	src := qwen(4)
	var tensors []model.Tensor
	for _, t := range src.tensors {
		if t.Role != model.RoleMLP {
			tensors = append(tensors, t)
		}
	}
	add := func(name, module, fused string, shape ...int64) {
		t := understand(name, safetensors.BF16, shape...)
		t.Role, t.Linear, t.Module, t.Fused = model.RoleExpert, true, module, fused
		tensors = append(tensors, t)
	}
	for i := range 4 {
		p := fmt.Sprintf("model.language_model.layers.%d.mlp.experts", i)
		if stackedExperts {
			add(p+".gate_up_proj", p+".gate_up_proj", "", 8, 64, 128)
			add(p+".down_proj", p+".down_proj", "", 8, 128, 32)
			continue
		}
		for e := range 8 {
			one := fmt.Sprintf("%s.%d.", p, e)
			for _, l := range []string{"gate_proj", "up_proj"} {
				add(one+l+".weight", one+l, one+"gate_up_proj", 32, 128)
			}
			add(one+"down_proj.weight", one+"down_proj", "", 128, 32)
		}
	}
	src.tensors, src.expected = tensors, nil
	for i := range src.tensors {
		t := &src.tensors[i]
		src.expected = append(src.expected, model.Expected{Name: t.Name, Role: t.Role, Layer: t.Layer, Module: t.Module, Linear: t.Linear, Fused: t.Fused, Shape: t.Shape()})
	}
	return src
}

func TestStackedExpertsBecomeTheModulesThatLoadersAskFor(t *testing.T) { // Q16
	for d, codes := range map[string]string{"compressed-tensors": ".weight_packed", "modelopt": ".weight"} {
		p := mustDecide(t, mixture(true), Options{Dialect: d})
		p.none(t)
		covered := map[string]int64{}
		count := 0
		for i := range p.Items {
			item := &p.Items[i]
			if item.Role != model.RoleExpert {
				continue
			}
			count++
			if item.Begin != covered[item.Source] {
				t.Fatalf("%s begins at element %d of %s, the one before ends at %d", item.Module(), item.Begin, item.Source, covered[item.Source])
			}
			covered[item.Source] += elements(item.Shape)
			if item.Scheme != dialect.NVFP4W4A16 || item.Outputs[0].Name != item.Module()+codes {
				t.Errorf("%s is %s, its codes are %s", item.Module(), item.Scheme, item.Outputs[0].Name)
			}
		}
		if n := covered[experts0+".gate_up_proj"]; count != 4*8*3 || n != 8*64*128 || covered[experts0+".down_proj"] != 8*128*32 {
			t.Errorf("%d items cover %d elements of gate_up_proj", count, n)
		}
		byModule := map[string]Item{}
		for _, i := range p.Items {
			byModule[i.Module()] = i
		}
		gate, up, down := byModule[experts0+".3.gate_proj"], byModule[experts0+".3.up_proj"], byModule[experts0+".3.down_proj"]
		if gate.Group != experts0+".3.gate_up_proj" || up.Group != gate.Group || down.Group != "" {
			t.Errorf("scale groups %q, %q, %q: gate and up of an expert share one, and nothing else does", gate.Group, up.Group, down.Group)
		}
		if gate.Begin != 3*64*128 || up.Begin != gate.Begin+32*128 || gate.Shape[0] != 32 || gate.Shape[1] != 128 || down.Begin != 3*128*32 {
			t.Errorf("gate %d %v, up %d, down %d", gate.Begin, gate.Shape, up.Begin, down.Begin)
		}
	}
}

func TestStackedAndSeparateExpertsGiveTheSameOutput(t *testing.T) {
	outputs := func(src source) map[string]dialect.Scheme {
		out := map[string]dialect.Scheme{}
		p := mustDecide(t, src, Options{})
		for _, i := range p.Items {
			for _, o := range i.Outputs {
				out[fmt.Sprintf("%s %s %v %s", o.Name, o.Dtype, o.Shape, i.Group)] = i.Scheme
			}
		}
		out[string(p.Config)] = ""
		return out
	}
	one, many := outputs(mixture(true)), outputs(mixture(false))
	if len(one) != len(many) {
		t.Errorf("%d outputs and %d", len(one), len(many))
	}
	for k := range one {
		if _, ok := many[k]; !ok {
			t.Errorf("only of stacked experts: %.300s", k)
		}
	}
}

func TestKeptStackedExpertsAreIgnoredUnderTheNamesThatServersAsk(t *testing.T) { // R28
	for _, d := range []string{"compressed-tensors", "modelopt"} {
		p := mixture(true).under(t, Options{Dialect: d}, `- {roles: [linear_attention], scheme: nvfp4-w4a16}`)
		p.none(t)
		if i := p.item(t, experts0+".gate_up_proj"); i.Action != Keep || len(i.Shape) != 3 || i.Outputs[0].Name != experts0+".gate_up_proj" {
			t.Errorf("a kept stack becomes %+v", i)
		}
		for _, l := range []string{"0.gate_proj", "0.up_proj", "0.down_proj"} {
			if !strings.Contains(string(p.Config), `"`+experts0+"."+l+`"`) {
				t.Errorf("%s: the configuration does not name %s", d, l)
			}
		}
		if strings.Contains(string(p.Config), "experts.gate_up_proj") {
			t.Errorf("%s: the configuration names a stack, which no server asks for", d)
		}
	}
}

func TestTheExpertsOfALayerHaveOneScheme(t *testing.T) {
	for name, c := range map[string]struct {
		src   source
		rules string
	}{
		"one expert":         {mixture(false), `- {name: "*.layers.0.mlp.experts.5.*", scheme: nvfp4-w4a16}`},
		"gate and up of all": {mixture(true), `- {name: "*.layers.0.mlp.experts.gate_up_proj", scheme: nvfp4-w4a16}`},
	} {
		p := c.src.with(t, c.rules)
		p.one(t, "scheme-unservable", playbook.Error, experts0, "one scheme", "a rule names it")
		if strings.Count(fmt.Sprint(p.found("scheme-unservable")), "experts") > 3 {
			t.Errorf("%s: every expert is named: %v", name, p.found("scheme-unservable"))
		}
	}
	mixture(true).reshape(experts0+".down_proj", safetensors.BF16, 8, 128, 24).with(t, `- {roles: [expert], scheme: nvfp4-w4a16}`).
		one(t, "plan-kept", playbook.Warning, experts0, "24 mod 16 = 8", "whole fused group") // Q23
	mixture(true).reshape(experts0+".gate_up_proj", safetensors.BF16, 8, 63, 128).with(t, `- {roles: [expert], scheme: nvfp4-w4a16}`).
		one(t, "plan-kept", playbook.Warning, experts0, "no matrix")
	mixture(false).drop(experts0+".5.up_proj.weight").with(t, `- {roles: [expert], scheme: nvfp4-w4a16}`).
		one(t, "plan-kept", playbook.Warning, experts0, experts0+".5.up_proj", "lacks")
}

func TestExpertsWithoutStatisticsGetTheLargestOfTheirLayer(t *testing.T) { // Q10
	for _, src := range []source{mixture(true), mixture(false)} {
		stats := everything(src, func(module string) float32 {
			if strings.HasPrefix(module, layer0) && strings.HasSuffix(module, "2.down_proj") {
				return 40
			}
			return 3
		})
		for e, bad := range map[string]float32{"3": 0, "7": 1e-40} {
			for _, l := range []string{"gate_proj", "up_proj", "down_proj"} {
				stats[experts0+"."+e+"."+l+".input_amax"] = bad
			}
		}
		for _, l := range []string{"gate_proj", "up_proj", "down_proj"} {
			delete(stats, experts0+".5."+l+".input_amax")
		}
		p := mustDecide(t, src, Options{Recipe: "w4a4-mlp", Dialect: "modelopt", Math: numeric.ModeloptCPU, Stats: statsFile(t, statsMetadata, stats)})
		p.none(t)
		p.one(t, "stats-fallback", playbook.Warning, experts0, "9 modules", "3.gate_proj", "5.down_proj", "7.up_proj")
		for i := range p.Items {
			item := &p.Items[i]
			if !item.Scheme.StaticInput() || item.Role != model.RoleExpert {
				continue
			}
			want := float32(3) / 2688
			switch strings.TrimPrefix(item.Module(), experts0+".") {
			case "2.down_proj", "3.down_proj", "5.down_proj", "7.down_proj":
				want = float32(40) / 2688
			}
			if item.InputScale == nil || *item.InputScale != want {
				t.Errorf("%s has %v, want %v", item.Module(), item.InputScale, want)
			}
		}
		for _, e := range []int{0, 1, 2, 3, 4, 5, 6, 7} { // nothing is left to fall back on
			delete(stats, fmt.Sprintf("%s.%d.down_proj.input_amax", experts0, e))
		}
		p = mustDecide(t, src, Options{Recipe: "w4a4-mlp", Stats: statsFile(t, statsMetadata, stats)})
		p.one(t, "plan-kept", playbook.Warning, experts0, "none for down_proj", "whole fused group")
	}
}

func TestOneStatisticMayServeAllExpertsOfALayer(t *testing.T) {
	src := mixture(true)
	stats := everything(qwen(4), func(string) float32 { return 3 })
	for i := range 4 {
		for _, l := range []string{"gate_up_proj", "down_proj"} {
			stats[fmt.Sprintf("model.language_model.layers.%d.mlp.experts.%s.input_amax", i, l)] = 5
		}
	}
	p := mustDecide(t, src, Options{Recipe: "w4a4-mlp", Dialect: "modelopt", Math: numeric.ModeloptCPU, Stats: statsFile(t, statsMetadata, stats)})
	p.none(t)
	for i := range p.Items {
		if item := &p.Items[i]; item.Role == model.RoleExpert && (item.InputScale == nil || *item.InputScale != float32(5)/2688) {
			t.Fatalf("%s has %v", item.Module(), item.InputScale)
		}
	}
}
