// Package repair writes a repaired copy of a checkpoint, with repairs that change no weight.
//
// # Purpose
//
// Many checkpoints fail for one line of config.json or one wrong index, while all their weights are right. The judge
// (package verify) says what is wrong and may not write; this package mends what the stored tensors leave no doubt about,
// in a new folder, and leaves it to the judge whether that was enough.
//
// # Vocabulary
//
//   - safe: the tensors that are there decide it. A lost scale, a half quantized group or a stranger's head are not
//     repaired here, nor is anything that a person would have to choose.
//   - leftover: a shard that the index does not name. A stale copy is left out; a shard with tensors of its own belongs
//     into the index.
//
// # Order of calls
//
//	done, err := repair.Run(ctx, "quant", "fixed", verify.Options{})
//	after, err := verify.Doctor(ctx, done.Dir, verify.Options{}) // when done.Repairs is not empty
//
// # What it refuses to know
//
// It plans nothing and quantizes nothing. Records of the old bytes (seatsmith.json, SHA256SUMS) are not carried over: they
// would be wrong. The folder that is repaired is only read.
//
// # Concurrency
//
// One call works alone; two calls may run side by side on different outputs.
package repair
