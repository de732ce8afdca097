package diff

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"seatsmith/internal/model"
	"seatsmith/internal/safetensors"
)

func TestAHealthyFineTuneChangesEveryRoleAndOnlyLacksItsHead(t *testing.T) {
	r := run(t, base("tiny-finetune"), base("tiny"), Options{})
	expect(t, r, "warning diff-head-dropped")
	if r.Verdict != "warn" || r.Roles["head"].Missing != 15 || r.Roles["mlp"].Changed != 12 || r.Roles["vision"].Identical != 33 {
		t.Errorf("verdict %s, roles %+v %+v %+v", r.Verdict, r.Roles["head"], r.Roles["mlp"], r.Roles["vision"])
	}
	if s := r.Roles["mlp"].RelativeChange; s == nil || s.Min <= 0 || s.Min > s.Median || s.Median > s.Max || s.Max > 0.2 {
		t.Errorf("relative change of mlp: %+v", s)
	}
	for name, f := range r.Files {
		if f.State != "identical" {
			t.Errorf("%s is %s", name, f.State)
		}
	}
}

func TestTheReportDoesNotDependOnTheNumberOfWorkers(t *testing.T) {
	var first []byte
	for _, workers := range []int{1, 3, 8} {
		r := run(t, base("tiny-finetune"), base("tiny"), Options{Workers: workers})
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		} else if !reflect.DeepEqual(first, data) {
			t.Errorf("%d workers give another report", workers)
		}
	}
}

func TestTheSameWeightsAreNoFineTune(t *testing.T) {
	copied := load(t, "tiny").write(t)
	for _, body := range []string{base("tiny"), copied} {
		r := run(t, body, base("tiny"), Options{})
		expect(t, r, "error diff-nothing-changed")
		if r.Verdict != "fail" {
			t.Errorf("verdict %s", r.Verdict)
		}
	}
	r := run(t, base("tiny"), base("tiny"), Options{})
	if r.BytesShared != r.BytesCompared || r.BytesShared == 0 {
		t.Errorf("%d of %d bytes were known to be the same file", r.BytesShared, r.BytesCompared)
	}
	r = run(t, copied, base("tiny"), Options{})
	if r.BytesShared != 0 {
		t.Errorf("a copy was taken for the same file: %d bytes", r.BytesShared)
	}
}

func TestRelativeChangeIsTheNormOfTheDifferenceOverTheNormOfTheBase(t *testing.T) {
	f := load(t, "tiny")
	const name = "model.language_model.layers.0.mlp.up_proj.weight"
	h := f.tensors[name]
	before := widened(h)
	f.touch(func(n string) bool { return n == name })
	after := widened(f.tensors[name])
	var sq, ref float64
	for i := range before {
		sq += (after[i] - before[i]) * (after[i] - before[i])
		ref += before[i] * before[i]
	}
	r := run(t, f.write(t), base("tiny"), Options{})
	want, got := math.Sqrt(sq/ref), r.Roles["mlp"].RelativeChange
	if got == nil || math.Abs(got.Max-want) > 1e-12 || got.Min != got.Max {
		t.Errorf("relative change %+v, want %g", got, want)
	}
}

func widened(h held) []float64 {
	v := make([]float32, len(h.data)/int(width(h.dtype)))
	widen(h.dtype, v, h.data, &buffers{})
	out := make([]float64, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

func TestAChangeInOneTileIsMeasuredAgainstTheWholeTensor(t *testing.T) {
	big := &folder{tensors: map[string]held{}, files: map[string][]byte{}}
	ones := make([]byte, 2*(2*tileValues+10))
	for i := 1; i < len(ones); i += 2 {
		ones[i], ones[i-1] = 0x3F, 0x80
	}
	big.files["config.json"] = []byte(`{"architectures":["SomethingForCausalLM"],"model_type":"something"}`)
	big.tensors["w"] = held{safetensors.BF16, []int64{2*tileValues + 10}, ones}
	from := big.write(t)
	big.tensors["w"] = held{safetensors.BF16, big.tensors["w"].shape, append([]byte{0x00, 0x40}, ones[2:]...)} // 1 becomes 2
	r := run(t, big.write(t), from, Options{})
	want := 1 / math.Sqrt(2*tileValues+10)
	if s := r.Roles["other"].RelativeChange; s == nil || math.Abs(s.Max-want) > 1e-12 {
		t.Errorf("relative change %+v, want %g", s, want)
	}
	if !strings.Contains(strings.Join(r.NotChecked, " "), "unknown") {
		t.Errorf("an unknown architecture is not said: %v", r.NotChecked)
	}
}

func TestAnotherModelIsAStranger(t *testing.T) {
	r := run(t, base("moe"), base("tiny"), Options{})
	if got := fired(r); !contains(got, "error diff-stranger") || !contains(got, "error diff-tensors-missing") || !contains(got, "warning diff-tensors-added") {
		t.Errorf("found %q", got)
	}
	other := load(t, "tiny")
	for name, h := range other.tensors { // the same shapes, other weights: every sign turned
		h.data = append([]byte{}, h.data...)
		for i := width(h.dtype) - 1; i < int64(len(h.data)); i += width(h.dtype) {
			h.data[i] ^= 0x80
		}
		other.tensors[name] = h
	}
	expect(t, run(t, other.write(t), base("tiny"), Options{}), "warning diff-stranger")
}

func contains(list []string, one string) bool {
	for _, s := range list {
		if s == one {
			return true
		}
	}
	return false
}

func TestABrokenShardIsNotAMissingTensor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "body")
	if err := os.CopyFS(dir, os.DirFS(base("tiny"))); err != nil {
		t.Fatal(err)
	}
	shard := filepath.Join(dir, "model-00002-of-00002.safetensors")
	info, err := os.Stat(shard)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(shard, info.Size()-1); err != nil {
		t.Fatal(err)
	}
	r := run(t, dir, base("tiny"), Options{})
	if got := fired(r); !contains(got, "error file-truncated") || contains(got, "error diff-tensors-missing") || len(r.NotChecked) == 0 || r.Verdict != "fail" {
		t.Errorf("verdict %s, found %q", r.Verdict, got)
	}
}

// In a Hugging Face cache both snapshots lead to the blobs of the shards that they share.
func TestLinksToOneBlobAreNotReadTwice(t *testing.T) {
	dir := t.TempDir()
	f := load(t, "tiny")
	from := f.write(t)
	blob := filepath.Join(dir, "blob")
	if err := os.Rename(filepath.Join(from, "model.safetensors"), blob); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(blob, filepath.Join(from, "model.safetensors")); err != nil {
		t.Skip(err)
	}
	f.files["config.json"] = append(f.files["config.json"], '\n')
	body := f.write(t)
	if err := os.Remove(filepath.Join(body, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(blob, filepath.Join(body, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	r := run(t, body, from, Options{})
	expect(t, r, "error diff-nothing-changed")
	if r.BytesShared != r.BytesCompared || r.Files["config.json"].State != "equal" {
		t.Errorf("%d of %d bytes shared, config.json %s", r.BytesShared, r.BytesCompared, r.Files["config.json"].State)
	}
}

func TestACancelledComparisonStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, open(t, base("tiny-finetune")), open(t, base("tiny")), Options{}); err == nil {
		t.Error("no error")
	}
	if _, err := Run(context.Background(), nil, nil, Options{}); err == nil {
		t.Error("no models, no error")
	}
}

func TestProgressEndsAtTheTotal(t *testing.T) {
	ends := map[string][2]int64{}
	run(t, base("tiny-finetune"), base("tiny"), Options{Workers: 1, Progress: func(stage string, done, total int64) { ends[stage] = [2]int64{done, total} }})
	if e := ends["compare"]; e[0] != e[1] || e[0] == 0 {
		t.Errorf("compare ended at %d of %d", e[0], e[1])
	}
}

func TestADonorOfOneFileIsComparedWithoutItsFiles(t *testing.T) {
	alone := t.TempDir()
	f := load(t, "tiny")
	f.files = nil
	if err := os.Rename(filepath.Join(f.write(t), "model.safetensors"), filepath.Join(alone, "base.safetensors")); err != nil {
		t.Fatal(err)
	}
	donor, err := model.OpenDonor(filepath.Join(alone, "base.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer donor.Close()
	r, err := Run(context.Background(), open(t, base("tiny-finetune")), donor, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Roles["mlp"].Changed != 12 || !strings.Contains(strings.Join(r.NotChecked, " "), "tokenizer") {
		t.Errorf("mlp %+v, not checked %v", r.Roles["mlp"], r.NotChecked)
	}
}
