// Package seatsmith_test holds the rules of the house as tests: what imports what, how long a file may be, and that
// every rule id in code has its entry in the playbook. The program itself is in cmd/seatsmith.
package seatsmith_test

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"seatsmith/internal/playbook"
)

// source is one parsed Go file.
type source struct {
	path string // slash-separated, relative to the module
	test bool
	file *ast.File
	text []byte
}

// sources parses every Go file of the module.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "demo" || name == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		out = append(out, source{path: filepath.ToSlash(path), test: strings.HasSuffix(path, "_test.go"), file: file, text: text})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("only %d Go files found: the walk is broken", len(out))
	}
	return out
}

func (s source) dir() string {
	if i := strings.LastIndexByte(s.path, '/'); i >= 0 {
		return s.path[:i]
	}
	return "."
}

func (s source) lines() int { return bytes.Count(s.text, []byte("\n")) }

func TestEveryPackageHasATutorialAsItsComment(t *testing.T) {
	words := map[string]int{}
	for _, s := range sources(t) {
		if s.test || s.dir() == "." {
			continue
		}
		words[s.dir()] += 0
		if s.file.Doc != nil {
			words[s.dir()] = max(words[s.dir()], len(strings.Fields(s.file.Doc.Text())))
		}
	}
	for dir, n := range words {
		if n < 40 {
			t.Errorf("%s: the package comment has %d words; say purpose, vocabulary, order of calls, what it refuses to know, concurrency (in doc.go)", dir, n)
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	var lengths []int
	for _, s := range sources(t) {
		n := s.lines()
		if n > 800 {
			t.Errorf("%s has %d lines; no file has more than 800: split it by subject", s.path, n)
		}
		lengths = append(lengths, n)
	}
	slices.Sort(lengths)
	if median := lengths[len(lengths)/2]; median > 220 {
		t.Errorf("the median file has %d lines; about 150 is the aim, 220 the limit", median)
	}
}

func TestNoRoomIsCalledUtil(t *testing.T) {
	forbidden := []string{"util", "utils", "common", "helper", "helpers", "types", "core", "manager", "misc", "shared", "lib", "pkg"}
	for _, s := range sources(t) {
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(s.path), ".go"), "_test")
		if slices.Contains(forbidden, s.file.Name.Name) || slices.Contains(forbidden, name) {
			t.Errorf("%s: package or file %q says nothing about what is in it; name the thing of the domain", s.path, name)
		}
	}
}

func TestNoPromisesAreLeftInCode(t *testing.T) {
	promise := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b|panic\("(stub|not impl)`)
	for _, s := range sources(t) {
		if hit := promise.Find(s.text); hit != nil {
			t.Errorf("%s: %q: finish it, or say in the closing note that it is missing", s.path, hit)
		}
	}
}

// TestEveryRuleInCodeHasAnEntryAndTheReverse reads the first argument of every playbook.New and the Rule field of every
// literal, and the other way round looks for every id of the playbook as a string in code that is not a test.
func TestEveryRuleInCodeHasAnEntryAndTheReverse(t *testing.T) {
	inCode := map[string][]string{}
	literals := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if v, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
					literals[v] = true
				}
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "New" && ident(sel.X) == "playbook" && len(n.Args) > 0 {
					note(inCode, n.Args[0], s.path)
				}
			case *ast.KeyValueExpr:
				if ident(n.Key) == "Rule" {
					note(inCode, n.Value, s.path)
				}
			}
			return true
		})
	}
	if len(inCode) < 20 {
		t.Fatalf("only %d rule ids found in code: the search is broken", len(inCode))
	}
	entries := map[string]bool{}
	for _, r := range playbook.Rules() {
		entries[r.ID] = true
		if !literals[r.ID] {
			t.Errorf("rule %s has an entry, but no code can cite it", r.ID)
		}
	}
	for id, where := range inCode {
		if !entries[id] {
			t.Errorf("rule %q is cited in %s, but internal/playbook/rules/%s.yaml does not exist", id, where[0], id)
		}
	}
}

// TestEveryRuleIsExpectedByATest looks for every id of the playbook, as a word, in the strings of tests and in the
// scripts under testdata: a rule that no test expects may never be found, or always, and nobody would know.
func TestEveryRuleIsExpectedByATest(t *testing.T) {
	expected := map[string]bool{}
	words := regexp.MustCompile(`[a-z0-9]+(-[a-z0-9]+)+`)
	expect := func(text string) {
		for _, word := range words.FindAllString(text, -1) {
			expected[word] = true
		}
	}
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if v, err := strconv.Unquote(lit.Value); err == nil {
					expect(v)
				}
			}
			return true
		})
	}
	scripts := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".txtar" {
			return err
		}
		scripts++
		text, err := os.ReadFile(path)
		expect(string(text))
		return err
	})
	if err != nil || scripts == 0 {
		t.Fatalf("%d scripts read: %v", scripts, err)
	}
	for _, r := range playbook.Rules() {
		if !expected[r.ID] {
			t.Errorf("no test expects rule %s: break something so that it must be found", r.ID)
		}
	}
}

// TestEveryReferenceInCodeIsExplained looks for ids such as R5 and S02 in Go files; package numeric has registers of these
// names instead, and C64 is a type. That the playbook's refs are explained is tested beside them.
func TestEveryReferenceInCodeIsExplained(t *testing.T) {
	explained, err := os.ReadFile("docs/references.md")
	if err != nil {
		t.Fatal(err)
	}
	reference := regexp.MustCompile(`\b[CRQSTML][0-9]{1,2}\b`)
	found := 0
	for _, s := range sources(t) {
		if strings.HasPrefix(s.path, "internal/numeric/") {
			continue
		}
		for _, id := range reference.FindAllString(string(s.text), -1) {
			found++
			if id != "C64" && !bytes.Contains(explained, []byte("* **"+id+"** ")) {
				t.Errorf("%s cites %s, which docs/references.md does not explain", s.path, id)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d references found: the search is broken", found)
	}
}

func note(into map[string][]string, e ast.Expr, path string) {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if v, err := strconv.Unquote(lit.Value); err == nil && v != "" {
			into[v] = append(into[v], path)
		}
	}
}

func ident(e ast.Node) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func TestEveryDirectDependencySaysWhyItIsThere(t *testing.T) {
	f, err := os.Open("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen, comment := 0, false
	for scan := bufio.NewScanner(f); scan.Scan(); {
		line := strings.TrimSpace(scan.Text())
		if strings.HasPrefix(line, "//") {
			comment = true
			continue
		}
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		isModule := len(fields) >= 2 && strings.HasPrefix(fields[1], "v") && strings.Contains(fields[0], "/") || len(fields) >= 2 && strings.HasPrefix(fields[0], "pgregory.net/")
		if isModule && !strings.Contains(line, "// indirect") {
			seen++
			if !comment && !strings.Contains(line, "//") {
				t.Errorf("go.mod: %s: no comment says why it is there", fields[0])
			}
		}
		comment = false
	}
	if seen < 5 {
		t.Errorf("only %d direct dependencies found: the scan is broken", seen)
	}
}

func TestTheReadmesTwoCommandsExist(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"demo", "test"} {
		if !bytes.Contains(readme, []byte("make "+command)) {
			t.Errorf("README.md does not say `make %s`", command)
		}
		if !bytes.Contains(makefile, []byte("\n"+command+":")) {
			t.Errorf("Makefile has no target %s", command)
		}
	}
}
