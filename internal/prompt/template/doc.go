// Package template renders chat templates as Hugging Face's transformers renders them with Python's Jinja2, byte for byte,
// raises where Python raises, and never runs away.
//
// # Why an interpreter of our own
//
// The reference is Jinja2 3.1.6's ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks, loopcontrols, the
// {% generation %} tag, tojson without HTML or ASCII escapes, raise_exception and strftime_now (transformers,
// utils/chat_template_utils.py). Of 456 renders of 78 public templates this package gives 456 identical ones, and it raises
// in all 90 where Python raises; of 70,000 random templates none renders to other bytes. github.com/ardanlabs/jinja v1.12.0, the nearest Go library, renders on through 50 of those
// 90, dies with a stack overflow in 18 more (a Go process cannot recover from that), and strips one blank too many before
// {%- after an output; it is kept as a second opinion, in a process of its own: see package prompt/peer.
//
// # Vocabulary
//
// A render ends in text, or in one of three errors. [Raised]: Python would raise, with this class and message. [Unknown]:
// the template does something whose result in Python is not known here (a filter that is not built, an object's address, a
// random number). [Limit]: a bound was passed. "Could not know" is never a render.
//
// # Order of calls
//
// [Parse] once, then [Template.Render] for each conversation. Values come in as package ordered's, so keys keep their order;
// integers stay exact and every other number is the float64 that Python's json.loads makes, so 1.50 prints as 1.5 there and
// here. [Output.Spans] are what {% generation %} marks.
//
// # Why a hostile template is harmless
//
// There is nothing to reach: no file, no network, no environment, no reflection; include, import and extends raise as they
// do in an environment without a loader; attributes are a fixed list, and what Jinja2's sandbox calls unsafe is undefined
// with its SecurityError. Steps, bytes of text, nested calls, integer sizes, ranges and nesting are bounded ([Limits]),
// so every render ends.
//
// # What it refuses to know
//
// The filters filesizeformat, pprint, random, striptags, urlencode, urlize, wordwrap and xmlattr, format specs inside
// str.format, autoescape, slices of literals that have none ({{ 1[2:] }} is empty in Jinja2, which folds it, and raises
// here), case changes of characters that become several (ß), sums of many floats (Python 3.12 compensates
// them): each is an error.
//
// # Concurrency
//
// A [Template] is never changed after Parse; any number of goroutines may render it.
package template
