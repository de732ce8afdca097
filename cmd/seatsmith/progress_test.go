package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestWithoutATerminalProgressIsPlainLines(t *testing.T) {
	var out bytes.Buffer
	a := &app{stderr: &out}
	p := a.progress()
	p.event("shard-done", map[string]any{"bytes": int64(2_500_000), "file": "m.safetensors", "blake3": strings.Repeat("ab", 32)})
	if want := "shard-done: blake3=abababababab bytes=2.5 MB file=m.safetensors\n"; out.String() != want {
		t.Errorf("event line %q, want %q", out.String(), want)
	}
	out.Reset()
	p.update("write", 1e9, 4e9)
	if out.Len() != 0 {
		t.Errorf("the first moment prints %q", out.String())
	}
	p.begin, p.last = p.begin.Add(-10*time.Second), p.last.Add(-plainEvery)
	p.update("write", 1e9, 4e9)
	for _, want := range []string{"write: 1.0 GB of 4.0 GB (25 %)", "100 MB/s", "30s left"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q does not say %q", out.String(), want)
		}
	}
	if strings.ContainsAny(out.String(), "\r\x1b") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("not one plain line: %q", out.String())
	}
	p.close()
}

func TestQuietShowsNoProgress(t *testing.T) {
	var out bytes.Buffer
	p := (&app{stderr: &out, quiet: true}).progress()
	p.event("published", nil)
	p.update("write", 1, 2)
	p.line("== write")
	p.close()
	if out.Len() != 0 {
		t.Errorf("quiet printed %q", out.String())
	}
}
