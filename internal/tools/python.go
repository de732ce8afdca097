package tools

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"seatsmith/internal/playbook"
	"seatsmith/internal/prompt/ordered"
)

// The program that the tree's interpreter runs, in the order in which its parts are joined.
var (
	//go:embed pyrun/stubs.py
	pyStubs string
	//go:embed pyrun/tree.py
	pyTree string
	//go:embed pyrun/registration.py
	pyRegistration string
	//go:embed pyrun/schema.py
	pySchema string
	//go:embed pyrun/run.py
	pyRun string
)

// bootstrap asks for the version in words that every Python understands, and gives the program a name that its own frames
// are known by.
const bootstrap = `import sys
if sys.version_info < (3, 8):
    sys.stderr.write("seatsmith needs Python 3.8 or newer here, and this is %d.%d\n" % sys.version_info[:2])
    sys.exit(97)
exec(compile(sys.argv[1], "<seatsmith capture>", "exec"))
`

// Tree is a Python source tree and how it registers its tools.
type Tree struct {
	Root      string
	Python    string   // interpreter; "" looks for one in the tree (.venv, venv, env), then for python3 in PATH
	Imports   []string // MODULE, FILE.py or MODULE:FUNCTION, in their order
	Register  string   // name of the registration function, "" when Source says where the list is
	SchemaArg string   // name of the argument that is the schema, "" for the usual ones
	Source    string   // MODULE:NAME of a list of tools, or of a function that makes it
	Paths     []string // further folders for sys.path, relative to the root
	NoStubs   bool     // a missing dependency is an error
	Timeout   time.Duration
}

// Python runs a tree with its own interpreter and captures what it registers, or the list that it makes itself. Its code is
// run as it is at import, by the user who asks.
func Python(ctx context.Context, t Tree) (*Capture, error) {
	root, err := filepath.Abs(t.Root)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder with a source tree", t.Root)
	}
	python, err := t.interpreter(root)
	if err != nil {
		return nil, err
	}
	settings, err := json.Marshal(map[string]any{
		"root": root, "imports": list(t.Imports), "register": t.Register, "schema_arg": t.SchemaArg, "source": t.Source,
		"paths": list(t.Paths), "stubs": !t.NoStubs, "limit": t.Timeout.Seconds() / 4,
	})
	if err != nil {
		return nil, err
	}
	program := strings.Join([]string{pyStubs, pyTree, pyRegistration, pySchema, pyRun}, "\n\n")
	// -B: no __pycache__ is written into the tree, and none that is there is believed.
	cmd := exec.Command(python, "-B", "-c", bootstrap, program, string(settings))
	cmd.Dir = root
	p, err := spawn(cmd, false, true)
	if p != nil {
		p.stderr.skip = []string{`File "<frozen importlib`, `File "<seatsmith capture>"`, `File "<string>"`} // frames that are nobody's mistake
	}
	if err != nil {
		return nil, fmt.Errorf("starting the interpreter %s: %w; --python names another", python, err)
	}
	defer p.end(0)
	data, err := p.answer(ctx, t.Timeout)
	died := err == nil && len(data) == 0 && gone(p.cmd, time.Second)
	ending := p.end(0)
	switch {
	case errors.Is(err, errSilent):
		return nil, fmt.Errorf("%s was not done in %s: something runs without an end when it is imported; --timeout allows more; %s", t.Root, t.Timeout, p.report("where it was"))
	case err != nil:
		return nil, fmt.Errorf("the answer of %s: %w", t.Root, err)
	case len(data) == 0 && died:
		return nil, fmt.Errorf("the interpreter %s gave no answer: %s", python, p.report(ending))
	case len(data) == 0:
		return nil, fmt.Errorf("the interpreter %s closed its answer without one: %s", python, p.report(ending))
	}
	return t.read(data, python)
}

func list(s []string) []string { return append([]string{}, s...) }

// answer reads the one line that the child writes, for at most so long; a line that is cut is none. Its end is not waited for: what
// the tree forked may keep the pipe open.
func (c *child) answer(ctx context.Context, limit time.Duration) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := bufio.NewReader(&limited{r: c.out, left: MaxBytes}).ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			data, err = nil, nil
		}
		done <- result{data, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.data, r.err
	case <-timer.C:
		return nil, errSilent
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// interpreter finds the one that belongs to the tree. A link is not followed: that is how a venv's interpreter knows its venv.
func (t Tree) interpreter(root string) (string, error) {
	if t.Python != "" {
		path, err := exec.LookPath(t.Python)
		if err != nil {
			return "", fmt.Errorf("no Python: %w; --python names the interpreter of the deployment", err)
		}
		return filepath.Abs(path)
	}
	for _, venv := range []string{".venv", "venv", "env"} {
		path := filepath.Join(root, venv, "bin", "python")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		} else if _, linked := os.Lstat(path); linked == nil && errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("no Python: %s leads nowhere, so the environment of the tree is broken; --python names another interpreter", path)
		}
	}
	path, err := exec.LookPath("python3")
	if err != nil {
		return "", fmt.Errorf("no Python: the tree has no .venv, venv or env, and %w; --python names the interpreter of the deployment", err)
	}
	return filepath.Abs(path)
}

// read turns the answer into a capture.
func (t Tree) read(data []byte, python string) (*Capture, error) {
	v, err := ordered.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("the interpreter's answer: %w", err)
	}
	c := &Capture{Kind: "python", From: t.Root, Server: "Python " + v.TextOf("python"), Stubbed: texts(v, "stubbed"), Refused: texts(v, "refused")}
	c.Notes = append(c.Notes, "run by "+python)
	if e, failed := v.Get("error"); failed {
		return nil, t.failure(e, c)
	}
	if t.Source != "" {
		doc, _ := v.Get("document")
		made, err := elements(doc)
		if err == nil {
			err = c.add(made)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: what %s gives: %w", t.Root, t.Source, err)
		}
		return c, nil
	}
	got, _ := v.Get("tools")
	if got.Len() > MaxTools {
		return nil, fmt.Errorf("%s registers %d tools, more than %d; no prompt holds that many", t.Root, got.Len(), MaxTools)
	}
	for _, item := range got.Items() {
		function, _ := item.Get("definition")
		tool := newTool(function)
		tool.Where, tool.Derived = item.TextOf("where"), texts(item, "derived")
		c.Tools = append(c.Tools, tool)
	}
	bad, _ := v.Get("problems")
	for _, p := range bad.Items() {
		c.problems = append(c.problems, playbook.New("tool-underivable", t.Root+"/"+p.TextOf("subject"), p.TextOf("message"),
			"Pass the schema to the registration, name its argument with --schema-arg, or take the backend's own list with --from MODULE:NAME."))
	}
	missed := texts(v, "unreached")
	if len(c.Tools)+len(c.problems) == 0 {
		return nil, t.nothing(v, missed)
	}
	for _, m := range missed {
		c.problems = append(c.problems, playbook.New("tools-unreached", t.Root, m,
			"--import names a further module, --import MODULE:FUNCTION calls the function that registers."))
	}
	return c, nil
}

func texts(v ordered.Value, key string) []string {
	var out []string
	list, _ := v.Get(key)
	for _, item := range list.Items() {
		out = append(out, item.Text())
	}
	return out
}

// failure says why the tree did not get to its end.
func (t Tree) failure(e ordered.Value, c *Capture) error {
	at := e.TextOf("at")
	text := fmt.Sprintf("%s: running %s failed: %s", t.Root, at, e.TextOf("message"))
	if at == "" {
		text = fmt.Sprintf("%s: running it failed: %s", t.Root, e.TextOf("message"))
	}
	if trace := e.TextOf("traceback"); trace != "" {
		text += "\n" + trace
	}
	if len(c.Refused) > 0 {
		text += "\nservers that were not started: " + strings.Join(c.Refused, ", ") + ` (code under if __name__ == "__main__" is not run)`
	}
	if len(c.Stubbed) > 0 {
		text += "\nmissing modules that were stood in for: " + strings.Join(c.Stubbed, ", ") + " (--python names the interpreter that has them)"
	} else if strings.HasPrefix(e.TextOf("message"), "ModuleNotFoundError") {
		text += "\n--python names the interpreter that has it, --path adds a folder of the tree to sys.path"
	}
	return errors.New(text)
}

// nothing says what to do when a run registered nothing, which may never pass for an empty list.
func (t Tree) nothing(v ordered.Value, missed []string) error {
	sites, _ := v.Get("sites")
	text := fmt.Sprintf("%s: nothing was registered with %s by %s", t.Root, t.Register, strings.Join(t.Imports, ", "))
	if sites.Text() == "0" {
		text += fmt.Sprintf("; nothing that was imported calls %s", t.Register)
	}
	if len(missed) > 0 {
		text += "\n" + strings.Join(missed[:min(len(missed), 10)], "\n")
		return errors.New(text + "\n--import names a further module, --import MODULE:FUNCTION calls the function that registers")
	}
	return errors.New(text + "; --register names the function, or METHOD after its receiver (mcp.tool)")
}
