// Package tools captures the live schemas of an agent's tools, from the place that serves them, as the OpenAI tools array
// that a request carries.
//
// # Why live
//
// A calibration set shows the model its tools as the chat template prints them: every key, in its order, is tokens. A copy of
// the schemas goes stale with the next deployment, and nobody notices. So they are taken from the running server, or from
// the deployed source run by its own interpreter, and a copy that is kept is compared ([Compare]).
//
// # Vocabulary
//
// A [Tool] is one element of the array, {"type":"function","function":{"name","description","parameters"}}, as an ordered
// value: key order and number spelling are those of the source. A [Capture] is what one source gave: tools in the order
// that it gave them, and what must be known about how they were got. To derive is to make a schema from a Python
// signature, which is a guess at what the backend's own code would make, so it is always said. A stub is a module that
// stands in for a dependency that the interpreter lacks.
//
// # Order of calls
//
// [MCP], [HTTP] or [Python] captures; [Capture.Prefix] and [Capture.Sort] change names and order; [Capture.Judge] says whether
// it is a tools array that a server takes; [Encode] spells it, [Read] reads one back, [Compare] holds two against each other.
//
// # What it refuses
//
// A list that is not whole: a page that is missing, a limit that was met, a server that died half way. Such an error is never a
// short list. Redirects to another host, which would carry the caller's headers there. Sources without an end: every one
// has a time limit, a size limit and a limit on pages. It does not call a tool, does not start a server of the source
// tree, and writes nothing into the tree.
//
// A source tree is trusted as far as its owner trusts it: its code runs as the user who captures. What an MCP command or a Python
// tree starts is ended with it, as one process group (on Linux; elsewhere only the process itself).
//
// # Concurrency
//
// Functions share nothing; a Capture belongs to one goroutine.
package tools
