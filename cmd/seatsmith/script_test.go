package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tidwall/gjson"
)

// The stories under testdata run the program as a stranger would: one archive, one story.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == secondEngine { // the stories' own child: calib check starts this very binary
		main()
		return
	}
	testscript.Main(m, map[string]func(){"seatsmith": main, "tavern-mcp": tavernMCP})
}

func TestStories(t *testing.T) {
	fixtures, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("FIXTURES", fixtures)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":    exitCode,
			"json":    jsonField,
			"copydir": copyDir,
			"samedir": sameDir,
			"flip":    flipByte,
			"chop":    chop,
			"stats":   makeStats,
			"serve":   serve,
		},
	})
}

// exitCode runs the program and wants this exit code: code 1 inspect DIR.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N args...")
	}
	var stdout, stderr bytes.Buffer
	for i, a := range args {
		if strings.HasPrefix(a, "@") {
			args[i] = ts.MkAbs(a[1:])
		}
	}
	got := run(context.Background(), args[1:], &stdout, &stderr)
	ts.Check(os.WriteFile(ts.MkAbs("printed"), stdout.Bytes(), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs("said"), stderr.Bytes(), 0o644))
	ts.Logf("[stdout]\n%s[stderr]\n%s", stdout.String(), stderr.String())
	if want := args[0]; want != string(rune('0'+got)) {
		ts.Fatalf("exit code %d, want %s", got, want)
	}
}

// jsonField compares a field of the JSON document that was printed: json PATH VALUE.
func jsonField(ts *testscript.TestScript, neg bool, args []string) {
	data := ts.ReadFile("printed")
	if !json.Valid([]byte(data)) {
		ts.Fatalf("stdout is not one JSON document:\n%s", data)
	}
	if got := gjson.Get(data, args[0]).String(); (got == args[1]) == neg {
		ts.Fatalf("%s is %q, want %q (negated: %v)", args[0], got, args[1], neg)
	}
}

func copyDir(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), os.DirFS(ts.MkAbs(args[0]))))
}

// sameDir wants two folders with the same files and the same bytes.
func sameDir(ts *testscript.TestScript, neg bool, args []string) {
	a, b := contents(ts, args[0]), contents(ts, args[1])
	if len(a) == 0 {
		ts.Fatalf("%s is empty", args[0])
	}
	if len(a) != len(b) {
		ts.Fatalf("%d files against %d", len(a), len(b))
	}
	for name, data := range a {
		if !bytes.Equal(data, b[name]) {
			ts.Fatalf("%s differs", name)
		}
	}
}

func contents(ts *testscript.TestScript, dir string) map[string][]byte {
	entries, err := os.ReadDir(ts.MkAbs(dir))
	ts.Check(err)
	out := map[string][]byte{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(ts.MkAbs(dir), e.Name()))
		ts.Check(err)
		out[e.Name()] = data
	}
	return out
}

// flipByte changes one byte of a tensor's data: flip FILE TENSOR.
func flipByte(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	n := binary.LittleEndian.Uint64(data)
	begin := gjson.GetBytes(data[8:8+n], strings.ReplaceAll(args[1], ".", `\.`)+".data_offsets.0")
	if !begin.Exists() {
		ts.Fatalf("%s holds no tensor %s", args[0], args[1])
	}
	data[8+n+begin.Uint()] ^= 0x40
	ts.Check(os.WriteFile(path, data, 0o644))
}

// chop removes the last byte of a file.
func chop(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	ts.Check(os.WriteFile(path, data[:len(data)-1], 0o644))
}
