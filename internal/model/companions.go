package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// absence is a companion file that the folder should hold and does not, or a link of that name that leads nowhere.
type absence struct {
	name     string
	severity playbook.Severity
	why      string
	from     Origin // Donor: the view takes it from there
	useless  bool   // something is there under the name, a dangling link or a FIFO: the donor's is not taken for it
}

// leftovers are JSON files of a quantizer or of this program: they describe the folder they stand in, not a copy of it.
// Source: the files that modelopt, llm-compressor, GPTQ and AWQ exporters write beside config.json.
var leftovers = map[string]bool{
	configFile: true, "hf_quant_config.json": true, "quantize_config.json": true, "quant_config.json": true,
	"quantization_config.json": true, "quant_strategy.json": true, "recipe.json": true, ProvenanceFile: true,
}

// carried reports whether a file belongs to the checkpoint beside its weights: tokenizer, template, processor,
// generation settings and licence. Hidden files, README and everything of training and weights stay where they are.
func carried(name string) bool {
	lower := strings.ToLower(name)
	switch {
	case strings.HasPrefix(name, "."), leftovers[lower], strings.HasSuffix(lower, ".index.json"):
		return false
	case strings.HasPrefix(lower, "license"), strings.HasPrefix(lower, "licence"), strings.HasPrefix(lower, "notice"):
		return true
	case strings.HasPrefix(lower, "tokenizer"), strings.HasPrefix(lower, "vocab"), lower == "merges.txt":
		return !isWeights(lower)
	}
	switch filepath.Ext(lower) {
	case ".json", ".jinja", ".model", ".tiktoken":
		return true
	}
	return false
}

func isWeights(name string) bool {
	switch filepath.Ext(name) {
	case ".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx":
		return true
	}
	return false
}

// companions lists the files of a folder that belong to the checkpoint, by name, and those that are missing. A link is
// read through and keeps the name it has here (in a Hugging Face cache it leads to blobs/<hash>); a link that leads
// nowhere counts as missing. Folders are not carried.
func companions(dir string, c *Config) ([]CompanionFile, []absence, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	var files []CompanionFile
	dangling := map[string]string{} // names behind which there is no file, and what there is
	for _, e := range entries {
		name := e.Name()
		if !carried(name) {
			continue
		}
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			target, _ := os.Readlink(path)
			dangling[name] = fmt.Sprintf("dangling link to %q", target)
		case err != nil:
			return nil, nil, fmt.Errorf("looking at %s: %w", path, err)
		case info.Mode().IsRegular():
			files = append(files, CompanionFile{Name: name, Path: path, Origin: Body})
		case !info.IsDir() || objects[name] || name == "chat_template.jinja":
			dangling[name] = "there is no regular file under this name (" + info.Mode().Type().String() + ")"
		}
	}
	return files, absences(files, dangling, c), nil
}

// absences: what a served model needs beside its weights (public report 2U1/Qwen-VL-Series-Finetune#34 and others:
// trainers save model and tokenizer and forget the processor).
func absences(files []CompanionFile, dangling map[string]string, c *Config) []absence {
	if _, known := classOf(c.Architecture); !known {
		return nil
	}
	has := func(name string) *CompanionFile {
		if i := slices.IndexFunc(files, func(f CompanionFile) bool { return f.Name == name }); i >= 0 {
			return &files[i]
		}
		return nil
	}
	var out []absence
	miss := func(name string, s playbook.Severity, why string) {
		what, useless := dangling[name]
		if useless {
			why, s = what, playbook.Error
			delete(dangling, name)
		}
		out = append(out, absence{name: name, severity: s, why: why, useless: useless})
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		if has(name) == nil {
			miss(name, playbook.Error, "the file is missing: no server can tokenize without it")
		}
	}
	template := has("chat_template.jinja") != nil || has("chat_template.json") != nil
	if f := has("tokenizer_config.json"); f != nil && !template {
		template = hasKey(f.Path, "chat_template")
	}
	if !template {
		miss("chat_template.jinja", playbook.Warning, "there is no chat template, neither as a file nor in tokenizer_config.json: chat requests fail")
	}
	if has("generation_config.json") == nil {
		miss("generation_config.json", playbook.Warning, "the file is missing: servers fall back to their own sampling, and may not stop at every end token")
	}
	if buildsVision(c) && c.Vision && has("preprocessor_config.json") == nil {
		if f := has("processor_config.json"); f == nil || !hasKey(f.Path, "image_processor") {
			miss("preprocessor_config.json", playbook.Error, "the configuration has a vision tower and the file is missing: the server does not start")
		}
	}
	for _, name := range sortedKeys(dangling) {
		miss(name, playbook.Error, "")
	}
	return out
}

// judgeCompanions makes a finding of each missing companion; what a view takes from the donor is no fault any more.
func (m *Model) judgeCompanions() []playbook.Finding {
	var out []playbook.Finding
	for _, a := range m.absent {
		f := playbook.New("companion-missing", a.name, a.why, "copy it from the base model").As(a.severity)
		if a.from == Donor {
			f = f.As(playbook.Info)
			f.Message, f.Fix = "the body lacks the file; it is taken from the donor", ""
			if strings.HasPrefix(a.name, "tokenizer") {
				f = f.As(playbook.Warning)
				f.Fix = "make sure that the fine-tune added no tokens of its own"
			}
		}
		out = append(out, f)
	}
	return out
}

// hasKey reports whether a JSON file has a top-level key that is not null. Unreadable counts as no.
func hasKey(path, key string) bool {
	data, err := safetensors.ReadRegular(path, maxConfigBytes)
	if err != nil || !gjson.ValidBytes(data) {
		return false
	}
	v := gjson.GetBytes(data, key)
	return v.Exists() && v.Type != gjson.Null
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func sortedKeys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func baseName(path string) string { return filepath.Base(path) }

func sortFiles(list []CompanionFile) {
	slices.SortFunc(list, func(a, b CompanionFile) int { return strings.Compare(a.Name, b.Name) })
}

func sortExpected(list []Expected) {
	slices.SortFunc(list, func(a, b Expected) int { return safetensors.NaturalCompare(a.Name, b.Name) })
}
