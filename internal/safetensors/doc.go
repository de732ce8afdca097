// Package safetensors reads checkpoint files without trusting them and writes them without a second pass.
//
// # The format
//
// A file is eight bytes of length (little-endian), a header of that many bytes, and the data. The header is one JSON
// object from tensor names to {"dtype": "BF16", "shape": [out, in], "data_offsets": [begin, end]}, offsets in bytes from
// the start of the data, and perhaps "__metadata__" from strings to strings. Tensors are row-major and little-endian, and
// they tile the data: no overlap, no hole, no rest (huggingface/safetensors, README, Format).
//
// # Vocabulary
//
// A shard is one file of a checkpoint. The index (model.safetensors.index.json) says which shard holds which tensor. A Set
// is the shards of one folder as the index, or the lack of one, binds them. A Problem is something wrong with a file or a
// set, with the id of the playbook rule that explains it: a caller turns Problems into findings. A Layout is the complete
// header of a file that does not exist yet.
//
// # Order of calls, reading
//
// OpenSet for a folder, or Open for one file; look at Problems; Lookup or Refs for the tensors; ReadAt for bytes by range;
// Close. Only headers are read until ReadAt is called. OpenSet fails only where nothing can be said: content that is
// broken becomes a Problem and the other shards are opened all the same, so that one run tells everything; what a
// truncated shard should hold is in Set.Lost.
//
//	s, err := safetensors.OpenSet(dir)
//	if err != nil { … }
//	defer s.Close()
//	for _, p := range s.Problems { … }
//	ref, ok := s.Lookup("lm_head.weight")
//	err = ref.ReadAt(rows, firstRow*rowBytes)
//
// # Order of calls, writing
//
// NewLayout from names, types and shapes: from then on every offset is known. Create reserves the whole file, so a full
// disk shows before hours of work. WriteAt from any number of goroutines in any order. Close syncs and refuses a file in
// which a byte is missing; Abort removes it. IndexBytes renders the index for several files. A layout of the tensors of a
// file that Python wrote is that file's header, byte for byte.
//
// # What it refuses to know
//
// It knows nothing of models: names are only names, a missing layer is nobody's business here. It does not look at
// values: NaN and Inf are legal, and numbers are never cast in place, so data may lie at any address. It knows no other
// format than to name it when it lies where weights should be (a Git LFS pointer, a web page, a zip archive).
//
// # What it does not trust
//
// No length, shape or offset is believed before it is checked against the size that the file really has: reading a header
// allocates at most HeaderMemory bytes for each byte of the file, and 64 KiB, whatever it says; a header has at most 100 MB, as
// upstream. Names in an index may not lead out of its folder. A FIFO or a device is refused before it is opened. Links
// are read through, but everything is named by the path it was found under, and no neighbour of a link's target is ever
// looked for. A file whose size changed since Open is not read any further.
//
// # Speed
//
// A header of 300,000 entries (41 MB) is read in 0.2 s on one core, so the JSON is scanned by hand: names are substrings of the
// header's text, which therefore stays in memory as long as a Tensor of it does.
//
// # Concurrency
//
// Open files and sets are read-only: every method but Close may be called from any goroutine, and each ReadAt is a pread of
// its own. A Writer takes WriteAt from any goroutine; it never writes a byte twice, so the order of calls cannot matter.
package safetensors
