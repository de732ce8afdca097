package engine

// Setup is what decides whether a known bug of the server can bite. Zero values mean "not that I know".
type Setup struct {
	Method     string // quant_method as the server understands it
	NVFP4      bool
	W4A4       bool
	MoE        bool
	Hybrid     bool // linear attention beside full attention
	MTP        bool // the model's own head drafts
	Prefix     bool // prefix caching is on
	Logprobs   bool // requests ask for prompt_logprobs
	Sleep      bool // sleep mode is enabled
	TP         int64
	Capability int64 // 120 is sm_120
	Unaligned  bool  // some rank has a width that 32 does not divide
}

// Bug is a fault of the server itself that a right checkpoint can meet.
type Bug struct {
	ID    string // "vllm-project/vllm#53912"
	What  string
	Fix   string
	State string // as the thread stood when it was read, 2026-12-01
	Rule  string // playbook rule that catches it in the checkpoint, "" where only the setup decides

	since, until Version // until is exclusive; zero is open
	bites        func(Setup) bool
}

// bugs are the rows that were read in the server's own threads. A bug with a rule is judged by that rule, not here.
var bugs = []Bug{
	{ID: "vllm-project/vllm#53912", State: "open", What: "prefix caching together with MTP on models with linear attention gives wrong tokens, with status 200", Fix: "--no-enable-prefix-caching",
		bites: func(s Setup) bool { return s.MTP && s.Prefix && s.Hybrid }},
	{ID: "vllm-project/vllm#54360", State: "open", What: "speculation makes every prefix-cache lookup of such models miss (it worked in 0.24)", Fix: "measure the hit rate before you count on it", since: Version{0, 25},
		bites: func(s Setup) bool { return s.MTP && s.Prefix && s.Hybrid }},
	{ID: "vllm-project/vllm#53488", State: "open", What: "prompt_logprobs of some requests are wrong under MTP", Fix: "evaluate without --speculative-config",
		bites: func(s Setup) bool { return s.MTP && s.Logprobs }},
	{ID: "vllm-project/vllm#52479", State: "open", What: "after sleep level 2 the drafter's weights are not loaded again: acceptance 0, without a word", Fix: "use sleep level 1 only",
		bites: func(s Setup) bool { return s.MTP && s.Sleep }},
	{ID: "vllm-project/vllm#48330", State: "fixed in 0.25.1", What: "over several ranks the fusion of all-reduce, norm and quantization corrupts NVFP4 models whose norms differ in type (\"!!!!\")", Fix: "0.25.1 or later", until: Version{0, 26},
		bites: func(s Setup) bool { return s.NVFP4 && s.TP > 1 }},
	{ID: "vllm-project/vllm#48898", State: "open", What: "a width per rank that 32 does not divide gives garbage with FP4 activations on sm_120", Fix: "fewer ranks, or nvfp4-w4a16",
		bites: func(s Setup) bool { return s.W4A4 && s.Unaligned && s.Capability >= 120 }},
	{ID: "vllm-project/vllm#52480", State: "open, cause not established", What: "the drafter of Qwen3.5 failed to load over two ranks on cards before sm_89", Fix: "one rank, or a later card; try it before the seat is moved",
		bites: func(s Setup) bool { return s.MTP && s.TP > 1 && s.Capability > 0 && s.Capability < 89 }},
	{ID: "vllm-project/vllm#49070", State: "open, not shown for Qwen", What: "NVFP4 experts through Marlin on sm_90 gave garbage (seen with a MiniMax model)", Fix: "compare answers with the unquantized model",
		bites: func(s Setup) bool { return s.NVFP4 && s.MoE && s.Capability == 90 }},
	{ID: "vllm-project/vllm#55397", State: "open", What: "sm_12x may pick a weight-only kernel for W4A4: slower, not wrong", Fix: "look at the kernel that the log names",
		bites: func(s Setup) bool { return s.W4A4 && s.Capability >= 120 }},
	{ID: "vllm-project/vllm#47215", State: "closed", What: "mixed modelopt blocks with W4A16 did not load in older builds", Fix: "0.24 or later", until: Version{0, 24},
		bites: func(s Setup) bool { return s.Method == ModelOptMixed }},
	{ID: "vllm-project/vllm#53887", State: "open", What: "while it loads, the drafter holds two more matrices of the size of the vocabulary in BF16", Fix: "leave room for them on tight cards"},
	{ID: "vllm-project/vllm#47445", State: "fixed 2026-07-08", What: "builds since 2026-06-29 read modules that quantized_layers does not list as their neighbours", Fix: "0.26 or later", Rule: "modelopt-since", since: Version{0, 25}, until: Version{0, 26}},
	{ID: "vllm-project/vllm#53387", State: "open", What: "compressed-tensors: an unquantized mtp.fc that no entry covers stops the server", Fix: "ignore mtp.fc", Rule: "head-not-ignored"},
	{ID: "vllm-project/vllm#41994", State: "open", What: "compressed-tensors: unquantized experts of the head that no entry covers stop the server", Fix: "ignore them by the names of expert 0", Rule: "head-not-ignored"},
	{ID: "vllm-project/vllm#54304", State: "open", What: "a quantized embedding does not load", Fix: "keep it", Rule: "protected-quantized"},
	{ID: "vllm-project/vllm#40252", State: "closed", What: "entries that match nothing left linear attention quantized to the server and unquantized on disk", Fix: "names as the server asks them", Rule: "ignore-dead"},
}

// Bugs lists what is known of a version; those of which the setup decides, and those that a rule judges.
func (e Engine) Bugs() []Bug {
	if e.Server != vllm {
		return nil
	}
	var out []Bug
	for _, b := range bugs {
		if !e.Version.Less(b.since) && (b.until == (Version{}) || e.Version.Less(b.until)) {
			out = append(out, b)
		}
	}
	return out
}

// Bites lists the bugs of a version that this setup can meet and that no rule looks for in the checkpoint.
func (e Engine) Bites(s Setup) []Bug {
	var out []Bug
	for _, b := range e.Bugs() {
		if b.bites != nil && b.bites(s) {
			out = append(out, b)
		}
	}
	return out
}
