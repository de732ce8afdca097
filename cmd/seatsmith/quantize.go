package main

import (
	"context"

	"github.com/spf13/cobra"

	"seatsmith/internal/line"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
)

func (a *app) quantizeCmd() *cobra.Command {
	var j line.Job
	cmd := &cobra.Command{
		Use:   "quantize SRC OUT",
		Short: "Plan, write, re-read and publish a quantized checkpoint",
		Long: `quantize plans, then reads the source by row tiles, quantizes, writes, reads every file back and compares, and publishes
OUT only when it is whole. OUT must not exist. An interrupted run leaves OUT.partial; the same command resumes it to the same bytes.
Records of the run are in OUT.run/.`,
		Example: `  seatsmith quantize ./my-finetune ./my-finetune-NVFP4 --donor ./base
  seatsmith quantize ./model ./out --recipe nvfp4-all-linear --math ct`,
		Args: args("SRC", "OUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			j.Body, j.Output = args[0], args[1]
			return a.forge(cmd.Context(), j, line.Quantize)
		},
	}
	jobFlags(cmd, &j)
	writeFlags(cmd, &j)
	return cmd
}

// forge runs a line and prints what it did.
func (a *app) forge(ctx context.Context, j line.Job, do func(context.Context, line.Job, string, line.Reporter) (*line.Outcome, error)) error {
	if err := j.Check(); err != nil {
		return usageError{err}
	}
	p := a.progress()
	defer p.close()
	rep := line.Reporter{
		Stage:    func(name string) { p.line("== " + name) },
		Plan:     func(made *plan.Plan) { made.Text(a.report(), a.verbose) },
		Progress: p.update,
		Event:    p.event,
		Findings: func(_ string, found []playbook.Finding) {
			p.pause()
			a.findings(found)
		},
	}
	out, err := do(ctx, j, version, rep)
	p.close()
	if err != nil {
		return err
	}
	a.forged(j, out)
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

func (a *app) forged(j line.Job, out *line.Outcome) {
	for _, what := range out.NotChecked {
		a.say("Not checked: %s", printable(what))
	}
	if out.Output == "" {
		if out.Verify != nil {
			a.verified(out.Verify)
		}
		a.say("Nothing was published under %s.", j.Output)
		if out.Kept != "" {
			a.say("%s keeps the work: change the job and run it again to go on from there, or delete the folder.", out.Kept)
		}
		return
	}
	a.say("%s: %s -> %s in %s, head from %s", out.Output, size(out.BytesIn), size(out.BytesOut), plural(out.Shards, "file"), out.HeadFrom)
	if out.Verify != nil {
		a.verified(out.Verify)
	} else {
		a.say("Not verified yet: `seatsmith verify %s --source %s%s`", quoted(out.Output), quoted(j.Body), donorFlag(j.Donor))
	}
	if out.Upload != "" {
		a.say("To publish it: %s", out.Upload)
	}
	a.say("Records of this run: %s", out.Run)
}

func donorFlag(donor string) string {
	if donor == "" {
		return ""
	}
	return " --donor " + quoted(donor)
}
