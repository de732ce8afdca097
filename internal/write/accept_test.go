package write_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/model"
	"seatsmith/internal/write"
)

func TestWhatIsNotAcceptedIsNotPublishedAndCanBeResumed(t *testing.T) {
	m := openView(t, tinyBody, tinyDonor)
	p := makePlan(t, m, smallShards)
	out := filepath.Join(t.TempDir(), "out")
	no := errors.New("not good enough")
	seen := 0
	refuse := func(_ context.Context, done *write.Result) error {
		seen++
		if done.Dir != out+".partial" || done.Shards != len(p.Shards) {
			t.Errorf("asked about %+v", done)
		}
		for _, name := range []string{"config.json", "model.safetensors.index.json", model.ProvenanceFile, p.Shards[0].File} {
			if _, err := os.Stat(filepath.Join(done.Dir, name)); err != nil {
				t.Errorf("the folder is not whole when it is judged: %v", err)
			}
		}
		return no
	}
	_, err := write.Run(t.Context(), p, m, out, write.Options{Accept: refuse})
	if !errors.Is(err, no) || !strings.Contains(err.Error(), out+".partial") || seen != 1 {
		t.Fatalf("%v, asked %d times", err, seen)
	}
	absent(t, out)
	res, err := write.Run(t.Context(), p, m, out, write.Options{Accept: func(context.Context, *write.Result) error { return nil }})
	if err != nil || res.Resumed != len(p.Shards) || res.Dir != out {
		t.Fatalf("%+v, %v", res, err)
	}
	absent(t, out+".partial")

	plain := filepath.Join(t.TempDir(), "plain")
	if _, err := write.Run(t.Context(), p, m, plain, write.Options{}); err != nil {
		t.Fatal(err)
	}
	got, want := tree(t, out), tree(t, plain)
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s is not what an undisturbed run writes", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
}

func TestBeginIsCalledOnlyWhenTheOutputIsOurs(t *testing.T) {
	m := openView(t, tinyBody, tinyDonor)
	p := makePlan(t, m, smallShards)
	out := filepath.Join(t.TempDir(), "out")
	no := errors.New("no records can be kept")
	if _, err := write.Run(t.Context(), p, m, out, write.Options{Begin: func() error { return no }}); !errors.Is(err, no) {
		t.Errorf("an error of Begin: %v", err)
	}
	absent(t, out)
	absent(t, out+".partial")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	begun := false
	if _, err := write.Run(t.Context(), p, m, out, write.Options{Begin: func() error { begun = true; return nil }}); err == nil || begun {
		t.Errorf("a taken output: error %v, begun %v", err, begun)
	}
}
