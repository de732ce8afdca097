package verify_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// emitted lists the rules that this package's own code can cite, from its source.
func emitted(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "New" {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); !ok || pkg.Name != "playbook" {
				return true
			}
			lit, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s: a rule is not written as a literal", path)
				return true
			}
			if id, err := strconv.Unquote(lit.Value); err == nil {
				out[id] = path
			}
			return true
		})
	}
	return out
}

func TestEveryRuleThatCanBeToldHasAnAccident(t *testing.T) {
	rules := emitted(t)
	if len(rules) < 35 {
		t.Fatalf("only %d rules found in the source: the search is broken", len(rules))
	}
	broken := map[string]bool{}
	for _, a := range allAccidents() {
		for _, r := range a.rules() {
			broken[strings.TrimSuffix(strings.TrimSuffix(r, "?"), " (info)")] = true
		}
	}
	for _, list := range fooledTables {
		for _, f := range list {
			for _, r := range strings.Fields(f.rules) {
				broken[strings.TrimSuffix(r, "?")] = true
			}
		}
	}
	for _, d := range doctored {
		for _, r := range strings.Fields(d.rules) {
			broken[strings.TrimSuffix(r, "?")] = true
		}
	}
	for id, path := range rules {
		if !broken[id] {
			t.Errorf("%s can tell of %s, and no accident expects it", path, id)
		}
	}
}
