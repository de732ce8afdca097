package playbook

import (
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

func TestEveryEmbeddedRuleParses(t *testing.T) {
	list, err := parse(files, "rules")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 20 {
		t.Errorf("only %d rules are embedded", len(list))
	}
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

func TestLookupByIDAndByReference(t *testing.T) {
	first := Rules()[0]
	if got := Lookup(strings.ToUpper(first.ID)); len(got) == 0 || got[0].ID != first.ID {
		t.Errorf("Lookup(%q) = %v", first.ID, got)
	}
	for _, r := range Rules() {
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
