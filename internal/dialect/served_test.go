package dialect_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"pgregory.net/rapid"

	"seatsmith/internal/dialect"
	"seatsmith/internal/engine"
)

// served is a served class and how a checkpoint for it may spell the language model.
type served struct {
	name   string
	config []byte
	stored func(name string) string // the engine's checkpoint name as this checkpoint spells it
}

func servedClasses(t *testing.T) []served {
	t.Helper()
	wrapper, err := os.ReadFile(filepath.Join("..", "..", "testdata", "tiny", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	mixture, err := os.ReadFile(filepath.Join("..", "..", "testdata", "moe", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	flat, err := sjson.SetBytes([]byte(gjson.GetBytes(wrapper, "text_config").Raw), "architectures", []string{"Qwen3_5ForCausalLM"})
	if err != nil {
		t.Fatal(err)
	}
	same := func(name string) string { return name }
	const sizes = `"vocab_size":96,"hidden_size":64,"intermediate_size":112,"num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32`
	const experts = `,"num_experts":2,"num_experts_per_tok":1,"moe_intermediate_size":48,"shared_expert_intermediate_size":80`
	return []served{
		{"Llama", []byte(`{"architectures":["LlamaForCausalLM"],"model_type":"llama",` + sizes + `}`), same},
		{"Qwen3 MoE", []byte(`{"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe",` + sizes + experts + `,"mlp_only_layers":[0]}`), same},
		{"Qwen3-Next", []byte(`{"architectures":["Qwen3NextForCausalLM"],"model_type":"qwen3_next",` + sizes + experts +
			`,"linear_num_key_heads":2,"linear_num_value_heads":4,"linear_key_head_dim":16,"linear_value_head_dim":16}`), same},
		{"wrapper", wrapper, same},
		{"mixture", mixture, same},
		{"text-only, flat names", flat, same},
		{"text-only, nested names", flat, prefixes(map[string]string{"model.": "model.language_model."})},
	}
}

// modules lists what the server builds, by the names of this checkpoint.
func (s served) modules(linears []engine.Linear, scheme func(l *engine.Linear, leaf string) dialect.Scheme) []dialect.Module {
	var out []dialect.Module
	for i := range linears {
		l := &linears[i]
		if l.Place == engine.LMHeadMTP {
			continue // the same tensor as the target's
		}
		for _, shard := range l.Shards {
			dot := strings.LastIndexByte(shard.Name, '.')
			m := dialect.Module{Name: s.stored(shard.Name), Scheme: scheme(l, shard.Name[dot+1:]), Head: l.Place == engine.Head, Vision: l.Place == engine.Tower}
			if l.Fused() {
				m.Fused = s.stored(shard.Name[:dot]) + l.Runtime[strings.LastIndexByte(l.Runtime, '.'):]
			}
			out = append(out, m)
		}
	}
	return out
}

// choices are ways to give modules schemes; "fp8" stands for the one that the dialect can spell.
func choices(fp8 dialect.Scheme) map[string]func(l *engine.Linear, leaf string) dialect.Scheme {
	apart := func(l *engine.Linear) bool { // gates, routers, tower, head and lm_head
		return l.Place != engine.Body || strings.HasSuffix(l.Runtime, ".mlp.gate") || strings.HasSuffix(l.Runtime, "in_proj_ba")
	}
	projection := func(leaf string) bool { return slices.Contains([]string{"gate_proj", "up_proj", "down_proj"}, leaf) }
	all := func(s dialect.Scheme) func(l *engine.Linear, leaf string) dialect.Scheme {
		return func(l *engine.Linear, leaf string) dialect.Scheme {
			if apart(l) {
				return dialect.BF16
			}
			return s
		}
	}
	return map[string]func(l *engine.Linear, leaf string) dialect.Scheme{
		"default": func(l *engine.Linear, leaf string) dialect.Scheme {
			switch {
			case apart(l):
				return dialect.BF16
			case projection(leaf):
				return dialect.NVFP4W4A16
			}
			return fp8
		},
		"all nvfp4-w4a16": all(dialect.NVFP4W4A16),
		"all nvfp4-w4a4":  all(dialect.NVFP4W4A4),
		"all fp8-tensor":  all(dialect.FP8Tensor),
		"layer 1 and attention kept": func(l *engine.Linear, leaf string) dialect.Scheme {
			if apart(l) || !projection(leaf) || strings.Contains(l.Runtime, "layers.1.") {
				return dialect.BF16
			}
			return fp8
		},
		"routed experts kept, the shared one not": func(l *engine.Linear, leaf string) dialect.Scheme {
			if apart(l) || l.Routed() {
				return dialect.BF16
			}
			return dialect.NVFP4W4A16
		},
		"the head's layers too": func(l *engine.Linear, leaf string) dialect.Scheme {
			if apart(l) && l.Place != engine.Head || leaf == "fc" {
				return dialect.BF16
			}
			return fp8
		},
		"lm_head too": func(l *engine.Linear, leaf string) dialect.Scheme {
			if apart(l) && l.Place != engine.LMHead && l.Place != engine.LMHeadMTP {
				return dialect.BF16
			}
			return dialect.NVFP4W4A16
		},
		"lm_head in fp8": func(l *engine.Linear, leaf string) dialect.Scheme {
			switch {
			case l.Place == engine.LMHead || l.Place == engine.LMHeadMTP:
				return fp8
			case apart(l):
				return dialect.BF16
			}
			return dialect.NVFP4W4A4
		},
	}
}

// kind is what a server calls a scheme.
func kind(s dialect.Scheme) engine.Kind {
	switch s {
	case dialect.NVFP4W4A4:
		return engine.W4A4
	case dialect.NVFP4W4A16:
		return engine.W4A16
	}
	return engine.FP8
}

// A tester quantized a checkpoint of the text-only class whose names were nested: no target matched at run time, and the
// server did not know the packed tensors.
func TestTheServerOfEachClassTakesEachModuleAsMeant(t *testing.T) {
	for d, fp8 := range map[dialect.Dialect]dialect.Scheme{dialect.CompressedTensors(): dialect.FP8Channel, dialect.ModelOpt(): dialect.FP8Tensor} {
		for name, scheme := range choices(fp8) {
			for _, class := range servedClasses(t) {
				t.Run(d.Name()+", "+name+", "+class.name, func(t *testing.T) {
					if n := serve(t, d, scheme, class); n < 5 {
						t.Errorf("only %d modules are quantized: the test is broken", n)
					}
				})
			}
		}
	}
}

func serve(t *testing.T, d dialect.Dialect, scheme func(l *engine.Linear, leaf string) dialect.Scheme, class served) (quantized int) {
	e, err := engine.Parse("vllm@0.28")
	if err != nil {
		t.Fatal(err)
	}
	s, err := engine.Build(e, class.config, true)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := d.Config(class.modules(s.Linears, scheme))
	if err != nil {
		t.Fatal(err)
	}
	if raw == nil {
		return 0 // nothing is quantized
	}
	config, err := sjson.SetRawBytes(slices.Clone(class.config), "quantization_config", raw)
	if err != nil {
		t.Fatal(err)
	}
	q, problems, err := engine.ReadQuantization(config)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	bound := s.Bind(q)
	for i := range s.Linears {
		l := &s.Linears[i]
		want := scheme(l, l.Shards[0].Name[strings.LastIndexByte(l.Shards[0].Name, '.')+1:])
		r := bound.Resolve(l)
		switch {
		case r.Err != nil || len(r.Overlap) > 0 || r.PassedOver != "":
			t.Errorf("%s: %v, overlap %v, passed over %s", l.Runtime, r.Err, r.Overlap, r.PassedOver)
		case !want.Quantized():
			if !r.Ignored {
				t.Errorf("%s is kept, but the server does not find it ignored: %+v", l.Runtime, r)
			}
		case r.State != engine.Quantized || r.Scheme.Kind != kind(want):
			t.Errorf("%s is %s; the server says state %d, %s (by %s)", l.Runtime, want, r.State, r.Scheme, r.By)
		case want.FP8() && r.Scheme.Static != (want == dialect.FP8Tensor):
			t.Errorf("%s is %s; the server scales its input by %s", l.Runtime, want, r.Scheme)
		default:
			quantized++
		}
	}
	return quantized
}

// Whatever schemes the modules get, a configuration that is returned selects exactly them.
func TestAnyChoiceOfSchemesIsServedAsMeant(t *testing.T) {
	classes := servedClasses(t)
	rapid.Check(t, func(rt *rapid.T) {
		d := rapid.SampledFrom([]dialect.Dialect{dialect.CompressedTensors(), dialect.ModelOpt()}).Draw(rt, "dialect")
		class := classes[rapid.IntRange(0, len(classes)-1).Draw(rt, "class")]
		schemes := []dialect.Scheme{dialect.BF16, dialect.NVFP4W4A4, dialect.NVFP4W4A16, dialect.FP8Tensor}
		if d.Servable(dialect.FP8Channel) == nil {
			schemes = append(schemes, dialect.FP8Channel)
		}
		schemes = schemes[:rapid.IntRange(2, len(schemes)).Draw(rt, "schemes")]
		drawn := map[string]dialect.Scheme{}
		serve(t, d, func(l *engine.Linear, leaf string) dialect.Scheme {
			name := l.Runtime
			if l.Place == engine.LMHeadMTP || l.Place == engine.LMHead {
				name = "lm_head"
			}
			if l.Place == engine.Tower || leaf == "fc" { // never quantized here, and servers differ about fc
				return dialect.BF16
			}
			if _, ok := drawn[name]; !ok {
				drawn[name] = rapid.SampledFrom(schemes).Draw(rt, name)
			}
			return drawn[name]
		}, class)
		if t.Failed() {
			rt.Fatalf("%s, %s", d.Name(), class.name)
		}
	})
}
