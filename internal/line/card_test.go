package line_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"seatsmith/internal/line"
	"seatsmith/internal/verify"
)

// front is what the hub reads of a card.
type front struct {
	BaseModel string `yaml:"base_model"`
	Relation  string `yaml:"base_model_relation"`
	License   string `yaml:"license"`
	Link      string `yaml:"license_link"`
	Language  []string
	Pipeline  string `yaml:"pipeline_tag"`
	Tags      []string
}

func card(t *testing.T, dir string) (front, string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rest, ok := strings.CutPrefix(string(data), "---\n")
	block, page, ok2 := strings.Cut(rest, "\n---\n")
	var f front
	if err := yaml.Unmarshal([]byte(block), &f); err != nil || !ok || !ok2 {
		t.Fatalf("front matter: %v\n%s", err, data)
	}
	return f, page
}

func TestForgeWritesAModelCard(t *testing.T) {
	body := take(t, fixture(t, "tiny-finetune"))
	body.files["README.md"] = []byte("---\nlicense: other\nlicense_link: LICENSE.txt\nlanguage: [en, de]\ndatasets: [secret]\n---\n# Tavern\n")
	body.files["LICENSE.txt"] = []byte("Be kind.\n")
	j := tavern(t)
	j.Body, j.BaseModel, j.Repo = body.put(), "inn/tavern-9b", "inn/tavern-9b-NVFP4"
	out, err := line.Forge(t.Context(), j, "test", line.Reporter{})
	if err != nil || out.Output == "" {
		t.Fatalf("%+v, %v", out, err)
	}
	f, page := card(t, out.Output)
	if f.BaseModel != "inn/tavern-9b" || f.Relation != "quantized" || f.License != "other" || f.Link != "LICENSE.txt" || strings.Join(f.Language, " ") != "en de" || f.Pipeline != "image-text-to-text" {
		t.Errorf("%+v", f)
	}
	for _, words := range []string{"# tavern-9b-NVFP4", "15 tensors, unquantized", "No eval was run.", "| mlp | nvfp4-w4a16 | 12 |", "| mlp | 0.0", "--speculative-config",
		"seatsmith forge --body inn/tavern-9b --donor tiny", "hf upload inn/tavern-9b-NVFP4 .", "SHA256SUMS"} {
		if !strings.Contains(page, words) {
			t.Errorf("the card lacks %q:\n%s", words, page)
		}
	}
	if strings.Contains(page, filepath.Dir(j.Body)) || strings.Contains(page, j.Output) {
		t.Error("the card names a path of this machine")
	}
	if out.Upload != "hf upload inn/tavern-9b-NVFP4 "+j.Output+" ." {
		t.Errorf("upload: %s", out.Upload)
	}
	if data, err := os.ReadFile(filepath.Join(out.Output, "LICENSE.txt")); err != nil || string(data) != "Be kind.\n" {
		t.Errorf("the licence: %q, %v", data, err)
	}
	for _, f := range out.Findings {
		if f.Rule == "card-incomplete" {
			t.Errorf("%+v", f)
		}
	}
}

func TestACardSaysWhatItDoesNotKnow(t *testing.T) {
	j := tavern(t)
	out, err := line.Forge(t.Context(), j, "test", line.Reporter{})
	if err != nil || out.Output == "" {
		t.Fatalf("%+v, %v", out, err)
	}
	has(t, out.Findings, "card-incomplete", "license")
	has(t, out.Findings, "card-incomplete", "base_model", "--base-model")
	if _, page := card(t, out.Output); !strings.Contains(page, "names a license: look there") {
		t.Errorf("%s", page)
	}
}

func TestACardTellsOfAQuantizedHeadAndOfEveryFlag(t *testing.T) {
	no := false
	dir := made(t, line.Job{Body: fixture(t, "tiny-finetune"), Donor: fixture(t, "tiny"), Recipe: "head-fp8", Stats: statistics(t, fixture(t, "tiny")), Diff: &no})
	_, page := card(t, dir)
	for _, words := range []string{"in part quantized to `fp8-channel`", "--recipe head-fp8", "--stats stats.safetensors", "--no-diff"} {
		if !strings.Contains(page, words) {
			t.Errorf("the card lacks %q:\n%s", words, page)
		}
	}
}

func TestTheSumsAreThoseOfTheFiles(t *testing.T) {
	j := tavern(t)
	out, err := line.Forge(t.Context(), j, "test", line.Reporter{})
	if err != nil || out.Output == "" {
		t.Fatalf("%+v, %v", out, err)
	}
	sums, err := os.ReadFile(filepath.Join(out.Output, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		data, err := os.ReadFile(filepath.Join(out.Output, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s has another hash", name)
		}
		listed[name] = true
	}
	entries, err := os.ReadDir(out.Output)
	if err != nil {
		t.Fatal(err)
	}
	if len(listed) != len(entries)-1 || listed["SHA256SUMS"] || !listed["README.md"] || !listed["seatsmith.json"] {
		t.Errorf("%d files, %d listed", len(entries), len(listed))
	}
	path := filepath.Join(out.Output, "README.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(page, []byte("quantized"), []byte("Quantized"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	report, err := verify.Checkpoint(t.Context(), out.Output, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	has(t, report.Findings, "sums-differ", "README.md")
}

func TestALinkIsNeverPublished(t *testing.T) {
	j := tavern(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("not yours\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	planted := false
	out, err := line.Forge(t.Context(), j, "test", line.Reporter{Stage: func(name string) {
		if name == "verify" { // the folder is whole and has not its name yet
			if err := os.Symlink(secret, filepath.Join(j.Output+".partial", "NOTES.txt")); err != nil {
				t.Fatal(err)
			}
			planted = true
		}
	}})
	if err != nil || !planted {
		t.Fatalf("%+v, %v", out, err)
	}
	has(t, out.Findings, "link-published", "NOTES.txt")
	if out.Output != "" || out.Verdict != "fail" || out.Kept == "" {
		t.Errorf("%+v", out)
	}
	absent(t, j.Output)
}
