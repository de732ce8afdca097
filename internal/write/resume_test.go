package write_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/write"
)

// interruptAt runs until the named failpoint and cancels there; the folder is left for the next run.
func interruptAt(t *testing.T, p *plan.Plan, m *model.Model, out, name string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer write.SetFailpoint(func(at string) {
		if at == name {
			cancel()
		}
	})()
	_, err := write.Run(ctx, p, m, out, write.Options{Workers: 2})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled at %s: %v", name, err)
	}
	says(t, err, out+".partial", "run the same command again")
	absent(t, out)
}

func TestAnInterruptedRunSaysSoAndTheNextGoesOn(t *testing.T) {
	m, p := tiny(t)
	dir := t.TempDir()
	mustRun(t, p, m, filepath.Join(dir, "whole"), write.Options{})
	out := filepath.Join(dir, "out")
	interruptAt(t, p, m, out, "shard-journalled:"+p.Shards[1].File)
	var stages []string
	resumedEvents := 0
	res := mustRun(t, p, m, out, write.Options{
		Progress: func(stage string, _, _ int64) {
			if !slices.Contains(stages, stage) {
				stages = append(stages, stage)
			}
		},
		Event: func(kind string, _ map[string]any) {
			if kind == "shard-resumed" {
				resumedEvents++
			}
		},
	})
	if res.Resumed < 2 || res.Resumed != resumedEvents || !slices.Equal(stages, []string{"resume", "write"}) {
		t.Errorf("resumed %d shards with %d events, stages %q", res.Resumed, resumedEvents, stages)
	}
	sameTree(t, tree(t, out), tree(t, filepath.Join(dir, "whole")))
}

// TestUnfinishedFoldersInAnyStateLeadToTheSameBytes damages what an interrupted run left.
func TestUnfinishedFoldersInAnyStateLeadToTheSameBytes(t *testing.T) {
	m, p := tiny(t)
	dir := t.TempDir()
	mustRun(t, p, m, filepath.Join(dir, "whole"), write.Options{})
	want := tree(t, filepath.Join(dir, "whole"))
	first, second := p.Shards[0].File, p.Shards[1].File
	for name, c := range map[string]struct {
		damage func(t *testing.T, partial string)
		keeps  bool // the first shard
	}{
		"nothing":            {func(*testing.T, string) {}, true},
		"a torn line":        {journalEdit(func(b []byte) []byte { return append(b, `{"file":"model-0`...) }), true},
		"a torn first line":  {onlyJournal(func(b []byte) []byte { return b[:10] }), false},
		"an empty journal":   {onlyJournal(func([]byte) []byte { return nil }), false},
		"a line of rubbish":  {journalEdit(func(b []byte) []byte { return append(b[:bytes.IndexByte(b, '\n')+1], "rubbish\n"...) }), false},
		"a line without end": {journalEdit(func(b []byte) []byte { return bytes.TrimRight(b, "\n") }), false},
		"a flipped byte": {func(t *testing.T, partial string) {
			b := readFile(t, partial, first)
			b[len(b)/2] ^= 1
			put(t, filepath.Join(partial, first), b)
		}, false},
		"a cut shard": {func(t *testing.T, partial string) {
			put(t, filepath.Join(partial, first), readFile(t, partial, first)[:100])
		}, false},
		"a lost shard": {func(t *testing.T, partial string) { must(t, os.Remove(filepath.Join(partial, first))) }, false},
		"a link for a shard": {func(t *testing.T, partial string) {
			blob := filepath.Join(t.TempDir(), "blob")
			must(t, os.Rename(filepath.Join(partial, first), blob))
			must(t, os.Symlink(blob, filepath.Join(partial, first)))
		}, false},
		"leftovers": {func(t *testing.T, partial string) {
			put(t, filepath.Join(partial, second+".tmp"), []byte("half"))
			put(t, filepath.Join(partial, "tokenizer.json"), []byte("old"))
			must(t, os.MkdirAll(filepath.Join(partial, "folder", "inside"), 0o755))
		}, true},
		"a shard without a line": {func(t *testing.T, partial string) { put(t, filepath.Join(partial, second), []byte("unknown")) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			interruptAt(t, p, m, out, "shard-journalled:"+first)
			c.damage(t, out+".partial")
			var kept []string
			res := mustRun(t, p, m, out, write.Options{Event: func(kind string, f map[string]any) {
				if kind == "shard-resumed" {
					kept = append(kept, f["file"].(string))
				}
			}})
			if slices.Contains(kept, first) != c.keeps || len(kept) != res.Resumed {
				t.Errorf("kept %q (result: %d), want %s kept: %v", kept, res.Resumed, first, c.keeps)
			}
			sameTree(t, tree(t, out), want)
		})
	}
}

func TestAShardWhoseSourceChangedIsWrittenAgain(t *testing.T) {
	body := copyFolder(t, tinyBody)
	m := openView(t, body, tinyDonor)
	p := makePlan(t, m, smallShards)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	interruptAt(t, p, m, out, "shard-journalled:"+p.Shards[1].File)

	// Same headers, other weights: the plan's hash cannot tell.
	first := &p.Items[p.Shards[0].Items[0]]
	path := edit(t, body, first.Source, func(b []byte) { b[1] ^= 1 })
	later := time.Now().Add(time.Hour)
	must(t, os.Chtimes(path, later, later))
	m = openView(t, body, tinyDonor)
	p = makePlan(t, m, smallShards)
	var why []any
	mustRun(t, p, m, out, write.Options{Event: func(kind string, f map[string]any) {
		if kind == "shard-rewritten" && f["file"] == p.Shards[0].File {
			why = append(why, f["reason"])
		}
	}})
	if len(why) != 1 || !strings.Contains(why[0].(string), "source file changed") {
		t.Errorf("the first shard was rewritten because %q", why)
	}
	mustRun(t, p, m, filepath.Join(dir, "fresh"), write.Options{})
	sameTree(t, tree(t, out), tree(t, filepath.Join(dir, "fresh")))
}

// Two fine-tunes of one base have equal headers, and images set every time to one moment.
func TestAnotherFineTuneOfTheSameSizeAndTimeIsNotMixedIn(t *testing.T) {
	one, other := copyFolder(t, tinyBody), copyFolder(t, tinyBody)
	m := openView(t, one, tinyDonor)
	p := makePlan(t, m, smallShards)
	edit(t, other, p.Items[p.Shards[0].Items[0]].Source, func(b []byte) { b[1] ^= 1 })
	epoch := time.Unix(1, 0)
	for _, dir := range []string{one, other} {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		must(t, err)
		for _, f := range files {
			must(t, os.Chtimes(f, epoch, epoch))
		}
	}
	m = openView(t, one, tinyDonor)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	interruptAt(t, p, m, out, "shard-journalled:"+p.Shards[1].File)
	m = openView(t, other, tinyDonor)
	if again := makePlan(t, m, smallShards); again.Hash() != p.Hash() {
		t.Fatal("the plans differ, so this test shows nothing")
	}
	mustRun(t, p, m, out, write.Options{})
	mustRun(t, p, m, filepath.Join(dir, "fresh"), write.Options{})
	sameTree(t, tree(t, out), tree(t, filepath.Join(dir, "fresh")))
}

func TestTheUnfinishedFolderOfAnotherPlanIsRefused(t *testing.T) {
	m, p := tiny(t)
	out := filepath.Join(t.TempDir(), "out")
	interruptAt(t, p, m, out, "shard-journalled:"+p.Shards[0].File)
	before := tree(t, out+".partial")
	other := makePlan(t, m, allLinear)
	_, err := write.Run(context.Background(), other, m, out, write.Options{})
	if !errors.Is(err, write.ErrOtherPlan) {
		t.Errorf("got %v, want ErrOtherPlan", err)
	}
	says(t, err, p.Hash(), other.Hash(), out+".partial", "delete")
	sameTree(t, tree(t, out+".partial"), before)

	t.Run("or version", func(t *testing.T) {
		journal := filepath.Join(out+".partial", write.JournalFile)
		var head map[string]any
		line, rest, _ := bytes.Cut(readFile(t, out+".partial", write.JournalFile), []byte("\n"))
		must(t, json.Unmarshal(line, &head))
		head["version"] = "0.0.0-older"
		put(t, journal, slices.Concat(mustJSON(t, head), []byte("\n"), rest))
		_, err := write.Run(context.Background(), p, m, out, write.Options{})
		if !errors.Is(err, write.ErrOtherPlan) {
			t.Errorf("got %v, want ErrOtherPlan", err)
		}
		says(t, err, "0.0.0-older", p.Version)
	})
}

func TestAForeignFolderUnderThePartialNameIsLeftAlone(t *testing.T) {
	m, p := tiny(t)
	out := filepath.Join(t.TempDir(), "out")
	for name, fill := range map[string]func(){
		"files": func() { put(t, filepath.Join(out+".partial", "thesis.txt"), []byte("mine")) },
		"files and a torn journal": func() {
			put(t, filepath.Join(out+".partial", "thesis.txt"), []byte("mine"))
			put(t, filepath.Join(out+".partial", write.JournalFile), []byte(`{"sch`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, os.MkdirAll(out+".partial", 0o755))
			fill()
			before := tree(t, out+".partial")
			_, err := write.Run(context.Background(), p, m, out, write.Options{})
			says(t, err, out+".partial", "no journal")
			sameTree(t, tree(t, out+".partial"), before)
			absent(t, out)
		})
	}
	t.Run("a file", func(t *testing.T) {
		must(t, os.RemoveAll(out+".partial"))
		put(t, out+".partial", []byte("mine"))
		_, err := write.Run(context.Background(), p, m, out, write.Options{})
		says(t, err, out+".partial", "not a folder")
	})
	t.Run("a link", func(t *testing.T) {
		must(t, os.Remove(out+".partial"))
		elsewhere := t.TempDir()
		must(t, os.Symlink(elsewhere, out+".partial"))
		_, err := write.Run(context.Background(), p, m, out, write.Options{})
		says(t, err, out+".partial", "not a folder")
		if len(tree(t, elsewhere)) != 0 {
			t.Error("something was written through the link")
		}
	})
}

func TestSHA256IsAsThisRunWasAskedNotAsTheKilledOne(t *testing.T) {
	m, p := tiny(t)
	dir := t.TempDir()
	for _, sha := range []bool{false, true} {
		out := filepath.Join(dir, "resumed")
		interruptAt(t, p, m, out, "shard-journalled:"+p.Shards[0].File)
		mustRun(t, p, m, out, write.Options{SHA256: sha})
		whole := filepath.Join(dir, "whole")
		mustRun(t, p, m, whole, write.Options{SHA256: sha})
		sameTree(t, tree(t, out), tree(t, whole))
		must(t, errors.Join(os.RemoveAll(out), os.RemoveAll(whole)))
	}
}

func TestAResumedRunRepeatsWhatTheKilledOneFound(t *testing.T) {
	body := copyFolder(t, tinyBody)
	m := openView(t, body, tinyDonor)
	it := firstItem(t, makePlan(t, m, smallShards), isNVFP4)
	zero := make(map[int64]float32)
	for i := range it.Shape[0] * it.Shape[1] {
		zero[i] = 0
	}
	poke(t, body, it.Source, zero)
	m = openView(t, body, tinyDonor)
	p := makePlan(t, m, smallShards)
	out := filepath.Join(t.TempDir(), "out")
	interruptAt(t, p, m, out, "file-written:config.json")
	res := mustRun(t, p, m, out, write.Options{})
	if res.Resumed != len(p.Shards) {
		t.Errorf("resumed %d of %d shards", res.Resumed, len(p.Shards))
	}
	if len(res.Findings) != 1 || res.Findings[0].Rule != "zero-tensor" || res.Findings[0].Subject != it.Source {
		t.Errorf("findings %+v", res.Findings)
	}
	if it.Scheme != dialect.NVFP4W4A16 {
		t.Errorf("the default recipe chose %s", it.Scheme)
	}
}

// journalEdit rewrites the journal.
func journalEdit(change func([]byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, partial string) {
		put(t, filepath.Join(partial, write.JournalFile), change(readFile(t, partial, write.JournalFile)))
	}
}

// onlyJournal rewrites the journal and removes everything else, as if the machine had stopped right at the start.
func onlyJournal(change func([]byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, partial string) {
		text := change(readFile(t, partial, write.JournalFile))
		must(t, os.RemoveAll(partial))
		must(t, os.Mkdir(partial, 0o755))
		put(t, filepath.Join(partial, write.JournalFile), text)
	}
}

func put(t testing.TB, path string, b []byte) {
	t.Helper()
	must(t, os.WriteFile(path, b, 0o644))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
