package playbook

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// LedgerName is the file beside the entries that remembers every claim that was ever made: one line `id date hash` each,
// only ever added to. It is what makes a quiet change of a claim visible.
const LedgerName = "claims.lock"

// ledger lists the claims of each id, oldest first.
type ledger map[string][]sealed

type sealed struct{ date, hash string }

// claimHash is 16 hex digits of SHA-256 over the claim's words; case, white space and punctuation do not matter.
func claimHash(claim string) string {
	sum := sha256.Sum256([]byte(plain(claim)))
	return hex.EncodeToString(sum[:8])
}

func readLedger(text []byte) (ledger, error) {
	out := ledger{}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		fields := strings.Fields(string(line))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 3 || !slug.MatchString(fields[0]) || !dated(fields[1]) || len(fields[2]) != 16 {
			return nil, fmt.Errorf("line %d: want an id, a date and 16 hex digits, got %q", n, strings.TrimSpace(string(line)))
		}
		out[fields[0]] = append(out[fields[0]], sealed{fields[1], fields[2]})
	}
	return out, nil
}

// Unsealed is the lines that a ledger lacks: claims of new entries, and of entries whose old claim is kept, dated, as a
// superseded one. The date of a line is that of the newest evidence. A claim that changed otherwise gets none: Lint tells.
func (b *Book) Unsealed(own bool) string {
	var out strings.Builder
	for _, r := range b.entries {
		if b.own[r.ID] != own {
			continue
		}
		known := b.sealedOf(r.ID)
		if len(known) > 0 && (known[len(known)-1].hash == claimHash(r.Claim) || !b.kept(r, known[len(known)-1].hash)) {
			continue
		}
		date := ""
		for _, e := range r.Evidence {
			date = max(date, e.Date)
		}
		fmt.Fprintf(&out, "%s %s %s\n", r.ID, date, claimHash(r.Claim))
	}
	return out.String()
}

func (b *Book) sealedOf(id string) []sealed {
	if b.own[id] {
		return b.theirs[id]
	}
	return b.ledger[id]
}

// kept says whether the old claim of an entry stands in another one, as superseded and dated, that leads to this one.
func (b *Book) kept(r Rule, hash string) bool {
	return slices.ContainsFunc(b.entries, func(old Rule) bool {
		if old.ID == r.ID || claimHash(old.Claim) != hash {
			return false
		}
		old = b.settled(old)
		return old.Status == "superseded" && dated(old.SupersededOn) && b.leads(old, r.ID)
	})
}

// leads follows superseded_by from one entry and says whether it arrives at id.
func (b *Book) leads(from Rule, id string) bool {
	for range len(b.entries) {
		if from.SupersededBy == id {
			return true
		}
		i, ok := b.byID[from.SupersededBy]
		if !ok {
			return false
		}
		from = b.settled(b.entries[i])
	}
	return false
}

// judgeLedger compares every claim with what was sealed of it.
func (b *Book) judgeLedger() []Finding {
	var out []Finding
	seen := map[string]bool{}
	for _, r := range b.entries {
		seen[r.ID] = true
		if !b.judged(r) {
			continue
		}
		known := b.sealedOf(r.ID)
		now := claimHash(r.Claim)
		switch {
		case len(known) == 0:
			out = append(out, New("playbook-claim", b.fileOf(r), "the claim is new and "+LedgerName+" does not have it", b.sealing(r.ID)))
		case known[len(known)-1].hash == now:
		case b.kept(r, known[len(known)-1].hash):
			out = append(out, New("playbook-claim", b.fileOf(r), "the old claim is kept as superseded, and "+LedgerName+" lacks the new one", b.sealing(r.ID)))
		default:
			out = append(out, New("playbook-claim", b.fileOf(r),
				fmt.Sprintf("the claim is not the one of %s, and the old one is not kept: whoever read it is not told", known[len(known)-1].date),
				fmt.Sprintf("put the old claim into an entry of its own with status: superseded, superseded_by: %s and superseded_on, and its true cause as why; or restore it", r.ID)))
		}
	}
	for _, own := range []bool{false, true} {
		list := b.theirs
		if !own {
			if list = b.ledger; b.dir != "" {
				continue
			}
		}
		var gone []string
		for id := range list {
			if !seen[id] {
				gone = append(gone, id)
			}
		}
		slices.Sort(gone)
		for _, id := range gone {
			out = append(out, New("playbook-claim", LedgerName+": "+id, "the entry is gone: a claim that was made does not vanish", "restore the entry, with status: superseded if it no longer holds"))
		}
	}
	return out
}

func (b *Book) sealing(id string) string {
	if b.own[id] {
		return "seatsmith playbook lint --seal --playbook DIR adds it"
	}
	return "make generate adds it"
}
