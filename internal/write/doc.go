// Package write carries out a plan: it reads the source once or twice, tile by tile, codes what the plan says, and
// publishes a whole checkpoint folder or nothing at all. It decides nothing; every choice is in the plan.
//
// # Words
//
// A tile is a stretch of a source tensor that one worker holds in memory at a time. A unit is what can be coded on its
// own: one kept tensor, one FP8 tensor, or all members of an NVFP4 group, which share one global scale. A unit is
// scanned (the largest absolute value, and whether everything is finite) before it is coded, so its source bytes are
// read twice, the second time from the page cache. Kept tensors, and FP8 tensors with one scale per row, need one pass.
// A kept tensor is looked at too while it is copied: a NaN or Inf anywhere refuses the shard.
//
// What an item's Action says is done as it stands there: Keep copies bytes (under another name or shape, maybe), Cast
// rounds F32 and F16 to BF16 and counts what changed, Widen multiplies FP8 by its scale and rounds to BF16, Quantize codes,
// Reciprocal stores one number's reciprocal, or the native number that the record keeps. An item may take a stretch of a
// tensor: one expert of many. A source that is not BF16 is seen as float32, F16 and scaled FP8 being widened into a
// buffer of the worker tile by tile; nothing is rounded to BF16 before it is coded.
//
// The unfinished folder stands beside the output under the output's name with ".partial" appended. The journal inside
// it has one line for the plan and one per finished shard.
//
// # The order of things
//
//  1. The plan is checked against the view: every tensor there, every element of it taken once or said to be left out,
//     every output the right size, every name safe. The companion files are looked at. Nothing is on disk yet.
//  2. The unfinished folder is made, or the one of a killed run is taken over: locked, its journal read, each shard
//     in it hashed again and kept if it is still what the journal says.
//  3. Each other shard is laid out, created under a temporary name at its whole size, and filled by the workers. Then
//     it is synced, dropped from the page cache, READ AGAIN, compared tile by tile with what was produced, hashed,
//     renamed, and journalled. This second half of one shard runs while the first half of the next one does.
//  4. Companions are copied through links, the plan's own small files, config.json and the index are written, and last the provenance with the
//     hash of every other file. The journal is removed and the folder appears under its final name, in one rename.
//
// A run that stops anywhere, killed or refused, leaves nothing under the final name. The next run with the same plan
// goes on from the journal and ends with the same bytes.
//
// # What it refuses to know
//
// Roles, recipes, name patterns and configuration keys: they are the planner's. How tensors are spelled: the
// dialect's. Whether the result is good: it re-reads what it wrote to catch a disk that lies, and leaves judging to
// package verify, which shares no code with it.
//
// # Concurrency and memory
//
// Workers take tiles from one queue. A tile's output depends on the tile and on its unit's scale only, and the scale
// is a maximum, so neither the number of workers nor the size of tiles can change a byte. All buffers together stay
// within 256 MiB, whatever the size of a tensor or of one of its rows. Run may be called from several goroutines for
// different outputs; a second run for the same output is refused by the lock, in the same process too.
package write
