package tools

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"seatsmith/internal/prompt/ordered"
)

// Fault is one thing that is wrong in a schema.
type Fault struct {
	Path    string // JSON pointer inside the schema, "" for the schema itself
	Message string
}

// maxFaults bounds what is said about one schema.
const maxFaults = 20

// CheckSchema judges the schema of a tool's parameters: the shapes that the meta-schema of JSON Schema draft 2020-12 gives to its
// keywords, and what a tool adds: the schema itself describes an object (MCP schema 2025-11-25, Tool.inputSchema.type; OpenAI API
// reference, FunctionParameters), every required name is described, and every reference leads somewhere inside it. Keywords
// that the draft does not know are allowed, as the draft allows them. At most 20 faults come back.
func CheckSchema(v ordered.Value) []Fault {
	s := schema{root: v, draft: v.TextOf("$schema")}
	if !v.IsObject() {
		return []Fault{{"", fmt.Sprintf("the schema is %s; the arguments of a call are an object, so it is an object with \"type\": \"object\"", v.Kind())}}
	}
	if kind, ok := v.Get("type"); !ok || kind.Text() != "object" || !kind.IsString() {
		what := "there is no type"
		if ok {
			what = fmt.Sprintf("the type is %.80s", kind)
		}
		s.fault("/type", `%s; the arguments of a call are an object: "object"`, what)
	}
	s.check(v, "")
	return s.faults
}

type schema struct {
	root    ordered.Value
	draft   string
	faults  []Fault
	refs    int
	anchors map[string]bool // filled with the first reference that needs them
}

// maxRefs bounds the references of one schema, each of which is a walk.
const maxRefs = 1000

func (s *schema) fault(path, format string, args ...any) {
	if len(s.faults) < maxFaults {
		s.faults = append(s.faults, Fault{path, fmt.Sprintf(format, args...)})
	}
}

var simpleTypes = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// The keywords of draft 2020-12 by the shape of their value (json-schema-org/json-schema-spec, meta/applicator, meta/validation,
// meta/meta-data, meta/core). Those of older drafts that people still write are beside their successors.
var (
	schemaKeywords = strings.Fields("additionalProperties unevaluatedProperties unevaluatedItems contains propertyNames not if then else contentSchema additionalItems")
	arrayKeywords  = strings.Fields("allOf anyOf oneOf prefixItems")
	mapKeywords    = strings.Fields("properties patternProperties dependentSchemas $defs definitions")
	countKeywords  = strings.Fields("minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains")
	numberKeywords = strings.Fields("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf")
	boolKeywords   = strings.Fields("uniqueItems deprecated readOnly writeOnly")
	stringKeywords = strings.Fields("title description $comment format pattern contentEncoding contentMediaType $id $schema $ref $anchor $dynamicRef $dynamicAnchor")
)

// check judges one schema and those in it. Depth is bounded by the reader of the document.
func (s *schema) check(v ordered.Value, path string) {
	if v.Kind() == ordered.Bool {
		return // true takes everything, false nothing
	}
	if !v.IsObject() {
		s.fault(path, "a schema is an object or a boolean, not %s", v.Kind())
		return
	}
	for _, m := range v.Members() {
		if len(s.faults) >= maxFaults {
			return
		}
		s.keyword(v, m.Key, m.Value, path+"/"+escape(m.Key))
	}
}

func (s *schema) keyword(in ordered.Value, key string, v ordered.Value, path string) {
	switch {
	case key == "type":
		s.types(v, path)
	case key == "items":
		s.items(v, path)
	case key == "required":
		s.required(in, v, path)
	case key == "enum":
		if !v.IsArray() || v.Len() == 0 {
			s.fault(path, "enum lists the values that are allowed: an array with at least one, not %.80s", v)
		}
	case key == "examples":
		if !v.IsArray() {
			s.fault(path, "examples are an array, not %s", v.Kind())
		}
	case key == "dependentRequired":
		if !v.IsObject() {
			s.fault(path, "dependentRequired is an object of lists of names, not %s", v.Kind())
		}
		for _, m := range v.Members() {
			s.names(m.Value, path+"/"+escape(m.Key))
		}
	case slices.Contains(schemaKeywords, key):
		s.check(v, path)
	case slices.Contains(mapKeywords, key):
		if !v.IsObject() {
			s.fault(path, "%s is an object of schemas, not %s", key, v.Kind())
		}
		for _, m := range v.Members() {
			s.check(m.Value, path+"/"+escape(m.Key))
		}
	case slices.Contains(arrayKeywords, key):
		if !v.IsArray() || v.Len() == 0 {
			s.fault(path, "%s is an array of at least one schema, not %.80s", key, v)
		}
		for i, item := range v.Items() {
			s.check(item, path+"/"+strconv.Itoa(i))
		}
	case slices.Contains(countKeywords, key):
		if n, err := strconv.ParseFloat(v.Text(), 64); v.Kind() != ordered.Number || err != nil || n < 0 || n != float64(int64(n)) {
			s.fault(path, "%s is a whole number from 0, not %.80s", key, v)
		}
	case slices.Contains(numberKeywords, key):
		if v.Kind() == ordered.Bool && strings.HasPrefix(key, "exclusive") && strings.Contains(s.draft, "draft-04") {
			return
		}
		if v.Kind() != ordered.Number || key == "multipleOf" && !positive(v) {
			s.fault(path, "%s is a number%s, not %.80s", key, map[bool]string{true: " above 0"}[key == "multipleOf"], v)
		}
	case slices.Contains(boolKeywords, key):
		if v.Kind() != ordered.Bool {
			s.fault(path, "%s is true or false, not %.80s", key, v)
		}
	case slices.Contains(stringKeywords, key):
		if !v.IsString() {
			s.fault(path, "%s is a string, not %.80s", key, v)
		} else if key == "$ref" || key == "$dynamicRef" {
			s.reference(v.Text(), path)
		}
	}
}

func positive(v ordered.Value) bool {
	n, err := strconv.ParseFloat(v.Text(), 64)
	return err == nil && n > 0
}

func (s *schema) types(v ordered.Value, path string) {
	list := []ordered.Value{v}
	if v.IsArray() {
		if list = v.Items(); len(list) == 0 {
			s.fault(path, "an empty list of types allows nothing")
		}
	}
	seen := map[string]bool{}
	for _, t := range list {
		switch {
		case !t.IsString() || !slices.Contains(simpleTypes, t.Text()):
			s.fault(path, "%.80s is not a type; there are %s", t, strings.Join(simpleTypes, ", "))
		case seen[t.Text()]:
			s.fault(path, "the type %s comes twice", t)
		}
		seen[t.Text()] = true
	}
}

// items is one schema since draft 2020-12; before, an array of them was what prefixItems is now.
func (s *schema) items(v ordered.Value, path string) {
	if !v.IsArray() {
		s.check(v, path)
		return
	}
	old := false
	for _, draft := range []string{"draft-03", "draft-04", "draft-06", "draft-07", "2019-09"} {
		old = old || strings.Contains(s.draft, draft)
	}
	if !old {
		s.fault(path, "items is one schema; a list of them is called prefixItems since draft 2020-12")
	}
	for i, item := range v.Items() {
		s.check(item, path+"/"+strconv.Itoa(i))
	}
}

func (s *schema) names(v ordered.Value, path string) map[string]int {
	if !v.IsArray() {
		s.fault(path, "a list of names is an array of strings, not %.80s", v)
		return nil
	}
	seen := map[string]int{}
	for i, name := range v.Items() {
		if _, twice := seen[name.Text()]; !name.IsString() || twice {
			s.fault(path+"/"+strconv.Itoa(i), "%.80s is not a name, or comes twice", name)
			continue
		}
		seen[name.Text()] = i
	}
	return seen
}

// required wants every name among the properties. JSON Schema does not ask for it, but a tool does: a name that nothing
// describes cannot be filled in. Where other keywords could describe it, nobody knows and nothing is said.
func (s *schema) required(in, v ordered.Value, path string) {
	names := s.names(v, path)
	properties, described := in.Get("properties")
	if !described && path != "/required" {
		return // {"required": ["a"]} is a branch of anyOf, whose properties stand above
	}
	for _, elsewhere := range []string{"allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "patternProperties", "if", "dependentSchemas"} {
		if _, ok := in.Get(elsewhere); ok {
			return
		}
	}
	has := map[string]bool{}
	for _, m := range properties.Members() {
		has[m.Key] = true
	}
	for i, item := range v.Items() {
		if name := item.Text(); item.IsString() && !has[name] && names[name] == i {
			s.fault(path+"/"+strconv.Itoa(i), "%.80q is required, but properties do not describe it", name)
		}
	}
}

// reference follows a pointer into this schema. Nobody who reads a prompt can fetch another document.
func (s *schema) reference(ref, path string) {
	pointer, local := strings.CutPrefix(ref, "#")
	if !local {
		s.fault(path, "%.80q leads out of the schema, where the model cannot read it", ref)
		return
	}
	if pointer == "" {
		return
	}
	if s.refs++; s.refs > maxRefs {
		s.fault(path, "more than %d references; no model follows them", maxRefs)
		return
	}
	if !strings.HasPrefix(pointer, "/") {
		if s.anchors == nil {
			s.anchors = map[string]bool{}
			s.anchor(s.root)
		}
		if !s.anchors[pointer] {
			s.fault(path, "no schema here has the anchor %.80q", pointer)
		}
		return
	}
	at := s.root
	for _, step := range strings.Split(pointer[1:], "/") {
		next, ok := at.Get(unescape(step))
		if i, err := strconv.Atoi(step); err == nil && at.IsArray() && i >= 0 && i < at.Len() {
			next, ok = at.Items()[i], true
		}
		if !ok {
			s.fault(path, "%.80q leads nowhere", ref)
			return
		}
		at = next
	}
}

func (s *schema) anchor(v ordered.Value) {
	for _, m := range v.Members() {
		switch m.Key {
		case "$anchor", "$dynamicAnchor":
			s.anchors[m.Value.Text()] = true
		case "$id": // how drafts up to 7 name a place
			s.anchors[strings.TrimPrefix(m.Value.Text(), "#")] = true
		}
		s.anchor(m.Value)
	}
	for _, item := range v.Items() {
		s.anchor(item)
	}
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// unescape reads a step of a pointer in a URI fragment (RFC 6901, section 6).
func unescape(step string) string {
	if strings.Contains(step, "%") {
		if plain, err := url.PathUnescape(step); err == nil {
			step = plain
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
}
