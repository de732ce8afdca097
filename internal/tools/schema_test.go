package tools

import (
	"strings"
	"testing"

	"seatsmith/internal/prompt/ordered"
)

func TestASchemaOfAnObjectPasses(t *testing.T) {
	for _, text := range []string{
		`{"type": "object"}`,
		`{"type": "object", "properties": {}, "required": []}`,
		`{"type": "object", "properties": {"a": true, "b": {"type": ["string", "null"], "minLength": 1, "maxLength": 2.0}}, "required": ["b"], "additionalProperties": false}`,
		`{"type": "object", "properties": {"n": {"$ref": "#/$defs/node"}}, "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}}}`,
		`{"type": "object", "properties": {"a~/b%": {"type": "string"}, "c": {"$ref": "#/properties/a~0~1b%25"}}}`,
		`{"type": "object", "properties": {"a": {"$ref": "#there"}, "b": {"$anchor": "there"}, "self": {"$ref": "#"}}}`,
		`{"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}`,
		`{"type": "object", "allOf": [{"properties": {"a": {}}}], "required": ["a"]}`,
		`{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": {"type": "array", "items": [{"type": "string"}], "additionalItems": false}}}`,
		`{"type": "object", "x-vendor": 5, "properties": {"a": {"enum": [1, "b", null], "examples": [], "default": 7, "const": {}, "multipleOf": 0.1, "exclusiveMinimum": -1e3}}}`,
		`{"type": "object", "dependentRequired": {"a": ["b"]}, "patternProperties": {"^x": {"type": "integer"}}, "required": ["x1"]}`,
	} {
		if faults := CheckSchema(decode(t, text)); len(faults) > 0 {
			t.Errorf("%s: %v", text, faults)
		}
	}
}

func TestEveryFaultOfASchemaIsNamedWithItsPath(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                                   ": the schema is an array",
		`true`:                                 ": the schema is a boolean",
		`{}`:                                   "/type: there is no type",
		`{"type": "string"}`:                   `/type: the type is "string"`,
		`{"type": ["object"]}`:                 `/type: the type is ["object"]`,
		`{"type": "object", "properties": []}`: "/properties: properties is an object of schemas, not an array",
		`{"type": "object", "properties": {"q": "string"}}`:                                                            "/properties/q: a schema is an object or a boolean, not a string",
		`{"type": "object", "properties": {"q": {"type": "str"}}}`:                                                     `/properties/q/type: "str" is not a type`,
		`{"type": "object", "properties": {"q": {"type": ["string", "string"]}}}`:                                      "/properties/q/type: the type \"string\" comes twice",
		`{"type": "object", "properties": {"q": {"type": []}}}`:                                                        "/properties/q/type: an empty list",
		`{"type": "object", "required": ["q"]}`:                                                                        `/required/0: "q" is required`,
		`{"type": "object", "properties": {"a": {}}, "required": ["a", "b"]}`:                                          `/required/1: "b" is required`,
		`{"type": "object", "properties": {"a": {"type": "object", "properties": {}, "required": ["z"]}}}`:             `/properties/a/required/0: "z"`,
		`{"type": "object", "properties": {"a": {}}, "required": ["a", "a"]}`:                                          `/required/1: "a" is not a name, or comes twice`,
		`{"type": "object", "properties": {"a": {"required": true}}}`:                                                  "/properties/a/required: a list of names",
		`{"type": "object", "properties": {"a": {"type": "array", "items": [{}]}}}`:                                    "/properties/a/items: items is one schema",
		`{"type": "object", "properties": {"a": {"items": {"type": 5}}}}`:                                              "/properties/a/items/type: 5 is not a type",
		`{"type": "object", "properties": {"a": {"enum": []}}}`:                                                        "/properties/a/enum: enum lists",
		`{"type": "object", "properties": {"a": {"enum": "x"}}}`:                                                       "/properties/a/enum: enum lists",
		`{"type": "object", "properties": {"a": {"minimum": "1"}}}`:                                                    `/properties/a/minimum: minimum is a number, not "1"`,
		`{"type": "object", "properties": {"a": {"exclusiveMinimum": true}}}`:                                          "/properties/a/exclusiveMinimum: exclusiveMinimum is a number",
		`{"type": "object", "properties": {"a": {"multipleOf": 0}}}`:                                                   "/properties/a/multipleOf: multipleOf is a number above 0",
		`{"type": "object", "properties": {"a": {"maxLength": -1}}}`:                                                   "/properties/a/maxLength: maxLength is a whole number",
		`{"type": "object", "properties": {"a": {"maxItems": 1.5}}}`:                                                   "/properties/a/maxItems: maxItems is a whole number",
		`{"type": "object", "properties": {"a": {"maxItems": 1e999}}}`:                                                 "/properties/a/maxItems: maxItems is a whole number",
		`{"type": "object", "properties": {"a": {"uniqueItems": "yes"}}}`:                                              "/properties/a/uniqueItems: uniqueItems is true or false",
		`{"type": "object", "properties": {"a": {"description": ["x"]}}}`:                                              "/properties/a/description: description is a string",
		`{"type": "object", "properties": {"a": {"anyOf": []}}}`:                                                       "/properties/a/anyOf: anyOf is an array of at least one",
		`{"type": "object", "properties": {"a": {"oneOf": [{}, 3]}}}`:                                                  "/properties/a/oneOf/1: a schema is an object",
		`{"type": "object", "properties": {"a": {"not": "b"}}}`:                                                        "/properties/a/not: a schema is an object",
		`{"type": "object", "properties": {"a": {"$ref": "#/$defs/gone"}}}`:                                            `/properties/a/$ref: "#/$defs/gone" leads nowhere`,
		`{"type": "object", "properties": {"a": {"$ref": "https://example.com/s.json"}}}`:                              "/properties/a/$ref: \"https://example.com/s.json\" leads out",
		`{"type": "object", "properties": {"a": {"$ref": "#nobody"}}}`:                                                 "/properties/a/$ref: no schema here has the anchor",
		`{"type": "object", "properties": {"a": {"examples": 1}}}`:                                                     "/properties/a/examples: examples are an array",
		`{"type": "object", "dependentRequired": {"a": "b"}}`:                                                          "/dependentRequired/a: a list of names",
		`{"type": "object", "additionalProperties": "no"}`:                                                             "/additionalProperties: a schema is an object or a boolean",
		`{"type": "object", "properties": {"a/b~": {"type": "x"}}}`:                                                    "/properties/a~1b~0/type: ",
		`{"type": "object", "properties": {"r": {"anyOf": [` + strings.Repeat(`{"$ref": "#/type"}, `, 1001) + `{}]}}}`: "more than 1000 references",
	} {
		faults := CheckSchema(decode(t, text))
		if len(faults) == 0 || !strings.Contains(faults[0].Path+": "+faults[0].Message, want) {
			t.Errorf("%.200s: %v, want %q", text, faults, want)
		}
	}
}

func TestFaultsOfOneSchemaAreBounded(t *testing.T) {
	faults := CheckSchema(decode(t, `{"type": "object", "properties": {"a": {"prefixItems": [`+strings.Repeat("1, ", 5000)+`1]}}}`))
	if len(faults) != maxFaults {
		t.Errorf("%d faults", len(faults))
	}
}

func decode(t *testing.T, text string) ordered.Value {
	t.Helper()
	v, err := ordered.DecodeString(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// A schema from a stranger never stops the judge, and what it says names a place that is there.
func FuzzCheckSchema(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#/properties/a"}},"required":["a"]}`, `{"type":["object",5],"items":[{}],"$schema":"draft-07"}`,
		`{"$ref":"#/%zz/~2","$defs":{"":{"$anchor":""}}}`, `{"type":"object","allOf":[true,{"required":["x"]}],"minLength":1e400}`, `[[[]]]`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ordered.DecodeString(text)
		if err != nil {
			return
		}
		faults := CheckSchema(v)
		if len(faults) > maxFaults {
			t.Fatalf("%d faults", len(faults))
		}
		for _, fault := range faults {
			if fault.Message == "" || fault.Path != "" && fault.Path != "/type" && !strings.HasPrefix(fault.Path, "/") {
				t.Fatalf("%q: %+v", text, fault)
			}
		}
		if !v.IsObject() && len(faults) == 0 {
			t.Fatalf("%q passes", text)
		}
		c := Capture{Kind: "http", From: "fuzz"}
		if c.document([]byte(text)) == nil {
			c.Prefix("p_")
			c.Judge()
			again := Capture{Kind: "file", From: "again"}
			if err := again.document(Encode(c.Tools)); err != nil {
				t.Fatalf("what was written is not read: %v", err)
			}
			if d := Compare(&c, &again); d.Differs() && !twice(c.Tools) {
				t.Fatalf("what was written differs: %+v", d)
			}
		}
	})
}

func twice(list []Tool) bool {
	seen := map[string]bool{}
	for _, t := range list {
		if seen[t.Name()] {
			return true
		}
		seen[t.Name()] = true
	}
	return false
}
