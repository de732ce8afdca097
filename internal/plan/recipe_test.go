package plan

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
)

func TestBuiltInRecipes(t *testing.T) {
	var names []string
	for _, r := range Recipes() {
		names = append(names, r.Name)
		if r.About == "" {
			t.Errorf("%s says nothing about itself", r.Name)
		}
		if got, err := LoadRecipe(r.Name); err != nil || got.Name != r.Name {
			t.Errorf("LoadRecipe(%q): %v, %v", r.Name, got, err)
		}
	}
	if want := []string{"default", "fp8-dynamic", "head-fp8", "nvfp4-all-linear", "w4a4-mlp", "w4a4-reference"}; !slices.Equal(names, want) {
		t.Errorf("recipes %v, want %v", names, want)
	}
	Recipes()[0].Rules[0].Roles[0] = "changed"
	if Recipes()[0].Rules[0].Roles[0] != model.RoleMLP {
		t.Error("a caller can change a built-in recipe")
	}
}

func TestARecipeIsReadFromAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(path, []byte("name: mine\nrules:\n  - {name: '*.mlp.*', scheme: fp8-channel}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := LoadRecipe(path)
	if err != nil || r.Name != "mine" || r.Rules[0].Name != "*.mlp.*" || r.Rules[0].Scheme != dialect.FP8Channel {
		t.Errorf("got %+v, %v", r, err)
	}
	p := mustDecide(t, qwen(4), Options{Recipe: path})
	q := qwen(4)
	moved := filepath.Join(t.TempDir(), "elsewhere.yml")
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	if p.Hash() != mustDecide(t, q, Options{Recipe: moved}).Hash() {
		t.Error("the place of the recipe file changes the plan")
	}
}

func TestARecipesFaultsAreNamedByFileLineAndField(t *testing.T) {
	const ok = "name: x\nrules:\n  - roles: [mlp]\n    scheme: fp8-channel\n"
	for _, c := range []struct{ name, yaml, want string }{
		{"empty", "", "empty"},
		{"unknown top field", "name: x\nrule: []\n", "line 2: field rule not found"},
		{"unknown rule field", "name: x\nrules:\n  - roles: [mlp]\n    schema: fp8-channel\n", "line 4: field schema not found"},
		{"no name", "about: y\nrules: [{roles: [mlp], scheme: bf16}]\n", "line 1: name: missing"},
		{"no rules", "name: x\nrules: []\n", "line 2: rules: missing"},
		{"unknown scheme", "name: x\nrules:\n  - roles: [mlp]\n    scheme: nvfp5\n", `line 4: rules[0].scheme: scheme "nvfp5"`},
		{"no scheme", ok + "  - roles: [attention]\n", "line 5: rules[1].scheme"},
		{"unknown role", "name: x\nrules:\n  - roles:\n      - mlps\n    scheme: bf16\n", `rules[0].roles: role "mlps"`},
		{"neither roles nor name", ok + "  - scheme: bf16\n", "line 5: rules[1].roles: missing"},
		{"both roles and name", ok + "  - roles: [mlp]\n    name: a\n    scheme: bf16\n", "line 6: rules[1].name: a rule selects by roles or by name"},
		{"bad pattern", ok + "  - name: 'a[b'\n    scheme: bf16\n", `line 5: rules[1].name: "a[b"`},
		{"a regular expression", ok + "  - name: re:.*mlp\n    scheme: bf16\n", "line 5: rules[1].name: \"re:.*mlp\": regular expressions are not read here"},
		{"wrong type", "name: x\nrules: 7\n", "line 2"},
		{"two documents", ok + "---\n" + ok, "more than one"},
		{"not YAML", "name: [", "recipe r.yaml"},
	} {
		_, err := ParseRecipe("r.yaml", []byte(c.yaml))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "recipe r.yaml") {
			t.Errorf("%s: got %v, want the file and %q", c.name, err, c.want)
		}
	}
	if _, err := ParseRecipe("r.yaml", []byte(ok)); err != nil {
		t.Errorf("the unbroken recipe: %v", err)
	}
}

func FuzzParseRecipe(f *testing.F) {
	f.Add([]byte("name: x\nrules:\n  - {roles: [mlp], scheme: fp8-channel}\n"))
	f.Add([]byte("name: x\nrules: &a [*a]\n"))
	f.Add([]byte("a: &r {roles: [mlp], scheme: bf16}\nname: x\nrules: [*r, {<<: *r, name: y}]\n"))
	f.Add([]byte("name: x\nrules: [null, 1]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseRecipe("fuzz.yaml", data)
		if err != nil {
			return
		}
		if r.Name == "" || len(r.Rules) == 0 {
			t.Errorf("accepted %+v", r)
		}
		for _, rule := range r.Rules {
			if (rule.Name == "") == (len(rule.Roles) == 0) {
				t.Errorf("accepted rule %+v", rule)
			}
		}
	})
}
