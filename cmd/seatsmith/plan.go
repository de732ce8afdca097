package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"seatsmith/internal/line"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
)

func (a *app) planCmd() *cobra.Command {
	var j line.Job
	var printRecipe bool
	cmd := &cobra.Command{
		Use:   "plan SRC",
		Short: "Decide what quantize would do, tensor by tensor, without touching a weight",
		Long: `plan reads headers and small files only and prints the whole plan: a scheme per tensor with the reason, sizes before and after, the
final config, findings. quantize with the same flags does exactly this. --json prints the plan itself.

A recipe is rules over roles and module names; "fp8" in it is the dialect's own form: one scale per row in compressed-tensors, which needs
no statistics; one per weight with a fixed input scale in modelopt, which needs --stats, and without it the weights stay as they are.
nvfp4-w4a4 needs --stats in both.`,
		Example: `  seatsmith plan testdata/tiny-finetune --donor testdata/tiny
  seatsmith plan ./model --recipe nvfp4-all-linear -v
  seatsmith plan ./model --dialect modelopt --recipe w4a4-mlp --stats stats.safetensors
  seatsmith plan --print-recipe > my-recipe.yaml`,
		Args: func(cmd *cobra.Command, got []string) error {
			if printRecipe && len(got) == 0 {
				return nil
			}
			return args("SRC")(cmd, got)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if printRecipe {
				return a.printRecipe(j.Recipe)
			}
			j.Body = args[0]
			if err := j.CheckPlan(); err != nil {
				return usageError{err}
			}
			view, err := line.Open(j.Body, j.Donor)
			if err != nil {
				return err
			}
			defer view.Close()
			p, found, err := line.Prepare(view, j, version)
			if err != nil {
				return err
			}
			if p != nil {
				p.Text(a.report(), a.verbose)
			}
			a.findings(found)
			if a.json {
				if p != nil {
					p.Findings = found
					a.document(p)
				} else {
					a.document(map[string]any{"schema": 1, "verdict": "fail", "findings": found})
				}
			}
			a.decide(found)
			if playbook.Worst(found) != playbook.Error {
				a.say("Nothing was written. `seatsmith quantize %s OUT%s` does this.", quoted(j.Body), flagText(j))
			}
			return nil
		},
	}
	jobFlags(cmd, &j)
	cmd.Flags().BoolVar(&printRecipe, "print-recipe", false, "print the recipe as YAML on stdout, as a start for your own")
	return cmd
}

func (a *app) printRecipe(name string) error {
	r, err := plan.LoadRecipe(name)
	if err != nil {
		return usageError{err}
	}
	if a.json {
		a.document(r)
		return nil
	}
	data, err := yaml.Marshal(r)
	if err != nil {
		return fmt.Errorf("recipe %s: %w", name, err)
	}
	_, err = a.stdout.Write(data)
	return err
}

// flagText repeats the flags that were given, for a command that can be pasted.
func flagText(j line.Job) string {
	var b strings.Builder
	for _, f := range []struct{ name, value string }{
		{"donor", j.Donor}, {"recipe", j.Recipe}, {"stats", j.Stats}, {"dialect", j.Dialect}, {"math", j.Math}, {"groups", j.Groups}, {"search", j.Search}, {"shard-size", j.ShardSize},
	} {
		if f.value != "" {
			fmt.Fprintf(&b, " --%s %s", f.name, quoted(f.value))
		}
	}
	return b.String()
}
