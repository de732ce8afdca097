package line

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"seatsmith/internal/atomicfile"
	"seatsmith/internal/diff"
	"seatsmith/internal/plan"
)

// Run is the folder OUT.run/ beside an output. Its files are written whole or not at all, except events.jsonl, which only
// grows. Files that it does not know are left alone.
type Run struct {
	Dir string

	mu     sync.Mutex
	events *os.File
}

// RunDir is where the run of an output lives.
func RunDir(output string) string { return filepath.Clean(output) + ".run" }

// OpenRun makes the run folder of an output, or continues the one of an unfinished attempt.
func OpenRun(output string) (*Run, error) {
	dir := RunDir(output)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making the run folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "events.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the run's events: %w", err)
	}
	return &Run{Dir: dir, events: f}, nil
}

// record keeps the run of one line. Nothing of it is on the disk before the writer says that the output is ours.
type record struct {
	job  Job
	plan *plan.Plan
	diff *diff.Report // nil when nothing was compared
	tell func(kind string, fields map[string]any)
	run  *Run
	held []held // events from before
}

type held struct {
	kind   string
	fields map[string]any
}

// begin opens the run and writes what is known: the job, the plan. A judgement of an earlier output of this name is
// removed: it says nothing about this one.
func (r *record) begin() error {
	run, err := OpenRun(r.job.Output)
	if err != nil {
		return err
	}
	r.run = run
	for _, name := range []string{"verify.json", "diff.json"} {
		if err := os.Remove(filepath.Join(run.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the judgement of an earlier output: %w", err)
		}
	}
	if err := errors.Join(run.SaveJob(r.job), run.SaveJSON("plan.json", r.plan)); err != nil {
		return err
	}
	if r.diff != nil {
		if err := run.SaveJSON("diff.json", r.diff); err != nil {
			return err
		}
	}
	r.event("planned", map[string]any{"plan": r.plan.Hash(), "bytes_in": r.plan.BytesIn, "bytes_out": r.plan.BytesOut})
	for _, h := range r.held {
		r.write(h.kind, h.fields)
	}
	r.held = nil
	return nil
}

// event tells the reporter at once, and the log when there is one.
func (r *record) event(kind string, fields map[string]any) {
	if r.tell != nil {
		r.tell(kind, fields)
	}
	r.write(kind, fields)
}

func (r *record) write(kind string, fields map[string]any) {
	if r.run == nil {
		r.held = append(r.held, held{kind, fields})
		return
	}
	// The log is a record for people; a full disk shows where it matters, in the write step.
	_ = r.run.Event(kind, fields)
}

func (r *record) close() error {
	if r.run == nil {
		return nil
	}
	return r.run.Close()
}

// Event appends one line: {"schema":1,"time":…,"event":kind, fields…}. It may be called from any goroutine.
func (r *Run) Event(kind string, fields map[string]any) error {
	line := map[string]any{"schema": 1, "time": time.Now().UTC().Format(time.RFC3339Nano), "event": kind}
	for k, v := range fields {
		line[k] = v
	}
	data, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("event %s: %w", kind, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.events.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("writing %s: %w", r.events.Name(), err)
	}
	return nil
}

// SaveJSON writes one of the run's documents.
func (r *Run) SaveJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return atomicfile.WriteFile(filepath.Join(r.Dir, name), append(data, '\n'), 0o644)
}

// SaveJob writes job.yaml with the paths made absolute, so that the run can be repeated from anywhere.
func (r *Run) SaveJob(j Job) error {
	j.Schema = 1
	paths := []*string{&j.Body, &j.Donor, &j.Output, &j.Stats}
	if isPath(j.Recipe) {
		paths = append(paths, &j.Recipe)
	}
	for _, p := range paths {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return fmt.Errorf("job.yaml: %w", err)
		}
		*p = abs
	}
	data, err := yaml.Marshal(j)
	if err != nil {
		return fmt.Errorf("job.yaml: %w", err)
	}
	return atomicfile.WriteFile(filepath.Join(r.Dir, "job.yaml"), data, 0o644)
}

// Close makes the events durable and closes them.
func (r *Run) Close() error {
	return errors.Join(r.events.Sync(), r.events.Close())
}
