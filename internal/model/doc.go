// Package model opens a checkpoint and understands it, from config.json, shard headers and the small files beside them.
//
// # Vocabulary
//
// The body is the fine-tune, the donor the base that still has the MTP head, a view the body with the donor's whole head
// laid over it; a view copies nothing. A family is a kind of model; one file per family (qwen3_5.go, qwen3_5_moe.go)
// holds everything that is particular to it, as tables of slots. A slot is one parameter of a part of the model: its
// path, role, shape, whether it is a Linear, and the server's fused spelling. From the same tables follow what a stored
// name is (Tensor) and what must be there (Expected), so absence shows even where an index agrees with itself.
//
// A Tensor keeps its Name as it stands on disk; Base is the parameter of the unquantized checkpoint that it stands for or
// beside: "….q_proj.weight" for ".weight", ".weight_packed", ".weight_scale" and the like. Tensor.Holds tells the one
// that carries the values. Fused is spelled as checkpoints spell names, not as the server's modules are called.
//
// # Order of calls
//
// Open a folder, or Open the body and OpenDonor the base and Overlay them. The result is complete: Tensors in natural
// order, Expected, the report on the Head, companion Files, and Findings. Report sums it up for inspect; ConfigJSON and
// Fingerprint serve those who write. Close ends it; a view and the models it was made of share their files.
//
// Findings judge files and structure as if the checkpoint were unquantized: names, absence, shapes, dtypes, the promises
// of config.json, and companions that are not what their names promise (a pointer, a web page, half a file, a tokenizer
// for another vocabulary). An error of Open is for what cannot be read at all; a configuration that says nothing usable is a
// *ConfigError, which knows its findings.
//
// # What it refuses to know
//
// It knows no engine and no dialect: how quantized tensors are spelled and shaped, which modules a quantization_config
// covers, and whether a version of a server would load it all is judged elsewhere. It never writes, and it reads no
// weights, with two small exceptions: the means of norms, to find a converted donor, and sampled rows of an lm_head.weight
// that is stored beside a tied embedding. Sizes in config.json are not believed beyond fixed limits, and nothing is
// allocated for them before they are checked.
//
// # Concurrency
//
// A Model does not change once it is returned. Any number of goroutines may read it and its tensors until Close.
package model
