package write

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
)

// Options of a run.
type Options struct {
	Workers int  // 0: one per CPU
	SHA256  bool // also record SHA-256 per shard

	// Begin is called once, when the output is this run's: it is locked, and what is unfinished there is of this plan. An
	// error of it ends the run. Records beside the output belong here, not before, or a refused run would change the
	// records of the one that it was refused for. May be nil.
	Begin func() error

	// Accept judges the whole folder before it gets its final name; done.Dir is where it stands then. An error keeps the
	// folder unfinished (the next run of the same plan takes every shard over and asks again) and is returned, wrapped.
	// May be nil.
	Accept func(ctx context.Context, done *Result) error

	// Progress is called with stage "resume" (bytes of finished shards hashed again) and then "write" (bytes of source
	// carried out, those of resumed shards included); often, from one goroutine at a time; may be nil.
	Progress func(stage string, done, total int64)

	// Event is called once per event worth a line, from one goroutine at a time; may be nil. Kinds and their fields:
	//
	//	shard-resumed    file, bytes
	//	shard-rewritten  file, reason
	//	leftover-removed name
	//	shard-done       file, bytes, blake3, shard (from 1), shards
	//	cast             role, tensors, values, changed: kept tensors that were rounded to BF16
	//	restarted        dir, reason
	//	published        dir, files, bytes
	Event func(kind string, fields map[string]any)
}

// Result of a run.
type Result struct {
	Dir      string
	Shards   int
	Resumed  int   // shards taken over from an unfinished run
	BytesIn  int64 // tensor bytes of the source
	BytesOut int64 // tensor bytes written
	Findings []playbook.Finding
}

// Refusal is an error that can be named as findings (a NaN in the source, say): exit code 1.
type Refusal struct{ Findings []playbook.Finding }

func (r *Refusal) Error() string {
	if len(r.Findings) == 0 {
		return "refused"
	}
	var b strings.Builder
	for i, f := range r.Findings {
		if i == 3 && len(r.Findings) > 4 {
			fmt.Fprintf(&b, "; and %d more", len(r.Findings)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %s: %s", f.Rule, f.Subject, f.Message)
	}
	return b.String()
}

// Errors that a caller may test for with errors.Is.
var (
	// ErrBusy says that another run works on the same output at this moment.
	ErrBusy = errors.New("another run is writing this output")
	// ErrOtherPlan says that the unfinished folder belongs to another plan or version.
	ErrOtherPlan = errors.New("the unfinished output belongs to another plan")
	// ErrNoSpace says that the disk (or a quota, or a limit on file sizes) has no room.
	ErrNoSpace = errors.New("not enough disk space")
	// ErrSourceChanged says that a source file is not what it was when it was opened.
	ErrSourceChanged = errors.New("the source changed")
)

// Run carries out p on the view m and publishes out, which must not exist (the error then is fs.ErrExist) unless as
// the unfinished output of the same plan, which is resumed. It returns a *Refusal when the plan holds an error finding
// or the source cannot be coded, and the context's error, wrapped, when it was interrupted.
func Run(ctx context.Context, p *plan.Plan, m *model.Model, out string, o Options) (*Result, error) {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	out = filepath.Clean(out)
	c, err := newCheck(p, m)
	if err != nil {
		return nil, err
	}
	src, err := snapshot(c)
	if err != nil {
		return nil, err
	}
	dir, err := openPartial(out)
	if err != nil {
		return nil, err
	}
	defer dir.close()
	r := &run{
		check:  c,
		plan:   p,
		hash:   p.Hash(),
		opt:    o,
		report: &reporter{progress: o.Progress, event: o.Event, total: c.bytesIn},
		src:    src,
		dir:    dir,
		done:   make([]*shardLine, len(c.shards)),
		pool:   newPool(o.Workers, c.widens()),
	}
	res, err := r.all(ctx)
	if err != nil {
		return nil, r.failed(ctx, err)
	}
	return res, nil
}

// run is the state of one call of Run.
type run struct {
	*check
	plan    *plan.Plan
	hash    string
	opt     Options
	report  *reporter
	src     *sources
	dir     *partial
	journal *journal
	listed  int          // shards that the journal told of, while they are being looked at
	done    []*shardLine // one per shard of the plan, nil until it is finished
	pool    *pool
}

// all is Run once the folder is ours.
func (r *run) all(ctx context.Context) (*Result, error) {
	defer func() { _ = r.journal.close() }()
	if err := r.resume(ctx); err != nil {
		return nil, err
	}
	resumed := r.finished()
	if err := r.enoughSpace(); err != nil {
		return nil, err
	}
	if err := r.writeShards(ctx); err != nil {
		return nil, r.explain(err)
	}
	res := &Result{
		Dir:      r.dir.path,
		Shards:   len(r.shards),
		Resumed:  resumed,
		BytesIn:  r.bytesIn,
		BytesOut: r.bytesOut,
	}
	for _, l := range r.done {
		res.Findings = append(res.Findings, l.Findings...)
	}
	res.Findings = append(res.Findings, r.tellCasts()...)
	if err := r.publish(ctx, res); err != nil {
		return nil, r.explain(err)
	}
	res.Dir = r.dir.out
	return res, nil
}

// finished counts the shards that are in the folder, checked and journalled.
func (r *run) finished() int {
	n := 0
	for _, l := range r.done {
		if l != nil {
			n++
		}
	}
	return n
}

// failed tells what a failed run leaves behind, and removes a folder that this run made and that holds nothing worth
// resuming.
func (r *run) failed(ctx context.Context, err error) error {
	n := max(r.finished(), r.listed)
	if _, gone := os.Lstat(r.dir.path); errors.Is(gone, fs.ErrNotExist) {
		return err // it has its final name already; only making that durable failed
	}
	var refusal *Refusal
	switch interrupted := ctx.Err() != nil && errors.Is(err, context.Cause(ctx)); {
	case errors.As(err, &refusal):
		if n == 0 {
			r.dir.remove()
		}
		return err
	case interrupted:
		return fmt.Errorf("interrupted; %s keeps the %d of %d shards that are finished: run the same command again to go on, or delete that folder: %w",
			r.dir.path, n, len(r.shards), err)
	case n == 0 && r.dir.made:
		r.dir.remove()
		return err
	case errors.Is(err, ErrOtherPlan) || errors.Is(err, errForeign):
		return err
	}
	return fmt.Errorf("%w (%s keeps %d of %d finished shards: run the same command again to go on, or delete that folder)", err, r.dir.path, n, len(r.shards))
}

// publish writes the files beside the shards and gives the folder its final name.
func (r *run) publish(ctx context.Context, res *Result) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	files, err := r.writeFiles(ctx)
	if err != nil {
		return err
	}
	if r.opt.Accept != nil {
		if err := r.opt.Accept(ctx, res); err != nil {
			return err
		}
	}
	if err := r.journal.remove(); err != nil {
		return err
	}
	failpoint("journal-removed")
	if err := r.dir.publish(); err != nil {
		// The folder is whole but could not have its name: keep it resumable.
		if _, lerr := os.Lstat(r.dir.path); lerr == nil {
			err = errors.Join(err, r.journal.restore())
		}
		return err
	}
	failpoint("published")
	var bytes int64
	for _, f := range files {
		bytes += f.Bytes
	}
	r.report.emit("published", map[string]any{"dir": r.dir.out, "files": len(files) + 1, "bytes": bytes})
	return nil
}
