package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lukechampine.com/blake3"

	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
)

// mostRecord is how large a record may be that is believed.
const mostRecord = 64 << 20

// hashes checks the folder's files against the record that the writer left, and the record against the tensors.
func (j *judge) hashes(ctx context.Context) error {
	record, err := j.record()
	if err != nil {
		return err
	}
	if record == nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(record.Files))
	found := make([]model.FileHash, len(names))
	missing := make([]bool, len(names))
	size := func(i int) int64 { return max(0, record.Files[names[i]].Bytes) }
	err = j.each(ctx, "hash", len(names), size, func(i int, b *buffers) error {
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
	j.native(record)
	return j.unrecorded(record)
}

// changed: unless an error in the file's content was told already, which is the better news.
func (j *judge) changed(name, what string) {
	if j.blamed[name] {
		return
	}
	j.notes.join("changed", playbook.New("hash-mismatch", name, what, "copy the folder again from where it was made, or write it again"))
}

// record reads the record; nil when there is none or it cannot be believed, which is then a finding.
func (j *judge) record() (*model.Provenance, error) {
	f, err := os.Open(filepath.Join(j.dir, model.ProvenanceFile))
	if errors.Is(err, fs.ErrNotExist) {
		missing := playbook.New("provenance-missing", model.ProvenanceFile,
			"the folder carries no record of its files' hashes, so damage since it was made cannot be seen",
			"give the source with --source, or keep the record that the quantizer writes")
		if j.o.Source == nil {
			j.skip("source comparison and recorded hashes", true)
			j.add(missing)
			return nil, nil
		}
		j.skip("recorded hashes (no "+model.ProvenanceFile+"): tensors were compared with the source, other files were not", false)
		j.add(missing.As(playbook.Info))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostRecord+1))
	if err != nil {
		return nil, err
	}
	var p model.Provenance
	bad := ""
	switch err := json.Unmarshal(data, &p); {
	case len(data) > mostRecord:
		bad = fmt.Sprintf("it is larger than %d bytes", mostRecord)
	case err != nil:
		bad = err.Error()
	case p.Schema != 1:
		bad = fmt.Sprintf("its schema is %d, this version reads 1", p.Schema)
	case len(p.Files) == 0:
		bad = "it lists no files"
	}
	if bad != "" {
		j.add(playbook.New("provenance-bad", model.ProvenanceFile, bad, "copy the record again from where the folder was made"))
		j.skip("recorded hashes", true)
		return nil, nil
	}
	return &p, nil
}

// hashFile reads a file once.
func hashFile(ctx context.Context, path string, sha bool, b *buffers) (model.FileHash, error) {
	f, err := os.Open(path)
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
			return out, fmt.Errorf("reading %s: %w", path, err)
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
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch hidden := strings.HasPrefix(d.Name(), ".") && path != root; {
		case d.IsDir() && hidden: // a downloader's cache
			return fs.SkipDir
		case d.IsDir() || hidden:
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if _, ok := p.Files[name]; ok || name == model.ProvenanceFile {
			return nil
		}
		if j.notes.names(name, "shard-leftover", "index-unlisted") {
			return nil // a warning, as this one would be
		}
		j.notes.join("", playbook.New("file-unrecorded", name, "the file was not there when the folder was written", "move it out of the folder, if it does not belong there"))
		return nil
	})
}

// native holds the recorded native global scales against the stored divisors: converting back must give the same bytes.
func (j *judge) native(p *model.Provenance) {
	m, err := numeric.ParseMath(p.Math)
	if err != nil {
		if len(p.Native) > 0 {
			j.skip("recorded native scales: arithmetic "+p.Math+" is not known", true)
		}
		return
	}
	for i := range j.m.Tensors {
		t := &j.m.Tensors[i]
		stored, ok := j.globals[t.Name]
		module := moduleName(t.Name)
		if !ok || t.Suffix != "weight_global_scale" || j.faulty[module] || j.condemned[module] || j.expected[t.Base] == nil {
			continue
		}
		global, recorded := p.Native[module]
		switch want := (numeric.NVFP4{Math: m, Global: global}).Divisor(); {
		case !recorded:
			j.notes.join("gone", playbook.New("native-scale", t.Name, "the record has no native scale for the module, so a conversion and back would not give the same bytes", "write the module again"))
		case math.Float32bits(want) != math.Float32bits(stored):
			j.notes.join("differs", playbook.New("native-scale", t.Name,
				fmt.Sprintf("it is stored as %v, the recorded native scale %v makes %v", stored, global, want), "write the module again"))
		}
	}
}
