package line

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/verify"
)

// Change is what graft, splice and convert are asked: a checkpoint in, another one out, and no weight coded.
type Change struct {
	Kind     plan.Kind
	Source   string // folder of the body, or of the quantized checkpoint
	Donor    string // graft and splice: base that has the head
	Output   string // must not exist
	Dialect  string // convert: the dialect to spell it in
	TextOnly bool   // graft: keep the class of a text-only body
	Force    bool   // graft and splice: take a head whose norms look shifted
	Workers  int
	SHA256   bool
}

// Check finds what is missing; every error names the flag or argument.
func (c Change) Check() error {
	var errs []error
	if c.Source == "" {
		errs = append(errs, errors.New("SOURCE is missing: name the folder of the checkpoint"))
	}
	if c.Output == "" {
		errs = append(errs, errors.New("OUT is missing: name the folder to make"))
	}
	if c.Workers < 0 {
		errs = append(errs, fmt.Errorf("--workers: %d is negative; 0 means one per CPU", c.Workers))
	}
	switch c.Kind {
	case plan.KindConvert:
		if c.Dialect == "" {
			errs = append(errs, errors.New("--dialect is missing: say which dialect the checkpoint is to have"))
		} else if _, err := dialect.Parse(c.Dialect); err != nil {
			errs = append(errs, fmt.Errorf("--dialect: %w", err))
		}
	case plan.KindGraft, plan.KindSplice:
		if c.Donor == "" {
			errs = append(errs, errors.New("--donor is missing: name the base model that has the head"))
		}
	default:
		errs = append(errs, fmt.Errorf("kind %q is no change of a checkpoint", c.Kind))
	}
	return errors.Join(errs...)
}

// job is the change as the run records it.
func (c Change) job() Job {
	return Job{Kind: string(c.Kind), Body: c.Source, Donor: c.Donor, Output: c.Output, Dialect: c.Dialect, TextOnly: c.TextOnly, Force: c.Force, Workers: c.Workers, SHA256: c.SHA256}
}

// plan makes the plan of a change on its view.
func (c Change) plan(view *model.Model, version string) (*plan.Plan, error) {
	switch c.Kind {
	case plan.KindConvert:
		return plan.Convert(view, version, c.Dialect)
	case plan.KindSplice:
		return plan.Splice(view, version)
	}
	return plan.Graft(view, version)
}

// Apply carries a change out: plan, write, and, while the folder still has its unfinished name, verify. What it publishes
// has passed. An Outcome with verdict "fail" is an answer, not an error; err means that it could not be found out.
//
// A graft is compared with its two sources, byte by byte. A splice and a convert have no unquantized source to be
// compared with: they are judged as the server would load them, and by the hashes of what was written.
func Apply(ctx context.Context, c Change, version string, rep Reporter) (*Outcome, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	c.Output = filepath.Clean(c.Output)
	out, done, err := begin(c.Output, rep)
	if err != nil || done {
		return out, err
	}
	rep.stage("open")
	view, err := open(c.Source, c.Donor, model.Laying{Rehome: c.Kind == plan.KindGraft, TextOnly: c.TextOnly, Force: c.Force})
	if err != nil {
		return nil, err
	}
	defer view.Close()
	p, err := c.plan(view, version)
	if err != nil {
		return nil, err
	}
	rep.findings("plan", p.Findings)
	out.planned(view, p)
	if playbook.Worst(out.Findings) == playbook.Error {
		out.judge()
		return out, nil
	}
	if rep.Plan != nil {
		rep.Plan(p)
	}
	o := verify.Options{}
	if c.Kind == plan.KindGraft {
		o.Source = view
	}
	return out, execute(ctx, c.job(), p, view, out, rep, &o)
}
