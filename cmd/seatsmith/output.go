package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/dustin/go-humanize"

	"seatsmith/internal/playbook"
)

// say prints a line for people, unless they asked for quiet.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}

// report is where a command's text for people goes.
func (a *app) report() io.Writer {
	if a.quiet {
		return io.Discard
	}
	return a.stderr
}

// findings prints a list, gravest first. Information is shown only with -v, and counted otherwise; quiet keeps errors and
// warnings.
func (a *app) findings(found []playbook.Finding) {
	for _, severity := range []playbook.Severity{playbook.Error, playbook.Warning, playbook.Info} {
		for _, f := range found {
			if f.Severity != severity {
				continue
			}
			if severity == playbook.Info && !a.verbose {
				a.hidden++
				continue
			}
			fmt.Fprintf(a.stderr, "%s %s: %s\n    %s\n", strings.ToUpper(string(f.Severity)), f.Rule, printable(f.Subject), printable(f.Message))
			if f.Fix != "" {
				fmt.Fprintf(a.stderr, "    next: %s\n", printable(f.Fix))
			}
		}
	}
}

// longest is how much of one text is shown to people; the JSON document holds all of it.
const longest = 2000

// printable makes a text from a hostile file safe to show: control characters, which could move the cursor or change the
// colours, are spelled out, and a text that goes on for ever is cut.
func printable(s string) string {
	cut := ""
	if len(s) > longest {
		cut = fmt.Sprintf(" … (%s bytes in all; --json has them)", humanize.Comma(int64(len(s))))
		s = strings.ToValidUTF8(s[:longest], "")
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) || r == ' ' {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String() + cut
}

// quoted spells an argument so that a shell takes it as one word.
func quoted(arg string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+=:@,", r)
	}
	if arg != "" && !strings.HasPrefix(arg, "-") && strings.IndexFunc(arg, func(r rune) bool { return !plain(r) }) < 0 {
		return arg
	}
	if strings.HasPrefix(arg, "-") {
		arg = "./" + arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// decide turns findings into the exit code.
//
// A file that could not be read is not an answer: whatever else is wrong, nobody knows what is in it.
func (a *app) decide(found []playbook.Finding) {
	for _, f := range playbook.Errors(found) {
		if f.Rule == "file-unreadable" {
			a.answer = exitUnknown
			return
		}
		a.answer = exitNo
	}
}

// table prints aligned columns.
func table(w io.Writer, rows [][]string) {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tw, "  "+strings.Join(row, "\t"))
	}
	tw.Flush()
}

func size(n int64) string { return humanize.Bytes(uint64(max(n, 0))) }

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return humanize.Comma(int64(n)) + " " + noun + "s"
}
