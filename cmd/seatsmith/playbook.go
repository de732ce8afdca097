package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"seatsmith/internal/playbook"
)

func (a *app) playbookCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "playbook",
		Short:   "The rules behind every finding",
		Example: "  seatsmith playbook list\n  seatsmith playbook show head-missing",
		Args: func(cmd *cobra.Command, got []string) error {
			if len(got) > 0 {
				return fmt.Errorf("playbook: unknown command %q; there are list and show", got[0])
			}
			return fmt.Errorf("playbook: say list or show")
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return nil },
	}
	cmd.AddCommand(a.playbookListCmd(), a.playbookShowCmd())
	return cmd
}

func (a *app) playbookListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List every rule: id, severity, title",
		Example: "  seatsmith playbook list",
		Args:    args(),
		RunE: func(*cobra.Command, []string) error {
			rules := playbook.Rules()
			var rows [][]string
			for _, r := range rules {
				rows = append(rows, []string{r.ID, string(r.Severity), r.Title})
			}
			table(a.report(), rows)
			a.say("%s", plural(len(rules), "rule"))
			if a.json {
				a.document(map[string]any{"schema": 1, "rules": rules})
			}
			return nil
		},
	}
}

func (a *app) playbookShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show one rule: what it claims, why, what to do, and the evidence",
		Long:    "show prints the rule with this id, or every rule that cites this reference (C13, R5, S02, or a public issue as owner/repo#n).",
		Example: "  seatsmith playbook show head-missing\n  seatsmith playbook show C13",
		Args:    args("ID"),
		RunE: func(_ *cobra.Command, args []string) error {
			found := playbook.Lookup(args[0])
			if len(found) == 0 {
				return usageError{fmt.Errorf("no rule is called %q, and none cites it; `seatsmith playbook list` names them all", args[0])}
			}
			for _, r := range found {
				a.rule(r)
			}
			if a.json {
				a.document(map[string]any{"schema": 1, "rules": found})
			}
			return nil
		},
	}
}

func (a *app) rule(r playbook.Rule) {
	a.say("%s (%s, %s)\n  %s", r.ID, r.Severity, r.Status, r.Title)
	for _, part := range []struct{ name, text string }{
		{"claim", r.Claim}, {"why", r.Why}, {"do", r.Fix}, {"engines", r.Engines}, {"refs", strings.Join(r.Refs, ", ")},
	} {
		if part.text != "" {
			a.say("  %-8s %s", part.name, strings.TrimSpace(part.text))
		}
	}
	for _, e := range r.Evidence {
		a.say("  %-8s %s: %s %s", "evidence", e.Date, e.Source, strings.TrimSpace(e.Note))
	}
}
