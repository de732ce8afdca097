// Package ordered is a JSON value that forgets nothing: the keys of an object keep their order and a number keeps its
// spelling, from the wire to the chat template and back to a file.
//
// # Why
//
// Key order is data here. A chat template prints a tool's schema and a call's arguments in the order that they came in, so
// a map changes the tokens of most renders: with Go maps 237 of 443 reference renders differ, with ordered values 14.
// MCP's Go SDK sorts the keys of a schema (modelcontextprotocol/go-sdk#434), so a live schema that went through a map is
// not the schema that the model was trained on.
//
// # Vocabulary
//
// A [Value] is one JSON value, a [Member] one key with its value. Spelling is a number as it was written: 1.0, 1e3 and
// 100000000000000000000 stay what they are; what Python makes of them is the template's business.
//
// # Order of calls
//
// [Decode] reads one whole document; [Value.Get], [Value.Members] and [Value.Items] look inside; [Value.With] and
// [Value.Without] give changed copies; [Value.Append] writes it again.
//
// # What it refuses
//
// What is not JSON (RFC 8259), text after the document, nesting deeper than [MaxDepth], text that is not UTF-8, and a lone
// surrogate such as "\ud800": Python reads the last one and then cannot encode the prompt. NaN and Infinity, which Python's
// json reads, are refused too. Of a key that comes twice the last value stands at the first place, as in Python.
//
// # Concurrency
//
// Values are never changed after they are made; any number of goroutines may read one.
package ordered
