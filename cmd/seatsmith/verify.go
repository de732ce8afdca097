package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"seatsmith/internal/engine"
	"seatsmith/internal/line"
	"seatsmith/internal/playbook"
	"seatsmith/internal/verify"
)

func (a *app) verifyCmd() *cobra.Command {
	var source, donor, server string
	var workers int
	cmd := &cobra.Command{
		Use:   "verify OUT",
		Short: "Judge a finished checkpoint with fresh eyes: would it load, would its head draft, is it the source",
		Long: `verify reads a folder as the server's loader would, with code that shares nothing with the planner or the writer.
With --source (and --donor) every tensor is compared with what it was made from: kept bytes must be equal, quantized ones are
decoded and their error reported by role. Without a source the hashes that the checkpoint records are checked.
It exits 0 when nothing is wrong, 1 when something is, 3 when it could not find out.`,
		Example: `  seatsmith verify ./out --source ./my-finetune --donor ./base
  seatsmith verify --json ./out | jq .verdict`,
		Args: args("OUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if donor != "" && source == "" {
				return usageError{fmt.Errorf("--donor says where the head of the source came from, so it needs --source")}
			}
			if workers < 0 {
				return usageError{fmt.Errorf("--workers %d is negative; 0 means one per CPU", workers)}
			}
			if _, err := engine.Parse(server); server != "" && err != nil {
				return usageError{fmt.Errorf("--engine: %w", err)}
			}
			o := verify.Options{Workers: workers, Engine: server}
			if source != "" {
				view, err := line.Open(source, donor)
				if err != nil {
					return err
				}
				defer view.Close()
				for _, f := range playbook.Errors(view.Findings) {
					if f.Rule == "file-unreadable" {
						return fmt.Errorf("the source cannot be read, so nothing can be compared with it: %s: %s (%s)", f.Subject, f.Message, f.Fix)
					}
				}
				o.Source = view
			}
			p := a.progress()
			defer p.close()
			o.Progress = p.update
			r, err := verify.Checkpoint(cmd.Context(), args[0], o)
			p.close()
			if err != nil {
				return err
			}
			a.findings(r.Findings)
			a.say("%s:", args[0])
			a.verified(r)
			if a.json {
				a.document(r)
			}
			a.decide(r.Findings)
			if r.Unjudged && a.answer == exitGood {
				a.answer = exitUnknown
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&source, "source", "", "the `CKPT` that was quantized")
	f.StringVar(&donor, "donor", "", "the `CKPT` that the head was taken from")
	f.StringVar(&server, "engine", "", "the server that is to load it, such as vllm@0.24 (default "+engine.Default+")")
	f.IntVar(&workers, "workers", 0, "how many goroutines compare (default: one per CPU)")
	return cmd
}

// verified prints a report for people.
func (a *app) verified(r *verify.Report) {
	w := a.report()
	fmt.Fprintf(w, "verify: %s (as %s would load it), %s checked, %s identical to the source\n", r.Verdict, r.Engine, plural(r.TensorsChecked, "tensor"), size(r.BytesIdentical))
	var rows [][]string
	for _, role := range slices.Sorted(maps.Keys(r.ErrorByRole)) {
		e := r.ErrorByRole[role]
		rows = append(rows, []string{role, fmt.Sprintf("relative MSE %.6f", e.RelativeMSE), fmt.Sprintf("largest difference %.4g", e.Max)})
	}
	table(w, rows)
	if r.Unjudged {
		fmt.Fprintln(w, "  something that matters could not be judged, so this is not good (exit code 3)")
	}
	for _, n := range r.NotChecked {
		fmt.Fprintf(w, "  not checked: %s\n", n)
	}
}
