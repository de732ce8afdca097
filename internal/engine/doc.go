// Package engine is the server, simulated: what a named version of vLLM would make of a checkpoint's config.json, its
// quantization block and the names, dtypes and shapes of its tensors, without running it.
//
// # Purpose
//
// The server's loader is strict in some places (an unknown name stops it), silent in others (a missing tensor of a
// quantized checkpoint stays uninitialised memory), and matches names in its own way. Whoever judges a finished
// checkpoint must decide as that loader would. This package therefore shares no code with the planner that lists the
// names or with the writer that spells them: it reads config.json itself, computes every shape itself, and re-implements
// the matching from the server's source, so an error in one of them cannot hide in the other.
//
// # Vocabulary
//
//   - engine: a server and a version, "vllm@0.28"; Parse reads one, Default is the newest whose source was read.
//   - fact: a behaviour that changed between versions; version.go lists them with since and until, Engine.Has asks.
//   - checkpoint name: how a tensor is called on disk ("model.language_model.layers.3.self_attn.q_proj.weight");
//     runtime name: how the server calls the module that receives it ("language_model.model.layers.3.self_attn.qkv_proj").
//     Mapper carries one to the other.
//   - linear: a runtime module that is built with the quantization config; its shards are the checkpoint modules that
//     fill it, in the server's order (q, k and v fill qkv_proj).
//   - drafter: the MTP head as a second model, with prefixes of its own (mtp.fc, mtp.layers.0…, lm_head).
//   - scheme: what the server recognises in a group's arguments (NVFP4, FP8 …) and so which tensors it registers.
//   - resolution: what the quantization config says about one linear: ignored, a scheme, refused, or unknown.
//
// # Order of calls
//
//	e, _ := engine.Parse("vllm@0.28")
//	q, problems, err := engine.ReadQuantization(configJSON)
//	srv, err := engine.Build(e, configJSON, withDrafter)
//	for i := range srv.Linears {
//		r := srv.Resolve(q, &srv.Linears[i]) // ignored? which scheme? refused?
//		needs := r.Scheme.Tensors(shard)     // exact names, dtypes and shapes
//	}
//	place := srv.Place("model.language_model.layers.0.mlp.gate_proj.weight_packed")
//
// # What it refuses to know
//
// It opens no file and reads no tensor. It knows the Qwen3.5 family (dense and mixture of experts, wrapped and text-only)
// and the compressed-tensors dialect; ReadQuantization names other dialects and leaves them unjudged. A Python pattern
// that Go's regexp cannot run with the same meaning is answered with No where even a wider pattern matches nothing, and
// with Unknown elsewhere, never with yes; Bound.Possible then lists what the block may say about a module. Of config.json's
// other values, Server.Values judges those that the server stops at or computes otherwise with.
//
// # Concurrency
//
// A Server and a Quantization are read-only after they were made, except for the cache of compiled patterns, which is
// filled when a Quantization is read: every method may be called from any goroutine.
package engine
