package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"seatsmith/internal/diff"
	"seatsmith/internal/model"
)

func (a *app) diffCmd() *cobra.Command {
	var workers int
	var trained []string
	cmd := &cobra.Command{
		Use:   "diff BODY BASE",
		Short: "Say what a fine-tune changed, role by role, and whether the training is in it at all",
		Long: `diff holds a fine-tune against its base: by role how many tensors changed and by how much, which are identical, missing
or added, experts that stayed as they were, other element types, names that drifted, and what differs in tokenizer, chat
template, config.json and generation_config.json.

It exits 1 when nothing changed, or when something did not change that the rest suggests should have: the merge that did not
merge. Without --trained the rule is cautious where an adapter on attention alone looks the same, and warns; with it each role
named must have changed and the others are not judged. It exits 3 when nothing could be compared.`,
		Example: `  seatsmith diff testdata/tiny-finetune testdata/tiny
  seatsmith diff ./merged ./base --trained attention,mlp
  seatsmith diff --json ./merged ./base | jq .roles`,
		Args: args("BODY", "BASE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if workers < 0 {
				return usageError{fmt.Errorf("--workers %d is negative; 0 means one per CPU", workers)}
			}
			p := a.progress()
			defer p.close()
			o := diff.Options{Workers: workers, Progress: p.update}
			for _, name := range trained {
				role := model.Role(strings.TrimSpace(name))
				if !slices.Contains(diff.Trainable, role) {
					return usageError{fmt.Errorf("--trained: no role is called %q; there are %s", name, roleNames(diff.Trainable))}
				}
				o.Trained = append(o.Trained, role)
			}
			body, err := model.Open(args[0])
			if err != nil {
				return err
			}
			defer body.Close()
			base, err := model.Open(args[1])
			if err != nil {
				return err
			}
			defer base.Close()
			r, err := diff.Run(cmd.Context(), body, base, o)
			p.close()
			if err != nil {
				return err
			}
			a.findings(r.Findings)
			a.compared(r)
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
	f.StringSliceVar(&trained, "trained", nil, "the `ROLES` that the training was meant to change, such as attention,mlp")
	f.IntVar(&workers, "workers", 0, "how many goroutines compare (default: one per CPU)")
	return cmd
}

func roleNames(list []model.Role) string {
	var out []string
	for _, r := range list {
		out = append(out, string(r))
	}
	return strings.Join(out, ", ")
}

// compared prints a report for people.
func (a *app) compared(r *diff.Report) {
	w := a.report()
	fmt.Fprintf(w, "diff: %s, %s compared (%s)\n", r.Verdict, plural(r.TensorsCompared, "parameter"), size(r.BytesCompared))
	rows := [][]string{{"role", "changed", "identical", "missing", "added", "relative change min / median / max"}}
	for _, name := range slices.Sorted(maps.Keys(r.Roles)) {
		role := r.Roles[name]
		row := []string{string(name)}
		for _, n := range []int{role.Changed, role.Identical, role.Missing, role.Added} {
			row = append(row, fmt.Sprint(n))
		}
		rows = append(rows, append(row, spread(role)))
	}
	table(w, rows)
	if a.verbose {
		a.kinds(w, r)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		f := r.Files[name]
		if f.State == "identical" && !a.verbose {
			continue
		}
		fmt.Fprintf(w, "  %s: %s\n", printable(name), f.State)
		for _, change := range f.Changes {
			fmt.Fprintf(w, "    %s\n", printable(change))
		}
	}
	for _, n := range r.NotChecked {
		fmt.Fprintf(w, "  not checked: %s\n", printable(n))
	}
	if r.Unjudged {
		fmt.Fprintln(w, "  nothing could be compared, so nobody knows (exit code 3)")
	}
}

func spread(r *diff.Role) string {
	var out string
	if s := r.RelativeChange; s != nil {
		out = fmt.Sprintf("%.2g / %.2g / %.2g", s.Min, s.Median, s.Max)
	}
	if r.Incomparable > 0 {
		out += fmt.Sprintf(" (%d not comparable)", r.Incomparable)
	}
	for _, d := range slices.Sorted(maps.Keys(r.Dtypes)) {
		out += fmt.Sprintf(" (%d %s)", r.Dtypes[d], printable(d))
	}
	return strings.TrimSpace(out)
}

func (a *app) kinds(w io.Writer, r *diff.Report) {
	rows := [][]string{{"kind", "role", "changed", "identical"}}
	for _, k := range r.Kinds {
		rows = append(rows, []string{printable(k.Name), string(k.Role), fmt.Sprint(k.Changed), fmt.Sprint(k.Identical)})
	}
	table(w, rows)
}
