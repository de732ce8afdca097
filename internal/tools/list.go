package tools

import (
	"errors"
	"fmt"
	"io"
	"os"

	"seatsmith/internal/prompt/ordered"
)

// MaxBytes bounds what one source may send, and a file that is read back.
const MaxBytes = 32 << 20

// elements finds the list in a document: an array, {"tools": […]} or {"data": […]}. A document that says that there is more
// of it is refused, for half a list is not the live list.
func elements(doc ordered.Value) ([]ordered.Value, error) {
	if doc.IsArray() {
		return doc.Items(), nil
	}
	if !doc.IsObject() {
		return nil, fmt.Errorf("it is %s, neither an array of tools nor an object with one", doc.Kind())
	}
	if _, ok := doc.Get("openapi"); ok {
		return nil, errors.New("it is an OpenAPI document, which describes endpoints and not what an agent is shown; give the endpoint that serves the tools")
	}
	for _, key := range []string{"nextCursor", "next_cursor", "next_page_token", "next", "next_page"} {
		if v, ok := doc.Get(key); ok && !v.IsNull() && v.String() != `""` && v.String() != "false" {
			return nil, fmt.Errorf("it is one page of several (%s is %.80s); give an address that lists all tools at once", key, v)
		}
	}
	if v, _ := doc.Get("has_more"); v.Bool() {
		return nil, errors.New("it is one page of several (has_more is true); give an address that lists all tools at once")
	}
	tools, a := doc.Get("tools")
	data, b := doc.Get("data")
	switch {
	case a && b:
		return nil, errors.New(`it has both "tools" and "data", so which is the list is unknown`)
	case b:
		tools = data
	case !a:
		return nil, errors.New(`it has no "tools" and no "data"`)
	}
	if !tools.IsArray() {
		return nil, fmt.Errorf("its list of tools is %s, not an array", tools.Kind())
	}
	return tools.Items(), nil
}

// Encode spells tools as a JSON array, one tool to a line, so that a diff of two files names tools.
func Encode(list []Tool) []byte {
	if len(list) == 0 {
		return []byte("[]\n")
	}
	out := []byte("[\n")
	for i, t := range list {
		out = t.Value.Append(out)
		if i < len(list)-1 {
			out = append(out, ',')
		}
		out = append(out, '\n')
	}
	return append(out, "]\n"...)
}

// Read reads a file that [Encode] wrote, or any list that an endpoint may serve. Every error names the file.
func Read(path string) (*Capture, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%s: more than %d MiB", path, MaxBytes>>20)
	}
	c := &Capture{Kind: "file", From: path}
	if err := c.document(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(c.problems) > 0 {
		p := c.problems[0]
		return nil, fmt.Errorf("%s: %s", p.Subject, p.Message)
	}
	return c, nil
}

func (c *Capture) document(data []byte) error {
	doc, err := ordered.Decode(data)
	if err != nil {
		return err
	}
	list, err := elements(doc)
	if err != nil {
		return err
	}
	return c.add(list)
}
