package playbook

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func lesson(id, claim string, more ...string) string {
	return "id: " + id + "\ntitle: T\nseverity: warning\nclaim: " + claim + "\nwhy: W.\nfix: F.\nrefs: []\nengines: any\nstatus: holds\n" +
		"evidence: [{source: s, date: 2026-08-17, note: n}]\n" + strings.Join(more, "\n")
}

// owner makes a folder of own entries.
func owner(t *testing.T, entries map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range entries {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func openBook(t *testing.T, dir string) *Book {
	t.Helper()
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// own lists the findings about the owner's folder.
func own(b *Book) []string {
	var out []string
	for _, f := range b.Lint() {
		out = append(out, f.Rule+" "+f.Subject)
	}
	return out
}

func wants(t *testing.T, b *Book, want ...string) {
	t.Helper()
	if got := own(b); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
		for _, f := range b.Lint() {
			t.Log(f)
		}
	}
}

func TestOurPlaybookIsClean(t *testing.T) {
	for _, f := range Ours().Lint() {
		t.Errorf("%s (make generate seals what is new)", f)
	}
}

func TestThePageIsCurrent(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "playbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != Ours().Markdown() {
		t.Error("docs/playbook.md is not what the entries make: run make generate")
	}
	for _, c := range Chapters {
		if !strings.Contains(string(page), "\n## "+c.Title+"\n") || len(inChapter(Ours().Settled(), c)) == 0 {
			t.Errorf("chapter %q is empty", c.Title)
		}
	}
}

func TestAChangedClaimWithoutADatedSuccessorFails(t *testing.T) {
	dir := owner(t, map[string]string{"our-k.yaml": lesson("our-k", "Two draft tokens are best.")})
	wants(t, openBook(t, dir), "playbook-claim our-k.yaml")
	if err := openBook(t, dir).Seal(); err != nil {
		t.Fatal(err)
	}
	wants(t, openBook(t, dir))
	change := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "our-k.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	change(lesson("our-k", "two  DRAFT tokens\n  are **best**"))
	wants(t, openBook(t, dir)) // the same words
	change(lesson("our-k", "Three draft tokens are best."))
	wants(t, openBook(t, dir), "playbook-claim our-k.yaml")
	if err := openBook(t, dir).Seal(); err != nil {
		t.Fatal(err)
	}
	wants(t, openBook(t, dir), "playbook-claim our-k.yaml") // sealing does not launder a quiet change
	old := strings.Replace(lesson("our-k-old", "Two draft tokens are best."), "status: holds", "status: superseded\nsuperseded_by: our-k\nsuperseded_on: 2026-12-01", 1)
	if err := os.WriteFile(filepath.Join(dir, "our-k-old.yaml"), []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := openBook(t, dir).Seal(); err != nil {
		t.Fatal(err)
	}
	wants(t, openBook(t, dir))
	if err := os.Remove(filepath.Join(dir, "our-k-old.yaml")); err != nil {
		t.Fatal(err)
	}
	wants(t, openBook(t, dir), "playbook-claim claims.lock: our-k-old")
}

func TestOwnEntriesAreHeldToTheSameRules(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"head-missing.yaml", lesson("head-missing", "C."), "playbook-entry head-missing.yaml"},
		{"a.yaml", lesson("b", "C."), "playbook-entry a.yaml"},
		{"a.yaml", lesson("a", "C.", "kind: rule"), "playbook-entry a.yaml"},
		{"a.yaml", strings.Replace(lesson("a", "C."), "2026-08-17", "lately", 1), "playbook-entry a.yaml"},
		{"a.yaml", "id: a: b", "playbook-entry a.yaml"},
		{"claims.lock", "a 2026-01-01\n", "playbook-entry claims.lock"},
	} {
		wants(t, openBook(t, owner(t, map[string]string{c.name: c.text})), c.want)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a folder that is not there opened")
	}
}

func TestLinksThatLeadNowhereOrInACircleAreFound(t *testing.T) {
	superseded := func(id, by string) string {
		return strings.Replace(lesson(id, "C "+id+"."), "status: holds", "status: superseded\nsuperseded_by: "+by+"\nsuperseded_on: 2026-12-01", 1)
	}
	has := func(b *Book, want string) {
		t.Helper()
		if !slices.Contains(own(b), want) {
			t.Errorf("found %q, want %q", own(b), want)
		}
	}
	has(openBook(t, owner(t, map[string]string{"a.yaml": superseded("a", "nobody")})), "playbook-entry a.yaml")
	has(openBook(t, owner(t, map[string]string{"a.yaml": superseded("a", "b"), "b.yaml": superseded("b", "a")})), "playbook-entry a.yaml")
	has(openBook(t, owner(t, map[string]string{"a.yaml": lesson("a", "C.", "supersedes: [{id: nobody, on: 2026-12-01}]")})), "playbook-entry a.yaml")
	has(openBook(t, owner(t, map[string]string{"a.yaml": strings.Replace(lesson("a", "C."), "holds", "superseded", 1)})), "playbook-entry a.yaml")
}

func TestASupersessionIsWrittenAndNothingIsOverwritten(t *testing.T) {
	dir := owner(t, map[string]string{"our-k.yaml": lesson("our-k", "Two draft tokens are best.", "phrases: [two draft tokens are best]")})
	b := openBook(t, dir)
	if err := b.Seal(); err != nil {
		t.Fatal(err)
	}
	e, err := ParseEvidence("seat bench | 2026-12-01 | 77 against 71 tokens/s")
	if err != nil {
		t.Fatal(err)
	}
	c := Change{Claim: "Three draft tokens are best.", Cause: "The cache was warm.", Evidence: []Evidence{e}}
	r, err := b.Successor("our-k", c)
	if err != nil {
		t.Fatal(err)
	}
	if r.ID != "our-k-2026-12-01" || r.Supersedes[0].On != "2026-12-01" || r.Why != "The cache was warm." {
		t.Errorf("successor %+v", r)
	}
	before, _ := os.ReadFile(filepath.Join(dir, "our-k.yaml"))
	if _, err := b.Write(r); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadFile(filepath.Join(dir, "our-k.yaml")); string(after) != string(before) {
		t.Error("the old entry was changed")
	}
	next := openBook(t, dir)
	wants(t, next)
	if got := next.Lookup("our-k")[0]; got.Status != "superseded" || got.SupersededBy != r.ID || got.SupersededOn != "2026-12-01" {
		t.Errorf("the old entry stands as %+v", got)
	}
	if found := next.LintText("n.md", "We know: *Two draft\ntokens* are BEST!"); len(found) != 1 || found[0].Subject != "n.md:1" {
		t.Errorf("found %v", found)
	}
	if _, err := b.Write(r); err == nil {
		t.Error("an entry was overwritten")
	}
	for name, c := range map[string]Change{
		"the same claim": {Claim: "two draft tokens are best", Evidence: []Evidence{e}},
		"no evidence":    {Claim: "Four."},
		"a taken id":     {Claim: "Four.", NewID: "head-missing", Evidence: []Evidence{e}},
	} {
		if _, err := b.Successor("our-k", c); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, err := next.Successor("our-k", c); err == nil {
		t.Error("what is superseded was superseded again")
	}
	if _, err := ParseEvidence("a | b"); err == nil {
		t.Error("evidence without a date was accepted")
	}
}

func TestSupersededClaimsAreFoundInWhateverShape(t *testing.T) {
	for text, line := range map[string]string{
		"compressed-tensors cannot load a BF16 MTP head, so we use modelopt.":           "1",
		"# Notes\n\nWe know: **compressed-tensors**\ncan not load\nthe _BF16_ MTP head": "3",
		"> Compressed-Tensors can't load `mtp` weights":                                 "1",
	} {
		found := Ours().LintText("notes.md", text)
		if len(found) != 1 || found[0].Rule != "playbook-superseded" || found[0].Subject != "notes.md:"+line {
			t.Errorf("%q: %v", text, found)
			continue
		}
		r := Ours().Lookup("format-modelopt-only")[0]
		if !strings.Contains(found[0].Fix, Header(r)) {
			t.Errorf("the fix does not hold the header: %q", found[0].Fix)
		}
		if again := Ours().LintText("notes.md", Header(r)+"\n\n"+text); len(again) != 0 {
			t.Errorf("with the header: %v", again)
		}
	}
	for _, text := range []string{"compressed-tensors loads a BF16 head when ignore names it", "modelopt is a quantizer", ""} {
		if found := Ours().LintText("notes.md", text); len(found) != 0 {
			t.Errorf("%q: %v", text, found)
		}
	}
}

func TestFoldersOfMarkdownAreRead(t *testing.T) {
	dir := owner(t, map[string]string{"a.md": "compressed-tensors cannot load the MTP head", "b.txt": "compressed-tensors cannot load the MTP head"})
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".git", "c.md"), []byte("compressed-tensors cannot load the MTP head"), 0o644); err != nil {
		t.Fatal(err)
	}
	found, read, err := Ours().LintPaths([]string{dir})
	if err != nil || read != 1 || len(found) != 1 {
		t.Errorf("%d read, %v, %v", read, found, err)
	}
	if _, _, err := Ours().LintPaths([]string{filepath.Join(dir, "none")}); err == nil {
		t.Error("a path that is not there was read")
	}
}

func TestCodeAndEntriesAreComparedBothWays(t *testing.T) {
	found, err := LintCode(os.DirFS(filepath.Join("..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
	found, err = LintCode(fstest.MapFS{
		"a.go":      {Data: []byte("package a\nvar _ = playbook.New(\"no-such-rule\", \"\", \"\", \"\")\nvar _ = problem{Rule: \"nor-this\"}\n")},
		"a_test.go": {Data: []byte("package a\nvar _ = playbook.New(\"only-in-a-test\", \"\", \"\", \"\")\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var subjects []string
	for _, f := range found {
		if f.Rule != "playbook-code" {
			t.Errorf("found %v", f)
		}
		subjects = append(subjects, f.Message)
	}
	all := strings.Join(subjects, "\n")
	if !strings.Contains(all, `"no-such-rule"`) || !strings.Contains(all, `"nor-this"`) || strings.Contains(all, "only-in-a-test") || len(found) != 2+len(Rules()) {
		t.Errorf("%d found:\n%s", len(found), all)
	}
	if _, err := LintCode(fstest.MapFS{}); err == nil {
		t.Error("a tree without code was compared")
	}
	if _, err := LintCode(fstest.MapFS{"a.go": {Data: []byte("no go")}}); err == nil {
		t.Error("broken code was compared")
	}
}

func TestSearchWantsEveryWord(t *testing.T) {
	found := Ours().Search([]string{"prefix", "CACHE"})
	if len(found) == 0 || !slices.ContainsFunc(found, func(r Rule) bool { return r.ID == "cache-lies" }) {
		t.Errorf("found %d", len(found))
	}
	if found := Ours().Search([]string{"prefix", "zebra"}); len(found) != 0 {
		t.Errorf("found %v", found)
	}
	if found := Ours().Search([]string{"lose-head"}); len(found) == 0 || found[0].ID != "lose-head" {
		t.Error("an id is not found first")
	}
}

func TestAReportInventsNothing(t *testing.T) {
	u := Ours().Report(Ours().Lookup("logprobs-lie")[0])
	if !strings.Contains(u.Text, "vllm serve CKPT") || len(u.Known) != 1 || !strings.Contains(u.Text, "**Evidence**") {
		t.Errorf("%+v", u)
	}
	u = Ours().Report(Ours().Lookup("env-0600")[0])
	if u.Reproduction != "" || !strings.Contains(u.Text, "None is recorded") {
		t.Errorf("%+v", u)
	}
	if u := Ours().Report(Ours().Lookup("draft-exclude")[0]); !strings.Contains(u.Text, "doubtful") {
		t.Errorf("%+v", u)
	}
}

func FuzzLintText(f *testing.F) {
	f.Add("compressed-tensors cannot\nload **the** MTP head\x00ÿ")
	f.Add("İ\u0130 ß\n\n")
	b := Ours()
	f.Fuzz(func(t *testing.T, text string) {
		words, lines := plainLines(text)
		if len(words) != len(lines) {
			t.Fatalf("%d bytes of words, %d lines", len(words), len(lines))
		}
		b.LintText("x.md", text)
	})
}
