package line_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"seatsmith/internal/line"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
)

func grafted(t *testing.T, c line.Change) (*line.Outcome, *shelf) {
	t.Helper()
	c.Kind = plan.KindGraft
	out := changed(t, c)
	if out.Output == "" {
		t.Fatalf("nothing was grafted: %v %+v", playbook.Errors(out.Findings), out.Verify)
	}
	if out.HeadFrom != "donor" || out.Head.Present != 15 || out.Verify == nil || out.Verify.Verdict == "fail" {
		t.Errorf("%+v", out)
	}
	has(t, out.Findings, "head-laid", "15 tensors")
	return out, take(t, out.Output)
}

// flat is the fine-tune as trainers of text save it: names model.layers.*, a flat configuration, no tower and no processor.
func flat(t *testing.T) *shelf {
	t.Helper()
	s := take(t, fixture(t, "tiny-finetune")).without("model.visual.")
	s.each(func(name string, _ *stored) (string, bool) {
		return strings.Replace(name, "model.language_model.", "model.", 1), true
	})
	text := gjson.GetBytes(s.files["config.json"], "text_config").Raw
	s.files["config.json"] = []byte(text)
	s.config("architectures", []string{"Qwen3_5ForCausalLM"})
	delete(s.files, "preprocessor_config.json")
	return s
}

func TestAGraftIsTheBodyWithTheDonorsWholeHead(t *testing.T) {
	body, donor := take(t, fixture(t, "tiny-finetune")), take(t, fixture(t, "tiny"))
	out, got := grafted(t, line.Change{Source: fixture(t, "tiny-finetune"), Donor: fixture(t, "tiny")})
	want := bodyOf(body.all())
	maps.Copy(want, headOf(donor.all()))
	same(t, got.all(), want)
	for file := range body.shards { // a file that nothing happened to is the same file
		a, err := os.ReadFile(filepath.Join(fixture(t, "tiny-finetune"), file))
		b, err2 := os.ReadFile(filepath.Join(out.Output, file))
		if err := errors.Join(err, err2); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s is not the body's file (%v)", file, err)
		}
	}
	if gjson.GetBytes(got.files["config.json"], "text_config.mtp_num_hidden_layers").Int() != 1 || out.Verdict != "ok" {
		t.Errorf("verdict %s", out.Verdict)
	}
}

func TestADonorMayBePartial(t *testing.T) {
	base := take(t, fixture(t, "tiny"))
	withHead := ""
	for file, tensors := range base.shards {
		if _, ok := tensors["mtp.fc.weight"]; ok {
			withHead = file
		}
	}
	some := filepath.Join(t.TempDir(), "partial") // the index, the configuration, and only the shard with the head
	if err := os.CopyFS(some, os.DirFS(fixture(t, "tiny"))); err != nil {
		t.Fatal(err)
	}
	for file := range base.shards {
		if file != withHead {
			if err := os.Remove(filepath.Join(some, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, whole := grafted(t, line.Change{Source: fixture(t, "tiny-finetune"), Donor: fixture(t, "tiny")})
	for name, donor := range map[string]string{"index and some shards": some, "one file": filepath.Join(fixture(t, "tiny"), withHead)} {
		t.Run(name, func(t *testing.T) {
			_, got := grafted(t, line.Change{Source: fixture(t, "tiny-finetune"), Donor: donor})
			same(t, got.all(), whole.all())
		})
	}
}

func TestAGraftRefusesAStrangersHead(t *testing.T) {
	body := fixture(t, "tiny-finetune")
	tower := func() string { return take(t, fixture(t, "tiny")).without("model.visual.blocks.1.").put() }
	for _, c := range []struct {
		name, body, donor, rule string
		words                   []string
	}{
		{"another family", body, fixture(t, "moe"), "donor-stranger", []string{"architecture"}},
		{"another depth", body, take(t, fixture(t, "tiny")).config("text_config.num_hidden_layers", 8).put(), "donor-stranger", []string{"num_hidden_layers is 8"}},
		{"another vocabulary", body, take(t, fixture(t, "tiny")).config("text_config.vocab_size", 4096).put(), "donor-stranger", []string{"vocab_size is 4096"}},
		{"a head with a hole", body, take(t, fixture(t, "tiny")).without("mtp.fc").put(), "donor-headless", []string{"mtp.fc.weight"}},
		{"a quantized body", made(t, line.Job{Body: fixture(t, "tiny")}), fixture(t, "tiny"), "already-quantized", []string{"splice"}},
		{"a flat body and a donor without its whole tower", flat(t).put(), tower(), "donor-towerless", []string{"model.visual.blocks.1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := changed(t, line.Change{Kind: plan.KindGraft, Source: c.body, Donor: c.donor})
			if out.Verdict != "fail" || out.Output != "" {
				t.Errorf("verdict %s, output %q", out.Verdict, out.Output)
			}
			has(t, out.Findings, c.rule, c.words...)
		})
	}
}

func TestQ07ShiftedNormsAreRefusedAndNeverSubtracted(t *testing.T) {
	donor := take(t, fixture(t, "tiny"))
	donor.each(func(name string, x *stored) (string, bool) {
		if strings.HasPrefix(name, "mtp.") && strings.Contains(name, "norm") {
			x.data = slices.Clone(x.data)
			for i := 0; i+1 < len(x.data); i += 2 {
				v := numeric.BF16ToFloat32(binary.LittleEndian.Uint16(x.data[i:]))
				binary.LittleEndian.PutUint16(x.data[i:], numeric.BF16FromFloat32(v+1))
			}
		}
		return name, true
	})
	dir := donor.put()
	c := line.Change{Kind: plan.KindGraft, Source: fixture(t, "tiny-finetune"), Donor: dir}
	out := changed(t, c)
	if out.Output != "" {
		t.Error("it was published")
	}
	has(t, out.Findings, "donor-norms-shifted", "shifted by +1", "--force")
	c.Force = true
	forced, got := grafted(t, c)
	has(t, forced.Findings, "donor-norms-shifted")
	same(t, headOf(got.all()), headOf(donor.all()))

	j := tavern(t)
	j.Donor = dir
	refused, err := line.Forge(t.Context(), j, "test", line.Reporter{})
	if err != nil || refused.Output != "" {
		t.Errorf("forge: %+v, %v", refused, err)
	}
	j.Force = true
	if taken, err := line.Forge(t.Context(), j, "test", line.Reporter{}); err != nil || taken.Output == "" {
		t.Errorf("forge with force: %v, %v", taken, err)
	}
}

func TestAFlatBodyIsRehomedWithEveryRenameListed(t *testing.T) {
	body := flat(t)
	dir := body.put()
	out, got := grafted(t, line.Change{Source: dir, Donor: fixture(t, "tiny")})
	has(t, out.Findings, "body-rehomed", "Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM", "model.language_model.", "vision tower")
	want := take(t, fixture(t, "tiny-finetune")).all() // the tower was not trained
	maps.Copy(want, headOf(take(t, fixture(t, "tiny")).all()))
	for name, x := range take(t, fixture(t, "tiny")).all() {
		if strings.HasPrefix(name, "model.visual.") {
			want[name] = x
		}
	}
	same(t, got.all(), want)
	listed := map[string]string{}
	for _, r := range out.Renamed {
		listed[r.From] = r.To
	}
	for name := range body.all() {
		if strings.HasPrefix(name, "model.") && listed[name] != strings.Replace(name, "model.", "model.language_model.", 1) {
			t.Errorf("%s became %q", name, listed[name])
		}
	}
	if got.files["preprocessor_config.json"] == nil {
		t.Error("the processor's file did not come along")
	}
	config := gjson.ParseBytes(got.files["config.json"])
	if config.Get("architectures.0").Str != "Qwen3_5ForConditionalGeneration" || !config.Get("vision_config").IsObject() || config.Get("text_config.architectures").Exists() {
		t.Errorf("%s", config.Raw)
	}
}

func TestTextOnlyKeepsTheClass(t *testing.T) {
	body := flat(t)
	dir := body.put()
	out, got := grafted(t, line.Change{Source: dir, Donor: fixture(t, "tiny"), TextOnly: true})
	want := bodyOf(body.all())
	maps.Copy(want, headOf(take(t, fixture(t, "tiny")).all()))
	same(t, got.all(), want)
	if gjson.GetBytes(got.files["config.json"], "architectures.0").Str != "Qwen3_5ForCausalLM" || len(out.Renamed) > 0 {
		t.Errorf("%s, renamed %v", got.files["config.json"], out.Renamed)
	}
}

func TestAForgeRehomesAWrapperWithoutATower(t *testing.T) {
	j := tavern(t)
	j.Body = flat(t).config("architectures", []string{"Qwen3_5ForConditionalGeneration"}).put()
	out, err := line.Forge(t.Context(), j, "test", line.Reporter{})
	if err != nil || out.Output == "" {
		t.Fatalf("%+v, %v", out, err)
	}
	has(t, out.Findings, "body-rehomed", "vision tower")
	for _, f := range out.Findings {
		if f.Rule == "diff-tower-dropped" && f.Severity != playbook.Info {
			t.Errorf("the tower is the donor's: %+v", f)
		}
	}
}

func TestS14AChangeReadsLinksAndPublishesFiles(t *testing.T) {
	root := t.TempDir()
	blobs, snapshot := filepath.Join(root, "blobs"), filepath.Join(root, "snapshots", "x")
	if err := errors.Join(os.CopyFS(blobs, os.DirFS(fixture(t, "tiny-finetune"))), os.MkdirAll(snapshot, 0o755)); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(blobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join("..", "..", "blobs", e.Name()), filepath.Join(snapshot, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	out, _ := grafted(t, line.Change{Source: snapshot, Donor: fixture(t, "tiny")})
	whole, err := os.ReadDir(out.Output)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range whole {
		if !e.Type().IsRegular() {
			t.Errorf("%s is %v", e.Name(), e.Type())
		}
	}
}

func TestAStoppedChangeIsTakenUpToTheSameBytes(t *testing.T) {
	quant := made(t, line.Job{Body: fixture(t, "tiny"), Recipe: "nvfp4-all-linear"})
	for _, c := range []line.Change{
		{Kind: plan.KindGraft, Source: fixture(t, "tiny-finetune"), Donor: fixture(t, "tiny")},
		{Kind: plan.KindSplice, Source: quant, Donor: fixture(t, "tiny")},
		{Kind: plan.KindConvert, Source: quant, Dialect: "modelopt"},
	} {
		t.Run(string(c.Kind), func(t *testing.T) {
			want := take(t, changed(t, c).Output)
			c.Output = filepath.Join(t.TempDir(), "out")
			ctx, stop := context.WithCancel(t.Context())
			_, err := line.Apply(ctx, c, "test", line.Reporter{Stage: func(name string) {
				if name == "verify" {
					stop()
				}
			}})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("it was not stopped: %v", err)
			}
			absent(t, c.Output)
			out, err := line.Apply(t.Context(), c, "test", line.Reporter{})
			if err != nil || out.Output == "" || out.Resumed == 0 {
				t.Fatalf("%+v, %v", out, err)
			}
			got := take(t, out.Output)
			same(t, got.all(), want.all())
			for name, data := range want.files {
				if !bytes.Equal(got.files[name], data) {
					t.Errorf("%s differs", name)
				}
			}
			if _, err := line.Apply(t.Context(), c, "test", line.Reporter{}); !errors.Is(err, line.ErrExists) {
				t.Errorf("a second time: %v", err)
			}
		})
	}
}
