// Package diff holds a fine-tune against the base that it was made from and says, role by role, what the training changed.
//
// The accident it looks for is silent: a merge that merged nothing, or not the experts, prints "success", loads, answers
// fluently, and is the base (unsloth#5410, unsloth-zoo#647, #779, #812, tinker-cookbook#554).
//
// # Vocabulary
//
// The body is the fine-tune, the base what it was made from. A parameter is what has one name in the unquantized
// checkpoint; a unit is a part of it that is compared by itself: one projection of one expert of a 3-D tensor, else the
// whole parameter. A kind is a parameter's name with its layer and expert numbers taken out ("layers.N.mlp.up_proj"). A
// parameter is identical (every value equal), changed, missing (the base has it) or added (the body has it); recast when
// the element types differ, incomparable when one side is stored quantized and the other is not. Relative change is the
// Frobenius norm of body minus base over that of the base; minimum, median and maximum are over the changed parameters
// of a role.
//
// # Order of calls
//
// Run pairs the tensors (pair.go, names.go), streams both sides (stream.go), judges what was seen (judge.go, experts.go)
// and compares the small files (files.go, tokenizer.go, config.go). Names are compared without the prefixes that classes
// and adapters put before them, so a flat text-only body meets its wrapped base; experts that one side stores in one 3-D
// tensor and the other one by one are mapped (names.go).
//
// # The rule of the untouched role
//
// Which roles should have changed cannot be read from a file, only suggested by the rest; judge.go has the table with its
// reasons. In short: experts untouched beside anything trained are an error; another role of Linears is an error when
// norms, convolutions or state changed too, since no adapter touches those and whoever trained them trained everything;
// else it is a warning, because a LoRA on attention alone and an edit of few directions look exactly like that. Who
// knows what was trained says so (Options.Trained), and then only that is the question. Where neither side's architecture is
// known, roles are guessed from names, and the report says so.
//
// # What it refuses to know
//
// Nothing of servers: whether the body would load is doctor's matter. It does not say whether a fine-tune is good, only
// that it is there. It reads, and writes nothing. Quantized weights are compared byte for byte with equally quantized
// ones and otherwise not at all, which the report says.
//
// # Concurrency
//
// Run uses Options.Workers goroutines, each with two buffers of 1 MiB to 4 MiB; sums are added in a fixed order, so the
// report does not depend on their number. The models are only read.
package diff
