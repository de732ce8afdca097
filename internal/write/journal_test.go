package write

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func FuzzReadJournal(f *testing.F) {
	head := `{"schema":1,"plan":"p","version":"v"}` + "\n"
	line := `{"file":"a.safetensors","bytes":3,"blake3":"00","native":{"m":0.5},"sources":{"body/a":{"bytes":1,"mtime_ns":2}}}` + "\n"
	for _, s := range []string{"", head, head + line, head + line + line[:20], head + "rubbish\n" + line, "\n", line, head[:5], head + head} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		h, lines, good := readJournal(text)
		if !bytes.HasPrefix(text, good) || len(good) > 0 && good[len(good)-1] != '\n' {
			t.Fatalf("the good part %q is no whole lines of %q", good, text)
		}
		if h == nil && (len(lines) > 0 || len(good) > 0) {
			t.Fatal("lines without a first line")
		}
		again, more, all := readJournal(good)
		if !bytes.Equal(all, good) || len(more) != len(lines) || h != nil && *again != *h {
			t.Fatal("the good part does not read as itself")
		}
	})
}

func TestAJournalIsReadBackAsItWasWritten(t *testing.T) {
	dir := t.TempDir()
	head := planLine{Schema: 1, Plan: "p", Version: "v"}
	j, err := startJournal(dir, head)
	if err != nil {
		t.Fatal(err)
	}
	want := shardLine{File: "a", Native: map[string]float32{"m": 0.1}, Sources: map[string]identity{"body/x": {Bytes: 3, MtimeNS: 4}}}
	want.BLAKE3, want.Bytes = "ab", 7
	if err := j.append(want); err != nil {
		t.Fatal(err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, journalFile))
	if err != nil {
		t.Fatal(err)
	}
	h, lines, good := readJournal(append(text, `{"fi`...))
	if h == nil || *h != head || len(lines) != 1 || !bytes.Equal(good, text) {
		t.Fatalf("read %v %v from %q", h, lines, text)
	}
	got := lines[0]
	if got.File != want.File || got.FileHash != want.FileHash || got.Native["m"] != want.Native["m"] || got.Sources["body/x"] != want.Sources["body/x"] {
		t.Errorf("read %+v, wrote %+v", got, want)
	}
}
