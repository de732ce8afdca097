package prompt

import (
	"fmt"

	"seatsmith/internal/prompt/ordered"
)

// Kind names what can be wrong with a row.
type Kind string

const (
	RowSyntax       Kind = "row-syntax"       // not a JSON object
	RowShape        Kind = "row-shape"        // not a conversation
	ArgumentsBroken Kind = "arguments-broken" // a text that is not JSON
	ArgumentsEmpty  Kind = "arguments-empty"
	ArgumentsTwice  Kind = "arguments-twice" // encoded twice
	ArgumentsNull   Kind = "arguments-null"
	ArgumentsKind   Kind = "arguments-kind" // an array, a number, a string, a boolean
)

// Problem is one thing that is wrong with a row.
type Problem struct {
	Kind    Kind
	Where   string // messages[3].tool_calls[0] …
	Message string
}

// Row is a conversation with its tools, ready for a template.
type Row struct {
	Messages []ordered.Value
	Tools    []ordered.Value
	Vars     []ordered.Member // what else the row passes to the template: chat_template_kwargs, documents
	Decoded  int              // calls whose arguments came as a text
}

// ParseRow reads one line of a data set. It names every problem; a row with one must not be rendered. Keys of the row other
// than messages, tools, documents and chat_template_kwargs are no business of a template and are left alone.
func ParseRow(line []byte) (Row, []Problem) {
	v, err := ordered.Decode(line)
	if err != nil {
		return Row{}, []Problem{{RowSyntax, "", err.Error()}}
	}
	if !v.IsObject() {
		return Row{}, []Problem{{RowSyntax, "", fmt.Sprintf("the row is %s; want an object with messages", v.Kind())}}
	}
	return NewRow(v)
}

// NewRow is [ParseRow] of a value.
func NewRow(v ordered.Value) (Row, []Problem) {
	c := &rowChecker{}
	list, ok := v.Get("messages")
	switch {
	case !ok:
		c.shape("", "no messages")
	case !list.IsArray():
		c.shape("messages", "messages are %s; want an array", list.Kind())
	case list.Len() == 0:
		c.shape("messages", "there is no message")
	}
	for i, m := range list.Items() {
		c.row.Messages = append(c.row.Messages, c.message(fmt.Sprintf("messages[%d]", i), m))
	}
	if tools, ok := v.Get("tools"); ok && !tools.IsNull() {
		if !tools.IsArray() {
			c.shape("tools", "tools are %s; want an array of objects (a JSON text must be decoded first)", tools.Kind())
		}
		for i, t := range tools.Items() {
			c.tool(fmt.Sprintf("tools[%d]", i), t)
			c.row.Tools = append(c.row.Tools, t)
		}
	}
	if docs, ok := v.Get("documents"); ok {
		c.row.Vars = append(c.row.Vars, ordered.Member{Key: "documents", Value: docs})
	}
	if kwargs, ok := v.Get("chat_template_kwargs"); ok && !kwargs.IsNull() {
		if !kwargs.IsObject() {
			c.shape("chat_template_kwargs", "chat_template_kwargs are %s; want an object", kwargs.Kind())
		}
		c.row.Vars = append(c.row.Vars, kwargs.Members()...)
	}
	return c.row, c.problems
}

type rowChecker struct {
	row      Row
	problems []Problem
}

func (c *rowChecker) shape(where, format string, args ...any) {
	c.problems = append(c.problems, Problem{RowShape, where, fmt.Sprintf(format, args...)})
}

func (c *rowChecker) message(where string, m ordered.Value) ordered.Value {
	if !m.IsObject() {
		c.shape(where, "a message is %s; want an object", m.Kind())
		return m
	}
	if role, ok := m.Get("role"); !ok || !role.IsString() || role.Text() == "" {
		c.shape(where+".role", "no role; want a string such as user")
	}
	content, hasContent := m.Get("content")
	calls, hasCalls := m.Get("tool_calls")
	switch {
	case content.IsString():
	case content.IsNull() && (hasContent || hasCalls):
		if !hasCalls && m.TextOf("role") != "assistant" {
			c.shape(where+".content", "content is null")
		}
	case !hasContent:
		c.shape(where+".content", "no content and no tool_calls")
	case content.IsArray():
		for i, part := range content.Items() {
			if kind, ok := part.Get("type"); !part.IsObject() || !ok || !kind.IsString() {
				c.shape(fmt.Sprintf("%s.content[%d]", where, i), "a part of a content is an object with a type such as text")
			} else if text, ok := part.Get("text"); kind.Text() == "text" && (!ok || !text.IsString()) {
				c.shape(fmt.Sprintf("%s.content[%d].text", where, i), "a text part has a string text")
			}
		}
	default:
		c.shape(where+".content", "content is %s; want a string or a list of parts", content.Kind())
	}
	if r, ok := m.Get("reasoning_content"); ok && !r.IsNull() && !r.IsString() {
		c.shape(where+".reasoning_content", "reasoning_content is %s; want a string", r.Kind())
	}
	if !hasCalls || calls.IsNull() {
		return m
	}
	if !calls.IsArray() {
		c.shape(where+".tool_calls", "tool_calls are %s; want an array", calls.Kind())
		return m
	}
	out := make([]ordered.Value, calls.Len())
	for i, call := range calls.Items() {
		out[i] = c.call(fmt.Sprintf("%s.tool_calls[%d]", where, i), call)
	}
	return m.With("tool_calls", ordered.NewArray(out))
}

// call normalizes the arguments of a call, in its function or flat beside its name.
func (c *rowChecker) call(where string, call ordered.Value) ordered.Value {
	if !call.IsObject() {
		c.shape(where, "a call is %s; want an object", call.Kind())
		return call
	}
	holder, nested := call.Get("function")
	if !nested {
		holder = call
	} else if !holder.IsObject() {
		c.shape(where+".function", "function is %s; want an object with name and arguments", holder.Kind())
		return call
	}
	if name, ok := holder.Get("name"); !ok || !name.IsString() || name.Text() == "" {
		c.shape(where, "the call names no function")
	}
	arguments, ok := holder.Get("arguments")
	if !ok {
		return call
	}
	object, changed, kind, message := Arguments(arguments)
	if kind != "" {
		c.problems = append(c.problems, Problem{kind, where, message})
		return call
	}
	if !changed {
		return call
	}
	c.row.Decoded++
	holder = holder.With("arguments", object)
	if nested {
		return call.With("function", holder)
	}
	return holder
}

func (c *rowChecker) tool(where string, t ordered.Value) {
	if !t.IsObject() {
		c.shape(where, "a tool is %s; want an object", t.Kind())
		return
	}
	f, nested := t.Get("function")
	if !nested {
		f = t
	}
	if name, ok := f.Get("name"); !ok || !name.IsString() || name.Text() == "" {
		c.shape(where, "the tool has no name")
	}
	if p, ok := f.Get("parameters"); ok && !p.IsObject() && !p.IsNull() {
		c.shape(where+".parameters", "parameters are %s; want a JSON Schema object", p.Kind())
	}
}
