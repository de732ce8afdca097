package playbook

import "fmt"

// Lint judges the book as a whole: entries of the owner's that cannot be used (playbook-entry), links between entries
// that lead nowhere or in a circle (playbook-entry), and claims that changed without a trace (playbook-claim). A book with an
// owner's folder is judged for that folder: ours is judged by itself, in this project.
func (b *Book) Lint() []Finding {
	out := append([]Finding{}, b.faults...)
	bad := func(r Rule, format string, args ...any) {
		out = append(out, New("playbook-entry", b.fileOf(r), fmt.Sprintf(format, args...), "name an entry that exists and holds"))
	}
	for _, r := range b.entries {
		if !b.judged(r) {
			continue
		}
		for _, s := range r.Supersedes {
			if _, ok := b.byID[s.ID]; !ok {
				bad(r, "it supersedes %s, which does not exist", s.ID)
			}
		}
		now := b.settled(r)
		if now.Status == "superseded" && now.SupersededBy == "" {
			bad(r, "it is superseded, and no entry says by what: superseded_by and superseded_on are missing")
			continue
		}
		if now.SupersededBy == "" {
			continue
		}
		if _, ok := b.byID[now.SupersededBy]; !ok {
			bad(r, "superseded_by names %s, which does not exist", now.SupersededBy)
		} else if b.leads(now, r.ID) {
			bad(r, "superseded_by leads back to itself over %s", now.SupersededBy)
		}
		if now.Status == "superseded" && len(r.Phrases) == 0 && r.Kind == KindLesson && !b.own[r.ID] {
			bad(r, "a superseded claim without phrases is never found where it is repeated")
		}
	}
	return append(out, b.judgeLedger()...)
}

func (b *Book) judged(r Rule) bool { return b.dir == "" || b.own[r.ID] }
