package safetensors

import (
	"fmt"
	"slices"
	"strings"
)

// Severity of a Problem. The words are those of a playbook finding, to which a caller turns a Problem.
type Severity string

const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityInfo    Severity = "info"
)

// Problem is something wrong with a file or a set of shards. Rule is the id of the playbook entry
// that explains it. A *Problem is also the error that ReadHeader, Open and ReadAt return.
//
// There is one Problem per kind and file, never one per tensor: Message counts the tensors and names the first ones.
type Problem struct {
	Rule     string // e.g. "file-truncated"
	Severity Severity
	File     string // path
	Tensor   string // the first tensor that is meant, "" when the whole file is
	Message  string // one sentence, names the numbers
	Fix      string // next step
	Err      error  // underlying cause, may be nil
}

// Error is the problem on one line: file, tensor, message, cause, next step.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Tensor != "" {
		fmt.Fprintf(&b, ": tensor %q", p.Tensor)
	}
	b.WriteString(": ")
	b.WriteString(p.Message)
	if p.Err != nil {
		b.WriteString(": ")
		b.WriteString(p.Err.Error())
	}
	if p.Fix != "" {
		b.WriteString("; ")
		b.WriteString(p.Fix)
	}
	return b.String()
}

// Unwrap gives the cause, so that errors.Is finds fs.ErrNotExist and its like.
func (p *Problem) Unwrap() error { return p.Err }

// maxNamed is how many names a message lists before it only counts.
const maxNamed = 3

// namelist quotes the first names and counts the rest of n: `"a", "b", "c" and 4 more`.
func namelist(names []string, n int) string {
	var b strings.Builder
	for i, name := range names[:min(len(names), maxNamed)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(name))
	}
	if n > maxNamed {
		fmt.Fprintf(&b, " and %d more", n-maxNamed)
	}
	return b.String()
}

// quote makes a name from hostile input safe and short enough for one line of a message.
func quote(name string) string {
	const most = 200
	if len(name) > most {
		return fmt.Sprintf("%q…", name[:most])
	}
	return fmt.Sprintf("%q", name)
}

// count spells a number with its noun: "1 tensor", "2 tensors".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// blinding are the faults after which tensors of a shard cannot be seen.
var blinding = []string{"shard-missing", "file-truncated", "file-unreadable", "file-lfs-pointer", "file-not-safetensors", "link-dangling",
	"path-escape", "header-length", "header-syntax", "tensor-size", "tensor-overlap", "tensor-hole", "index-wrong", "index-syntax"}

// Blinds says whether tensors are missing after this problem for no other reason than it.
func (p Problem) Blinds() bool {
	return p.Severity == SeverityError && slices.Contains(blinding, p.Rule)
}

// Blinds is Problem.Blinds for whoever knows only the rule that an error cites.
func Blinds(rule string) bool { return slices.Contains(blinding, rule) }
