package engine

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// FlagKind is what a flag of "vllm serve" takes.
type FlagKind string

const (
	BoolFlag   FlagKind = "bool"   // nothing; --no-… is its opposite
	SwitchFlag FlagKind = "switch" // nothing
	IntFlag    FlagKind = "int"
	FloatFlag  FlagKind = "float"
	TextFlag   FlagKind = "str"
	ChoiceFlag FlagKind = "choice"
	ListFlag   FlagKind = "list" // one value or more
	JSONFlag   FlagKind = "json"
	AppendFlag FlagKind = "append" // one value, and it may stand again
	MaybeFlag  FlagKind = "maybe"  // one value or none
)

// Flag is a flag of "vllm serve" (flags.txt says how the table was read from the server's source and history).
type Flag struct {
	Name       string   // "--max-model-len"
	Aliases    []string // "-tp"
	Kind       FlagKind
	Choices    []string // of all versions together; for TextFlag they are what is known, others are taken too
	Deprecated bool

	defaults     []string // "0.92" or "0.27:x", the first holds from the oldest version on
	since, maybe Version  // zero: in every version read
	until, last  Version  // zero: still there
}

// Presence says whether a version has a flag.
type Presence uint8

const (
	Absent Presence = iota // never heard of
	Gone                   // had by earlier versions
	Later                  // had by later versions
	Unsure                 // came or went about then; a release is cut days before its date
	Present
)

//go:embed flags.txt
var flagTable string

var flagList = sync.OnceValue(func() []Flag {
	var out []Flag
	for line := range strings.Lines(flagTable) {
		c := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if line[0] == '#' || len(c) != 10 {
			continue
		}
		for i := range c {
			if c[i] == "-" {
				c[i] = ""
			}
		}
		f := Flag{Name: c[0], Kind: FlagKind(c[2]), Deprecated: c[9] != "", since: versionOf(c[5]), maybe: versionOf(c[6]), until: versionOf(c[7]), last: versionOf(c[8])}
		if c[1] != "" {
			f.Aliases = strings.Split(c[1], ",")
		}
		if c[3] != "" {
			f.Choices = strings.Split(c[3], ",")
		}
		if c[4] != "" {
			f.defaults = strings.Split(c[4], "|")
		}
		out = append(out, f)
	}
	return out
})

// versionOf reads "0.23"; zero for anything else.
func versionOf(s string) Version {
	major, minor, ok := strings.Cut(s, ".")
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if !ok || err != nil || err2 != nil {
		return Version{}
	}
	return Version{a, b}
}

// In says whether a version has the flag.
func (f *Flag) In(v Version) Presence {
	zero := Version{}
	switch {
	case f.maybe != zero && v.Less(f.maybe), f.maybe == zero && f.since != zero && v.Less(f.since):
		return Later
	case f.since != zero && v.Less(f.since):
		return Unsure
	case f.until == zero || v.Less(f.until):
		return Present
	case f.last != zero && v.Less(f.last):
		return Unsure
	}
	return Gone
}

// Default is the flag's default in a version as its source spells it ("0.92", "None", "true"); ok is false where it is
// computed.
func (f *Flag) Default(v Version) (value string, ok bool) {
	for i, d := range f.defaults {
		from, rest, dated := strings.Cut(d, ":")
		switch {
		case i == 0:
			value = d
		case dated && !v.Less(versionOf(from)):
			value = rest
		}
	}
	return value, value != "" && value != "?"
}

// Flags lists the flags that a version has, or may have.
func (e Engine) Flags() []Flag {
	var out []Flag
	for _, f := range flagList() {
		if p := f.In(e.Version); p == Present || p == Unsure {
			out = append(out, f)
		}
	}
	return out
}

// Flag looks a flag up by its name or an alias, underscores taken for dashes.
func (e Engine) Flag(name string) (*Flag, Presence) {
	name = dashes(name)
	list := flagList()
	for i := range list {
		f := &list[i]
		if f.Name == name || slices.Contains(f.Aliases, name) {
			return f, f.In(e.Version)
		}
	}
	return nil, Absent
}

func dashes(name string) string {
	if strings.HasPrefix(name, "--") {
		return strings.ReplaceAll(name, "_", "-")
	}
	return name
}

// Nearest is the flag of this version that a misspelled name is most likely to mean, "" when none is near.
func (e Engine) Nearest(name string) string {
	name = dashes(name)
	best, at := "", 1+len(name)/4
	for _, f := range e.Flags() {
		for _, n := range append([]string{f.Name}, f.Aliases...) {
			if d := distance(name, n, at); d < at || d == at && best == "" && d <= len(name)/4 {
				best, at = f.Name, d
			}
		}
	}
	return best
}

// distance is the number of letters to add, take away or change to make b of a; more than limit is as good as limit+1.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
