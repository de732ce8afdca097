package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"seatsmith/internal/atomicfile"
	"seatsmith/internal/dataset"
	"seatsmith/internal/playbook"
	"seatsmith/internal/prompt"
	"seatsmith/internal/prompt/ordered"
	"seatsmith/internal/prompt/peer"
)

// secondEngine is the hidden command under which this program runs the other template engine.
const secondEngine = "second-engine"

func (a *app) calibCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "calib",
		Short: "Check, build and look at calibration sets",
		Long: `calib works on calibration sets: JSON Lines with messages and tools. Rows are rendered with the checkpoint's own chat
template, exactly as the server will see them, and tokenized, before anything expensive starts.`,
		Example: `  seatsmith calib check rows.jsonl --model ./my-finetune
  seatsmith calib build mix.yaml rows.jsonl
  seatsmith calib render rows.jsonl --model ./my-finetune --row 7`,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.calibCheckCmd(), a.calibBuildCmd(), a.calibRenderCmd())
	return cmd
}

// secondEngineCmd serves the other template engine to its parent.
func (a *app) secondEngineCmd() *cobra.Command {
	return &cobra.Command{
		Use:    secondEngine,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return peer.Child(os.Stdin, os.Stdout) },
	}
}

// rendering are the flags that say how a row becomes a prompt.
type rendering struct {
	model, date string
	set         []string
	generate    bool
	merge       bool
}

func (r *rendering) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.model, "model", "", "checkpoint whose chat template and tokenizer are used")
	f.StringArrayVar(&r.set, "set", nil, "a variable of the template, NAME=JSON (enable_thinking=false); may be given several times")
	f.StringVar(&r.date, "date", "", "what strftime_now says, YYYY-MM-DD or RFC 3339 (default: today, at midnight UTC)")
	f.BoolVar(&r.generate, "generation-prompt", false, "end with the assistant's opening, as a request does")
	f.BoolVar(&r.merge, "merge-system", false, "join all system messages into one that comes first")
}

func (r *rendering) open() (*prompt.Prompter, prompt.Options, error) {
	o := prompt.Options{Generate: r.generate}
	if r.model == "" {
		return nil, o, usageError{errors.New("--model is missing: the checkpoint whose chat template is used")}
	}
	for _, s := range r.set {
		name, text, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return nil, o, usageError{fmt.Errorf("--set %s: want NAME=JSON", s)}
		}
		v, err := ordered.DecodeString(text)
		if err != nil {
			return nil, o, usageError{fmt.Errorf("--set %s: %w (a string needs its quotes)", s, err)}
		}
		o.Vars = append(o.Vars, ordered.Member{Key: name, Value: v})
	}
	now := time.Now().UTC().Truncate(24 * time.Hour)
	if r.date != "" {
		var err error
		if now, err = time.Parse(time.DateOnly, r.date); err != nil {
			if now, err = time.Parse(time.RFC3339, r.date); err != nil {
				return nil, o, usageError{fmt.Errorf("--date %s: want YYYY-MM-DD or RFC 3339", r.date)}
			}
		}
	}
	p, err := prompt.Open(r.model, now)
	return p, o, err
}

func (a *app) calibCheckCmd() *cobra.Command {
	var r rendering
	var maxLength int
	var allow string
	var alone bool
	cmd := &cobra.Command{
		Use:   "check FILE --model CKPT",
		Short: "Render and tokenize every row and say which are bad, and why",
		Long: `check renders every row with the checkpoint's chat template, tokenizes it, and reports bad rows with their numbers and
reasons, rows over the length, turns that the template leaves out, stray thinking tags, tool calls that do not come back when
the prompt is parsed again, control tokens spelled in a text, duplicates, the share of tool rows and the lengths.

Every render is compared with that of a second, independent template engine, which runs in a process of its own.
It exits 1 when more rows are bad than --allow-bad, 3 when that was not found out.`,
		Example: `  seatsmith calib check rows.jsonl --model ./my-finetune
  seatsmith calib check rows.jsonl --model ./my-finetune --max-length 4096 --allow-bad 1% --json`,
		Args: args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if maxLength < 0 {
				return usageError{fmt.Errorf("--max-length %d: want 0 (no bound) or more", maxLength)}
			}
			p, po, err := r.open()
			if err != nil {
				return err
			}
			lines, err := dataset.Read(args[0])
			if err != nil {
				return err
			}
			o := dataset.Options{MaxLength: maxLength, MergeSystem: r.merge, Prompt: po}
			if o.AllowBad, err = allowed(allow, len(lines)); err != nil {
				return err
			}
			if !alone && os.Getenv(peer.Marker) == "" {
				exe, err := os.Executable()
				if err != nil {
					return fmt.Errorf("finding this program, to start the second engine: %w", err)
				}
				o.Second = peer.Start(exe, secondEngine)
				defer o.Second.Close()
			}
			report, err := dataset.Check(cmd.Context(), args[0], lines, p, o)
			if err != nil {
				return err
			}
			a.checked(report)
			a.findings(report.Findings)
			for rule, n := range report.NotListed {
				a.say("%s more of %s: --json names every bad row", plural(n, "finding"), rule)
			}
			if a.json {
				a.document(report)
			}
			switch report.Verdict {
			case "fail":
				a.answer = exitNo
			case "unknown":
				a.answer = exitUnknown
			}
			return nil
		},
	}
	r.flags(cmd)
	cmd.Flags().IntVar(&maxLength, "max-length", 2048, "tokens that a run keeps of a row; 0 for no bound")
	cmd.Flags().StringVar(&allow, "allow-bad", "0", "so many bad rows are allowed: a number, or a share such as 1%")
	cmd.Flags().BoolVar(&alone, "no-second-engine", false, "do not compare renders with the second template engine")
	return cmd
}

// allowed reads a number of rows or a share of them, rounded down.
func allowed(s string, rows int) (int, error) {
	bad := usageError{fmt.Errorf("--allow-bad %s: want a number of rows, or a share such as 1%%", s)}
	if share, ok := strings.CutSuffix(s, "%"); ok {
		f, err := strconv.ParseFloat(share, 64)
		if err != nil || !(f >= 0 && f <= 100) {
			return 0, bad
		}
		return int(f / 100 * float64(rows)), nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, bad
	}
	return n, nil
}

func (a *app) checked(r *dataset.Report) {
	w := a.report()
	fmt.Fprintf(w, "%s: %s, %d bad (%d allowed): %s\n", printable(r.File), plural(r.Rows, "row"), r.BadRows, r.AllowBad, r.Verdict)
	rows := [][]string{
		{"tokens", fmt.Sprintf("%s in all; least %d, median %d, 95%% at most %d, most %d", humanize.Comma(int64(r.Tokens.Total)), r.Tokens.Min, r.Tokens.Median, r.Tokens.P95, r.Tokens.Max)},
		{"tools", fmt.Sprintf("%s (%.1f %%), %s; arguments decoded in %s", plural(r.ToolRows, "row"), 100*r.ToolShare, plural(r.Calls, "call"), plural(r.Normalised, "row"))},
		{"over length", fmt.Sprintf("%s of more than %d tokens", plural(r.Long, "row"), r.MaxLength)},
		{"duplicates", strconv.Itoa(r.Duplicates)},
		{"thinking", fmt.Sprintf("%s of reasoning in turns where the template leaves it out", plural(r.ReasoningDropped, "character"))},
	}
	if r.MaxLength == 0 {
		rows[2][1] = "no bound was given"
	}
	if s := r.Second; s.Agreed+s.Differed+s.Unanswered > 0 {
		line := fmt.Sprintf("%d equal, %d different, %d without an answer", s.Agreed, s.Differed, s.Unanswered)
		if s.Why != "" {
			line += ": " + printable(s.Why)
		}
		rows = append(rows, []string{"second engine", line})
	} else {
		rows = append(rows, []string{"second engine", "not asked"})
	}
	table(w, rows)
	for _, b := range r.Histogram {
		fmt.Fprintf(w, "  %6d or fewer tokens  %5d  %s\n", b.UpTo, b.Rows, strings.Repeat("#", (b.Rows*40+r.Rows-1)/max(r.Rows, 1)))
	}
	for i, b := range r.Bad {
		if i == 50 && !a.verbose {
			fmt.Fprintf(w, "  … %s more: -v lists them\n", plural(len(r.Bad)-i, "bad row"))
			break
		}
		fmt.Fprintf(w, "  bad: row %d: %s\n", b.Row, printable(strings.Join(b.Reasons, "; ")))
	}
}

func (a *app) calibBuildCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "build MIX.yaml OUT.jsonl",
		Short: "Draw a calibration set from several files, the same bytes every time",
		Long: `build reads a mix: files, their shares, a seed and filters, and writes the rows that it draws as they stand in their files. The
same mix and the same rows give the same bytes, whatever the order of rows in the files. OUT appears whole or not at all and
is never overwritten.

  schema: 1
  seed: 7
  rows: 512
  sources:
    - file: tavern.jsonl        # relative to the mix
      share: 3                  # a weight
    - file: tools.jsonl
      share: 1
      filters: {tools: true, calls: true, roles: [system, user, assistant, tool], min_messages: 2, max_messages: 40,
                min_chars: 20, max_chars: 20000, contains: [], excludes: ["lorem"]}`,
		Example: `  seatsmith calib build mix.yaml rows.jsonl`,
		Args:    args("MIX.yaml", "OUT.jsonl"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := os.Lstat(args[1]); !errors.Is(err, fs.ErrNotExist) {
				return usageError{fmt.Errorf("%s is there already; nothing is overwritten", args[1])}
			}
			m, err := dataset.LoadMix(args[0])
			if err != nil {
				return usageError{err}
			}
			b, err := dataset.Build(m)
			if err != nil {
				return err
			}
			if err := atomicfile.WriteNew(args[1], b.Data, 0o666); err != nil {
				return err
			}
			for _, s := range b.Sources {
				a.say("%s: %s of %s that fit (%s in the file)", printable(s.File), plural(s.Taken, "row"), humanize.Comma(int64(s.Fit)), humanize.Comma(int64(s.Rows)))
			}
			a.say("%s: %s, BLAKE3 %s", args[1], plural(m.Rows, "row"), b.BLAKE3)
			if a.json {
				a.document(map[string]any{"schema": 1, "file": args[1], "rows": m.Rows, "seed": m.Seed, "blake3": b.BLAKE3, "sources": b.Sources})
			}
			return nil
		},
	}
}

func (a *app) calibRenderCmd() *cobra.Command {
	var r rendering
	var number int
	cmd := &cobra.Command{
		Use:   "render FILE --model CKPT --row N",
		Short: "Print the prompt of one row, as the server will see it",
		Long: `render prints the text that the checkpoint's chat template makes of one row (the number is that of its line, from 1), byte for
byte on standard output; with --json also its token ids.`,
		Example: `  seatsmith calib render rows.jsonl --model ./my-finetune --row 7
  seatsmith calib render rows.jsonl --model ./my-finetune --row 7 --set enable_thinking=false --generation-prompt`,
		Args: args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, o, err := r.open()
			if err != nil {
				return err
			}
			lines, err := dataset.Read(args[0])
			if err != nil {
				return err
			}
			row, problems, err := dataset.RowOf(lines, number)
			if err != nil {
				return usageError{err}
			}
			where := fmt.Sprintf("%s: row %d", args[0], number)
			if len(problems) > 0 {
				a.refused(dataset.Findings(where, problems))
				a.answer = exitNo
				return nil
			}
			if r.merge {
				row, _ = prompt.MergeSystem(row)
			}
			out, src, err := p.Render(row, o)
			if err != nil {
				f := dataset.RenderFinding(where, row, err)
				a.refused([]playbook.Finding{f})
				a.answer = exitNo
				if f.Rule == "template-unknown" {
					a.answer = exitUnknown
				}
				return nil
			}
			ids, err := p.Tokens.NewEncoder().Encode(nil, out.Text)
			if err != nil {
				return err
			}
			a.say("row %d: %s, template %s (%s)", number, plural(len(ids), "token"), src.Name, src.From)
			if a.json {
				a.document(map[string]any{"schema": 1, "row": number, "template": src.From, "text": out.Text, "tokens": len(ids), "ids": ids, "assistant": out.Spans})
				return nil
			}
			fmt.Fprint(a.stdout, out.Text)
			return nil
		},
	}
	r.flags(cmd)
	cmd.Flags().IntVar(&number, "row", 1, "the row, by the number of its line from 1")
	return cmd
}
