package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"seatsmith/internal/line"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/write"
)

// Exit codes, as scripts read them.
const (
	exitGood    = 0
	exitNo      = 1 // the answer is no: an error finding, a bound exceeded
	exitUsage   = 2
	exitUnknown = 3 // could not find out: unreadable input, I/O
)

// app carries what every command shares.
type app struct {
	stdout, stderr io.Writer
	json           bool
	quiet, verbose bool
	answer         int  // exit code of a command that found its answer
	hidden         int  // findings for information that were not shown
	ran            bool // the command's own work began: its errors are no longer usage errors
}

// run is the program without its process: arguments in, exit code out.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if a.hidden > 0 {
		a.say("%s more for information: -v shows them", plural(a.hidden, "finding"))
	}
	switch {
	case err == nil:
		return a.answer
	case !a.ran:
		a.json = a.json || slices.Contains(args, "--json") // a bad flag before it stopped the reading
		a.failed(err)
		if bad := dashed(args); bad != "" {
			fmt.Fprintf(stderr, "If %s is the name of a folder, write ./%s.\n", bad, bad)
		}
		fmt.Fprintf(stderr, "See `%s --help`.\n", cmd.CommandPath())
		return exitUsage
	}
	return a.stopped(err)
}

// stopped prints an error that ended a command's work and says which exit code it deserves.
func (a *app) stopped(err error) int {
	if u, ok := errors.AsType[usageError](err); ok {
		a.failed(u.error)
		return exitUsage
	}
	if errors.Is(err, line.ErrExists) {
		a.failed(err)
		return exitUsage
	}
	if refusal, ok := errors.AsType[*write.Refusal](err); ok {
		a.refused(refusal.Findings)
		return exitNo
	}
	if p, ok := errors.AsType[*safetensors.Problem](err); ok && p.Rule != "file-changed" && p.Rule != "file-unreadable" {
		a.refused([]playbook.Finding{playbook.New(p.Rule, subject(p), p.Message, p.Fix)})
		return exitNo
	}
	if c, ok := errors.AsType[*model.ConfigError](err); ok {
		a.refused(c.Findings())
		return exitNo
	}
	a.failed(err)
	return exitUnknown
}

func subject(p *safetensors.Problem) string {
	if p.Tensor == "" {
		return p.File
	}
	return p.File + ": " + p.Tensor
}

// failed prints an error: as text for people, as a document for scripts.
func (a *app) failed(err error) {
	fmt.Fprintf(a.stderr, "seatsmith: %s\n", lines(err.Error()))
	if a.json {
		a.document(map[string]any{"schema": 1, "error": err.Error(), "findings": []playbook.Finding{}})
	}
}

// lines makes a message safe to show and keeps its line breaks, which join several errors.
func lines(s string) string {
	out := strings.Split(s, "\n")
	for i := range out {
		out[i] = printable(out[i])
	}
	return strings.Join(out, "\n")
}

// dashed finds an argument that looks like a flag and is a file.
func dashed(args []string) string {
	for _, a := range args {
		if strings.HasPrefix(a, "-") {
			if _, err := os.Lstat(a); err == nil {
				return a
			}
		}
	}
	return ""
}

// refused prints findings that ended a command before it had a document of its own.
func (a *app) refused(found []playbook.Finding) {
	a.findings(found)
	if a.json {
		a.document(map[string]any{"schema": 1, "verdict": "fail", "findings": found})
	}
}

// document writes one JSON document to stdout.
func (a *app) document(v any) {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		fmt.Fprintf(a.stderr, "seatsmith: writing JSON: %v\n", err)
		a.answer = exitUnknown
	}
}

// usageError is a mistake in the arguments that only the command's own code can see.
type usageError struct{ error }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "seatsmith",
		Short: "Turn a fine-tune into a fast checkpoint, and prove it",
		Long: `seatsmith turns a fine-tuned language model into an NVFP4 checkpoint whose multi-token-prediction head still
works, without Python, torch or a GPU, and proves the result by reading it back with code that did not write it.

Exit codes: 0 good · 1 the answer is no · 2 usage · 3 could not find out.
With --json one document goes to stdout; what people read goes to stderr.`,
		Example: `  seatsmith inspect ./my-finetune
  seatsmith forge examples/tavern/job.yaml
  seatsmith playbook show head-missing`,
		Version:           versionText(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRun:  func(*cobra.Command, []string) { a.ran = true },
		RunE: func(cmd *cobra.Command, args []string) error {
			return cmd.Help()
		},
	}
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print one JSON document on stdout")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "no progress and no report, only what is wrong")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "more detail: every tensor, every information")
	root.AddCommand(a.inspectCmd(), a.planCmd(), a.quantizeCmd(), a.verifyCmd(), a.forgeCmd(), a.playbookCmd(), a.diffCmd(),
		a.doctorCmd(), a.graftCmd(), a.spliceCmd(), a.convertCmd(), a.calibCmd(), a.toolsCmd(), a.secondEngineCmd())
	return root
}

// version is part of every plan and checkpoint: another version may write other bytes.
const version = "0.1.0-dev"

// versionText is the version with the commit it was built from, where the build knows it.
func versionText() string {
	v := version
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			v += " (" + s.Value[:12] + ")"
		}
	}
	return v + " " + strings.TrimPrefix(info.GoVersion, "go")
}

// args checks the number of arguments and says what is missing by name.
func args(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, got []string) error {
		if len(got) < len(names) {
			return fmt.Errorf("%s: %s is missing", cmd.Name(), names[len(got)])
		}
		if len(got) > len(names) {
			return fmt.Errorf("%s: unexpected argument %q", cmd.Name(), got[len(names)])
		}
		for i, g := range got {
			if g == "" {
				return fmt.Errorf("%s: %s is empty", cmd.Name(), names[i])
			}
		}
		return nil
	}
}
