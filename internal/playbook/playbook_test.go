package playbook

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

const good = `id: some-rule
title: T
severity: error
claim: C
why: W
fix: F
refs: [C01, "owner/repo#1"]
engines: any
status: holds
evidence: [{source: s, date: 2026-08-17, note: n}]
`

func TestEveryEmbeddedEntryParses(t *testing.T) {
	for _, dir := range []string{"rules", "lessons"} {
		list, err := parse(files, dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) < 20 {
			t.Errorf("only %d %s are embedded", len(list), dir)
		}
		for _, r := range list {
			if r.Kind+"s" != dir {
				t.Errorf("%s is a %s and stands in %s", r.ID, r.Kind, dir)
			}
		}
	}
	list := Ours().Entries()
	for i := 1; i < len(list); i++ {
		if list[i-1].ID >= list[i].ID {
			t.Errorf("rules out of order: %s, %s", list[i-1].ID, list[i].ID)
		}
	}
}

func TestAnEntryThatSaysTooLittleIsRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"id: some-rule", "id: other", "is not the file's name"},
		{"severity: error", "severity: fatal", "severity"},
		{"claim: C\n", "", "must all be said"},
		{"date: 2026-08-17", "date: yesterday", "evidence[0]"},
		{"status: holds", "status: maybe", "status"},
		{"status: holds", "status: superseded\nsuperseded_by: x", "belong together"},
		{"status: holds", "status: holds\nsuperseded_by: x\nsuperseded_on: 2026-01-01", "belong together"},
		{"status: holds", "status: holds\nkind: belief", "kind"},
		{"status: holds", "status: holds\nchapter: elsewhere", "chapter"},
		{"status: holds", "status: holds\nsupersedes: [{id: x, on: soon}]", "supersedes[0]"},
		{"status: holds", "status: holds\ntable: [[a, b], [c]]", "table[1]"},
		{"status: holds", "status: holds\nphrases: [two words]", "phrases[0]"},
		{"engines: any", "engine: any", "field engine not found"},
		{"evidence: [{source: s, date: 2026-08-17, note: n}]", "evidence: []", "no evidence"},
	} {
		broken := strings.Replace(good, c.old, c.new, 1)
		_, err := parse(fstest.MapFS{"rules/some-rule.yaml": {Data: []byte(broken)}}, "rules")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "some-rule.yaml") {
			t.Errorf("%q -> %q: got %v, want the file and %q", c.old, c.new, err, c.want)
		}
	}
	if _, err := parse(fstest.MapFS{"rules/some-rule.yaml": {Data: []byte(good)}}, "rules"); err != nil {
		t.Errorf("the unbroken entry: %v", err)
	}
}

// A commit, a release and a measurement have one date wherever they are cited; the text before the first comma names
// them.
func TestOneSourceHasOneDate(t *testing.T) {
	dates, where := map[string]string{}, map[string]string{}
	for _, r := range Ours().Entries() {
		for _, e := range r.Evidence {
			name, _, _ := strings.Cut(e.Source, ",")
			if first, ok := dates[name]; ok && first != e.Date {
				t.Errorf("%s is of %s in %s and of %s in %s", name, first, where[name], e.Date, r.ID)
			}
			dates[name], where[name] = e.Date, r.ID
		}
	}
}

func TestEvidenceSaysWhatWasSeenAndWhere(t *testing.T) {
	for _, r := range Ours().Entries() {
		for _, e := range r.Evidence {
			if strings.EqualFold(e.Source, "seatsmith") || e.Note == "" {
				t.Errorf("%s: %q (%q) is no evidence: name a measurement, a source or a public report, and say what it shows", r.ID, e.Source, e.Note)
			}
		}
	}
}

// A finding is read by people who do not have the ids in mind.
func TestTextsStandWithoutIDs(t *testing.T) {
	section := regexp.MustCompile(`^[0-9]+(\.[0-9]+)+$`)
	for _, r := range Ours().Entries() {
		texts := []string{r.Title, r.Claim, r.Why, r.Fix}
		for _, e := range r.Evidence {
			texts = append(texts, e.Source, e.Note)
		}
		for _, text := range texts {
			if id := reference.FindString(text); id != "" {
				t.Errorf("%s: %q says %s; say it in words and put the id into refs", r.ID, text, id)
			}
			if strings.HasSuffix(text, ".") != (text == r.Claim || text == r.Why || text == r.Fix) {
				t.Errorf("%s: %q: claim, why and fix are sentences, everything else is a phrase without a full stop", r.ID, text)
			}
		}
		for _, ref := range r.Refs {
			if section.MatchString(ref) {
				t.Errorf("%s: %s is a section number of nothing that is here", r.ID, ref)
			}
		}
	}
}

// reference is an id that docs/references.md explains. F32, BF16 and C64 are types.
var reference = regexp.MustCompile(`\b[CRQSTML][0-9]{1,2}\b`)

func TestEveryReferenceIsExplained(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "references.md"))
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	report := regexp.MustCompile(`[\w.-]+/[\w.-]+#[0-9]+`)
	line := regexp.MustCompile(`^\* \*\*([CRQSTML][0-9]{1,2})\*\* .+\.$`)
	last := ""
	for row := range strings.Lines(string(text)) {
		row = strings.TrimRight(row, "\n")
		m := line.FindStringSubmatch(row)
		if m == nil {
			if strings.HasPrefix(row, "*") {
				t.Errorf("%q is no line of the form: * **C13** sentence. Source.", row)
			}
			continue
		}
		if explained[m[1]] {
			t.Errorf("%s is explained twice", m[1])
		}
		explained[m[1]] = true
		if !report.MatchString(row) && !strings.Contains(row, ".py") {
			t.Errorf("%s has no public source", m[1])
		}
		if kind, lastKind := m[1][:1], strings.TrimRight(last, "0123456789"); kind == lastKind && (len(m[1]) < len(last) || len(m[1]) == len(last) && m[1] < last) {
			t.Errorf("%s stands after %s", m[1], last)
		}
		last = m[1]
	}
	for _, r := range Ours().Entries() {
		for _, ref := range r.Refs {
			switch {
			case reference.FindString(ref) == ref:
				if !explained[ref] {
					t.Errorf("%s refers to %s, which docs/references.md does not explain", r.ID, ref)
				}
			case report.FindString(ref) != ref:
				t.Errorf("%s refers to %q, which is neither an id nor owner/repo#n", r.ID, ref)
			}
		}
	}
}

func TestLookupByIDAndByReference(t *testing.T) {
	first := Rules()[0]
	if got := Lookup(strings.ToUpper(first.ID)); len(got) == 0 || got[0].ID != first.ID {
		t.Errorf("Lookup(%q) = %v", first.ID, got)
	}
	for _, r := range Ours().Entries() {
		for _, ref := range r.Refs {
			found := false
			for _, hit := range Lookup(ref) {
				found = found || hit.ID == r.ID
			}
			if !found {
				t.Errorf("Lookup(%q) does not lead to %s", ref, r.ID)
			}
		}
	}
	if got := Lookup("no-such-rule"); got != nil {
		t.Errorf("Lookup of nothing = %v", got)
	}
}

func TestFindingTakesTheSeverityOfItsRule(t *testing.T) {
	r := Rules()[0]
	f := New(r.ID, "s", "m", "f")
	if f.Severity != r.Severity || f.As(Info).Severity != Info || f.Severity != r.Severity {
		t.Errorf("severity of %+v", f)
	}
	if want := string(r.Severity) + " " + r.ID + ": s: m -> f"; f.String() != want {
		t.Errorf("String() = %q, want %q", f.String(), want)
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown rule did not panic")
		}
	}()
	New("no-such-rule", "", "", "")
}

func TestWorstAndErrors(t *testing.T) {
	a, b, c := Finding{Severity: Info}, Finding{Severity: Warning}, Finding{Severity: Error, Rule: "x"}
	if Worst(nil) != "" || Worst([]Finding{a}) != Info || Worst([]Finding{a, b, a}) != Warning || Worst([]Finding{c, a}) != Error {
		t.Error("Worst is wrong")
	}
	if got := Errors([]Finding{a, c, b}); len(got) != 1 || got[0].Rule != "x" {
		t.Errorf("Errors = %v", got)
	}
}
