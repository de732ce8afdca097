package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"seatsmith/internal/line"
	"seatsmith/internal/model"
)

func (a *app) forgeCmd() *cobra.Command {
	var flags line.Job
	var trained []string
	var noDiff bool
	cmd := &cobra.Command{
		Use:   "forge [JOB.yaml]",
		Short: "The whole line: fine-tune and donor in, verified checkpoint out",
		Long: `forge opens the fine-tune and lays the donor's head over it as a view (no BF16 copy is written), judges the view and plans.
A donor that is the whole base is compared with the fine-tune first, as diff does: both are read once more, and a merge that merged
nothing, or not all, is refused before anything is written. --trained says what the training was meant to change; --no-diff leaves
the comparison out, which is then said. Then forge quantizes, verifies the result against both folders, checks the job's bounds, and
publishes only what passed; a refusal keeps OUT.partial, from which the same job with other bounds goes on. The output carries a model card (README.md), whose license is that
of the fine-tune's card, and SHA256SUMS. A job is a YAML file, or flags, or a file with flags that override
it. Paths in the file are relative to the file.`,
		Example: `  seatsmith forge examples/tavern/job.yaml
  seatsmith forge --body ./my-finetune --donor ./base --output ./my-finetune-NVFP4`,
		Args: func(cmd *cobra.Command, got []string) error {
			if len(got) > 1 {
				return fmt.Errorf("forge: unexpected argument %q; one job at a time", got[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range trained {
				flags.Trained = append(flags.Trained, model.Role(strings.TrimSpace(name)))
			}
			if cmd.Flags().Changed("no-diff") {
				look := !noDiff
				flags.Diff = &look
			}
			j := flags
			if len(args) == 1 {
				read, err := line.ReadJob(args[0])
				if err != nil {
					return usageError{err}
				}
				j = read
				override(cmd, &j, flags)
			}
			return a.forge(cmd.Context(), j, line.Forge)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.Body, "body", "", "folder of the fine-tune")
	f.StringVar(&flags.Output, "output", "", "folder to make; must not exist")
	f.StringVar(&flags.Repo, "repo", "", "`OWNER/NAME` that the output gets on the hub, for the model card and the upload command")
	f.StringVar(&flags.BaseModel, "base-model", "", "`OWNER/NAME` of the fine-tune on the hub, for the model card (default: from a downloader's cache path, or the folder's name)")
	f.StringSliceVar(&trained, "trained", nil, "the `ROLES` that the training was meant to change, such as attention,mlp: each must differ from the donor's, and only those are judged")
	f.BoolVar(&noDiff, "no-diff", false, "do not compare the fine-tune with its donor: saves one reading of both, and leaves unchecked whether the training is in")
	f.BoolVar(&flags.Force, "force", false, "take a head whose norms look shifted by one; nothing is ever subtracted")
	jobFlags(cmd, &flags)
	writeFlags(cmd, &flags)
	return cmd
}

// override lets flags that were given replace what the job file says.
func override(cmd *cobra.Command, j *line.Job, flags line.Job) {
	for name, set := range map[string]func(){
		"body": func() { j.Body = flags.Body }, "donor": func() { j.Donor = flags.Donor }, "output": func() { j.Output = flags.Output },
		"repo": func() { j.Repo = flags.Repo }, "base-model": func() { j.BaseModel = flags.BaseModel },
		"trained": func() { j.Trained = flags.Trained }, "no-diff": func() { j.Diff = flags.Diff }, "force": func() { j.Force = flags.Force },
		"recipe": func() { j.Recipe = flags.Recipe }, "stats": func() { j.Stats = flags.Stats }, "dialect": func() { j.Dialect = flags.Dialect }, "math": func() { j.Math = flags.Math },
		"groups": func() { j.Groups = flags.Groups }, "search": func() { j.Search = flags.Search }, "shard-size": func() { j.ShardSize = flags.ShardSize },
		"workers": func() { j.Workers = flags.Workers }, "sha256": func() { j.SHA256 = flags.SHA256 },
	} {
		if cmd.Flags().Changed(name) {
			set()
		}
	}
}
