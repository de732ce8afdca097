package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"seatsmith/internal/engine"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// mostCompanion is how large a companion may be; the largest known tokenizer has some 35 MB.
const mostCompanion = 256 << 20

// readCompanion reads a small file.
func readCompanion(path string) ([]byte, error) {
	data, err := safetensors.ReadRegular(path, mostCompanion)
	if err != nil {
		return nil, fmt.Errorf("comparing companions: %w", err)
	}
	return data, nil
}

// files holds everything beside the tensors against the source: config.json, tokenizer, template and the rest.
func (j *judge) files(ctx context.Context) error {
	if !j.comparable {
		return nil
	}
	if err := j.configChanged(); err != nil {
		return err
	}
	for _, f := range j.o.Source.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if generated(f.Name) {
			continue
		}
		if err := j.companion(f); err != nil {
			return err
		}
	}
	if err := j.added(); err != nil {
		return err
	}
	if j.record != nil {
		j.recordedSource()
	}
	return nil
}

// added tells of files that a server or a tool might read and the source does not have.
func (j *judge) added() error {
	known := map[string]bool{}
	for _, f := range j.o.Source.Files {
		known[f.Name] = true
	}
	for _, f := range j.m.Set.Files {
		known[f.Name] = true
	}
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || known[name] || generated(name) || strings.HasPrefix(name, ".") || !read(name) {
			continue
		}
		if j.record != nil {
			if _, ok := j.record.Files[name]; !ok {
				continue // file-unrecorded tells of it
			}
		}
		if j.notes.names(name, "shard-leftover", "index-unlisted") || j.blamed[name] {
			continue
		}
		j.notes.join("added", playbook.New("companion-changed", name, "the folder has the file and the source does not", "move it out of the folder, if it does not belong there").As(playbook.Warning))
	}
	return nil
}

// generated are companions that every writer makes by itself.
func generated(name string) bool {
	return name == "config.json" || name == engine.FileModelOpt || name == model.ProvenanceFile || strings.HasSuffix(name, ".index.json")
}

// companion compares one file of the source with the folder's.
func (j *judge) companion(f model.CompanionFile) error {
	data, err := readCompanion(filepath.Join(j.dir, filepath.FromSlash(f.Name)))
	if errors.Is(err, fs.ErrNotExist) {
		if !j.notes.names(f.Name, "companion-missing") {
			severity := playbook.Warning // other tools leave out what tokenizer.json holds as well
			if j.record != nil && decides(f.Name) {
				severity = playbook.Error
			}
			j.notes.join("source", playbook.New("companion-missing", f.Name, "the source has the file and the folder does not", "copy it from the source").As(severity))
		}
		return nil
	}
	if err != nil {
		return err
	}
	source, err := readCompanion(f.Path)
	if err != nil {
		return fmt.Errorf("reading the source's %s: %w", f.Name, err)
	}
	j.companions++
	if bytes.Equal(data, source) {
		return nil
	}
	if j.record == nil && sameJSON(data, source) {
		j.notes.join("spelling", playbook.New("companion-changed", f.Name, "it holds the same JSON values as the source's file in another layout", "nothing, or copy it from the source").As(playbook.Info))
		return nil
	}
	finding := playbook.New("companion-changed", f.Name,
		fmt.Sprintf("it is not the source's file: %d bytes here, %d there, the first difference at byte %d", len(data), len(source), firstDifference(data, source)),
		"copy it from the source")
	if !decides(f.Name) {
		finding = finding.As(playbook.Warning)
	} else {
		j.blamed[f.Name] = true
	}
	j.notes.join("", finding)
	return nil
}

// decides says whether a companion decides what the server computes or answers: tokens, prompts, images, stopping.
func decides(name string) bool {
	lower := strings.ToLower(name)
	for _, part := range []string{"tokenizer", "vocab", "merges", "chat_template", "generation_config", "processor", "special_tokens", "added_tokens"} {
		if strings.Contains(lower, part) {
			return true
		}
	}
	ext := filepath.Ext(lower)
	return ext == ".jinja" || ext == ".model" || ext == ".tiktoken"
}

func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// sameJSON says whether two files hold equal JSON values, numbers compared as numbers.
func sameJSON(a, b []byte) bool {
	x, errX := jsonValue(a)
	y, errY := jsonValue(b)
	if errX != nil || errY != nil {
		return false
	}
	return !slices.ContainsFunc(changes("", x, y), func(c change) bool { return !sameNumber(c.was, c.is) })
}

// recordedSource holds what the record says of its source against the one that was given.
func (j *judge) recordedSource() {
	if got := j.o.Source.Fingerprint(); j.record.Source != got && !j.notes.any("source-unfit") { // half a source has another fingerprint
		j.add(playbook.New("source-other", model.ProvenanceFile,
			fmt.Sprintf("the folder was made from another source: the record says %s, the one that was given has %s", short(j.record.Source), short(got)),
			"name the source (and the donor) that it was made from"))
	}
}

// short is the beginning of a fingerprint.
func short(s string) string {
	if s == "" {
		return "nothing"
	}
	return fmt.Sprintf("%.12s…", s)
}
