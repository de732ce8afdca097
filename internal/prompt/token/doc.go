// Package token turns text into token ids and back, as Hugging Face's tokenizers library does with a tokenizer.json of a
// byte-level BPE model: GPT-2, Llama 3, Qwen2 to Qwen3.8 and their kin.
//
// # Vocabulary
//
// An added token is cut out of the text before anything else, by its very spelling; a special one is left out when decoding
// for people. A piece is what the split expressions leave between added tokens; a merge joins two neighbouring symbols of a
// piece, the earliest-learned one first.
//
// # Order of calls
//
// [Load] once with the bytes of tokenizer.json and tokenizer_config.json, [Tokenizer.NewEncoder] for each goroutine,
// [Encoder.Encode] for each text. [Tokenizer.Decode] gives text back. [Tokenizer.FindAdded] tells which control tokens a
// text spells.
//
// # What is done, in this order
//
// Added tokens with normalized=false are found in the raw text, leftmost first, longest first (single_word, lstrip and
// rstrip as the library has them); the rest is NFC-normalized; added tokens with normalized=true are found; what remains is
// split and merged. Encode adds no special tokens, as apply_chat_template does: a template writes its own.
// [Encoder.EncodeDocument] adds what a TemplateProcessing post-processor asks for a single text (Llama's bos).
//
// The library's tables are older than Go's: its regular expressions know Unicode 16, its normalizer about Unicode 9.
// Code points that are newer count as unassigned here too (file unicode.go, measured on tokenizers 0.23.3, December 2026).
//
// # What it refuses, by name
//
// Model types other than BPE (Unigram, WordPiece, WordLevel), BPE that is not byte-level (byte_fallback, Metaspace: the
// SentencePiece family), dropout, prefixes and suffixes of subwords, normalizers other than NFC, pre-tokenizers other than
// Split, ByteLevel and Digits, post-processors other than ByteLevel and TemplateProcessing, a vocabulary that lacks one of
// the 256 byte symbols, and merges of tokens that are not in the vocabulary. Truncation and padding settings are read and
// not applied.
//
// # Concurrency
//
// A [Tokenizer] is never changed after Load. An [Encoder] holds a cache of words and belongs to one goroutine.
package token
