package plan

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/safetensors"
)

//go:embed recipes/*.yaml
var recipeFiles embed.FS

// Recipe is rules over roles and names -> scheme, first match wins, no match keeps BF16.
type Recipe struct {
	Name  string `json:"name" yaml:"name"`
	About string `json:"about,omitempty" yaml:"about"`
	Rules []Rule `json:"rules" yaml:"rules"`
}

// Rule selects by roles, or by a name pattern (glob over the module name), and sets a scheme. The pattern is that of a
// shell: * is any run of characters (dots too), ? is one character, [0-9] is one of a range. A module's name is the
// tensor's without ".weight".
type Rule struct {
	Roles  []model.Role   `json:"roles,omitempty" yaml:"roles"`
	Name   string         `json:"name,omitempty" yaml:"name"`
	Scheme dialect.Scheme `json:"scheme" yaml:"scheme"`
}

// FP8 is what a recipe writes for FP8 in the dialect's own form: fp8-channel in compressed-tensors; fp8-tensor in modelopt,
// where it needs activation statistics.
const FP8 dialect.Scheme = "fp8"

// String is the rule in words, for reasons and findings.
func (r Rule) String() string {
	if r.Name != "" {
		return fmt.Sprintf("name %s: %s", r.Name, r.Scheme)
	}
	roles := make([]string, len(r.Roles))
	for i, role := range r.Roles {
		roles[i] = string(role)
	}
	return fmt.Sprintf("roles %s: %s", strings.Join(roles, ", "), r.Scheme)
}

// Recipes lists the built-in recipes, the default first.
func Recipes() []Recipe {
	var out []Recipe
	for _, r := range builtin() {
		out = append(out, r.clone())
	}
	return out
}

func (r Recipe) clone() Recipe {
	r.Rules = slices.Clone(r.Rules)
	for i := range r.Rules {
		r.Rules[i].Roles = slices.Clone(r.Rules[i].Roles)
	}
	return r
}

var builtin = sync.OnceValue(func() []Recipe {
	var out []Recipe
	entries, err := recipeFiles.ReadDir("recipes")
	for _, e := range entries {
		data, readErr := recipeFiles.ReadFile(path.Join("recipes", e.Name()))
		r, parseErr := ParseRecipe(e.Name(), data)
		err = errors.Join(err, readErr, parseErr)
		out = append(out, r)
	}
	if err != nil { // the files are part of the binary and a test reads them
		panic(err)
	}
	slices.SortStableFunc(out, func(a, b Recipe) int {
		switch {
		case a.Name == b.Name:
			return 0
		case a.Name == "default":
			return -1
		case b.Name == "default":
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
})

// maxRecipeBytes bounds a recipe file; the largest sensible one, with a rule per module, stays far below.
const maxRecipeBytes = 16 << 20

// LoadRecipe finds a recipe by built-in name ("" is "default"), or reads it from a YAML file: anything with a folder in
// it, or with the ending .yaml or .yml, is a path.
func LoadRecipe(name string) (Recipe, error) {
	if name == "" {
		name = "default"
	}
	if ext := filepath.Ext(name); ext == ".yaml" || ext == ".yml" || filepath.Base(name) != name {
		data, err := safetensors.ReadRegular(name, maxRecipeBytes)
		if err != nil {
			return Recipe{}, fmt.Errorf("reading the recipe: %w", err)
		}
		return ParseRecipe(name, data)
	}
	var names []string
	for _, r := range builtin() {
		if r.Name == name {
			return r.clone(), nil
		}
		names = append(names, r.Name)
	}
	return Recipe{}, fmt.Errorf("recipe %q is not built in; use one of %s, or the path of a YAML file", name, strings.Join(names, ", "))
}

// ParseRecipe reads a recipe. Unknown fields are refused; every error names file, line and field.
func ParseRecipe(file string, data []byte) (Recipe, error) {
	fail := func(err error) (Recipe, error) { return Recipe{}, fmt.Errorf("recipe %s: %w", file, err) }
	var r Recipe
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&r); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty; write a name and rules")
		}
		return fail(err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return fail(errors.New("the file holds more than one YAML document; keep one recipe per file"))
	}
	var root yaml.Node // a second look, for line numbers
	if err := yaml.Unmarshal(data, &root); err != nil {
		return fail(err)
	}
	if err := r.check(&root); err != nil {
		return fail(err)
	}
	return r, nil
}

func (r Recipe) check(root *yaml.Node) error {
	top := deref(root)
	if strings.TrimSpace(r.Name) == "" {
		return fmt.Errorf("line %d: name: missing; the name is written into the plan", lineOf(top, "name"))
	}
	if len(r.Rules) == 0 {
		return fmt.Errorf("line %d: rules: missing; a recipe without rules changes nothing", lineOf(top, "rules"))
	}
	rules := deref(field(top, "rules"))
	for i, rule := range r.Rules {
		node := top
		if rules != nil && i < len(rules.Content) {
			node = deref(rules.Content[i])
		}
		at := func(name string) string {
			return fmt.Sprintf("line %d: rules[%d].%s", lineOf(node, name), i, name)
		}
		switch {
		case rule.Name == "" && len(rule.Roles) == 0:
			return fmt.Errorf("%s: missing; a rule selects by roles or by name", at("roles"))
		case rule.Name != "" && len(rule.Roles) > 0:
			return fmt.Errorf("%s: a rule selects by roles or by name, not by both; make two rules", at("name"))
		}
		for _, role := range rule.Roles {
			if !slices.Contains(roles, role) {
				return fmt.Errorf("%s: role %q is not known; use some of %s", at("roles"), role, joinRoles(roles))
			}
		}
		if strings.HasPrefix(rule.Name, "re:") {
			return fmt.Errorf("%s: %q: regular expressions are not read here; write a glob over module names, such as model.language_model.layers.3.mlp.*", at("name"), rule.Name)
		}
		if _, err := path.Match(rule.Name, ""); err != nil {
			return fmt.Errorf("%s: %q is not a pattern: a [ has no end, or a range is empty", at("name"), rule.Name)
		}
		if _, known := refusedSchemes[rule.Scheme]; rule.Scheme == FP8 || known {
			continue // refused later, with the reason
		}
		if _, err := dialect.ParseScheme(string(rule.Scheme)); err != nil {
			return fmt.Errorf("%s: %w, or fp8 for the dialect's own form of FP8", at("scheme"), err)
		}
	}
	return nil
}

// deref follows documents and aliases to the node that is meant; nil stays nil.
func deref(n *yaml.Node) *yaml.Node {
	for n != nil {
		switch {
		case n.Kind == yaml.DocumentNode && len(n.Content) == 1:
			n = n.Content[0]
		case n.Kind == yaml.AliasNode && n.Alias != nil:
			n = n.Alias
		default:
			return n
		}
	}
	return nil
}

// field finds the value of a key of a mapping, nil when it is not there.
func field(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// lineOf is the line of a field, or of the mapping that lacks it.
func lineOf(n *yaml.Node, key string) int {
	if f := field(n, key); f != nil {
		return f.Line
	}
	if n == nil {
		return 1
	}
	return n.Line
}
