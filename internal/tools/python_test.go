package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// tree writes a source tree: file names and texts in turn.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(root, filepath.FromSlash(files[i]))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func needPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("SKIPPED: there is no python3 here, so nothing of capturing from a source tree is tested")
	}
}

func runTree(t *testing.T, tr Tree) (*Capture, error) {
	t.Helper()
	needPython(t)
	if tr.Timeout == 0 {
		tr.Timeout = time.Minute
	}
	if tr.Register == "" && tr.Source == "" {
		tr.Register = "register_tool"
	}
	return Python(t.Context(), tr)
}

func names(c *Capture) string {
	var out []string
	for _, tool := range c.Tools {
		out = append(out, tool.Name())
	}
	return strings.Join(out, " ")
}

func rules(c *Capture) []string {
	var out []string
	for _, f := range c.Judge() {
		out = append(out, f.Rule+": "+f.Subject+": "+f.Message)
	}
	return out
}

func TestABackendIsCapturedAsItRegisters(t *testing.T) {
	root := filepath.Join("testdata", "backend")
	c, err := runTree(t, Tree{Root: root, Imports: []string{"app.tools"}})
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "backend.json"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(Encode(c.Tools)); got != string(want) {
		t.Errorf("got %s", got)
	}
	if !slices.Equal(c.Stubbed, []string{"seatsmith_missing_http", "seatsmith_missing_models"}) {
		t.Errorf("stood in for %q; the module with a fallback must not be among them", c.Stubbed)
	}
	refused := strings.Join(c.Refused, "\n")
	for _, part := range []string{"an asyncio server at app/tools/search.py:41", "socket.bind at app/tools/orders.py:19", "BaseServer.serve_forever at app/tools/orders.py:19"} {
		if !strings.Contains(refused, part) {
			t.Errorf("not refused: %s, in %s", part, refused)
		}
	}
	var got []string
	for _, f := range c.Judge() {
		got = append(got, f.Rule)
	}
	if !slices.Equal(got, []string{"tools-stubbed", "tool-derived", "tool-derived"}) {
		t.Errorf("%q", got)
	}
	if !strings.HasPrefix(c.Tools[0].Where, "app/tools/search.py:1") { // which line of a call is its own differs between versions of Python
		t.Errorf("registered at %s", c.Tools[0].Where)
	}
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if d.Name() == "__pycache__" {
			t.Errorf("%s was written into the tree", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

const object = `{"type": "object", "properties": {"a": {"type": "string"}}}`

func TestARegistrationIsCapturedHoweverItIsCalled(t *testing.T) {
	for name, test := range map[string]struct {
		tr    Tree
		files []string
		want  string
	}{
		"a method of a missing package, by its receiver": {Tree{Register: "mcp.tool", Imports: []string{"main"}}, []string{"main.py", `
from missing_pkg import FastMCP
mcp, other = FastMCP("x"), FastMCP("y")
@mcp.tool()
async def first(a: int): "one"
@other.tool()
def second(a: int): "two"
@mcp.tool
def third(): "three"
mcp.run()
`}, "first third"},
		"an object with a method": {Tree{Imports: []string{"main"}}, []string{"reg.py", `
class Registry:
    def register_tool(self, handler, spec, name): raise SystemExit("called")
    @staticmethod
    def other(): pass
class Static:
    @staticmethod
    def register_tool(name, schema): raise SystemExit("called")
registry = Registry()
`, "main.py", `
from reg import registry, Static
def f(x): pass
registry.register_tool(f, ` + object + `, "first")
getattr(registry, "register_tool")(f, ` + object + `, name="second")
Static.register_tool("third", ` + object + `)
`}, "first second third"},
		"under other names": {Tree{Imports: []string{"main"}}, []string{"reg.py", "def register_tool(name, schema): raise SystemExit('called')\n", "main.py", `
import functools, reg
from reg import register_tool as r
again = reg.register_tool
half = functools.partial(r, schema=` + object + `)
r("first", ` + object + `)
again("second", ` + object + `)
half("third")
`}, "first second third"},
		"whole definitions, objects and classes": {Tree{Imports: []string{"main"}}, []string{"main.py", `
from missing_pkg import register_tool, BaseTool
register_tool({"type": "function", "function": {"name": "first", "description": "d", "parameters": ` + object + `}})
register_tool(name="second", description="d", parameters=` + object + `)
class Third:
    name, description, parameters = "third", "d", ` + object + `
register_tool(Third())
@register_tool
class Fourth(BaseTool):
    name, description, args_schema = "fourth", "d", ` + object + `
register_tool("fifth", "d", ` + object + `, lambda a: a)
`}, "first second third fourth fifth"},
		"a tree that is a package itself": {Tree{Imports: []string{"a.py", "sub/b.py", "__init__.py"}}, []string{"__init__.py", "", "a.py", `
from .reg import register_tool
from . import reg
register_tool("first", ` + object + `)
`, "reg.py", "def register_tool(name, schema): pass\n", "sub/__init__.py", "", "sub/b.py", `
from ..reg import register_tool
register_tool("second", ` + object + `)
`}, "first second"},
		"in a function that is called, plain or async": {Tree{Imports: []string{"main:setup", "main.py:later"}}, []string{"main.py", `
def register_tool(name, schema): pass
def setup(app, verbose=False):
    app.thing.configure(verbose)
    register_tool("first", ` + object + `)
async def later():
    register_tool("second", ` + object + `)
`}, "first second"},
		"by a folder on the path": {Tree{Imports: []string{"src/app/main.py"}, Paths: []string{"src"}}, []string{"src/app/main.py", `
from app.reg import register_tool
register_tool("first", ` + object + `)
`, "src/app/reg.py", "def register_tool(name, schema): pass\n"}, "first"},
		"a schema under another name": {Tree{Imports: []string{"main"}, SchemaArg: "spec"}, []string{"main.py", `
def register_tool(name, parameters, spec): pass
register_tool("first", 5, ` + object + `)
`}, "first"},
		"beside threads, noise and a closed output": {Tree{Imports: []string{"main"}}, []string{"main.py", `
import os, sys, threading, time
def register_tool(name, schema): pass
print("[{}]"); sys.stdout.flush(); os.write(1, b"noise" * 10000)
threading.Thread(target=lambda: time.sleep(600)).start()
register_tool("first", ` + object + `)
sys.stdout = sys.stderr = None
`}, "first"},
		"beside forks that keep everything open": {Tree{Imports: []string{"main"}}, []string{"main.py", `
import os, time
def register_tool(name, schema): pass
if os.fork() == 0:
    time.sleep(600)
if os.fork() != 0:
    register_tool("first", ` + object + `)
`}, "first"},
		"what asks a missing package for its version": {Tree{Imports: []string{"main"}}, []string{"main.py", `
import missing_pkg
from app.missing_too import x
def register_tool(name, schema): pass
old = missing_pkg.__version__ < "2" or len(missing_pkg.things) > 3 or isinstance(5, missing_pkg.Kind)
register_tool("old" if old else "new", ` + object + `)
`, "app/__init__.py", "", "app/missing_too.py", "x = 1\n", "app/missing_pkg.py", ""}, "new"},
		"what optional imports decide": {Tree{Imports: []string{"main"}}, []string{"main.py", `
import contextlib, importlib.util
def register_tool(name, schema): pass
fast = None
with contextlib.suppress(ImportError):
    import missing_fast as fast
try:
    from missing_sql import engine
except (ImportError, OSError):
    engine = None
register_tool("fast" if fast or engine or importlib.util.find_spec("missing_gpu") else "slow", ` + object + `)
`}, "slow"},
	} {
		t.Run(name, func(t *testing.T) {
			test.tr.Root = tree(t, test.files...)
			c, err := runTree(t, test.tr)
			if err != nil {
				t.Fatal(err)
			}
			if got := names(c); got != test.want {
				t.Errorf("%q, want %q: %q", got, test.want, rules(c))
			}
			for _, f := range c.Judge() {
				if f.Severity == "error" {
					t.Error(f)
				}
			}
		})
	}
}

// The servers that people start are known by name; a package that is installed loses them while it is loaded.
func TestAKnownServerIsNotStartedAndTheImportGoesOn(t *testing.T) {
	t.Setenv("PYTHONPATH", tree(t, "uvicorn/__init__.py", "def run(app): raise SystemExit('started')\n", "uvicorn/server.py", `
class Server:
    def run(self): raise SystemExit("started")
    async def serve(self): raise SystemExit("started")
`, "waitress.py", "def serve(app): raise SystemExit('started')\n"))
	root := tree(t, "main.py", `
import asyncio, uvicorn, waitress
from uvicorn.server import Server
def register_tool(name, schema): pass
uvicorn.run("main:app")
waitress.serve("main:app")
Server().run()
asyncio.run(Server().serve())
register_tool("first", `+object+`)
`)
	c, err := runTree(t, Tree{Root: root, Imports: []string{"main"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"uvicorn.run at main.py:5", "waitress.serve at main.py:6", "uvicorn.server.Server.run at main.py:7", "uvicorn.server.Server.serve at main.py:8"}
	if names(c) != "first" || !slices.Equal(c.Refused, want) {
		t.Errorf("%q, refused %q", names(c), c.Refused)
	}
}

func TestTheBackendsOwnListIsTakenAsItIs(t *testing.T) {
	root := tree(t, "main.py", `
LIST = [{"type": "function", "function": {"name": "b", "parameters": {"type": "object", "x": 1.0}, "description": "d"}}]
def make(): return {"tools": LIST}
async def later(request): return tuple(LIST)
BAD = {"b": LIST[0]}
WORSE = [object()]
`)
	for source, want := range map[string]string{"main:LIST": "", "main:make": "", "main.py:later": "", "main:BAD": `no "tools"`, "main:WORSE": "main:WORSE/0 is a object, which JSON does not have", "main:GONE": "has no GONE"} {
		c, err := runTree(t, Tree{Root: root, Source: source})
		switch {
		case want != "":
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", source, err, want)
			}
		case err != nil:
			t.Errorf("%s: %v", source, err)
		case string(Encode(c.Tools)) != "[\n"+`{"type": "function", "function": {"name": "b", "parameters": {"type": "object", "x": 1.0}, "description": "d"}}`+"\n]\n":
			t.Errorf("%s: %s", source, Encode(c.Tools))
		}
	}
}

func TestASchemaThatIsNotCertainIsNamedAndNotGuessed(t *testing.T) {
	root := tree(t, "main.py", `
import enum
from typing import Any, Dict, List, Optional, Union
from missing_pkg import Model, LIMIT, register_tool
class Mixed(enum.Enum):
    A, B = 1, "b"
@register_tool
def f01(a): "d"
@register_tool
def f02(a: int, *rest: int): "d"
@register_tool
def f03(a: Union[int, str]): "d"
@register_tool
def f04(a: Optional[int]): "d"
@register_tool
def f05(a: Model): "d"
@register_tool
def f06(a: "Nowhere"): "d"
@register_tool
def f07(a: Any): "d"
@register_tool
def f08(a: Dict[int, str]): "d"
@register_tool
def f09(a: Mixed): "d"
@register_tool
def f10(a: List[Model]): "d"
register_tool("f11", "d", {"type": "object", "properties": {"n": {"maximum": LIMIT}}}, print)
register_tool("f12", f"at most {LIMIT}", {"type": "object"}, print)
register_tool("f13", "d", {"type": "object", "x": float("nan")}, print)
register_tool("f14", "d", {"type": "object", "x": {1: 2}}, print)
register_tool("f15", "d", {"type": "object", "x": {1, 2}}, print)
register_tool(name="f16", parameters=Model.model_json_schema())
register_tool(name="f17", parameters="{}")
register_tool(name="f18")
register_tool("what is this", {"type": "object"})
register_tool("f20", "d", {"type": "object", "x": "\ud800"}, print)
class f21(Model): pass
register_tool(f21, name="f21")
loop = {"type": "object"}; loop["x"] = loop
register_tool("f22", "d", loop, print)
`)
	c, err := runTree(t, Tree{Root: root, Imports: []string{"main"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Tools) != 0 {
		t.Errorf("captured %s", Encode(c.Tools))
	}
	got := slices.DeleteFunc(rules(c), func(s string) bool { return !strings.HasPrefix(s, "tool-underivable: ") })
	want := []string{"parameter a has no annotation", "takes any number of arguments", "one of several types", "one of several types", "<stub of missing_pkg.Model>",
		"NameError", "Any", "keys are not strings", "not of one simple type", "<stub of missing_pkg.Model>", "parameters/properties/n/maximum comes from a missing module: <stub of missing_pkg.LIMIT>",
		"description comes from a missing module", "parameters/x is nan", "the key 1, which is not a string", "parameters/x is a set", "comes from a missing module", "its schema is a str, not a dict",
		"without a schema and without a function", "what 'what is this' stands for", "half of a surrogate pair", "f21", "nested deeper"}
	if len(got) != len(want) {
		t.Fatalf("%d findings, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) || !strings.Contains(got[i], "main.py:") {
			t.Errorf("%s, want %q", got[i], want[i])
		}
	}
}

func TestPlacesThatDidNotRunAreNamed(t *testing.T) {
	root := tree(t, "reg.py", "def register_tool(name, schema): pass\n", "main.py", `
from reg import register_tool
register_tool("first", `+object+`)
def never():
    register_tool("second", `+object+`)
`, "more.py", "import reg\n@reg.register_tool\ndef f(): pass\n", "tests/test_x.py", "register_tool(1)\n", ".venv/lib/x.py", "register_tool(1)\n")
	c, err := runTree(t, Tree{Root: root, Imports: []string{"main"}, Python: "python3"})
	if err != nil {
		t.Fatal(err)
	}
	got := rules(c)
	if len(got) != 3 || !strings.Contains(got[0], "tools-unreached: "+root+": main.py:5 was not reached") || !strings.Contains(got[1], "more.py was not imported") {
		t.Errorf("%q", got)
	}
}
