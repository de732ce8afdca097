package main

import (
	"context"

	"github.com/spf13/cobra"

	"seatsmith/internal/line"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
)

// changeFlags adds the flags that graft, splice and convert share.
func changeFlags(cmd *cobra.Command, c *line.Change) {
	f := cmd.Flags()
	f.IntVar(&c.Workers, "workers", 0, "how many goroutines copy (default: one per CPU); the bytes do not depend on it")
	f.BoolVar(&c.SHA256, "sha256", false, "record SHA-256 beside BLAKE3 for every shard")
}

// apply runs a change and prints what it did.
func (a *app) apply(ctx context.Context, c line.Change) error {
	if err := c.Check(); err != nil {
		return usageError{err}
	}
	p := a.progress()
	defer p.close()
	rep := line.Reporter{
		Stage:    func(name string) { p.line("== " + name) },
		Plan:     func(made *plan.Plan) { made.ChangeText(a.report(), a.verbose) },
		Progress: p.update,
		Event:    p.event,
		Findings: func(_ string, found []playbook.Finding) {
			p.pause()
			a.findings(found)
		},
	}
	out, err := line.Apply(ctx, c, version, rep)
	p.close()
	if err != nil {
		return err
	}
	a.applied(c, out)
	if a.json {
		a.document(out)
	}
	if out.Verdict == "fail" {
		a.answer = exitNo
	}
	a.decide(out.Findings)
	if out.Verify != nil && out.Verify.Unjudged && a.answer == exitGood {
		a.answer = exitUnknown
	}
	return nil
}

func (a *app) applied(c line.Change, out *line.Outcome) {
	if out.Verify != nil {
		a.verified(out.Verify)
	}
	if out.Output == "" {
		a.say("Nothing was published under %s.", c.Output)
		if out.Kept != "" {
			a.say("%s keeps the work, which did not pass; delete it before the next attempt.", out.Kept)
		}
		return
	}
	a.say("%s: %s in %s, head from %s", out.Output, size(out.BytesOut), plural(out.Shards, "file"), out.HeadFrom)
	a.say("Records of this run: %s", out.Run)
}
