package write

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"seatsmith/internal/atomicfile"
	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
)

// toolName is what the provenance says of who wrote the folder.
const toolName = "seatsmith"

// writeFiles writes everything beside the shards, the provenance last, and returns the hash of every file but that one.
func (r *run) writeFiles(ctx context.Context) (map[string]model.FileHash, error) {
	files := map[string]model.FileHash{}
	for i := range r.shards {
		files[r.shards[i].file] = r.done[i].FileHash
	}
	for _, f := range r.companions {
		h, err := r.copyCompanion(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("copying %s: %w", f.Path, err)
		}
		files[f.Name] = h
		failpoint("companion-copied:" + f.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(r.plan.Made)) {
		h, err := r.writeText(ctx, name, []byte(r.plan.Made[name]))
		if err != nil {
			return nil, err
		}
		files[name] = h
		failpoint("file-written:" + name)
	}
	config, err := indent(r.plan.Config)
	if err != nil {
		return nil, fmt.Errorf("rendering %s from the plan: %w", configFile, err)
	}
	weights := map[string]string{}
	for i := range r.shards {
		for _, t := range r.shards[i].layout.Tensors {
			weights[t.Name] = r.shards[i].file
		}
	}
	for _, f := range []struct {
		name string
		text []byte
	}{
		{configFile, config},
		{indexFile, safetensors.IndexBytes(weights, r.bytesOut)},
	} {
		h, err := r.writeText(ctx, f.name, f.text)
		if err != nil {
			return nil, err
		}
		files[f.name] = h
		failpoint("file-written:" + f.name)
	}
	record, err := json.MarshalIndent(r.provenance(files), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", model.ProvenanceFile, err)
	}
	if _, err := r.writeText(ctx, model.ProvenanceFile, append(record, '\n')); err != nil {
		return nil, err
	}
	failpoint("file-written:" + model.ProvenanceFile)
	return files, r.dir.sync()
}

// provenance is the record of the run: nothing in it depends on when, where or in how many goes the work was done.
func (r *run) provenance(files map[string]model.FileHash) *model.Provenance {
	p := &model.Provenance{
		Schema: 1, Tool: toolName, Version: r.plan.Version, Source: r.plan.Source, Plan: r.hash, Recipe: r.plan.Recipe.Name,
		Dialect: r.plan.Dialect, Math: r.plan.Math, Search: r.plan.Search, Groups: r.plan.Groups,
		Head: "none", Files: files, Native: map[string]float32{},
	}
	if r.plan.Kind != plan.KindQuantize {
		p.Kind = string(r.plan.Kind)
	}
	if l := r.plan.Lineage; l != nil {
		p.Source, p.Recipe, p.From, p.Foreign, p.Head = l.Source, l.Recipe, l.From, l.Foreign, l.Head
		maps.Copy(p.Native, l.Native)
	}
	p.Rounded = r.rounded()
	for i := range r.shards {
		for module, g := range r.done[i].Native {
			p.Native[module] = g
		}
		for _, w := range r.shards[i].works {
			if w.item.Role == model.RoleHead && r.plan.Lineage == nil { // a lineage knows whose head it was
				p.Head = string(w.item.Origin)
			}
		}
	}
	return p
}

// indent lays JSON out with two spaces, whatever the layout it came in, so that a plan that went through a file gives
// the same bytes as one that did not.
func indent(raw json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(raw), "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// writeText writes a small file, reads it again and returns its hash.
func (r *run) writeText(ctx context.Context, name string, text []byte) (model.FileHash, error) {
	path := filepath.Join(r.dir.path, name)
	if err := atomicfile.WriteFile(path, text, 0o644); err != nil {
		return model.FileHash{}, fmt.Errorf("writing %s: %w", name, err)
	}
	h := newHasher(false)
	h.add(text)
	return r.sameOnDisk(ctx, path, h)
}

// copyCompanion copies a file of the source through links: the copy is a plain file of its own, never a link.
func (r *run) copyCompanion(ctx context.Context, f model.CompanionFile) (model.FileHash, error) {
	none := model.FileHash{}
	before, err := identify(f.Path)
	if err != nil {
		return none, err
	}
	src, err := os.Open(f.Path)
	if err != nil {
		return none, err
	}
	defer src.Close()
	path := filepath.Join(r.dir.path, f.Name)
	if dir := filepath.Dir(path); dir != r.dir.path {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return none, err
		}
	}
	tmp := path + ".tmp"
	dst, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return none, err
	}
	h := newHasher(false)
	err = r.copyTo(ctx, dst, src, h)
	if err = errors.Join(err, dst.Sync(), dst.Close()); err != nil {
		return none, err
	}
	after, err := identify(f.Path)
	if err != nil {
		return none, err
	}
	if !before.same(after) || h.n != before.Bytes {
		return none, fmt.Errorf("%w while it was copied: %d bytes before, %d copied, %d after; start again when it is at rest",
			ErrSourceChanged, before.Bytes, h.n, after.Bytes)
	}
	if err := os.Rename(tmp, path); err != nil {
		return none, err
	}
	if err := atomicfile.SyncDir(filepath.Dir(path)); err != nil {
		return none, err
	}
	return r.sameOnDisk(ctx, path, h)
}

// copyTo copies src to dst through the spare buffer and hashes what went through.
func (r *run) copyTo(ctx context.Context, dst io.Writer, src io.Reader, h *hasher) error {
	buf := r.pool.spare
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := src.Read(buf)
		if n > 0 {
			h.add(buf[:n])
			if _, werr := dst.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// sameOnDisk hashes a written file and compares it with what went in.
func (r *run) sameOnDisk(ctx context.Context, path string, want *hasher) (model.FileHash, error) {
	h, err := hashFile(ctx, path, false, r.pool.spare, nil)
	if err != nil {
		return h, err
	}
	if h != want.sum() {
		return h, fmt.Errorf("read back, %s is not what was written: the disk or the memory errs, try another disk", path)
	}
	return h, nil
}
