package engine

import (
	"regexp"
	"strconv"
	"strings"
)

// LogText is a line that the server writes or stops with, and what it means for the checkpoint.
type LogText struct {
	Text    string // a part of the line
	Fatal   bool   // the server stops
	Meaning string
	Rule    string // playbook rule that judges its cause, "" for none
}

// logTexts are texts of vLLM 017e9f4448 (model_executor/models/utils.py, layers/linear.py, layers/quantization,
// config/model.py, config/speculative.py, kernels/linear, v1/worker/utils.py), and two older ones.
var logTexts = []LogText{
	{"There is no module or parameter named", true, "a tensor is stored that the class does not build, or builds otherwise quantized", "tensor-unexpected"},
	{"not found in params_dict, skip loading", false, "before 0.25: a tensor was skipped, and the module that it was meant for stays uninitialised", "tensor-unexpected"},
	{"Following weights were not initialized from checkpoint", true, "tensors that the class needs are not stored", "tensor-missing"},
	{"weights missing from checkpoint", true, "the head that config.json promises is not stored, or not whole", "head-missing"},
	{"Detected some but not all shards of", true, "the exclusions cover only a part of a fused module", "fused-partial"},
	{"Mixed quant_algo within fused layer", true, "quantized_layers gives the parts of a fused module different algorithms", "fused-partial"},
	{"Found a different quantization schemes", true, "the parts of a fused module resolve to different schemes", "fused-partial"},
	{"No compressed-tensors compatible scheme", true, "a group's arguments or format are none that the server knows", "config-args"},
	{"Unknown ModelOpt quant algo", true, "the algorithm needs the flat form in config.json", "config-args"},
	{"MIXED_PRECISION quant_algo requires a non-empty", true, "quantized_layers is missing", "config-args"},
	{"Missing 'quant_algo' in quantization config", true, "the modelopt block names no algorithm", "config-args"},
	{"Unknown quantization method", true, "quant_method is empty or unknown", "quant-method"},
	{"does not match the quantization method specified in the `quantization` argument", true, "--quantization contradicts config.json", "serve-quantization"},
	{"in features size is not multiple of 16", true, "the width of a rank is no multiple of 16", "width-group"},
	{"is not divisible by tile_n_size", true, "a module is quantized whose height no kernel takes, such as the vision tower's", "width-kernel"},
	{"Forced NVFP4 kernel MarlinNvFp4LinearKernel is not supported", true, "there is no weight-only NVFP4 kernel on this platform", "gpu-unfit"},
	{"Failed to find a kernel that can implement the NVFP4 linear layer", true, "there is no NVFP4 kernel on this platform", "gpu-unfit"},
	{"does not have native support for FP4 computation", false, "weights are decoded on the way; it is said on every card for W4A16 and says nothing about the card", "scheme-gpus"},
	{"w1_weight_scale_2 must match w3_weight_scale_2", false, "gate and up of an expert have different global scales: up is decoded with gate's", "fused-scale"},
	{"Model architectures", true, "architectures[0] is no class of this version", "arch-unknown"},
	{"Invalid model_type", true, "the text model's model_type is none that the class knows", "arch-unknown"},
	{"Invalid layer_type", true, "an entry of layer_types is none that the class knows", "arch-unknown"},
	{"is deprecated and replaced with mtp", false, "the method's old name", "serve-args"},
	{"--enable-auto-tool-choice requires --tool-call-parser", true, "the two flags belong together", "serve-args"},
	{"unrecognized arguments", true, "a flag that this version does not have", "serve-args"},
	{"num_speculative_tokens was provided but without speculative model", true, "the method drafts with another model, and none is named", "serve-args"},
	{"is less than desired GPU memory utilization", true, "the share of the whole card that is asked for is more than what is free now", ""},
	{"Tokenizer class TokenizersBackend does not exist", true, "transformers 4 reads a tokenizer that transformers 5 saved", "tokenizer-class"},
	{"Mamba cache mode is set to 'align'", false, "prefix caching is on for a model with linear attention", ""},
}

// LogTexts lists them.
func LogTexts() []LogText { return logTexts }

// Explain finds what a log says about the checkpoint: each known text once, in the order of the lines.
func Explain(log string) []LogText {
	var out []LogText
	seen := map[string]bool{}
	for line := range strings.Lines(log) {
		for _, t := range logTexts {
			if !seen[t.Text] && strings.Contains(line, t.Text) {
				seen[t.Text] = true
				out = append(out, t)
			}
		}
	}
	return out
}

// Metric is a name of /metrics (v1/spec_decode/metrics.py, v1/metrics/loggers.py). Counters are served with "_total"
// behind the name; labels are model_name and engine.
type Metric struct {
	Name  string
	Kind  string // "counter", "gauge", "histogram"
	Unit  string
	Means string
	Spec  bool // there only with speculation
}

// Metrics lists the names that judges of a running server read.
func Metrics() []Metric {
	return []Metric{
		{"vllm:spec_decode_num_drafts", "counter", "drafts", "draft steps", true},
		{"vllm:spec_decode_num_draft_tokens", "counter", "tokens", "drafted", true},
		{"vllm:spec_decode_num_accepted_tokens", "counter", "tokens", "drafted and accepted", true},
		{"vllm:spec_decode_num_accepted_tokens_per_pos", "counter", "tokens", "accepted, by the label position from 0", true},
		{"vllm:prefix_cache_queries", "counter", "tokens", "looked up", false},
		{"vllm:prefix_cache_hits", "counter", "tokens", "found", false},
		{"vllm:prompt_tokens", "counter", "tokens", "of prompts", false},
		{"vllm:prompt_tokens_cached", "counter", "tokens", "of prompts, from the cache", false},
		{"vllm:generation_tokens", "counter", "tokens", "generated", false},
		{"vllm:e2e_request_latency_seconds", "histogram", "seconds", "of whole requests", false},
		{"vllm:time_to_first_token_seconds", "histogram", "seconds", "until the first token", false},
		{"vllm:inter_token_latency_seconds", "histogram", "seconds", "between tokens", false},
		{"vllm:request_time_per_output_token_seconds", "histogram", "seconds", "per generated token of a request", false},
		{"vllm:request_prefill_time_seconds", "histogram", "seconds", "of prefill", false},
		{"vllm:request_decode_time_seconds", "histogram", "seconds", "of decoding", false},
		{"vllm:kv_cache_usage_perc", "gauge", "share", "of the key/value cache in use, 1 is full", false},
		{"vllm:num_requests_running", "gauge", "requests", "running", false},
		{"vllm:num_requests_waiting", "gauge", "requests", "waiting", false},
	}
}

// SpecLine is one "SpecDecoding metrics" line of the log; it covers the time since the line before.
type SpecLine struct {
	MeanLength        float64 // 1 + accepted/drafts; 1 is a head that nothing is accepted of
	Accepted, Drafted int64   // tokens
	PerPosition       []float64
	AcceptanceRate    float64 // share, 0 to 1
	NothingWasDrafted bool    // the server writes nan
}

var specLine = regexp.MustCompile(`SpecDecoding metrics: Mean acceptance length: ([0-9.]+|nan), Accepted throughput: \S+ tokens/s, Drafted throughput: \S+ tokens/s, Accepted: ([0-9]+) tokens, Drafted: ([0-9]+) tokens, Per-position acceptance rate: ([0-9., ]*|nan), Avg Draft acceptance rate: ([0-9.]+|nan)%`)

// ReadSpecLine reads such a line; ok is false for any other.
func ReadSpecLine(line string) (s SpecLine, ok bool) {
	m := specLine.FindStringSubmatch(line)
	if m == nil {
		return s, false
	}
	s.NothingWasDrafted = m[1] == "nan" || m[3] == "0"
	if s.NothingWasDrafted {
		return s, true
	}
	s.MeanLength, _ = strconv.ParseFloat(m[1], 64)
	s.Accepted, _ = strconv.ParseInt(m[2], 10, 64)
	s.Drafted, _ = strconv.ParseInt(m[3], 10, 64)
	for p := range strings.SplitSeq(m[4], ",") {
		if v, err := strconv.ParseFloat(strings.TrimSpace(p), 64); err == nil {
			s.PerPosition = append(s.PerPosition, v)
		}
	}
	rate, _ := strconv.ParseFloat(m[5], 64)
	s.AcceptanceRate = rate / 100
	return s, true
}
