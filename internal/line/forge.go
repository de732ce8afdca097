package line

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"seatsmith/internal/diff"
	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/verify"
	"seatsmith/internal/write"
)

// Reporter receives what happens while the line runs. Every field may be nil.
type Reporter struct {
	Stage    func(name string)                            // a step begins: "open", "write", "verify"
	Plan     func(p *plan.Plan)                           // the plan is made, before anything is written
	Progress func(stage string, done, total int64)        // bytes of the step that runs
	Event    func(kind string, fields map[string]any)     // one call per event worth a line
	Findings func(stage string, found []playbook.Finding) // a step's findings, as soon as they are known
}

func (r Reporter) stage(name string) {
	if r.Stage != nil {
		r.Stage(name)
	}
}

func (r Reporter) findings(stage string, found []playbook.Finding) {
	if r.Findings != nil && len(found) > 0 {
		r.Findings(stage, found)
	}
}

// Outcome is what a line did; its JSON form is what `forge --json` and `quantize --json` print.
type Outcome struct {
	Schema     int                   `json:"schema"`
	Verdict    string                `json:"verdict"` // ok | warn | fail
	Output     string                `json:"output"`  // "" when nothing was published
	Kept       string                `json:"kept"`    // the unfinished folder that was not good enough to publish, "" otherwise
	Run        string                `json:"run"`     // the run folder, "" when the line ended before it
	BytesIn    int64                 `json:"bytes_in"`
	BytesOut   int64                 `json:"bytes_out"`
	Schemes    map[string]plan.Tally `json:"schemes"`
	Shards     int                   `json:"shards"`
	Resumed    int                   `json:"resumed"`
	Head       model.Head            `json:"mtp"`
	HeadFrom   string                `json:"head_from"`         // body | donor | none
	Renamed    []model.Rename        `json:"renamed,omitempty"` // tensors of the body that got the names of the served class
	Findings   []playbook.Finding    `json:"findings"`
	Upload     string                `json:"upload,omitempty"` // the command that puts the folder on the hub
	Diff       *diff.Report          `json:"diff,omitempty"`   // of forge: the fine-tune held against its donor, when that is the whole base
	NotChecked []string              `json:"not_checked"`      // what the line itself left unchecked; verify has its own list
	Verified   bool                  `json:"verified"`         // false: nobody has looked at the output yet
	Verify     *verify.Report        `json:"verify"`           // nil when the line ended before it, or for quantize
}

// judge sets the verdict from every finding that the line collected.
func (o *Outcome) judge() {
	all := o.Findings
	if o.Verify != nil {
		all = append(slices.Clone(all), o.Verify.Findings...)
	}
	switch playbook.Worst(all) {
	case playbook.Error:
		o.Verdict = "fail"
	case playbook.Warning:
		o.Verdict = "warn"
	default:
		o.Verdict = "ok"
	}
	switch {
	case o.Verdict != "ok":
	case o.Verify != nil:
		o.Verdict = o.Verify.Verdict
	default:
		o.Verdict = "warn" // nobody has looked at it yet
	}
}

// Open opens the body and lays the donor's head over it, when there is a donor. A text-only body under the wrapper's class,
// which no server loads, is re-homed: its names, and the vision tower and files from the donor. Close the result.
func Open(body, donor string) (*model.Model, error) { return open(body, donor, model.Laying{}) }

func open(body, donor string, how model.Laying) (*model.Model, error) {
	b, err := model.Open(body)
	if err != nil {
		return nil, err
	}
	if donor == "" {
		return b, nil
	}
	d, err := model.OpenDonor(donor)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	view, err := model.Lay(b, d, how)
	if err != nil {
		return nil, errors.Join(err, b.Close(), d.Close())
	}
	return view, nil
}

// ErrExists says that there is something under the output's name.
var ErrExists = errors.New("the output already exists")

// Forge does the whole line; what it publishes has passed verify and the job's bounds. An Outcome with verdict "fail" is
// an answer, not an error; err means that it could not be found out. Both may be set when the line broke off half way.
func Forge(ctx context.Context, j Job, version string, rep Reporter) (*Outcome, error) {
	if j.Kind != "" {
		return nil, fmt.Errorf("kind: the job is a %s, which forge does not do; use `seatsmith %s`", j.Kind, j.Kind)
	}
	return do(ctx, j, version, rep, true)
}

// Quantize does the line up to the published folder and does not verify it.
func Quantize(ctx context.Context, j Job, version string, rep Reporter) (*Outcome, error) {
	return do(ctx, j, version, rep, false)
}

func do(ctx context.Context, j Job, version string, rep Reporter, verified bool) (*Outcome, error) {
	if err := j.Check(); err != nil {
		return nil, err
	}
	j.Output = filepath.Clean(j.Output)
	out, done, err := begin(j.Output, rep)
	if err != nil || done {
		return out, err
	}
	rep.stage("open")
	view, err := open(j.Body, j.Donor, model.Laying{Force: j.Force})
	if err != nil {
		return nil, err
	}
	defer view.Close()
	p, found, err := Prepare(view, j, version)
	if err != nil {
		return nil, err
	}
	rep.findings("plan", found)
	out.planned(view, p)
	out.Findings = append([]playbook.Finding{}, found...)
	if p == nil || playbook.Worst(out.Findings) == playbook.Error {
		out.judge()
		return out, nil
	}
	var judging *verify.Options
	if verified {
		if good, err := out.compare(ctx, j, view, rep); err != nil || !good {
			return out, err
		}
		judging = &verify.Options{Source: view}
	}
	if rep.Plan != nil {
		rep.Plan(p)
	}
	return out, execute(ctx, j, p, view, out, rep, judging)
}

// begin looks at the output before anything is opened. done: the outcome is the answer already.
func begin(output string, rep Reporter) (out *Outcome, done bool, err error) {
	out = &Outcome{Schema: 1, Findings: []playbook.Finding{}, NotChecked: []string{}, Schemes: map[string]plan.Tally{}}
	if _, err := os.Lstat(output); err == nil {
		return nil, true, fmt.Errorf("%w: %s; nothing is overwritten: judge it with `seatsmith verify %s`, or name another output", ErrExists, output, output)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, true, fmt.Errorf("looking at the output: %w", err)
	}
	found := verify.OutputPath(output)
	if playbook.Worst(found) == playbook.Error {
		rep.findings("open", found)
		out.Findings = append(out.Findings, found...)
		out.judge()
		return out, true, nil
	}
	return out, false, nil
}

// planned notes what a view is and what its plan, if there is one, will do.
func (o *Outcome) planned(view *model.Model, p *plan.Plan) {
	o.Head, o.HeadFrom = view.Head, headFrom(view)
	if p == nil {
		return
	}
	o.Findings = append(o.Findings, p.Findings...)
	o.BytesIn, o.BytesOut, o.Renamed = p.BytesIn, p.BytesOut, view.Renames()
	for s, t := range p.Schemes {
		o.Schemes[string(s)] = t
	}
}

// execute runs the steps that touch the disk. judging says how the folder is judged before it has its name; nil: not at all.
func execute(ctx context.Context, j Job, p *plan.Plan, view *model.Model, out *Outcome, rep Reporter, judging *verify.Options) (err error) {
	log := &record{job: j, plan: p, diff: out.Diff, tell: rep.Event}
	defer func() {
		if err != nil {
			log.write("stopped", map[string]any{"error": err.Error()}) // the caller prints the error itself
		}
		err = errors.Join(err, log.close())
	}()

	seals := judging != nil && j.Kind == "" // forge publishes with a card and sums
	o := write.Options{Workers: j.Workers, SHA256: j.SHA256 || seals, Begin: log.begin, Progress: rep.Progress, Event: log.event}
	if judging != nil {
		o.Accept = func(ctx context.Context, done *write.Result) error {
			if err := accept(ctx, j, *judging, done, out, rep, log); err != nil || !seals {
				return err
			}
			c := newCard(j, p, view, out.Verify)
			found, err := seal(ctx, done.Dir, c)
			found = append(found, c.gaps()...)
			rep.findings("card", found)
			out.Findings = append(out.Findings, found...)
			out.judge()
			if err == nil && playbook.Worst(found) == playbook.Error {
				err = errNotGood
			}
			out.Upload = c.upload(j.Output)
			return err
		}
	}
	rep.stage("write")
	res, err := write.Run(ctx, p, view, j.Output, o)
	if log.run != nil {
		out.Run = log.run.Dir
	}
	refusal, refused := errors.AsType[*write.Refusal](err)
	switch {
	case refused:
		rep.findings("write", refusal.Findings)
		out.Findings = append(out.Findings, refusal.Findings...)
		out.judge()
		log.event("refused", map[string]any{"findings": refusal.Findings})
		return nil
	case errors.Is(err, errNotGood):
		out.Kept = j.Output + ".partial"
		log.event("refused", map[string]any{"kept": out.Kept})
		return nil
	case err != nil:
		return err
	}
	out.Output, out.Shards, out.Resumed, out.BytesOut = res.Dir, res.Shards, res.Resumed, res.BytesOut
	if judging == nil {
		rep.findings("write", res.Findings)
		out.Findings = append(out.Findings, res.Findings...)
	}
	out.judge()
	return nil
}

// errNotGood keeps a folder from being published: the verdict says why.
var errNotGood = errors.New("the result is not good, so it was not published")

// accept verifies the whole folder before it has its final name, and holds it against the job's bounds.
func accept(ctx context.Context, j Job, judging verify.Options, done *write.Result, out *Outcome, rep Reporter, log *record) error {
	rep.findings("write", done.Findings)
	out.Findings = append(out.Findings, done.Findings...)
	rep.stage("verify")
	judging.Workers, judging.Progress = j.Workers, rep.Progress
	report, err := verify.Checkpoint(ctx, done.Dir, judging)
	if err != nil {
		return fmt.Errorf("verifying what was written: %w", err)
	}
	out.Verify, out.Verified = report, true
	out.Shards, out.Resumed, out.BytesOut = done.Shards, done.Resumed, done.BytesOut
	rep.findings("verify", report.Findings)
	broken := exceeded(j.Bounds, report)
	rep.findings("bounds", broken)
	out.Findings = append(out.Findings, broken...)
	out.judge()
	log.event("verified", map[string]any{"verdict": out.Verdict})
	if err := log.run.SaveJSON("verify.json", report); err != nil {
		return err
	}
	if out.Verdict == "fail" || report.Unjudged {
		return errNotGood
	}
	return nil
}

// Prepare judges a view and plans it. The plan is nil when the view itself is refused.
func Prepare(view *model.Model, j Job, version string) (*plan.Plan, []playbook.Finding, error) {
	judged := verify.Source(view)
	if playbook.Worst(judged.Findings) == playbook.Error {
		return nil, judged.Findings, nil
	}
	o, err := j.PlanOptions()
	if err != nil {
		return nil, nil, err
	}
	o.Version = version
	p, err := plan.Make(view, o)
	if err != nil {
		return nil, nil, err
	}
	return p, merge(judged.Findings, p.Findings), nil
}

// merge joins two lists and drops what the second repeats.
func merge(a, b []playbook.Finding) []playbook.Finding {
	out := slices.Clone(a)
	for _, f := range b {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

// exceeded compares the measured errors with the job's bounds. A bound on a role that was not measured is broken too:
// nobody could find out whether it holds.
func exceeded(b Bounds, r *verify.Report) []playbook.Finding {
	var roles []string
	for role := range b.RelativeMSE {
		roles = append(roles, role)
	}
	slices.Sort(roles)
	var out []playbook.Finding
	for _, role := range roles {
		bound := b.RelativeMSE[role]
		got, measured := r.ErrorByRole[role]
		switch {
		case !measured:
			out = append(out, playbook.New("bound-exceeded", role, fmt.Sprintf("the job bounds the relative error of role %s at %g, but no tensor of that role was quantized and compared", role, bound),
				"remove the bound from the job, or choose a recipe that quantizes the role"))
		case !(got.RelativeMSE <= bound):
			out = append(out, playbook.New("bound-exceeded", role, fmt.Sprintf("relative mean squared error %.6f of role %s is above the job's bound %g", got.RelativeMSE, role, bound),
				"keep the role at a wider scheme, or raise bounds.relative_mse."+role+" on purpose"))
		}
	}
	return out
}

func headFrom(m *model.Model) string {
	switch {
	case m.Head.Present == 0:
		return "none"
	case m.DonorDir != "":
		return string(model.Donor)
	}
	return string(model.Body)
}
