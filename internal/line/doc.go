// Package line is the main job from end to end: a fine-tune that lost its head in, a verified NVFP4 checkpoint out.
//
// # Vocabulary
//
// A Job is what the user asks, as job.yaml or as flags: body (the fine-tune), donor (the base that still has the head),
// output, recipe and bounds. The run is the folder OUT.run/ beside an output: job.yaml, plan.json, events.jsonl and
// verify.json, and diff.json where the fine-tune was compared, each with "schema": 1, so that what was done can be read long
// after the terminal is gone.
//
// # Order of calls
//
// Open lays the donor over the body as a view; no byte is copied. Prepare judges the view and plans. Forge does the whole
// line: view, judgement, plan, the fine-tune held against its base, write, and, while the whole folder still has its
// unfinished name, verify, bounds, card and sums; only what passes is published. Quantize publishes without verifying. Apply
// does the same as Forge for a Change (graft, splice, convert), in which no weight is coded. Each step's findings are
// collected in the Outcome; the first step that has an error finding ends the line.
//
// # What it refuses to know
//
// It decides nothing about tensors (plan does), spells nothing (dialect), writes no weight (write) and judges nothing
// itself but the job's own bounds; it never prints: progress and events go through the Reporter that the caller gives.
//
// # Concurrency
//
// A Forge is one call; it runs its own workers below. Two of them on one output are kept apart by write's lock. The
// Reporter's functions are called from one goroutine at a time.
package line
