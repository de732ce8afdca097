package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"seatsmith/internal/playbook"
)

// book is the playbook that a command reads: ours, and the folder of --playbook beside it.
type book struct{ dir string }

func (b *book) open() (*playbook.Book, error) {
	if b.dir == "" {
		return playbook.Ours(), nil
	}
	return playbook.Open(b.dir)
}

func (a *app) playbookCmd() *cobra.Command {
	b := &book{}
	cmd := &cobra.Command{
		Use:   "playbook",
		Short: "What has been learnt: the rules behind every finding, lessons, and what became of old beliefs",
		Long: `The playbook is data: one entry per rule or lesson, with its claim, why, what to do, evidence with source and date, and
status. A rule is enforced by code and cited by findings; a lesson is followed by people. Claims never change quietly: what is
superseded stays, dated, with its true cause. --playbook DIR adds your own entries, one YAML file each, beside ours.`,
		Example: "  seatsmith playbook list\n  seatsmith playbook show head-missing\n  seatsmith playbook lint docs README.md",
		Args: func(cmd *cobra.Command, got []string) error {
			if len(got) > 0 {
				return fmt.Errorf("playbook: unknown command %q; there are list, show, search, lint, supersede and report", got[0])
			}
			return fmt.Errorf("playbook: say list, show, search, lint, supersede or report")
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return nil },
	}
	cmd.PersistentFlags().StringVar(&b.dir, "playbook", "", "a `DIR` with your own entries")
	cmd.AddCommand(a.playbookListCmd(b), a.playbookShowCmd(b), a.playbookSearchCmd(b), a.playbookLintCmd(b),
		a.playbookSupersedeCmd(b), a.playbookReportCmd(b), a.playbookGenerateCmd())
	return cmd
}

func (a *app) playbookListCmd(b *book) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List every entry: id, kind, severity, status, title",
		Example: "  seatsmith playbook list",
		Args:    args(),
		RunE: func(*cobra.Command, []string) error {
			pages, err := b.open()
			if err != nil {
				return err
			}
			a.entries(pages.Settled())
			return nil
		},
	}
}

// entries prints a table of entries, and the document.
func (a *app) entries(list []playbook.Rule) {
	var rows [][]string
	for _, r := range list {
		rows = append(rows, []string{r.ID, r.Kind, string(r.Severity), r.Status, printable(r.Title)})
	}
	table(a.report(), rows)
	word := "entries"
	if len(list) == 1 {
		word = "entry"
	}
	a.say("%d %s", len(list), word)
	if a.json {
		if list == nil {
			list = []playbook.Rule{}
		}
		a.document(map[string]any{"schema": 1, "rules": list})
	}
}

func (a *app) playbookShowCmd(b *book) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show one entry: what it claims, why, what to do, and the evidence",
		Long:    "show prints the entry with this id, or every entry that cites this reference (C13, R5, S02, or a public issue as owner/repo#n).",
		Example: "  seatsmith playbook show head-missing\n  seatsmith playbook show C13",
		Args:    args("ID"),
		RunE: func(_ *cobra.Command, args []string) error {
			pages, err := b.open()
			if err != nil {
				return err
			}
			found := pages.Lookup(args[0])
			if len(found) == 0 {
				return unknownEntry(args[0])
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

func unknownEntry(id string) error {
	return usageError{fmt.Errorf("no rule is called %q, and none cites it; `seatsmith playbook list` names them all", id)}
}

func (a *app) rule(r playbook.Rule) {
	status := r.Status
	if r.SupersededBy != "" {
		status += fmt.Sprintf(" on %s by %s", r.SupersededOn, r.SupersededBy)
	}
	a.say("%s (%s, %s, %s)\n  %s", r.ID, r.Kind, r.Severity, status, printable(r.Title))
	for _, part := range []struct{ name, text string }{
		{"claim", r.Claim}, {"why", r.Why}, {"do", r.Fix}, {"engines", r.Engines}, {"chapter", r.Chapter}, {"refs", strings.Join(r.Refs, ", ")},
	} {
		if part.text != "" {
			a.say("  %-8s %s", part.name, printable(strings.TrimSpace(part.text)))
		}
	}
	if len(r.Table) > 0 && !a.quiet {
		table(a.report(), r.Table)
	}
	for _, s := range r.Supersedes {
		a.say("  %-8s %s, on %s", "replaces", s.ID, s.On)
	}
	for _, e := range r.Evidence {
		a.say("  %-8s %s: %s %s", "evidence", e.Date, printable(e.Source), printable(strings.TrimSpace(e.Note)))
	}
}

func (a *app) playbookSearchCmd(b *book) *cobra.Command {
	return &cobra.Command{
		Use:     "search WORDS...",
		Short:   "Find the entries that hold all of these words",
		Long:    "search looks for every word in every field, with those first that have them in id or title. It exits 1 when no entry holds them all.",
		Example: "  seatsmith playbook search prefix cache",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, words []string) error {
			pages, err := b.open()
			if err != nil {
				return err
			}
			found := pages.Search(words)
			a.entries(found)
			if len(found) == 0 {
				a.answer = exitNo
			}
			return nil
		},
	}
}

func (a *app) playbookLintCmd(b *book) *cobra.Command {
	var code string
	var seal bool
	cmd := &cobra.Command{
		Use:   "lint [PATH...]",
		Short: "Judge the playbook, or look for superseded claims in Markdown",
		Long: `Without a path lint judges the entries: a claim that changed and is not kept, dated, as a superseded one; entries without
evidence or dates, of unknown chapters, or with links that lead nowhere; with --code ROOT also rule ids that code cites
without an entry, and the reverse. claims.lock remembers every claim that was made; --seal adds those of new own entries. With --playbook only the entries of
that folder are judged.

With paths it looks through Markdown files, and those below folders, for superseded claims in whatever case, emphasis and
line breaks, and prints the warning header to paste above them. It exits 1 when something is found.`,
		Example: "  seatsmith playbook lint\n  seatsmith playbook lint README.md notes/\n  seatsmith playbook lint --playbook ./lessons --seal",
		RunE: func(_ *cobra.Command, paths []string) error {
			if seal && b.dir == "" {
				return usageError{fmt.Errorf("--seal adds to the claims of your own entries, so it needs --playbook DIR; ours are sealed by `make generate`")}
			}
			pages, err := b.open()
			if err != nil {
				return err
			}
			if seal {
				if err := pages.Seal(); err != nil {
					return err
				}
				if pages, err = b.open(); err != nil {
					return err
				}
			}
			found, read := []playbook.Finding{}, 0
			if len(paths) == 0 || b.dir != "" {
				found = append(found, pages.Lint()...)
			}
			if code != "" {
				more, err := playbook.LintCode(os.DirFS(code))
				if err != nil {
					return err
				}
				found = append(found, more...)
			}
			if len(paths) > 0 {
				more, n, err := pages.LintPaths(paths)
				if err != nil {
					return err
				}
				found, read = append(found, more...), n
				if n == 0 {
					return fmt.Errorf("no Markdown below %s", strings.Join(paths, ", "))
				}
			}
			a.findings(found)
			verdict := "ok"
			if len(found) > 0 {
				verdict = "fail"
			}
			a.say("playbook: %s, %s, %s of Markdown read", verdict, plural(len(pages.Entries()), "claim"), plural(read, "file"))
			if a.json {
				a.document(map[string]any{"schema": 1, "verdict": verdict, "entries": len(pages.Entries()), "files": read, "findings": found})
			}
			a.decide(found)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&code, "code", "", "compare with the rule ids in the Go code below `ROOT`")
	f.BoolVar(&seal, "seal", false, "add the claims of new own entries to DIR/claims.lock")
	return cmd
}

func (a *app) playbookSupersedeCmd(b *book) *cobra.Command {
	var c playbook.Change
	var evidence []string
	cmd := &cobra.Command{
		Use:   "supersede ID",
		Short: "Write the dated entry that takes the place of a claim that no longer holds",
		Long: `supersede writes a new entry into --playbook DIR that says what it supersedes, since when and why; the old file stays as it
is, and nothing is overwritten. Without --playbook it prints the entry and what to do with it, and writes nothing.`,
		Example: `  seatsmith playbook supersede our-k --playbook ./lessons --claim "Three draft tokens are best for chat." \
    --cause "The old number was taken with a warm prefix cache." --evidence "seat bench, vllm 0.28 | 2026-12-01 | 77 against 71 tokens/s"`,
		Args: args("ID"),
		RunE: func(_ *cobra.Command, args []string) error {
			if strings.TrimSpace(c.Claim) == "" || len(evidence) == 0 {
				return usageError{fmt.Errorf("supersede: say the new --claim and at least one --evidence \"SOURCE | DATE | NOTE\"")}
			}
			for _, text := range evidence {
				e, err := playbook.ParseEvidence(text)
				if err != nil {
					return usageError{err}
				}
				c.Evidence = append(c.Evidence, e)
			}
			pages, err := b.open()
			if err != nil {
				return err
			}
			next, err := pages.Successor(args[0], c)
			if err != nil {
				return usageError{err}
			}
			text, err := next.YAML()
			if err != nil {
				return err
			}
			file := ""
			if b.dir == "" {
				a.say("%s is ours: nothing is written. Put this into a folder of your own (--playbook DIR writes it there),\nor send it to this project as internal/playbook/lessons/%s.yaml and run `make generate`:\n\n%s", args[0], next.ID, text)
			} else {
				if file, err = pages.Write(next); err != nil {
					return err
				}
				a.say("%s: supersedes %s since %s", file, args[0], next.Supersedes[0].On)
			}
			if a.json {
				a.document(map[string]any{"schema": 1, "rule": next, "file": file, "yaml": string(text)})
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Claim, "claim", "", "the new claim, one or two `SENTENCES`")
	f.StringVar(&c.Cause, "cause", "", "the true cause: why the old claim is wrong (default: the old entry's why)")
	f.StringVar(&c.Fix, "fix", "", "what to do now (default: the old entry's)")
	f.StringVar(&c.Title, "title", "", "a new title (default: the old entry's)")
	f.StringVar(&c.NewID, "id", "", "the new entry's `ID` (default: the old id and the date)")
	f.StringVar(&c.On, "date", "", "the day of the change, YYYY-MM-DD (default: that of the newest evidence)")
	f.StringArrayVar(&evidence, "evidence", nil, "`\"SOURCE | DATE | NOTE\"`, may be repeated")
	return cmd
}

func (a *app) playbookReportCmd(b *book) *cobra.Command {
	return &cobra.Command{
		Use:     "report ID",
		Short:   "Print a minimal reproduction and a text for an upstream report",
		Example: "  seatsmith playbook report logprobs-lie > issue.md",
		Long:    "report prints Markdown on stdout: what is expected, what happens, versions, the reproduction, evidence and known threads.",
		Args:    args("ID"),
		RunE: func(_ *cobra.Command, args []string) error {
			pages, err := b.open()
			if err != nil {
				return err
			}
			found := pages.Lookup(args[0])
			if len(found) == 0 {
				return unknownEntry(args[0])
			}
			u := pages.Report(found[0])
			if a.json {
				a.document(u)
				return nil
			}
			_, err = fmt.Fprint(a.stdout, u.Text)
			return err
		},
	}
}

// playbookGenerateCmd writes what is made from the entries, for `make generate`.
func (a *app) playbookGenerateCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "generate ROOT",
		Short:  "Write docs/playbook.md and seal new claims, in this program's source tree",
		Hidden: true,
		Args:   args("ROOT"),
		RunE: func(_ *cobra.Command, args []string) error {
			pages := playbook.Ours()
			lock := filepath.Join(args[0], "internal", "playbook", playbook.LedgerName)
			if _, err := os.Stat(lock); err != nil {
				return fmt.Errorf("%s is not this program's source tree: %w", args[0], err)
			}
			if lines := pages.Unsealed(false); lines != "" {
				f, err := os.OpenFile(lock, os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					return err
				}
				if _, err := f.WriteString(lines); err != nil {
					return err
				}
				if err := f.Close(); err != nil {
					return err
				}
			}
			return os.WriteFile(filepath.Join(args[0], "docs", "playbook.md"), []byte(pages.Markdown()), fs.FileMode(0o644))
		},
	}
}
