package engine

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Speculative is --speculative-config, or its short forms --spec-method, --spec-model and --spec-tokens (vLLM 017e9f4448,
// config/speculative.py SpeculativeConfig; the short forms since vllm-project/vllm#42476, 2026-05-18).
type Speculative struct {
	Written string // method as it is written
	Method  string // method as the server comes to understand it: every …_mtp is "mtp"
	Model   string // the draft model, "" for a head inside the model
	Tokens  int64  // 0 when they are not given
	Keys    []string

	badTokens bool // they are given, and were told to be no number above 0
}

// MTP says whether the model's own head drafts.
func (s *Speculative) MTP() bool { return s != nil && s.Method == "mtp" && s.Model == "" }

// mtpMethods are MTPModelTypes, all of which mean "mtp" (vllm-project/vllm#25232).
var mtpMethods = strings.Fields(`deepseek_mtp dots3_note_mtp mimo_mtp mimo_v2_mtp glm4_moe_mtp glm4_moe_lite_mtp glm_ocr_mtp ernie_mtp nemotron_h_mtp
	exaone_moe_mtp exaone4_5_mtp qwen3_next_mtp qwen3_5_mtp longcat_flash_mtp bailing_hybrid_v3_mtp minimax_m3_mtp bailing_hybrid_mtp mtp kimi_k3_mtp
	pangu_ultra_moe_mtp step3p5_mtp hy_v3_mtp gemma4_mtp inkling_mtp`)

// otherMethods are the rest of SpeculativeMethod.
var otherMethods = strings.Fields(`ngram medusa mlp_speculator draft_model suffix custom_class eagle eagle3 extract_hidden_states dflash ngram_gpu dspark`)

// speculativeKeys are the fields of SpeculativeConfig.
var speculativeKeys = strings.Fields(`enforce_eager num_speculative_tokens model method draft_tensor_parallel_size tensor_parallel_size quantization moe_backend
	attention_backend kv_cache_dtype max_model_len revision code_revision disable_padded_drafter_batch use_local_argmax_reduction use_heterogeneous_vocab
	prompt_lookup_max prompt_lookup_min parallel_drafting num_speculative_tokens_per_batch_size suffix_decoding_max_tree_depth suffix_decoding_max_cached_requests
	suffix_decoding_max_spec_factor suffix_decoding_min_token_prob draft_load_config rejection_sample_method synthetic_acceptance_rates synthetic_acceptance_length
	enable_adaptive_verification draft_sample_method dspark_draft_topk`)

// pathTraps are parts of a model's path by which the server takes another method, before it looks at the head.
var pathTraps = []struct{ part, method string }{{"eagle-", "eagle"}, {"eagle3", "eagle3"}, {"dflash", "dflash"}, {"dspark", "dspark"}}

// PathTrap is the method that the lower-cased path of a model makes the server take instead of mtp, and the part of it;
// "" for a good path.
func PathTrap(model string) (part, method string) {
	for _, t := range pathTraps {
		if strings.Contains(strings.ToLower(model), t.part) {
			return t.part, t.method
		}
	}
	return "", ""
}

const specFlag = "--speculative-config"

// ParseSpeculative reads the JSON of --speculative-config.
func ParseSpeculative(e Engine, raw string) (*Speculative, []ArgProblem) {
	p := serveParser{e: e, a: &ServeArgs{}}
	s := p.speculative(raw)
	return s, p.problems
}

func (p *serveParser) speculative(raw string) *Speculative {
	doc := gjson.Parse(raw)
	if !json.Valid([]byte(raw)) || !doc.IsObject() {
		p.problems = slices.DeleteFunc(p.problems, func(x ArgProblem) bool { return x.Flag == specFlag && x.Kind == ArgValue }) // one of the two is enough
		p.say(specFlag, ArgSpec, true, `write '{"method":"mtp","num_speculative_tokens":1}' in single quotes`, "%q is no JSON object", raw)
		return nil
	}
	s := &Speculative{}
	doc.ForEach(func(k, v gjson.Result) bool {
		key := strings.ReplaceAll(k.String(), "-", "_")
		s.Keys = append(s.Keys, key)
		switch key {
		case "method":
			s.Written = text(v)
			p.method(s, v)
		case "model":
			s.Model = text(v)
		case "num_speculative_tokens":
			n, ok := laxInt(v)
			if s.Tokens = n; !null(v) && (!ok || n < 1) {
				p.say(specFlag, ArgSpec, true, "write a whole number above 0", "num_speculative_tokens %s: want a whole number above 0", orNull(v))
				s.Tokens, s.badTokens = 0, true
			}
		}
		if !slices.Contains(speculativeKeys, key) {
			p.say(specFlag, ArgSpec, true, "take it out", "%q is no key of the speculative configuration, and the server stops (\"unexpected keyword argument\")", k.String())
		}
		return true
	})
	return s
}

func (p *serveParser) method(s *Speculative, v gjson.Result) {
	switch {
	case null(v):
	case slices.Contains(mtpMethods, s.Written):
		if s.Method = "mtp"; s.Written != "mtp" {
			p.say(specFlag, ArgSpec, false, `write "method": "mtp"`, "method %q is deprecated and replaced with mtp", s.Written)
		}
	case slices.Contains(otherMethods, s.Written):
		s.Method = s.Written
	case strings.EqualFold(s.Written, "nextn"):
		p.say(specFlag, ArgSpec, true, `write "method": "mtp"`, "NEXTN is SGLang's name; vLLM calls it mtp, and stops at this one")
	default:
		p.say(specFlag, ArgSpec, true, `write "method": "mtp"`, "method %s is none that the server knows, and it stops", orNull(v))
	}
}

// shortForms are --spec-method, --spec-model and --spec-tokens.
func (p *serveParser) shortForms() {
	a := p.a
	for _, f := range []struct{ flag, key string }{{"--spec-method", "method"}, {"--spec-model", "model"}, {"--spec-tokens", "num_speculative_tokens"}} {
		v := a.one(f.flag)
		if v == "" {
			continue
		}
		if a.Spec == nil {
			a.Spec = &Speculative{}
		}
		if slices.Contains(a.Spec.Keys, f.key) {
			p.say(f.flag, ArgTogether, true, "keep one of the two", "it and --speculative-config[%q] exclude each other, and the server stops", f.key)
			continue
		}
		switch a.Spec.Keys = append(a.Spec.Keys, f.key); f.key {
		case "method":
			a.Spec.Written = v
			p.method(a.Spec, gjson.Parse(strconv.Quote(v)))
		case "model":
			a.Spec.Model = v
		default:
			a.Spec.Tokens, _ = strconv.ParseInt(v, 10, 64)
		}
	}
}

// dotted makes one JSON object of --speculative-config and of --speculative-config.key value.
func dotted(values []string) string {
	if len(values) == 1 && strings.HasPrefix(strings.TrimSpace(values[0]), "{") {
		return values[0]
	}
	out := map[string]json.RawMessage{}
	for _, v := range values {
		key, value, ok := strings.Cut(v, "=")
		if !ok || strings.HasPrefix(strings.TrimSpace(v), "{") {
			return v
		}
		if raw := json.RawMessage(value); json.Valid(raw) {
			out[key] = raw
			continue
		}
		quoted, _ := json.Marshal(value)
		out[key] = quoted
	}
	raw, _ := json.Marshal(out)
	return string(raw)
}

// one is the last value of a flag, "" when it is not given.
func (a *ServeArgs) one(flag string) string {
	v := a.Values[flag]
	if len(v) == 0 {
		return ""
	}
	return v[len(v)-1]
}

// typed fills the fields that judges ask for.
func (p *serveParser) typed() {
	a := p.a
	if m := a.one("--model"); m != "" {
		if a.Model == "" {
			a.Model = m
		}
		p.say("--model", ArgDeprecated, false, "write \"vllm serve MODEL\"", "the model is given as the first word; the server still takes --model and says that it will not for long")
	}
	a.ServedNames = a.Values["--served-model-name"]
	if n, ok := readInt("--tensor-parallel-size", a.one("--tensor-parallel-size")); ok {
		a.TensorParallel = n
	}
	a.MaxModelLen, _ = readInt("--max-model-len", a.one("--max-model-len"))
	def := ""
	if f, there := p.e.Flag("--gpu-memory-utilization"); there != Absent {
		def, _ = f.Default(p.e.Version)
	}
	a.GPUMemory, _ = strconv.ParseFloat(def, 64)
	if v := a.one("--gpu-memory-utilization"); v != "" {
		a.GPUMemoryGiven = true
		a.GPUMemory, _ = strconv.ParseFloat(v, 64)
	}
	if v := a.one("--kv-cache-dtype"); v != "" {
		a.KVCacheDtype = v
	}
	a.Quantization = a.one("--quantization")
	if v := a.one("--enable-prefix-caching"); v != "" {
		on := v == "true"
		a.PrefixCaching = &on
	}
	a.LanguageModelOnly = a.one("--language-model-only") == "true"
	a.AutoToolChoice = a.one("--enable-auto-tool-choice") == "true"
	a.ToolParser, a.ReasoningParser = a.one("--tool-call-parser"), a.one("--reasoning-parser")
	a.LinearBackend, a.MambaCacheMode = a.one("--linear-backend"), a.one("--mamba-cache-mode")
	if v := a.Values[specFlag]; len(v) > 0 {
		a.Spec = p.speculative(dotted(v))
	}
	p.shortForms()
}

// together judges arguments against each other and against what the server knows, without the model.
func (p *serveParser) together() {
	a := p.a
	if a.AutoToolChoice && a.ToolParser == "" {
		p.say("--enable-auto-tool-choice", ArgTogether, true, "name the model's parser with --tool-call-parser", "the server stops: \"--enable-auto-tool-choice requires --tool-call-parser\"")
	}
	if !a.AutoToolChoice && a.ToolParser != "" {
		p.say("--tool-call-parser", ArgTogether, false, "add --enable-auto-tool-choice", "without --enable-auto-tool-choice a request with tools and tool_choice \"auto\" is answered with an error")
	}
	p.parser("--tool-call-parser", a.ToolParser, "--tool-parser-plugin", toolParsers)
	p.parser("--reasoning-parser", a.ReasoningParser, "--reasoning-parser-plugin", reasoningParsers)
	if a.GPUMemoryGiven && !(a.GPUMemory > 0 && a.GPUMemory <= 1) {
		p.say("--gpu-memory-utilization", ArgValue, true, "write a share such as 0.9", "%v: want a share of the whole card, above 0 and at most 1", a.GPUMemory)
	}
	if a.TensorParallel < 1 {
		p.say("--tensor-parallel-size", ArgValue, true, "", "%d: want a whole number above 0", a.TensorParallel)
	}
	if q := a.Quantization; q != "" && q != "None" && !KnownMethod(q) {
		p.say("--quantization", ArgValue, true, "leave it out: the method is found in config.json", "%q is no method that the server knows (\"Unknown quantization method\")", q)
	}
	if a.one("--enable-log-outputs") == "true" && a.one("--enable-log-requests") != "true" {
		p.say("--enable-log-outputs", ArgTogether, true, "add --enable-log-requests", "the server stops: \"--enable-log-outputs requires --enable-log-requests\"")
	}
	if a.Spec != nil {
		p.drafting()
	}
}

func (p *serveParser) parser(flag, name, plugin string, known []string) {
	if name == "" || p.a.one(plugin) != "" || slices.Contains(known, name) {
		return
	}
	fix := "leave it out, or load it with " + plugin
	for _, k := range known {
		if distance(name, k, 2) <= 2 || strings.Contains(k, name) {
			fix = "did you mean " + k + "?"
			break
		}
	}
	p.say(flag, ArgValue, true, fix, "%q is no parser that the server has, and it stops", name)
}

// drafting is what SpeculativeConfig.__post_init__ makes of the arguments.
func (p *serveParser) drafting() {
	a, s := p.a, p.a.Spec
	if s.Method == "mtp" && s.Tokens == 0 && !s.badTokens && !slices.Contains(s.Keys, "num_speculative_tokens_per_batch_size") {
		p.say(specFlag, ArgSpec, true, `add "num_speculative_tokens": 1`, "num_speculative_tokens is missing: the count that config.json gives in text_config is not asked, and the server stops")
	}
	if s.Method == "mtp" && s.Tokens > 3 {
		p.say(specFlag, ArgSpec, false, "measure the acceptance at each position and draft no further than it pays", "num_speculative_tokens %d runs the one layer of the head %d times; late positions are accepted rarely", s.Tokens, s.Tokens)
	}
	if part, method := PathTrap(path.Clean(a.Model)); s.MTP() && part != "" {
		p.say(specFlag, ArgSpec, true, "serve the model from a path without that part", "the model's path has %q in it, by which the server takes the method %s instead of mtp", part, method)
	}
	if s.Model == "" && s.Tokens > 0 && slices.Contains([]string{"eagle", "eagle3", "medusa", "dflash", "mlp_speculator", "draft_model", ""}, s.Method) && s.Written == s.Method {
		p.say(specFlag, ArgSpec, true, `name the draft model, or write "method": "mtp"`, "num_speculative_tokens stands without a method that drafts by itself and without a model (\"num_speculative_tokens was provided but without speculative model\")")
	}
	if s.MTP() && a.PrefixCaching == nil {
		p.say("--enable-prefix-caching", ArgTogether, false, "say --no-enable-prefix-caching, or turn it on knowingly",
			"it is not said, and its default for hybrid models changed (%s); together with MTP it was reported to give wrong tokens without an error (vllm-project/vllm#53912, #54360)", p.prefixDefault())
	}
}

func (p *serveParser) prefixDefault() string {
	since, source := Since(HybridPrefixCaching)
	state := "off"
	if p.e.Has(HybridPrefixCaching) {
		state = "on"
	}
	return fmt.Sprintf("%s in %s; on since %s, %s", state, p.e, since, source)
}

// The names that the server registers (vLLM 017e9f4448, tool_parsers/__init__.py, reasoning/__init__.py).
var (
	toolParsers = strings.Fields(`dots deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4 cohere_command3 cohere_command4 ernie45 glm45 glm47 ling3 granite granite4
	hermes poolside_v1 hunyuan_a13b hy_v3 internlm jamba lfm2 kimi_k2 kimi_k3 granite-20b-fc llama3_json llama4_json llama4_pythonic longcat mimo minimax_m2 minimax_m3 minicpm5
	mistral olmo3 muse_glimmer openai phi4_mini_json pythonic qwen3_coder qwen3_xml seed_oss step3 step3p5 inkling xlam gigachat3 functiongemma gemma4 apertus`)
	reasoningParsers = strings.Fields(`deepseek_r1 deepseek_v3 deepseek_v4 poolside_v1 cohere_command3 cohere_command4 ernie45 gemma4 glm45 glm47 ling3 openai_gptoss
	granite holo2 hunyuan_a13b hy_v3 kimi_k2 kimi_k3 mimo minimax_m2 minimax_m2_append_think minimax_m3 mistral nemotron_v3 olmo3 muse_glimmer qwen3 seed_oss step3
	step3p5 inkling`)
)
