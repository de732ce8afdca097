// Package prompt turns a conversation into the text and the tokens that a server would make of it: a checkpoint's chat
// template and tokenizer, and the rows of data that go through them.
//
// # Vocabulary
//
// A row is one line of a data set: messages, tools, and what else the template is given. The wire form is what OpenAI-style
// clients send: a tool call's arguments are a JSON text inside a string. A chat template needs a mapping there, so arguments
// become ordered objects in one place, [Arguments]. A source of a template is chat_template.jinja, or the string or the list
// of named templates under chat_template in tokenizer_config.json.
//
// # Order of calls
//
// [Open] reads a checkpoint folder's template and tokenizer. [ParseRow] makes a [Row] of one line, with every problem in it;
// [Prompter.Render] gives the text as transformers' apply_chat_template gives it (special tokens of the tokenizer are
// variables of the template), [Prompter.Encode] the ids. [FindCalls] parses tool calls out of a rendered text again.
//
// # What it refuses to know
//
// It judges no data set and cites no rule: problems are named by a [Kind], and package dataset makes findings of them.
// Pictures and sounds are what the template makes of them; no processor expands them into patches. Errors of a render are
// package template's: raised, unknown, or over a limit.
//
// # Concurrency
//
// A [Prompter] may be used from any goroutine for rendering; each goroutine takes its own encoder from it.
package prompt
