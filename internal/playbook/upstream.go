package playbook

import (
	"fmt"
	"strings"
)

// Upstream is what somebody needs to report an entry to the project that it is about.
type Upstream struct {
	ID           string   `json:"id"`
	Title        string   `json:"title"`
	Reproduction string   `json:"reproduction"` // "" when no minimal one is recorded
	Known        []string `json:"known"`        // public threads about it: look there before opening another
	Text         string   `json:"text"`         // Markdown, ready to paste
}

// Report makes the text of an upstream report of an entry. It invents nothing: without a recorded reproduction it says how
// this program shows the fault, for a rule, and else that there is none.
func (b *Book) Report(r Rule) Upstream {
	r = b.settled(r)
	u := Upstream{ID: r.ID, Title: r.Title, Known: []string{}}
	for _, ref := range r.Refs {
		if strings.Contains(ref, "#") {
			u.Known = append(u.Known, ref)
		}
	}
	u.Reproduction = strings.TrimSpace(r.Reproduce)
	if u.Reproduction == "" && r.Kind == KindRule {
		u.Reproduction = fmt.Sprintf("seatsmith inspect CKPT        # headers: names the file, tensor or key\nseatsmith verify CKPT -v      # what a server would make of it\n# look for the finding %s; it names the smallest part that shows it", r.ID)
	}
	var t strings.Builder
	fmt.Fprintf(&t, "## %s\n\n", r.Title)
	if r.Status != "holds" {
		fmt.Fprintf(&t, "**Our own status of this claim is: %s.** %s\n\n", r.Status, because(r))
	}
	first, second := "Expected", "What happens instead" // a rule's claim is how it should be, a lesson's how it is
	if r.Kind == KindLesson {
		first, second = "What happens", "Why it matters"
	}
	fmt.Fprintf(&t, "**%s.** %s\n\n**%s.** %s\n\n", first, fold(r.Claim), second, fold(r.Why))
	if r.Engines != "" && r.Engines != "any" {
		fmt.Fprintf(&t, "**Versions.** %s\n\n", r.Engines)
	}
	t.WriteString("**Minimal reproduction**\n\n")
	if u.Reproduction == "" {
		t.WriteString("None is recorded. Do not report before there is one; the evidence below is where to start.\n\n")
	} else {
		t.WriteString("```\n" + u.Reproduction + "\n```\n\n")
	}
	t.WriteString("**Evidence**\n\n")
	for _, e := range r.Evidence {
		fmt.Fprintf(&t, "* %s, %s: %s\n", e.Date, e.Source, fold(e.Note))
	}
	if len(u.Known) > 0 {
		fmt.Fprintf(&t, "\n**Public threads about it** (look there before opening another): %s\n", strings.Join(u.Known, ", "))
	}
	fmt.Fprintf(&t, "\n**Workaround in use.** %s\n", fold(r.Fix))
	u.Text = t.String()
	return u
}

func because(r Rule) string {
	if r.SupersededBy != "" {
		return fmt.Sprintf("Superseded on %s by `%s`.", r.SupersededOn, r.SupersededBy)
	}
	return "Reproduce it before reporting."
}

func fold(s string) string { return strings.Join(strings.Fields(s), " ") }
