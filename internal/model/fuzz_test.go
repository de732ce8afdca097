package model

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// FuzzParseConfig: whatever the text, a configuration is either refused as a *ConfigError or safe to build tables from.
func FuzzParseConfig(f *testing.F) {
	for _, name := range []string{"tiny", "moe"} {
		data, err := os.ReadFile("../../testdata/" + name + "/config.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"architectures":["Qwen3_5ForCausalLM"],"hidden_size":1,"num_hidden_layers":1,"layer_types":[""]}`))
	f.Add([]byte(`{"text_config":null,"vision_config":[],"quantization_config":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseConfig(data)
		if err != nil {
			var ce *ConfigError
			if !errors.As(err, &ce) || len(ce.Findings()) == 0 {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		class, ok := classOf(c.Architecture)
		if !ok {
			return
		}
		if int64(len(c.LayerTypes)) != c.Layers || c.Layers < 1 || c.Layers > maxLayers {
			t.Fatalf("%d layer types for %d layers", len(c.LayerTypes), c.Layers)
		}
		l := class.family.layout(c, wrappedPrefix, c.HeadLayers)
		for _, v := range []variant{allExperts, perExpert} {
			stored := func(string) variant { return v }
			if l.size(stored) > 20000 {
				continue
			}
			for _, e := range l.expected(stored) {
				elements := int64(1)
				for _, d := range e.Shape {
					if d < 1 || elements > (1<<62)/d {
						t.Fatalf("%s has the shape %v", e.Name, e.Shape)
					}
					elements *= d
				}
				if p := l.place(e.Name); !p.known || p.role != e.Role || p.layer != e.Layer || p.linear != e.Linear || p.fused != e.Fused {
					t.Fatalf("%s is expected as %+v and understood as %+v", e.Name, e, p)
				}
			}
		}
	})
}

// FuzzSplit: any name can be taken apart, and a name that is no quantized part is its own base.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"", ".", "weight_scale", "a.weight_packed", "a.attn.k_scale", "mlp.experts.down_proj.weight_scale", "..k_scale"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		base, suffix := split(name)
		if !quantizedParts[suffix] && base != name {
			t.Fatalf("split(%q) = %q, %q", name, base, suffix)
		}
		if module := moduleOf(base); !strings.HasPrefix(base, module) {
			t.Fatalf("moduleOf(%q) = %q", base, module)
		}
		if expert, generic := expertPath(name); expert == "" && generic != name {
			t.Fatalf("expertPath(%q) = %q, %q", name, expert, generic)
		}
		if p := pattern(name); strings.Count(p, ".") != strings.Count(name, ".") {
			t.Fatalf("pattern(%q) = %q", name, p)
		}
	})
}

// FuzzCompanions: whatever stands in a companion, it is judged, and every message says something.
func FuzzCompanions(f *testing.F) {
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"} {
		data, err := os.ReadFile("../../testdata/tiny/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:min(len(data), 4096)])
	}
	for _, s := range []string{"version https://git-lfs\nsize x", "{% raw %}{%", "{{ '\\", `{"model":{"vocab":[[]]},"added_tokens":[{}]}`, `{"chat_template":[{}]}`, "{%set", "[[[["} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		unmask(data[:min(len(data), sniffLen)], int64(len(data)))
		templateFault(data)
		for name := range objects {
			ids := &tokenIDs{vocab: 10}
			for _, x := range lookIntoJSON(name, data, true, ids) {
				if x.message == "" || x.fix == "" {
					t.Fatalf("%s: %+v says nothing", name, x)
				}
			}
			if f, beyond := ids.finding(name); beyond && (f.Message == "" || ids.top.id < 10) {
				t.Fatalf("%s: %+v", name, f)
			}
		}
	})
}
