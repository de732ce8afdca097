package playbook

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// LintCode reads the Go files of a source tree and compares the rule ids that they cite (the first argument of
// playbook.New, the Rule field of a literal) with our entries, both ways. Lessons are cited by nobody. Tests, testdata and
// hidden folders are not looked at. An error is for a tree that cannot be read.
func LintCode(tree fs.FS) ([]Finding, error) {
	cited, literals := map[string]string{}, map[string]bool{}
	fset := token.NewFileSet()
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(base, ".") || base == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("reading Go code: %w", err)
		}
		citations(file, name, cited, literals)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(literals) == 0 {
		return nil, fmt.Errorf("reading Go code: there is none; name the root of the source tree")
	}
	var out []Finding
	ids := make([]string, 0, len(cited))
	for id := range cited {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if _, ok := ruleByID(id); !ok {
			out = append(out, New("playbook-code", cited[id], fmt.Sprintf("the code cites rule %q, which has no entry of kind rule", id), "write internal/playbook/rules/"+id+".yaml"))
		}
	}
	for _, r := range Rules() {
		if !literals[r.ID] {
			out = append(out, New("playbook-code", "internal/playbook/rules/"+r.ID+".yaml", "no code cites the rule", "cite it where it is judged, or make it a lesson (kind: lesson, under lessons/)"))
		}
	}
	return out, nil
}

// citations collects what one file cites, and every text in it: an id may reach New through a table.
func citations(file *ast.File, name string, cited map[string]string, literals map[string]bool) {
	note := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if id, err := strconv.Unquote(lit.Value); err == nil && id != "" && cited[id] == "" {
				cited[id] = name
			}
		}
	}
	inside := file.Name.Name == "playbook"
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if v, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
				literals[v] = true
			}
		case *ast.CallExpr:
			if len(n.Args) == 0 {
				break
			}
			switch f := n.Fun.(type) {
			case *ast.SelectorExpr:
				if x, ok := f.X.(*ast.Ident); ok && x.Name == "playbook" && f.Sel.Name == "New" {
					note(n.Args[0])
				}
			case *ast.Ident:
				if inside && f.Name == "New" {
					note(n.Args[0])
				}
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Rule" {
				note(n.Value)
			}
		}
		return true
	})
}
