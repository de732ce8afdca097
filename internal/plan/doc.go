// Package plan decides everything that will be done to a checkpoint, tensor by tensor, before a weight is read.
//
// # Vocabulary
//
// A Recipe is what the user asks: rules over roles or names, each with a scheme; the first rule that matches a weight
// decides, and a weight that no rule matches stays as it is. An Item is one source tensor and what becomes of it. A
// fused group is the Linears that the server builds as one module (q_proj, k_proj, v_proj are qkv_proj): they have one
// scheme or none, and in NVFP4 one global scale, because the server uses one for all of them (R22, R30). The routed experts
// of a layer have one scheme too, and a global scale per expert for gate and up. Statistics are the largest inputs that
// modules saw; the input scales of nvfp4-w4a4 and fp8-tensor come from them. A Shard is one output file. A protected role is
// one that stays as it is; lm_head and the layers of the head leave that state only when a rule asks for exactly that.
//
// # Order of calls
//
//	p, err := plan.Make(m, plan.Options{Recipe: "default"})
//	if playbook.Worst(p.Findings) == playbook.Error { … } // refused, and why
//	p.Text(os.Stderr, false)                              // for people
//	id := p.Hash()                                        // an unfinished output is resumed only under the same plan
//
// # Sources
//
// A weight is quantized straight from what the source stores. A kept F16 or F32 tensor becomes BF16 unless servers hold it
// in F32, a kept FP8 one is multiplied out; what the source's old configuration said is left behind. FP8 is read when it
// is the only quantization and every scale is understood by its shape, see dtypes.
//
// # Decisions
//
// Make takes a weight's choice from the first matching rule, then judges whole fused groups: a role rule that meets
// something the server cannot take (a width that is no multiple of 16, a partner that is absent or has another scheme)
// keeps the whole group and says so; an explicit name rule is refused instead, because somebody asked for exactly that.
// Then each unit that stores an input scale gets one from the statistics, or is taken back in the same way. Experts that the
// source stacks in one 3-D tensor become one item per expert and projection, because loaders ask for them one by one.
// Everything is a function of headers, recipe and options: neither the order of tensors nor the place of the files
// changes a byte of the plan.
//
// # What it refuses to know
//
// The values of weights, how a server matches names (the dialect renders and checks the configuration, the judge
// simulates the server), and how bytes get to the disk. It reads two files at most: a recipe and statistics, given by path.
//
// # Concurrency
//
// Make keeps no state and may be called from any goroutine; a Plan is not changed after Make returns.
package plan
