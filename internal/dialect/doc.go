// Package dialect knows how quantized tensors are spelled on disk, and how to read them back.
//
// # Vocabulary
//
// A Scheme says how a weight is stored (nvfp4-w4a16, fp8-channel …), whatever the file format calls it. A Dialect is one
// spelling of all schemes: the names, dtypes and shapes of the tensors that a weight becomes, and the
// quantization_config that tells a server which module has which scheme. compressed-tensors and modelopt share codes and
// block scales byte for byte; names differ, and the global scale of one is the reciprocal of the other's. A Module is a Linear of the model, named as in
// the checkpoint without ".weight"; its fused name is the one module that a server builds from several of them
// (q_proj, k_proj and v_proj become qkv_proj).
//
// # Order of calls
//
//	d, err := dialect.Parse("compressed-tensors")
//	err = d.Servable(scheme)                      // can it be spelled, and would a server take it?
//	outputs, err := d.Spell(name, scheme, math, shape)
//	config, err := d.Config(modules)              // all Linears of the model, kept ones too
//	files, err := d.Made(modules)                 // what stands beside config.json: hf_quant_config.json of modelopt
//	stored := d.GlobalScale(coded)                // when the bytes are written
//	input, err := d.InputScale(scheme, math, amax) // of the activations, for nvfp4-w4a4 and fp8-tensor
//	err = d.Decode(dst, module, scheme, in, row0, rows, read) // when they are read back
//
// # What it refuses to know
//
// Which weight gets which scheme (plan decides), how numbers are rounded (numeric), where bytes lie (safetensors). It
// holds one page of a server's knowledge, the prefix rules that turn checkpoint names into run-time names, because a
// configuration that selects the wrong modules is worse than none: Config checks its own targets and ignore list in both
// spellings and refuses to return one that does not select exactly what was meant. The judge of a finished checkpoint
// does not use that check; it simulates the server from its own code.
//
// # Concurrency
//
// Dialects hold no state; every method may be called from any goroutine.
package dialect
