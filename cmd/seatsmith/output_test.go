package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"seatsmith/internal/playbook"
)

func TestWhatAHostileFileSaysIsSafeToShow(t *testing.T) {
	var out bytes.Buffer
	a := &app{stderr: &out}
	a.findings([]playbook.Finding{{Rule: "r", Severity: playbook.Error, Subject: "foo\x1b[2J\r\u202e", Message: strings.Repeat("x", 1<<20), Fix: "b\x00"}})
	if strings.ContainsAny(out.String(), "\x1b\r\x00\u202e") || !strings.Contains(out.String(), `foo\x1b[2J\r\u202e`) {
		t.Errorf("%.200q", out.String())
	}
	if out.Len() > 4000 || !strings.Contains(out.String(), "1,048,576 bytes in all") {
		t.Errorf("%d bytes were printed", out.Len())
	}
}

func TestQuotedArgumentsCanBePasted(t *testing.T) {
	for arg, want := range map[string]string{
		"./out": "./out", "my tune": "'my tune'", "it's": `'it'\''s'`, "-dash": "'./-dash'", "": "''", "$HOME": "'$HOME'", "größe": "größe", "a;b": "'a;b'",
	} {
		if got := quoted(arg); got != want {
			t.Errorf("quoted(%q) = %s, want %s", arg, got, want)
		}
	}
}

func TestABadFlagIsADocumentToo(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), []string{"inspect", "--nope", "--json"}, &stdout, &stderr); code != exitUsage || gjson.Get(stdout.String(), "error").String() == "" {
		t.Errorf("code %d, stdout %q", code, stdout.String())
	}
}

func TestAFolderThatLooksLikeAFlag(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("-dash", 0o755); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), []string{"inspect", "-dash"}, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "write ./-dash") {
		t.Errorf("code %d, %s", code, stderr.String())
	}
}
