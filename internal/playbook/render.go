package playbook

import (
	"fmt"
	"slices"
	"strings"
)

// Markdown renders docs/playbook.md from our entries. It is a function of the data alone.
func (b *Book) Markdown() string {
	var out strings.Builder
	all := b.Settled()
	out.WriteString("# Playbook\n\nWhat has been learnt, as data: one YAML file per entry in `internal/playbook/rules` (cited by code) and `internal/playbook/lessons`\n(followed by people). This page is made from them by `make generate`; edit the files. `seatsmith playbook show ID` prints an entry,\n`search WORDS` finds one, `lint PATH…` looks for superseded claims in your own notes.\n\n")
	for _, c := range Chapters {
		fmt.Fprintf(&out, "* [%s](#%s) (%d)\n", c.Title, anchor(c.Title), len(inChapter(all, c)))
	}
	for _, c := range Chapters {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n", c.Title, c.Lead)
		last := Severity("")
		for _, r := range inChapter(all, c) {
			if c.ID == "landmines" && r.Severity != last {
				last = r.Severity
				fmt.Fprintf(&out, "\n### %s\n", map[Severity]string{Error: "Costs the model", Warning: "Costs speed or trust", Info: "Good to know"}[last])
			}
			out.WriteString("\n" + b.section(r, c.ID == "landmines"))
		}
	}
	return out.String()
}

// inChapter lists the entries of a chapter: the gravest first, then by id; superseded ones stand in their own.
func inChapter(all []Rule, c Chapter) []Rule {
	var out []Rule
	for _, r := range all {
		if r.Status == "superseded" && c.ID == "superseded" || r.Status != "superseded" && r.Chapter == c.ID {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(x, y Rule) int { return rank(y.Severity) - rank(x.Severity) })
	return out
}

func (b *Book) section(r Rule, deep bool) string {
	var s strings.Builder
	mark := "###"
	if deep {
		mark = "####"
	}
	fmt.Fprintf(&s, "%s %s\n\n", mark, r.Title)
	if r.Status == "superseded" {
		s.WriteString(Header(r) + "\n\n")
	}
	kind := "enforced by code"
	if r.Kind == KindLesson {
		kind = "lesson"
	}
	fmt.Fprintf(&s, "`%s` · %s · %s · %s", r.ID, r.Severity, kind, r.Status)
	if r.Engines != "" && r.Engines != "any" {
		fmt.Fprintf(&s, " · %s", fold(r.Engines))
	}
	fmt.Fprintf(&s, "\n\n%s\n\n", fold(r.Claim))
	for i, row := range r.Table {
		s.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			s.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	if len(r.Table) > 0 {
		s.WriteByte('\n')
	}
	if r.Status != "superseded" {
		fmt.Fprintf(&s, "*Why.* %s\n\n", fold(r.Why))
	}
	fmt.Fprintf(&s, "*Do.* %s\n\n", fold(r.Fix))
	for _, e := range r.Evidence {
		fmt.Fprintf(&s, "* %s, %s: %s\n", e.Date, fold(e.Source), fold(e.Note))
	}
	if len(r.Refs) > 0 {
		fmt.Fprintf(&s, "* see %s\n", strings.Join(r.Refs, ", "))
	}
	return s.String()
}

// anchor is the name that a Markdown heading gets on the common hosts.
func anchor(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}
