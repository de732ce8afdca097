package tools

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"seatsmith/internal/playbook"
	"seatsmith/internal/prompt/ordered"
)

// MaxTools bounds a list. A prompt with a hundredth of them is longer than most windows.
const MaxTools = 4096

// Tool is one element of an OpenAI tools array.
type Tool struct {
	Value ordered.Value // {"type":"function","function":{…}}, keys in the order of the source
	Where string        // file:line of a registration, "" where there is none

	Derived []string // "parameters" and "description" where they were made from a function, not passed
}

// Name is the function's name, "" when it has none.
func (t Tool) Name() string { return t.function().TextOf("name") }

func (t Tool) function() ordered.Value {
	f, _ := t.Value.Get("function")
	return f
}

// Capture is what one source gave.
type Capture struct {
	Kind    string   // "mcp", "http" or "python"
	From    string   // the URL, program or tree
	Server  string   // what a server calls itself, "" when unknown
	Tools   []Tool   // in the order of the source
	Stubbed []string // modules of Python that were missing and stood in for
	Refused []string // servers of the tree that were not started
	Notes   []string // what else people should know

	problems []playbook.Finding // what could not be read, found while capturing
}

// Prefix puts a text before every name, nothing between.
func (c *Capture) Prefix(prefix string) {
	if prefix == "" {
		return
	}
	for i, t := range c.Tools {
		c.Tools[i].Value = t.Value.With("function", t.function().With("name", ordered.NewString(prefix+t.Name())))
	}
}

// Sort orders the tools by name. The order of the source is otherwise kept: a template prints it.
func (c *Capture) Sort() {
	slices.SortStableFunc(c.Tools, func(a, b Tool) int { return strings.Compare(a.Name(), b.Name()) })
}

// add reads elements of a list; what is no tool becomes a problem that names its place.
func (c *Capture) add(elements []ordered.Value) error {
	if len(c.Tools)+len(elements) > MaxTools {
		return fmt.Errorf("%s lists more than %d tools; no prompt holds that many: capture a part of them", c.From, MaxTools)
	}
	for _, e := range elements {
		at := len(c.Tools) + len(c.problems)
		t, err := element(e)
		if err != nil {
			c.problems = append(c.problems, playbook.New("tool-shape", fmt.Sprintf("%s: tool %d%s", c.From, at, named(e)), err.Error(),
				"Repair the definition where it is served; seatsmith does not guess at it."))
			continue
		}
		c.Tools = append(c.Tools, t)
	}
	return nil
}

func named(e ordered.Value) string {
	name := e.TextOf("name")
	if f, ok := e.Get("function"); ok && name == "" {
		name = f.TextOf("name")
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (%.80s)", name)
}

// schemaKeys are the names under which a definition carries its schema: OpenAI's, MCP's (schema 2025-11-25, Tool.inputSchema) and
// Anthropic's.
var schemaKeys = []string{"parameters", "inputSchema", "input_schema"}

// element makes a Tool of one definition: OpenAI's nested form is kept as it is, the flat forms are nested.
func element(e ordered.Value) (Tool, error) {
	if !e.IsObject() {
		return Tool{}, fmt.Errorf("it is %s, not an object", e.Kind())
	}
	kind, typed := e.Get("type")
	if typed && kind.Text() != "function" {
		return Tool{}, fmt.Errorf("its type is %.80s; only \"function\" is a tool that a template prints", kind)
	}
	if f, nested := e.Get("function"); nested {
		if !f.IsObject() {
			return Tool{}, fmt.Errorf("its function is %s, not an object", f.Kind())
		}
		if !typed {
			e = ordered.NewObject(append([]ordered.Member{{Key: "type", Value: ordered.NewString("function")}}, e.Members()...)...)
		}
		return Tool{Value: e}, fields(f)
	}
	function := ordered.NewObject()
	for _, key := range []string{"name", "description"} {
		if v, ok := e.Get(key); ok && !(key == "description" && v.IsNull()) {
			function = function.With(key, v)
		}
	}
	found := 0
	for _, key := range schemaKeys {
		if v, ok := e.Get(key); ok {
			found++
			function = function.With("parameters", v)
		}
	}
	switch {
	case found > 1:
		return Tool{}, fmt.Errorf("it has more than one of %s", strings.Join(schemaKeys, ", "))
	case found == 0 && !typed:
		return Tool{}, fmt.Errorf("it has none of %s", strings.Join(schemaKeys, ", "))
	}
	if v, ok := e.Get("strict"); ok && !v.IsNull() {
		function = function.With("strict", v)
	}
	return newTool(function), fields(function)
}

func newTool(function ordered.Value) Tool {
	return Tool{Value: ordered.NewObject(
		ordered.Member{Key: "type", Value: ordered.NewString("function")},
		ordered.Member{Key: "function", Value: function})}
}

// fields checks the types of a function's own fields; what a schema says is judged later.
func fields(f ordered.Value) error {
	if name, ok := f.Get("name"); !ok || !name.IsString() {
		return errors.New("it has no name that is a string")
	}
	if d, ok := f.Get("description"); ok && !d.IsString() && !d.IsNull() {
		return fmt.Errorf("its description is %s, not a string", d.Kind())
	}
	return nil
}
