package prompt

import (
	"strings"

	"seatsmith/internal/prompt/ordered"
)

// Call is a tool call found in a text.
type Call struct {
	Name string
	Args []Arg
}

// Arg is one argument of a found call: in the XML form its text, in the JSON form its value.
type Arg struct {
	Key   string
	Text  string
	Value ordered.Value // JSON form only
	JSON  bool
}

// FindCalls parses the tool calls of a rendered text, in order: <tool_call> … </tool_call> with either the XML form of Qwen3
// Coder and later (<function=NAME>, <parameter=KEY>, one newline around each value: vLLM 017e9f4448, parser/qwen3.py)
// or the JSON form of Hermes and Qwen3. What is neither is not a call.
func FindCalls(text string) []Call {
	var out []Call
	for {
		_, rest, ok := strings.Cut(text, "<tool_call>")
		if !ok {
			return out
		}
		// A value may hold the closing tag; the first one ends the call, as it does for a server.
		body, after, ok := strings.Cut(rest, "</tool_call>")
		if !ok {
			return out
		}
		text = after
		if c, ok := xmlCall(strings.TrimSpace(body)); ok {
			out = append(out, c)
		} else if c, ok := jsonCall(strings.TrimSpace(body)); ok {
			out = append(out, c)
		}
	}
}

func xmlCall(body string) (Call, bool) {
	rest, ok := strings.CutPrefix(body, "<function=")
	if !ok {
		return Call{}, false
	}
	name, rest, ok := strings.Cut(rest, ">")
	if !ok {
		return Call{}, false
	}
	c := Call{Name: name}
	rest, _, ok = strings.Cut(rest, "</function>")
	for ok {
		var key, value string
		_, next, more := strings.Cut(rest, "<parameter=")
		if !more {
			return c, true
		}
		if key, next, ok = strings.Cut(next, ">"); !ok {
			return c, false
		}
		end, begin := strings.Index(next, "</parameter>"), strings.Index(next, "<parameter=")
		switch {
		case begin >= 0 && (end < 0 || begin < end): // a value that spells an opening tag is cut there
			value, rest = next[:begin], next[begin:]
		case end < 0:
			return c, false
		default:
			value, rest = next[:end], next[end+len("</parameter>"):]
		}
		value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
		c.Args = append(c.Args, Arg{Key: key, Text: value})
	}
	return c, false
}

func jsonCall(body string) (Call, bool) {
	v, err := ordered.DecodeString(body)
	if err != nil || v.TextOf("name") == "" {
		return Call{}, false
	}
	c := Call{Name: v.TextOf("name")}
	args, _ := v.Get("arguments")
	for _, m := range args.Members() {
		c.Args = append(c.Args, Arg{Key: m.Key, Value: m.Value, JSON: true})
	}
	return c, true
}

// Calls lists the tool calls of a row, in order.
func (r Row) Calls() []ordered.Value {
	var out []ordered.Value
	for _, m := range r.Messages {
		calls, _ := m.Get("tool_calls")
		for _, call := range calls.Items() {
			if f, ok := call.Get("function"); ok {
				call = f
			}
			out = append(out, call)
		}
	}
	return out
}

// Same says whether a found call is the one that was sent: its name, its keys in their order, and each value: a string as it
// is, anything else as JSON or as Python prints it (True, None), which Qwen3.5's template does.
func (c Call) Same(sent ordered.Value) bool {
	args, _ := sent.Get("arguments")
	if c.Name != sent.TextOf("name") || len(c.Args) != args.Len() {
		return false
	}
	for i, m := range args.Members() {
		a := c.Args[i]
		switch {
		case a.Key != m.Key:
			return false
		case a.JSON:
			if !sameJSON(a.Value, m.Value) {
				return false
			}
		case m.Value.IsString():
			if a.Text != m.Value.Text() {
				return false
			}
		default:
			v, err := ordered.DecodeString(a.Text)
			if (err != nil || !sameJSON(v, m.Value)) && a.Text != pythonText(m.Value) {
				return false
			}
		}
	}
	return true
}

// sameJSON compares values; a number may have been spelled anew on its way through Python (1.50 becomes 1.5).
func sameJSON(a, b ordered.Value) bool {
	if a.Kind() != b.Kind() || a.Len() != b.Len() {
		return false
	}
	switch a.Kind() {
	case ordered.Number:
		return a.Text() == b.Text() || sameNumber(a.Text(), b.Text())
	case ordered.Array:
		for i := range a.Items() {
			if !sameJSON(a.Items()[i], b.Items()[i]) {
				return false
			}
		}
		return true
	case ordered.Object:
		for i, m := range a.Members() {
			if n := b.Members()[i]; m.Key != n.Key || !sameJSON(m.Value, n.Value) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}
