package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestATreeThatDoesNotRunIsAnErrorThatSaysWhereAndWhatNext(t *testing.T) {
	const reg = "def register_tool(name, schema): pass\nregister_tool('a', {'type': 'object'})\n"
	for name, test := range map[string]struct {
		tr    Tree
		files []string
		want  []string
	}{
		"raises":        {Tree{Imports: []string{"main"}}, []string{"main.py", reg + "def f():\n    return 1 / 0\nf()\n"}, []string{"running main failed: ZeroDivisionError", `main.py", line 4, in f`, "return 1 / 0"}},
		"no syntax":     {Tree{Imports: []string{"main"}}, []string{"main.py", "def\n"}, []string{"running main failed: SyntaxError", "main.py"}},
		"exits":         {Tree{Imports: []string{"main"}}, []string{"main.py", reg + "import sys\nsys.exit('no database')\n"}, []string{"SystemExit: no database"}},
		"dies":          {Tree{Imports: []string{"main"}}, []string{"main.py", reg + "import os, sys\nsys.stderr.write('bye\\n'); sys.stderr.flush()\nos._exit(7)\n"}, []string{"gave no answer", "exit status 7", "bye"}},
		"is killed":     {Tree{Imports: []string{"main"}}, []string{"main.py", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"}, []string{"gave no answer", "signal: killed"}},
		"missing":       {Tree{Imports: []string{"nothere"}}, []string{"main.py", ""}, []string{"No module named 'nothere'", "--python", "--path"}},
		"missing file":  {Tree{Imports: []string{"not/here.py"}}, []string{"main.py", ""}, []string{"there is no not/here.py in the tree"}},
		"outside":       {Tree{Imports: []string{"../x.py"}}, []string{"main.py", ""}, []string{"x.py"}},
		"no function":   {Tree{Imports: []string{"main:gone"}}, []string{"main.py", ""}, []string{"main has no gone"}},
		"no call":       {Tree{Imports: []string{"main:x"}}, []string{"main.py", "x = 5\n"}, []string{"main:x is a int and cannot be called"}},
		"no stubs":      {Tree{Imports: []string{"main"}, NoStubs: true}, []string{"main.py", "import missing_pkg\n" + reg}, []string{"No module named 'missing_pkg'", "--python"}},
		"own module":    {Tree{Imports: []string{"main"}}, []string{"main.py", "import settings\n" + reg, "src/settings.py", ""}, []string{"No module named 'settings'", "--path"}},
		"nothing":       {Tree{Imports: []string{"main"}}, []string{"main.py", "x = 1\n"}, []string{"nothing was registered with register_tool by main", "nothing that was imported calls", "--register names the function"}},
		"not reached":   {Tree{Imports: []string{"main"}}, []string{"main.py", "def register_tool(f): return f\ndef setup():\n    register_tool(print)\n"}, []string{"main.py:3 was not reached", "--import MODULE:FUNCTION"}},
		"server raises": {Tree{Imports: []string{"main"}}, []string{"main.py", "import socket, missing_pkg\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.accept()\n"}, []string{"running main failed: OSError", "socket.bind at main.py:3", "missing_pkg", "__main__"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.tr.Root = tree(t, test.files...)
			c, err := runTree(t, test.tr)
			if err == nil {
				t.Fatalf("captured %s", Encode(c.Tools))
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v\nwant %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "<seatsmith capture>") {
				t.Errorf("our own frames are shown: %v", err)
			}
		})
	}
}

func TestATreeWithoutAnEndIsEndedAndSaysWhereItWas(t *testing.T) {
	root := tree(t, "main.py", "import time\ndef wait():\n    while True:\n        time.sleep(1)\nwait()\n")
	_, err := runTree(t, Tree{Root: root, Imports: []string{"main"}, Timeout: 2 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "was not done in 2s") || !strings.Contains(err.Error(), `main.py", line 4 in wait`) {
		t.Error(err)
	}
}

func TestTheInterpreterIsFoundOrNamed(t *testing.T) {
	needPython(t)
	root := tree(t, "main.py", "", ".venv/pyvenv.cfg", "")
	if err := os.Mkdir(filepath.Join(root, ".venv", "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, ".venv", "bin", "python")
	if err := os.Symlink("/no/such/python", link); err != nil {
		t.Fatal(err)
	}
	if _, err := runTree(t, Tree{Root: root, Imports: []string{"main"}}); err == nil || !strings.Contains(err.Error(), "leads nowhere, so the environment of the tree is broken; --python") {
		t.Error(err)
	}
	if _, err := runTree(t, Tree{Root: root, Imports: []string{"main"}, Python: "no-such-python"}); err == nil || !strings.Contains(err.Error(), "no Python") || !strings.Contains(err.Error(), "--python") {
		t.Error(err)
	}
	if _, err := runTree(t, Tree{Root: filepath.Join(root, "main.py")}); err == nil || !strings.Contains(err.Error(), "is no folder") {
		t.Error(err)
	}
	own := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(own, []byte("#!/bin/sh\necho not a Python >&2\nexit 4\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := runTree(t, Tree{Root: root, Imports: []string{"main"}, Python: own}); err == nil || !strings.Contains(err.Error(), "exit status 4") || !strings.Contains(err.Error(), "not a Python") {
		t.Error(err)
	}
}
