package write_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/write"
)

var (
	nan = float32(math.NaN())
	inf = float32(math.Inf(1))
)

func TestANonFiniteSourceIsRefusedByNamePlaceAndValue(t *testing.T) {
	body := copyFolder(t, tinyBody)
	p := makePlan(t, openView(t, body, tinyDonor), smallShards)
	fp4, fp8 := firstItem(t, p, isNVFP4), firstItem(t, p, isFP8)
	cols4, cols8 := fp4.Shape[1], fp8.Shape[1]
	poke(t, body, fp4.Source, map[int64]float32{3*cols4 + 7: -inf, 40*cols4 + 1: nan})
	poke(t, body, fp8.Source, map[int64]float32{2*cols8 + 5: nan})
	m := openView(t, body, tinyDonor)
	p = makePlan(t, m, plan.Options{}) // one shard, so that both tensors are met
	if len(p.Shards) != 1 {
		t.Fatalf("%d shards", len(p.Shards))
	}
	for _, c := range []struct {
		workers int
		tile    int64
	}{{1, 0}, {8, 0}, {2, 64}, {8, 800}} {
		undo := write.SetTile(c.tile)
		out := filepath.Join(t.TempDir(), "out")
		_, err := write.Run(context.Background(), p, m, out, write.Options{Workers: c.workers})
		undo()
		var r *write.Refusal
		if !errors.As(err, &r) {
			t.Fatalf("got %v, want a refusal", err)
		}
		got := map[string]playbook.Finding{}
		for _, f := range r.Findings {
			got[f.Subject] = f
		}
		if len(r.Findings) != 2 {
			t.Errorf("%d findings: %+v", len(r.Findings), r.Findings)
		}
		for subject, words := range map[string][]string{fp4.Source: {"-Inf", "[3, 7]"}, fp8.Source: {"NaN", "[2, 5]"}} {
			f := got[subject]
			if f.Rule != "source-nonfinite" || f.Severity != playbook.Error || f.Fix == "" {
				t.Errorf("%s: %+v", subject, f)
			}
			for _, w := range words {
				if !strings.Contains(f.Message, w) {
					t.Errorf("%s: message %q does not say %s", subject, f.Message, w)
				}
			}
		}
		says(t, err, fp4.Source, fp8.Source)
		absent(t, out)
		absent(t, out+".partial")
	}
}

func TestValuesThatTheFormatCannotHoldAreRefused(t *testing.T) {
	body := copyFolder(t, tinyBody)
	p := makePlan(t, openView(t, body, tinyDonor), plan.Options{})
	fp4 := firstItem(t, p, isNVFP4)
	partners := map[string]bool{}
	for i := range p.Items {
		if it := &p.Items[i]; it.Source == fp4.Source || it.Group != "" && it.Group == fp4.Group {
			partners[it.Source] = true
			edit(t, body, it.Source, func(b []byte) {
				for k := 0; k < len(b); k += 2 {
					binary.LittleEndian.PutUint16(b[k:], numeric.BF16FromFloat32(1e-36))
				}
			})
		}
	}
	m := openView(t, body, tinyDonor)
	p = makePlan(t, m, plan.Options{})
	out := filepath.Join(t.TempDir(), "out")
	_, err := write.Run(context.Background(), p, m, out, write.Options{})
	var r *write.Refusal
	if !errors.As(err, &r) || len(r.Findings) != len(partners) {
		t.Fatalf("got %v, want a refusal of %v", err, partners)
	}
	for _, f := range r.Findings {
		if f.Rule != "source-extreme" || !partners[f.Subject] || !strings.Contains(f.Message, "9.9917e-37") || f.Fix == "" {
			t.Errorf("%+v", f)
		}
	}
	absent(t, out)
}

func TestARefusalKeepsShardsThatWereFinished(t *testing.T) {
	body := copyFolder(t, tinyBody)
	p := makePlan(t, openView(t, body, tinyDonor), smallShards)
	var last *plan.Item
	for _, sh := range p.Shards[1:] {
		for _, i := range sh.Items {
			if it := &p.Items[i]; it.Scheme.Quantized() {
				last = it
			}
		}
	}
	if last == nil {
		t.Fatal("only the first shard has quantized tensors")
	}
	poke(t, body, last.Source, map[int64]float32{0: inf})
	m := openView(t, body, tinyDonor)
	p = makePlan(t, m, smallShards)
	out := filepath.Join(t.TempDir(), "out")
	_, err := write.Run(context.Background(), p, m, out, write.Options{})
	says(t, err, last.Source, "+Inf", "[0, 0]")
	absent(t, out)
	if files := tree(t, out+".partial"); files[p.Shards[0].File] == "" {
		t.Errorf("the first shard is gone: %v", files)
	}
	for name := range tree(t, out+".partial") {
		if strings.HasSuffix(name, ".tmp") {
			t.Errorf("%s was left", name)
		}
	}
}

// Public report Q14 (dropbox/gemlite#39): values of 0.001 beside values of 1000 become zero where a block scale that
// underflows is replaced by 0.125, as compressed-tensors does. modelopt's arithmetic stops at 2^-9 and loses only what is
// smaller still.
func TestCollapsedBlocksAreCountedPerTensor(t *testing.T) {
	for _, c := range []struct {
		math  numeric.Math
		small float32
		ratio string
	}{{numeric.CT, 0.001, "e+06"}, {numeric.Modelopt, 1e-5, "e+08"}} {
		t.Run(c.math.String(), func(t *testing.T) {
			body := copyFolder(t, tinyBody)
			o := plan.Options{Math: c.math}
			it := firstItem(t, makePlan(t, openView(t, body, tinyDonor), o), isNVFP4)
			cols, n := it.Shape[1], it.Shape[0]*it.Shape[1]
			values := map[int64]float32{}
			for i := range n {
				values[i] = 1000
			}
			for i := range int64(16) { // two blocks that collapse, in different rows
				values[16+i] = c.small
				values[5*cols+32+i] = -c.small / 2
				values[6*cols+i] = 0 // and one that was zero before, which is no loss
			}
			poke(t, body, it.Source, values)
			m := openView(t, body, tinyDonor)
			p := makePlan(t, m, o)
			for _, tile := range []int64{0, 64} {
				undo := write.SetTile(tile)
				res := mustRun(t, p, m, filepath.Join(t.TempDir(), "out"), write.Options{})
				undo()
				if len(res.Findings) != 1 {
					t.Fatalf("findings %+v", res.Findings)
				}
				f := res.Findings[0]
				if f.Rule != "block-collapsed" || f.Severity != playbook.Warning || f.Subject != it.Source {
					t.Errorf("got %+v", f)
				}
				for _, w := range []string{fmt.Sprintf("2 of %d blocks", n/16), "28672", c.ratio} {
					if !strings.Contains(f.Message, w) {
						t.Errorf("message %q does not say %q", f.Message, w)
					}
				}
			}
		})
	}
}

func TestAZeroTensorIsInformation(t *testing.T) {
	body := copyFolder(t, tinyBody)
	p := makePlan(t, openView(t, body, tinyDonor), smallShards)
	for _, it := range []*plan.Item{firstItem(t, p, isNVFP4), firstItem(t, p, isFP8), firstItem(t, p, isKept)} {
		edit(t, body, it.Source, func(b []byte) { clear(b) })
	}
	m := openView(t, body, tinyDonor)
	p = makePlan(t, m, smallShards)
	res := mustRun(t, p, m, filepath.Join(t.TempDir(), "out"), write.Options{})
	if len(res.Findings) != 2 { // a kept tensor is nobody's business here
		t.Fatalf("findings %+v", res.Findings)
	}
	for _, f := range res.Findings {
		if f.Rule != "zero-tensor" || f.Severity != playbook.Info {
			t.Errorf("got %+v", f)
		}
	}
}

func TestASourceThatChangesIsNamedAndNothingIsPublished(t *testing.T) {
	for _, c := range []struct {
		name   string
		at     string // failpoint, "" before the run
		change func(t *testing.T, path string)
	}{
		{"cut after planning", "", func(t *testing.T, path string) { must(t, os.Truncate(path, 4000)) }},
		{"grown after planning", "", func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			must(t, err)
			put(t, path, append(b, 0, 0))
		}},
		{"gone after planning", "", func(t *testing.T, path string) { must(t, os.Remove(path)) }},
		{"cut while read", "shard-created:", func(t *testing.T, path string) { must(t, os.Truncate(path, 4000)) }},
		{"touched while read", "shard-created:", func(t *testing.T, path string) {
			later := time.Now().Add(time.Hour)
			must(t, os.Chtimes(path, later, later))
		}},
		{"gone while read", "shard-created:", func(t *testing.T, path string) { must(t, os.Remove(path)) }},
		{"rewritten between shards", "shard-journalled:", func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			must(t, err)
			must(t, os.Remove(path))
			put(t, path, b)
			later := time.Now().Add(time.Hour)
			must(t, os.Chtimes(path, later, later))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := copyFolder(t, tinyBody)
			m := openView(t, body, tinyDonor)
			p := makePlan(t, m, smallShards)
			// The first shard's source, or that of the last shard that has one: when the first shard is journalled, the
			// workers may be at the second, never beyond.
			shards := p.Shards[:1]
			if c.at == "shard-journalled:" {
				shards = p.Shards[2:]
			}
			var path string
			for _, s := range shards {
				for _, i := range s.Items {
					if it := p.Items[i]; it.Origin == "body" {
						ref, _ := m.Lookup(it.Source)
						path = ref.File.Path
					}
				}
			}
			if path == "" {
				t.Fatal("no tensor of the body there")
			}
			if c.at == "" {
				c.change(t, path)
			} else {
				done := false
				defer write.SetFailpoint(func(name string) {
					if name == c.at+p.Shards[0].File && !done {
						done = true
						c.change(t, path)
					}
				})()
			}
			out := filepath.Join(t.TempDir(), "out")
			_, err := write.Run(context.Background(), p, m, out, write.Options{Workers: 1})
			says(t, err, filepath.Base(path), "tensor ")
			if !strings.Contains(c.name, "gone after") && !errors.Is(err, write.ErrSourceChanged) {
				t.Errorf("got %v, want ErrSourceChanged", err)
			}
			absent(t, out)
		})
	}
}

func TestADiskThatLiesIsCaughtByReadingAgain(t *testing.T) {
	m, p := tiny(t)
	out := filepath.Join(t.TempDir(), "out")
	victim := p.Shards[1].File
	flip := func(at func(size int) int) func() {
		return write.SetFailpoint(func(name string) {
			if name != "shard-synced:"+victim {
				return
			}
			path := filepath.Join(out+".partial", victim+".tmp")
			b, err := os.ReadFile(path)
			if err == nil {
				b[at(len(b))] ^= 0x40
				err = os.WriteFile(path, b, 0o644)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	undo := flip(func(size int) int { return size - 1 })
	_, err := write.Run(context.Background(), p, m, out, write.Options{})
	undo()
	says(t, err, victim, "tensor ", "bytes", "differs from what was written")
	absent(t, out)
	absent(t, filepath.Join(out+".partial", victim))

	undo = flip(func(int) int { return 20 })
	_, err = write.Run(context.Background(), p, m, out, write.Options{})
	undo()
	says(t, err, victim, "header")
	absent(t, out)

	res := mustRun(t, p, m, out, write.Options{})
	if res.Resumed < 1 {
		t.Error("the first shard was not kept")
	}
}

// Public report S14: the files of a snapshot are links into blobs/.
func TestLinksOfASnapshotAreReadThroughAndNeverCopiedOrWritten(t *testing.T) {
	root := t.TempDir()
	blobs, snap := filepath.Join(root, "blobs"), filepath.Join(root, "snapshots", "x")
	must(t, errors.Join(os.MkdirAll(blobs, 0o755), os.MkdirAll(snap, 0o755)))
	entries, err := os.ReadDir(tinyBody)
	must(t, err)
	for i, e := range entries {
		blob := fmt.Sprintf("%040d", i)
		put(t, filepath.Join(blobs, blob), readFile(t, tinyBody, e.Name()))
		must(t, os.Symlink("../../blobs/"+blob, filepath.Join(snap, e.Name())))
	}
	before := tree(t, blobs)
	m := openView(t, snap, tinyDonor)
	p := makePlan(t, m, smallShards)
	out := filepath.Join(root, "out")
	mustRun(t, p, m, out, write.Options{})
	written := tree(t, out) // plain files only
	sameTree(t, tree(t, blobs), before)

	plain := filepath.Join(root, "plain")
	pm, pp := tiny(t)
	mustRun(t, pp, pm, plain, write.Options{})
	sameTree(t, written, tree(t, plain))

	for _, f := range p.Files {
		if f.Origin != "body" {
			continue
		}
		target, err := os.Readlink(filepath.Join(snap, f.Name))
		must(t, err)
		must(t, os.Remove(filepath.Join(snap, target)))
		_, err = write.Run(context.Background(), p, m, filepath.Join(root, "other"), write.Options{})
		says(t, err, filepath.Join(snap, f.Name), "dangling link to", target)
		absent(t, filepath.Join(root, "other.partial"))
		return
	}
	t.Fatal("the plan copies no file of the body")
}
