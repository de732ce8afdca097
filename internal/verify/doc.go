// Package verify is the judge of finished folders: would the server load this checkpoint, would its head draft, is it
// whole, and is it still the model that it was made from?
//
// # Purpose
//
// Every failure in this chain is silent: a dropped head serves and never accelerates, a missing scale is uninitialised
// memory, a wrong ignore entry gives garbage under HTTP 200. So the judge trusts nobody. It reads the written files, not
// the plan; it decides as the server's loader would, through package engine, which shares no code with the planner or the
// writer; and with the source at hand it compares every byte and decodes every quantized weight. What it could not look
// at stands in NotChecked and keeps the verdict from being "ok" when it matters: good means good.
//
// # Vocabulary
//
//   - report: verdict, findings, what was not checked, and the error per role; it is printed as JSON and kept in a run.
//   - stored kind: how the shards of a module are spelled on disk (plain, NVFP4, FP8 …), whatever config.json says.
//   - resolution: what config.json says about the module, as the engine resolves it. Kind and resolution must agree.
//   - cause: an accident that explains others (a head that is not ignored explains its "missing" packed tensors). One
//     accident gives one finding: consequences are left out, repeats are joined with their number and the first names.
//     Only an error takes the place of another finding, and only of one about the same tensor, module or file (told.go).
//   - told: said by an error already.
//   - exact, wide: how quantized numbers are held against the source. A folder with our own record and no search is coded
//     again and compared byte for byte (exact.go); what other tools made is held to bounds that searches and error
//     compensation keep (wide.go).
//   - unjudged: nothing is known to be wrong, and something that matters could not be looked at; that is not good.
//   - unread: the loader of the class was not read, and that is all that is unjudged.
//   - tile: some rows of a tensor; data is compared tile by tile, so memory stays bounded whatever the tensor.
//
// # Order of calls
//
//	view, _ := model.Open(body)                           // and model.Overlay for a donor's head
//	before := verify.Source(view)                         // headers only, before anything is planned
//	after, err := verify.Checkpoint(ctx, dir, verify.Options{Source: view})
//	any, err := verify.Doctor(ctx, dir, verify.Options{Host: verify.Host{GPU: "sm_120", TP: 2}, Serve: commands})
//
// Checkpoint goes through files and structure (package model's findings), the quantization block, the server's modules,
// the source itself (is it one, and whole?), the record and what it claims, the values of every scale, the tensors against
// the source in both directions, the values of kept tensors, config.json and companions against the source's, and last the
// recorded hashes. An error is for what could not be read (exit code 3); whatever can be named is a finding.
//
// Doctor is the part that needs neither source nor record: headers, the server's modules and the values of scales, together
// with the card, the ranks and the commands (ParseServe, ReadCompose) that are to serve the checkpoint. SARIF renders a report
// for code hosts.
//
// # What it refuses to know
//
// It never imports plan or write. It does not know what was asked for, only what a folder is. It judges both dialects,
// compressed-tensors and modelopt; a checkpoint in another is reported with what was not checked. It runs no forward pass.
//
// # Concurrency
//
// Checkpoint reads with Options.Workers goroutines and joins them before it returns. Results are put together in the
// order of the tensors, so a report does not depend on the number of workers. Progress is called from one goroutine at a
// time.
package verify
