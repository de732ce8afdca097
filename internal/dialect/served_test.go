package dialect_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

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
	flat, err := sjson.SetBytes([]byte(gjson.GetBytes(wrapper, "text_config").Raw), "architectures", []string{"Qwen3_5ForCausalLM"})
	if err != nil {
		t.Fatal(err)
	}
	same := func(name string) string { return name }
	return []served{
		{"wrapper", wrapper, same},
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

// A tester quantized a checkpoint of the text-only class whose names were nested: no target matched at run time, and the
// server did not know the packed tensors.
func TestTheServerOfEachClassTakesEachModuleAsMeant(t *testing.T) {
	bf16 := func(l *engine.Linear, _ string) bool {
		return l.Place != engine.Body // gates, tower, head and lm_head
	}
	for name, scheme := range map[string]func(l *engine.Linear, leaf string) dialect.Scheme{
		"default": func(l *engine.Linear, leaf string) dialect.Scheme {
			if bf16(l, leaf) {
				return dialect.BF16
			}
			return mixed(0, leaf)
		},
		"all nvfp4": func(l *engine.Linear, leaf string) dialect.Scheme {
			if bf16(l, leaf) {
				return dialect.BF16
			}
			return dialect.NVFP4W4A16
		},
		"layer 1 and every down_proj kept": func(l *engine.Linear, leaf string) dialect.Scheme {
			if bf16(l, leaf) || leaf == "down_proj" || strings.Contains(l.Runtime, "layers.1.") {
				return dialect.BF16
			}
			return dialect.FP8Channel
		},
		"the head too": func(l *engine.Linear, leaf string) dialect.Scheme {
			if bf16(l, leaf) && l.Place != engine.Head {
				return dialect.BF16
			}
			return dialect.FP8Channel
		},
	} {
		for _, class := range servedClasses(t) {
			t.Run(name+", "+class.name, func(t *testing.T) {
				e, err := engine.Parse("vllm@0.28")
				if err != nil {
					t.Fatal(err)
				}
				s, err := engine.Build(e, class.config, true)
				if err != nil {
					t.Fatal(err)
				}
				raw, err := dialect.CompressedTensors().Config(class.modules(s.Linears, scheme))
				if err != nil {
					t.Fatal(err)
				}
				config, err := sjson.SetRawBytes(slices.Clone(class.config), "quantization_config", raw)
				if err != nil {
					t.Fatal(err)
				}
				q, _, err := engine.ReadQuantization(config)
				if err != nil {
					t.Fatal(err)
				}
				formats := groupFormats(t, raw)
				bound := s.Bind(q)
				quantized := 0
				for i := range s.Linears {
					l := &s.Linears[i]
					leaf := l.Shards[0].Name[strings.LastIndexByte(l.Shards[0].Name, '.')+1:]
					want := scheme(l, leaf)
					if l.Place == engine.LMHeadMTP {
						want = dialect.BF16
					}
					r := bound.Resolve(l)
					switch {
					case r.Err != nil || len(r.Overlap) > 0:
						t.Errorf("%s: %v, overlap %v", l.Runtime, r.Err, r.Overlap)
					case !want.Quantized():
						if !r.Ignored {
							t.Errorf("%s is kept, but the server does not find it ignored: %+v", l.Runtime, r)
						}
					case r.State != engine.Quantized || formats[r.Group] != formatOf(want):
						t.Errorf("%s is %s; the server says state %d, format %q", l.Runtime, want, r.State, formats[r.Group])
					default:
						quantized++
					}
				}
				if quantized < 5 {
					t.Errorf("only %d modules are quantized: the test is broken", quantized)
				}
			})
		}
	}
}

func formatOf(s dialect.Scheme) string {
	if s.NVFP4() {
		return "nvfp4-pack-quantized"
	}
	return "float-quantized"
}

func groupFormats(t *testing.T, raw json.RawMessage) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, g := range parse(t, raw).Groups {
		out[name] = g.Format
	}
	return out
}
