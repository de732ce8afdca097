package verify_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/model"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// headless is the fixture's body without a donor.
func headless(t *testing.T) *model.Model {
	t.Helper()
	m, err := model.Open(body)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// bodyWithoutShard is the view of a body whose second shard is lost.
func bodyWithoutShard(t *testing.T) *model.Model {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "half")
	if err := os.CopyFS(dir, os.DirFS(body)); err != nil {
		t.Fatal(err)
	}
	remove(t, filepath.Join(dir, "model-00002-of-00002.safetensors"))
	return overlay(t, dir, donor)
}

// noise fills the tensors that are chosen with random bytes.
func noise(f *folder, choose func(name string, x *tensor) bool) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, name := range slices.Sorted(keys(f)) {
		if x := f.tensors[name]; choose(name, x) {
			for i := range x.data {
				x.data[i] = byte(rnd.UintN(128)) // the exponent stays below that of NaN and Inf
			}
			for i := 1; x.dtype == safetensors.BF16 && i < len(x.data); i += 2 {
				x.data[i] = 0x3C
			}
		}
	}
}

func keys(f *folder) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range f.tensors {
			if !yield(name) {
				return
			}
		}
	}
}

func inHead(name string, _ *tensor) bool { return strings.HasPrefix(name, "mtp.") }

// dropPrefix takes all tensors away whose names begin so.
func (f *folder) dropPrefix(prefix string) {
	for name := range f.tensors {
		if strings.HasPrefix(name, prefix) {
			delete(f.tensors, name)
		}
	}
}

// unrecord takes the record away, as another tool's checkpoint has none.
func unrecord(t *testing.T, dir string) { remove(t, filepath.Join(dir, model.ProvenanceFile)) }

// sourceAccidents are told only with a source, or by what a source is.
var sourceAccidents = []accident{
	{name: "random head, and no donor named", rule: "source-unfit source-extra provenance-missing (info)", text: "--donor", source: headless, after: unrecord, do: func(f *folder) { noise(f, inHead) }},
	{name: "donor of another model named", rule: "source-unfit provenance-missing (info)", text: "donor-stranger", after: unrecord,
		source: func(t *testing.T) *model.Model { return overlay(t, body, "../../testdata/moe") }, do: func(f *folder) { noise(f, inHead) }},
	{name: "shard of the source lost", rule: "source-unfit provenance-missing (info)", text: "model-00002-of-00002", source: bodyWithoutShard, after: unrecord},
	{name: "second vision tower of nowhere", rule: "tensor-unexpected", withSource: true, do: func(f *folder) {
		x := f.get("model.visual.merger.norm.weight").clone()
		f.tensors["model.visual.merger.twin.weight"] = x
	}},
	{name: "random bytes compared with themselves", rule: "source-same", itself: true, do: func(f *folder) {
		noise(f, func(_ string, x *tensor) bool { return x.dtype == safetensors.BF16 })
	}},
	{name: "source that is quantized", rule: "source-quantized", notChecked: "what was given is none", source: func(t *testing.T) *model.Model {
		m, err := model.Open(copyOf(t, "default").dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}},
}

func TestAFolderIsNotItsOwnSource(t *testing.T) {
	f := copyOf(t, "default")
	noise(f, func(name string, x *tensor) bool { return x.dtype == safetensors.BF16 })
	f.save()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(f.dir, link); err != nil {
		t.Skip("no symbolic links here")
	}
	linked := filepath.Join(t.TempDir(), "linked")
	if err := os.MkdirAll(linked, 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(f.dir, e.Name()), filepath.Join(linked, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{f.dir, link, linked} {
		m, err := model.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		r := judge(t, f.dir, verify.Options{Source: m})
		expect(t, r, "source-same")
		if r.BytesIdentical != 0 || !contains(r.NotChecked, "what was given is none") {
			t.Errorf("%s: %d bytes are called identical, not checked %q", dir, r.BytesIdentical, r.NotChecked)
		}
	}
}

// What the source has and the folder lacks is told although config.json was made to agree.
func TestADroppedPartIsToldAlthoughConfigAgrees(t *testing.T) {
	source := open(t)
	for _, c := range []struct {
		name string
		do   func(f *folder)
	}{
		{"head", func(f *folder) { f.dropPrefix("mtp."); f.set("text_config.mtp_num_hidden_layers", 0) }},
		{"layer", func(f *folder) {
			f.dropPrefix("model.language_model.layers.3.")
			f.set("text_config.num_hidden_layers", 3)
		}},
		{"vision block", func(f *folder) { f.dropPrefix("model.visual.blocks.1."); f.set("vision_config.depth", 1) }},
		{"lm_head", func(f *folder) {
			f.dropPrefix("lm_head.")
			f.set("text_config.tie_word_embeddings", true)
			f.set("tie_word_embeddings", true)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := copyOf(t, "default")
			c.do(f)
			f.save()
			r := judge(t, f.dir, verify.Options{Source: source})
			if got := rules(r); r.Verdict != "fail" || !slices.Contains(got, "source-missing") {
				t.Errorf("%s: %v", r.Verdict, got)
			}
		})
	}
}

// A tied model that stores lm_head twice gave information, and that hid a head that was dropped.
func TestInformationHidesNoDroppedHead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tied")
	if err := os.CopyFS(dir, os.DirFS(donor)); err != nil {
		t.Fatal(err)
	}
	s := load(t, dir)
	s.get("lm_head.weight").data = slices.Clone(s.get("model.language_model.embed_tokens.weight").data)
	s.set("text_config.tie_word_embeddings", true)
	s.set("tie_word_embeddings", true)
	out, source := s.forge("default")
	if r := judge(t, out.dir, verify.Options{Source: source}); r.Verdict != "ok" || !slices.Equal(rules(r), []string{"lm-head-tied (info)"}) {
		t.Fatalf("before: %s, %v", r.Verdict, r.Findings)
	}
	out.dropPrefix("mtp.")
	out.set("text_config.mtp_num_hidden_layers", 0)
	out.save()
	r := judge(t, out.dir, verify.Options{Source: source})
	if got := rules(r); r.Verdict != "fail" || !slices.Contains(got, "source-missing") {
		t.Errorf("%s: %v", r.Verdict, got)
	}
}
