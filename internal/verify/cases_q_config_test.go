package verify_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// tie sets tie_word_embeddings where servers look: in text_config first, then at the top level.
func (f *folder) tie(v bool) {
	f.set("text_config.tie_word_embeddings", v)
	f.set("tie_word_embeddings", v)
}

func TestQ27TheFlagAndTheTensorsOfLMHead(t *testing.T) {
	f := whole(t) // untied, and no lm_head
	f.tie(false)
	delete(f.tensors, "lm_head.weight")
	r := lint(t, f, verify.Options{})
	only(t, r, "lm-head-tied")
	says(t, r, "lm-head-tied", "lm_head.weight", "to true if the model was trained tied", "or take lm_head.weight from")

	f = whole(t) // tied, and a copy of the embedding
	f.tie(true)
	f.get("lm_head.weight").data = slices.Clone(f.get("model.language_model.embed_tokens.weight").data)
	r = lint(t, f, verify.Options{})
	clean(t, r)
	says(t, r, "lm-head-tied", "a duplicate of")
	if single(t, r, "lm-head-tied").Severity != "info" {
		t.Errorf("%v", r.Findings)
	}

	f.get("lm_head.weight").data[4] ^= 0x40 // tied, and another one
	only(t, lint(t, f, verify.Options{}), "lm-head-tied")

	// tied, and the embedding quantized: no version that was read builds embeddings from a quantization block
	f = copyOf(t, "default")
	f.tie(true)
	delete(f.tensors, "lm_head.weight")
	f.toFP8("model.language_model.embed_tokens")
	r = lint(t, f, verify.Options{})
	only(t, r, "protected-quantized")
	says(t, r, "protected-quantized", "embed_tokens")

	f = whole(t) // the two places differ
	f.set("text_config.tie_word_embeddings", true)
	f.set("tie_word_embeddings", false)
	r = lint(t, f, verify.Options{})
	if !slices.Contains(rules(r), "lm-head-tied") {
		t.Errorf("%v", r.Findings)
	}
	says(t, r, "lm-head-tied", "text_config says true and the top level says false")
}

func TestQ28AClassThatOnlyTransformers5Has(t *testing.T) {
	for class, engines := range map[string]map[string]string{
		"TokenizersBackend":     {"": "?", "vllm@0.28": "?", "vllm@0.21": "?", "vllm@0.19": ""},
		"TokenizersBackendFast": {"": "?", "vllm@0.19": ""},
	} {
		for engine, mark := range engines {
			f := whole(t)
			edit(t, filepath.Join(f.dir, "tokenizer_config.json"), "tokenizer_class", class)
			want := []string{"tokenizer-class" + mark}
			if engine == "vllm@0.19" {
				want = append(want, "engine-unread?", "rope-moved?")
			}
			r := lint(t, f, verify.Options{Engine: engine})
			only(t, r, want...)
			says(t, r, "tokenizer-class", class, "base model's file", "do not append Fast")
		}
	}
	f := whole(t)
	edit(t, filepath.Join(f.dir, "tokenizer_config.json"), "tokenizer_class", "Qwen2TokenizerFast")
	clean(t, lint(t, f, verify.Options{}))
}

func TestQ29RopeThetaInOnePlaceOrTwo(t *testing.T) {
	f := whole(t)
	theta := gjson.GetBytes(f.config, "text_config.rope_parameters.rope_theta")
	if theta.Type != gjson.Number || gjson.GetBytes(f.config, "text_config.rope_theta").Exists() {
		t.Fatal("the fixture does not nest rope_theta")
	}
	clean(t, lint(t, f, verify.Options{})) // a server with transformers 5
	r := lint(t, f, verify.Options{Engine: "vllm@0.19"})
	only(t, r, "engine-unread?", "rope-moved?")
	says(t, r, "rope-moved", "10000", `write "rope_theta": `+theta.Raw)

	f.set("text_config.rope_parameters.rope_theta", 500000)
	f.set("text_config.rope_theta", 10000)
	r = lint(t, f, verify.Options{})
	only(t, r, "rope-moved")
	says(t, r, "rope-moved", "10000", "500000")

	f.set("text_config.rope_theta", 500000)
	clean(t, lint(t, f, verify.Options{Engine: "vllm@0.28"}))
}

// Without tokenizer or processor the server does not start; without template and generation_config it does, and serves
// less.
func TestQ30EachMissingCompanionIsNamed(t *testing.T) {
	for name, mark := range map[string]string{
		"tokenizer.json": "", "tokenizer_config.json": "", "preprocessor_config.json": "", "chat_template.jinja": "?", "generation_config.json": "?",
	} {
		f := whole(t)
		f.save()
		remove(t, filepath.Join(f.dir, name))
		r := doctor(t, f.dir, verify.Options{})
		only(t, r, "companion-missing"+mark)
		if got := single(t, r, "companion-missing"); got.Subject != name || !strings.Contains(got.Fix, "base model") {
			t.Errorf("%s: %s", name, got)
		}
	}

	f := textOnly(t) // needs no processor
	f.save()
	if err := os.Remove(filepath.Join(f.dir, "preprocessor_config.json")); err != nil {
		t.Fatal(err)
	}
	clean(t, doctor(t, f.dir, verify.Options{}))

	const video = "video_preprocessor_config.json" // what the source has beside these is asked for as well
	base := whole(t)
	writeFile(t, filepath.Join(base.dir, video), []byte(`{"temporal_patch_size": 2}`))
	out := filepath.Join(t.TempDir(), "quantized")
	source := quantizeFrom(t, base.dir, out, plan.Options{})
	expect(t, judge(t, out, verify.Options{Source: source}))
	remove(t, filepath.Join(out, video))
	rehash(t, out)
	r := judge(t, out, verify.Options{Source: source})
	only(t, r, "companion-missing")
	says(t, r, "companion-missing", video, "copy it from the source")
}

func TestQ31ATextOnlyCheckpointUnderTheWrappersName(t *testing.T) {
	f := textOnly(t)
	f.set("architectures", []string{"Qwen3_5ForConditionalGeneration"})
	r := lint(t, f, verify.Options{})
	found := single(t, r, "text-only-vision")
	for _, text := range []string{"Qwen3_5ForConditionalGeneration", `"qwen3_5_text"`, "no vision_config", "no model.visual.* tensor"} {
		if !strings.Contains(found.Message, text) {
			t.Errorf("%q is not said: %s", text, found)
		}
	}
	for _, text := range []string{"set the text-only class Qwen3_5ForCausalLM", "vision tower, vision_config and processor files from the base"} {
		if !strings.Contains(found.Fix, text) {
			t.Errorf("%q is not offered: %s", text, found)
		}
	}
	only(t, lint(t, textOnly(t), command(t, "/m --language-model-only")), "serve-args?") // there is no tower to leave out
	clean(t, lint(t, whole(t), command(t, "/m --language-model-only")))
}

func TestQ32ARepeatedOrLostPrefixIsToldOnce(t *testing.T) {
	const inner = "model.language_model."
	for wrong, to := range map[string]string{inner + "language_model.language_model.": inner, "model.": inner} {
		f := whole(t)
		names := slices.Collect(maps.Keys(f.tensors))
		moved := 0
		for _, name := range names {
			if rest, ok := strings.CutPrefix(name, inner); ok {
				f.tensors[wrong+rest] = f.tensors[name]
				delete(f.tensors, name)
				moved++
			}
		}
		r := lint(t, f, verify.Options{})
		only(t, r, "layout-prefix")
		found := single(t, r, "layout-prefix")
		for _, text := range []string{wrong, to, "leave mtp.* and model.visual.* as they are"} {
			if !strings.Contains(found.Message+found.Fix, text) {
				t.Errorf("%q is not said: %s", text, found)
			}
		}
		if moved < 20 {
			t.Errorf("only %d tensors were moved", moved)
		}
	}
}

func TestQ33DtypeFieldsThatLieOrAreMissing(t *testing.T) {
	for _, spelling := range []string{"torch_dtype", "dtype"} {
		f := whole(t)
		f.set("vision_config."+spelling, "float32")
		r := lint(t, f, verify.Options{})
		only(t, r, "dtype-lies?")
		says(t, r, "dtype-lies", "vision_config."+spelling, "float32", "100% of its bytes are BF16", `"bfloat16"`)
	}
	f := whole(t)
	for _, at := range []string{"", "text_config.", "vision_config."} {
		f.del(at + "dtype")
		f.del(at + "torch_dtype")
	}
	r := lint(t, f, verify.Options{})
	only(t, r, "dtype-lies?")
	says(t, r, "dtype-lies", "no dtype field", `write "dtype": "bfloat16"`)

	f = whole(t) // state in F32 is normal, whatever the fields say
	if f.get(layer0+"linear_attn.A_log").dtype != safetensors.F32 {
		t.Fatal("the fixture keeps no state in F32")
	}
	f.set("dtype", "bfloat16")
	f.set("text_config.dtype", json.RawMessage(`"bfloat16"`))
	clean(t, lint(t, f, verify.Options{}))
}
