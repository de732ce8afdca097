package verify_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seatsmith/internal/line"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

func TestACleanCheckpointIsOK(t *testing.T) {
	for _, recipe := range []string{"default", "fp8-dynamic"} {
		t.Run(recipe, func(t *testing.T) {
			dir, source := quantize(t, plan.Options{Recipe: recipe, ShardSize: 400_000})
			for name, o := range map[string]verify.Options{"with source": {Source: source}, "with hashes": {}} {
				r := judge(t, dir, o)
				expect(t, r)
				if r.Verdict != "ok" {
					t.Errorf("%s: verdict %s, not checked %v", name, r.Verdict, r.NotChecked)
				}
				if o.Source != nil && (r.BytesIdentical == 0 || r.ErrorByRole["mlp"].RelativeMSE == 0 || r.ErrorByRole["mlp"].RelativeMSE > 0.02) {
					t.Errorf("%s: %+v", name, r)
				}
			}
		})
	}
}

func TestTheReportDoesNotDependOnTheNumberOfWorkers(t *testing.T) {
	f := copyOf(t, "default")
	f.get(down0 + ".weight_scale").data[7] = 0x7F
	clear(f.get(gate0 + ".weight_packed").data[:64])
	f.get("mtp.fc.weight").data[100] ^= 1
	f.save()
	source := open(t)
	one := judge(t, f.dir, verify.Options{Source: source, Workers: 1})
	if many := judge(t, f.dir, verify.Options{Source: source, Workers: 8}); !cmp.Equal(one, many) {
		t.Error(cmp.Diff(one, many))
	}
	expect(t, one, "scale-bad", "zero-row", "head-bytes")
}

func TestWhatCannotBeReadIsAnErrorNotAFinding(t *testing.T) {
	f := copyOf(t, "default")
	if _, err := verify.Checkpoint(context.Background(), filepath.Join(f.dir, "nowhere"), verify.Options{}); err == nil {
		t.Error("a folder that does not exist was judged")
	}
	dir := filepath.Join(t.TempDir(), "source")
	if err := os.CopyFS(dir, os.DirFS(donor)); err != nil {
		t.Fatal(err)
	}
	source, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	path := source.Set.Files[0].Path
	if err := os.Truncate(path, source.Set.Files[0].DataStart+10); err != nil {
		t.Fatal(err)
	}
	if _, err := verify.Checkpoint(context.Background(), f.dir, verify.Options{Source: source}); err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
		t.Errorf("a source that shrank while it was read: %v", err)
	}
	if _, err := verify.Checkpoint(context.Background(), f.dir, verify.Options{Engine: "sglang@1"}); err == nil {
		t.Error("an unknown engine was taken")
	}
}

func TestAJudgementCanBeCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := verify.Checkpoint(ctx, copyOf(t, "default").dir, verify.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestProgressOfEachStageEndsAtItsTotal(t *testing.T) {
	last := map[string][2]int64{}
	o := verify.Options{Source: open(t), Workers: 4, Progress: func(stage string, done, total int64) {
		if done < last[stage][0] || done > total {
			t.Errorf("%s: %d of %d after %d", stage, done, total, last[stage][0])
		}
		last[stage] = [2]int64{done, total}
	}}
	judge(t, copyOf(t, "default").dir, o)
	for _, stage := range []string{"scales", "compare", "hash"} {
		if l := last[stage]; l[0] != l[1] || l[1] == 0 {
			t.Errorf("%s ended at %d of %d", stage, l[0], l[1])
		}
	}
}

func TestASourceIsJudgedByItsHeaders(t *testing.T) {
	view := open(t)
	r := verify.Source(view)
	if r.Verdict != "ok" || len(playbook.Errors(r.Findings)) > 0 || !contains(r.NotChecked, "tensor data") {
		t.Errorf("a whole view: %s, %v, %v", r.Verdict, r.Findings, r.NotChecked)
	}
	headless, err := model.Open(body)
	if err != nil {
		t.Fatal(err)
	}
	defer headless.Close()
	expect(t, verify.Source(headless), "head-missing")
	quantized, err := model.Open(copyOf(t, "default").dir)
	if err != nil {
		t.Fatal(err)
	}
	defer quantized.Close()
	if r := verify.Source(quantized); r.Verdict != "warn" || !contains(r.NotChecked, "quantized already") {
		t.Errorf("a quantized source: %s, %v", r.Verdict, r.NotChecked)
	}
}

func TestUnquantizedFixturesFitTheEnginesOwnList(t *testing.T) {
	r := judge(t, donor, verify.Options{})
	expect(t, r, "provenance-missing?")
	if r.TensorsChecked == 0 || r.Verdict != "warn" {
		t.Errorf("%+v", r)
	}
}

// What is unusual and right must not be told of.
func TestUnusualButGoodCheckpointsAreClean(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T) *folder
		do   func(f *folder)
	}{
		{"q, k and v kept and ignored, o quantized", nil, func(f *folder) {
			for _, p := range []string{"q_proj", "k_proj", "v_proj"} {
				f.restore(attn3 + p)
				f.ignore(adding(attn3 + p))
			}
		}},
		{"a fused name covers its parts", nil, func(f *folder) {
			for _, p := range []string{"q_proj", "k_proj", "v_proj"} {
				f.restore(attn3 + p)
			}
			f.ignore(adding(attn3 + "qkv_proj"))
		}},
		{"scalars without a dimension", nil, func(f *folder) { f.get(down0 + ".weight_global_scale").shape = []int64{} }},
		{"channel scales in BF16, as llm-compressor writes them", nil, func(f *folder) {
			x := f.get(out0 + ".weight_scale")
			var short []byte
			for i := 0; i < len(x.data); i += 4 {
				short = binary.LittleEndian.AppendUint16(short, numeric.BF16FromFloat32(f32At(x.data[i:])))
			}
			x.dtype, x.data = safetensors.BF16, short
		}},
		{"W4A4 with all its scales", func(t *testing.T) *folder { return w4a4(t) }, func(*folder) {}},
		{"entries that recipes carry for every model", nil, func(f *folder) {
			f.ignore(adding("re:.*router.*", "re:.*vision_tower.*", "re:.*norm.*", layer0+"linear_attn", layer0+"linear_attn.norm", layer0+"linear_attn.conv1d"))
		}},
		{"entries for servers that match names as they are on disk", nil, func(f *folder) { f.ignore(adding(`re:model\.visual\.blocks.*`, "*visual*")) }},
		{"the head covered by a pattern alone", func(t *testing.T) *folder { return linear(t) }, func(f *folder) {
			f.ignore(dropping("mtp"))
			f.ignore(adding("re:.*mtp.*"))
		}},
		{"calibrated key/value scales at the projections", nil, func(f *folder) {
			f.cacheScheme()
			f.add(attn3+"k_proj.weight", attn3+"k_proj.k_scale", safetensors.BF16, []int64{1}, []byte{0x00, 0x3F})
			f.add(attn3+"v_proj.weight", attn3+"v_proj.v_scale", safetensors.BF16, []int64{1}, []byte{0x00, 0x3F})
		}},
		{"calibrated key/value scales at the attention", nil, func(f *folder) {
			f.cacheScheme()
			f.add(attn3+"k_proj.weight", attn3+"k_scale", safetensors.F32, []int64{}, f32(0.5))
			f.add(attn3+"v_proj.weight", attn3+"v_scale", safetensors.F32, []int64{}, f32(0.25))
		}},
		{"one shard", nil, func(f *folder) {
			for _, x := range f.tensors {
				x.file = "model-00001-of-00001.safetensors"
			}
		}},
	} {
		t.Run(strings.ReplaceAll(c.name, "/", " "), func(t *testing.T) {
			if c.make == nil {
				c.make = func(t *testing.T) *folder { return copyOf(t, "default") }
			}
			f := c.make(t)
			c.do(f)
			f.save()
			r := judge(t, f.dir, verify.Options{})
			expect(t, r)
			if r.Verdict != "ok" {
				t.Errorf("verdict %s, not checked %v", r.Verdict, r.NotChecked)
			}
		})
	}
}

func TestAFolderReachedThroughALinkIsJudgedAlike(t *testing.T) {
	f := copyOf(t, "default")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(f.dir, link); err != nil {
		t.Skip("no symbolic links here")
	}
	if err := os.MkdirAll(filepath.Join(f.dir, ".cache", "download"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(f.dir, ".cache", "download", "config.json.lock"), nil)
	expect(t, judge(t, link, verify.Options{}))
}

// Some exporters say of an unquantized model that its quantization_config is null.
func TestANullBlockInTheSourceIsNoChange(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(donor)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "config.json")
	text := strings.Replace(string(readFile(t, path)), "{", `{"quantization_config": null,`, 1)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := line.Forge(t.Context(), line.Job{Body: dir, Output: filepath.Join(t.TempDir(), "out")}, "test", line.Reporter{})
	if err != nil || out.Verdict != "ok" {
		t.Errorf("%+v, %v", out, err)
	}
}

// Findings are looked up by tensor: 20,000 strays took 12 seconds when each was compared with every other. Nothing here
// is timed; a quadratic judge would show in the time limit of the whole test.
func TestManyStrayTensorsAreOneFindingEach(t *testing.T) {
	f := copyOf(t, "default")
	const strays = 20000
	for i := range strays {
		f.add("mtp.fc.weight", fmt.Sprintf("stray.s%d", i), safetensors.U8, []int64{0}, nil)
	}
	f.save()
	r := judge(t, f.dir, verify.Options{})
	if r.Verdict != "fail" || len(playbook.Errors(r.Findings)) == 0 {
		t.Errorf("%s, %d findings", r.Verdict, len(r.Findings))
	}
	for _, e := range playbook.Errors(r.Findings) {
		if e.Rule != "tensor-unexpected" && e.Rule != "hash-mismatch" {
			t.Errorf("%v", e)
		}
	}
}
