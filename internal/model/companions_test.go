package model_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/model"
)

func fileNames(m *model.Model, origin model.Origin) []string {
	out := []string{}
	for _, f := range m.Files {
		if f.Origin == origin {
			out = append(out, f.Name)
		}
	}
	return out
}

func TestCompanionsAreWhatBelongsToTheCheckpoint(t *testing.T) {
	f := like(t, "tiny")
	for _, name := range []string{
		"merges.txt", "vocab.json", "tokenizer.model", "LICENSE", "LICENSE.txt", "special_tokens_map.json", "video_preprocessor_config.json",
		// none of these goes along
		"README.md", ".gitattributes", "hf_quant_config.json", "recipe.yaml", "seatsmith.json", "pytorch_model.bin", "pytorch_model.bin.index.json",
		"training_args.bin", "tokenizer.safetensors.bin",
	} {
		f.files[name] = "{}"
	}
	dir := f.write()
	if err := os.MkdirAll(filepath.Join(dir, "tokenizer.d"), 0o777); err != nil {
		t.Fatal(err)
	}
	m := open(t, dir)
	want := []string{
		"LICENSE", "LICENSE.txt", "chat_template.jinja", "generation_config.json", "merges.txt", "preprocessor_config.json", "special_tokens_map.json",
		"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "video_preprocessor_config.json", "vocab.json",
	}
	if got := fileNames(m, model.Body); !slices.Equal(got, want) {
		t.Errorf("carried: %v\nwant: %v", got, want)
	}
	only(t, m.Findings)
}

func TestEachMissingCompanionIsNamed(t *testing.T) {
	for name, want := range map[string]string{
		"tokenizer.json": "error", "tokenizer_config.json": "error", "preprocessor_config.json": "error",
		"generation_config.json": "warning", "chat_template.jinja": "warning",
	} {
		f := like(t, "tiny")
		delete(f.files, name)
		m := f.open()
		only(t, m.Findings, want+" companion-missing")
		says(t, m.Findings, "companion-missing", name, "copy it from the base model")
	}
}

func TestATemplateMayStandInTheTokenizerConfig(t *testing.T) {
	f := like(t, "tiny")
	delete(f.files, "chat_template.jinja")
	f.files["tokenizer_config.json"] = `{"chat_template": "x"}`
	only(t, f.open().Findings)
}

func TestAProcessorMayStandInOneFile(t *testing.T) {
	f := like(t, "tiny")
	delete(f.files, "preprocessor_config.json")
	f.files["processor_config.json"] = `{"image_processor": {}}`
	only(t, f.open().Findings)
}

// In a Hugging Face cache every file is a link into blobs/.
func TestLinksAreReadThroughAndDanglingOnesNamed(t *testing.T) {
	f := like(t, "tiny")
	dir := f.write()
	blob := filepath.Join(t.TempDir(), "0123abcd")
	if err := os.Rename(filepath.Join(dir, "tokenizer.json"), blob); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "tokenizer.json")
	if err := os.Symlink(blob, link); err != nil {
		t.Fatal(err)
	}
	m := open(t, dir)
	only(t, m.Findings)
	if i := slices.IndexFunc(m.Files, func(f model.CompanionFile) bool { return f.Name == "tokenizer.json" }); i < 0 || m.Files[i].Path != link {
		t.Errorf("files %v", m.Files)
	}
	os.Remove(blob)
	m = open(t, dir)
	only(t, m.Findings, "error companion-missing")
	says(t, m.Findings, "companion-missing", "tokenizer.json", "dangling link to", "0123abcd")
}

func TestAViewTakesMissingCompanionsFromTheDonor(t *testing.T) {
	f := like(t, "tiny").dropPrefix("mtp.")
	for _, name := range []string{"preprocessor_config.json", "generation_config.json", "tokenizer.json"} {
		delete(f.files, name)
	}
	d := like(t, "tiny")
	d.files["video_preprocessor_config.json"] = "{}"
	d.files["vocab.json"] = "{}"
	v := overlay(t, f.open(), openDonor(t, d.write()))
	only(t, v.Findings, "warning companion-missing", "info companion-missing", "info companion-missing", "info companion-missing")
	says(t, v.Findings, "companion-missing", "tokenizer.json", "taken from the donor", "added no tokens")
	if got, want := fileNames(v, model.Donor), []string{"generation_config.json", "preprocessor_config.json", "tokenizer.json", "video_preprocessor_config.json"}; !slices.Equal(got, want) {
		t.Errorf("from the donor: %v, want %v", got, want)
	}
	for _, file := range v.Files {
		if _, err := os.Stat(file.Path); err != nil || !strings.HasSuffix(file.Path, file.Name) {
			t.Errorf("%+v: %v", file, err)
		}
	}
}
