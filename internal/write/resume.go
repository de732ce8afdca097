package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"seatsmith/internal/model"
)

// errForeign says that the unfinished folder is not ours to touch.
var errForeign = errors.New("not an unfinished output of this program")

// resume reads what an earlier run left: finished shards are hashed and taken over, everything else is removed. An
// empty folder gets a new journal.
func (r *run) resume(ctx context.Context) error {
	head := planLine{Schema: 1, Plan: r.hash, Version: r.plan.Version}
	lines, err := r.takeOver(head)
	if err != nil {
		return err
	}
	if r.opt.Begin != nil {
		if err := r.opt.Begin(); err != nil {
			return err
		}
	}
	failpoint("journal-started")
	last := map[string]shardLine{}
	for _, l := range lines {
		last[l.File] = l // a shard that was written again has two lines; the later one holds
	}
	r.listed = len(last)
	var total, done int64
	for i := range r.shards {
		total += last[r.shards[i].file].Bytes
	}
	for i := range r.shards {
		sh := &r.shards[i]
		line, ok := last[sh.file]
		if !ok {
			continue
		}
		why, err := r.recheck(ctx, sh, &line, func(n int64) {
			done += n
			r.report.stage("resume", done, total)
		})
		if err != nil {
			return err
		}
		if why != "" {
			r.report.emit("shard-rewritten", map[string]any{"file": sh.file, "reason": why})
			continue
		}
		r.done[i] = &line
		r.report.emit("shard-resumed", map[string]any{"file": sh.file, "bytes": line.Bytes})
		for _, w := range sh.works {
			r.report.add(w.bytes)
		}
	}
	r.listed = 0
	return r.sweep()
}

// takeOver decides whose folder this is, and opens or starts the journal.
func (r *run) takeOver(head planLine) ([]shardLine, error) {
	dir := r.dir.path
	text, err := os.ReadFile(filepath.Join(dir, journalFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	found, lines, good := readJournal(text)
	if found == nil {
		if err := r.sealed(head); err != nil {
			return nil, err
		}
		r.journal, err = startJournal(dir, head)
		return nil, err
	}
	if *found != head {
		return nil, foreignPlan(dir, *found, head)
	}
	r.journal, err = continueJournal(dir, good)
	return lines, err
}

// sealed handles a folder without a journal. It is fine when it is empty. It is also ours when the provenance in it is
// of this plan: the run was killed after it removed the journal and before the folder had its final name. Then
// everything is written again, because what the journal knew of findings is gone. All else is left alone.
func (r *run) sealed(head planLine) error {
	dir := r.dir.path
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the unfinished folder: %w", err)
	}
	if len(entries) == 0 || len(entries) == 1 && entries[0].Name() == journalFile {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(dir, model.ProvenanceFile))
	var p model.Provenance
	if err != nil || json.Unmarshal(text, &p) != nil || p.Tool != toolName {
		return fmt.Errorf("%w: %s holds files but no journal: move it away or choose another output", errForeign, dir)
	}
	if found := (planLine{Schema: p.Schema, Plan: p.Plan, Version: p.Version}); found != head {
		return foreignPlan(dir, found, head)
	}
	r.report.emit("restarted", map[string]any{"dir": dir, "reason": "killed between removing the journal and publishing"})
	return nil
}

func foreignPlan(dir string, found, want planLine) error {
	return fmt.Errorf("%w: %s was begun by plan %s of version %s, this is plan %s of version %s: delete that folder, or finish it with the arguments and the version that it was begun with",
		ErrOtherPlan, dir, found.Plan, found.Version, want.Plan, want.Version)
}

// recheck says why a journalled shard must be written again, "" when it is what the journal says. It brings the line's
// hashes to what this run records.
func (r *run) recheck(ctx context.Context, sh *shard, line *shardLine, progress func(int64)) (why string, err error) {
	if !maps.Equal(line.Sources, r.src.of(sh)) {
		return "a source file changed since it was written", nil
	}
	path := filepath.Join(r.dir.path, sh.file)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "the file is gone", nil
	case err != nil:
		return "", fmt.Errorf("looking at a finished shard: %w", err)
	case !info.Mode().IsRegular():
		return "it is not a regular file", nil
	case info.Size() != line.Bytes || info.Size() != sh.layout.Size:
		return fmt.Sprintf("it has %d bytes, not %d", info.Size(), sh.layout.Size), nil
	}
	h, err := hashFile(ctx, path, r.opt.SHA256, r.pool.spare, progress)
	if err != nil {
		return "", err
	}
	if h.BLAKE3 != line.BLAKE3 {
		return "its bytes are not those that were written", nil
	}
	line.FileHash = h
	return "", nil
}

// sweep removes everything but the journal and the shards taken over.
func (r *run) sweep() error {
	keep := map[string]bool{journalFile: true}
	for i, l := range r.done {
		if l != nil {
			keep[r.shards[i].file] = true
		}
	}
	entries, err := os.ReadDir(r.dir.path)
	if err != nil {
		return fmt.Errorf("reading the unfinished folder: %w", err)
	}
	for _, e := range entries {
		if keep[e.Name()] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(r.dir.path, e.Name())); err != nil {
			return fmt.Errorf("removing a leftover: %w", err)
		}
		r.report.emit("leftover-removed", map[string]any{"name": e.Name()})
		failpoint("leftover-removed:" + e.Name())
	}
	return r.dir.sync()
}
