package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lukechampine.com/blake3"

	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// hashes checks the folder's files against the record that the writer left, and the record against the tensors.
func (j *judge) hashes(ctx context.Context) error {
	record := j.record
	if record == nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(record.Files))
	found := make([]model.FileHash, len(names))
	missing := make([]bool, len(names))
	size := func(i int) int64 { return max(0, record.Files[names[i]].Bytes) }
	err := j.each(ctx, "hash", len(names), size, func(i int, b *buffers) error {
		if !filepath.IsLocal(names[i]) {
			missing[i] = true
			return nil
		}
		var err error
		found[i], err = hashFile(ctx, filepath.Join(j.dir, filepath.FromSlash(names[i])), record.Files[names[i]].SHA256 != "", b)
		if errors.Is(err, fs.ErrNotExist) {
			missing[i], err = true, nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for i, name := range names {
		want := record.Files[name]
		switch got := found[i]; {
		case missing[i]:
			if j.blamed[name] {
				continue
			}
			j.notes.drop(func(f playbook.Finding) bool { return f.Rule == "companion-missing" && f.Subject == name })
			j.notes.join("gone", playbook.New("hash-mismatch", name, "the record lists the file and it is not there", "copy the folder again from where it was made"))
		case got.Bytes != want.Bytes:
			j.changed(name, fmt.Sprintf("it has %d bytes, the record says %d", got.Bytes, want.Bytes))
		case got.BLAKE3 != want.BLAKE3 || want.SHA256 != "" && got.SHA256 != want.SHA256:
			j.changed(name, "its content is not what was written: the hash differs from the record")
		}
	}
	return j.unrecorded(record)
}

// changed: unless an error in the file's content was told already, which is the better news.
func (j *judge) changed(name, what string) {
	if j.blamed[name] {
		return
	}
	j.notes.join("changed", playbook.New("hash-mismatch", name, what, "copy the folder again from where it was made, or write it again"))
}

// hashFile reads a file once.
func hashFile(ctx context.Context, name string, sha bool, b *buffers) (model.FileHash, error) {
	f, _, err := safetensors.OpenRegular(name)
	if err != nil {
		return model.FileHash{}, err
	}
	defer f.Close()
	sums := []hash.Hash{blake3.New(32, nil)}
	if sha {
		sums = append(sums, sha256.New())
	}
	out := model.FileHash{}
	buf := b.bytes(0, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		n, err := f.Read(buf)
		for _, s := range sums {
			s.Write(buf[:n])
		}
		out.Bytes += int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	out.BLAKE3 = hex.EncodeToString(sums[0].Sum(nil))
	if sha {
		out.SHA256 = hex.EncodeToString(sums[1].Sum(nil))
	}
	return out, nil
}

// unrecorded lists files that the record does not know.
func (j *judge) unrecorded(p *model.Provenance) error {
	root, err := filepath.EvalSymlinks(j.dir) // a folder may be reached through a link, which WalkDir would not follow
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch hidden := strings.HasPrefix(d.Name(), ".") && at != root; {
		case d.IsDir() && hidden: // a downloader's cache
			return fs.SkipDir
		case d.IsDir() || hidden:
			return nil
		}
		rel, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if _, ok := j.summed[name]; ok || j.summed != nil && name == sumsName {
			return nil // SHA256SUMS knows it
		}
		if _, ok := p.Files[name]; ok || name == model.ProvenanceFile || slices.Contains(j.unlisted, name) {
			return nil
		}
		if j.notes.names(name, "shard-leftover", "index-unlisted") {
			return nil // a warning, as this one would be
		}
		f := playbook.New("file-unrecorded", name, "the file was not there when the folder was written", "move it out of the folder, if it does not belong there")
		if !read(name) {
			f = f.As(playbook.Info)
		}
		j.notes.join("", f)
		return nil
	})
}

// read says whether a server or a tool might read a file by its name or kind: configurations, tokenizers, templates,
// weights and code. Cards, licences and pictures are read by people.
func read(name string) bool {
	lower := strings.ToLower(path.Base(name))
	switch path.Ext(lower) {
	case ".json", ".jinja", ".model", ".tiktoken", ".py", ".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx":
		return true
	}
	return strings.HasPrefix(lower, "tokenizer") || strings.HasPrefix(lower, "vocab") || lower == "merges.txt"
}
