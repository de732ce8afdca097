package dataset

import (
	"fmt"
	"slices"

	"lukechampine.com/blake3"

	"seatsmith/internal/playbook"
)

// Report is what a check found.
type Report struct {
	Schema     int      `json:"schema"`
	File       string   `json:"file"`
	BLAKE3     string   `json:"blake3"` // of the rows, one a line
	Verdict    string   `json:"verdict"`
	Rows       int      `json:"rows"`
	Rendered   int      `json:"rendered"`
	BadRows    int      `json:"bad_rows"`
	AllowBad   int      `json:"allow_bad"`
	Unknown    int      `json:"unknown_rows"` // could not be known
	ToolRows   int      `json:"tool_rows"`
	ToolShare  float64  `json:"tool_share"`
	Calls      int      `json:"calls"`
	Normalised int      `json:"rows_with_arguments_decoded"`
	Merged     int      `json:"rows_with_system_merged"`
	Duplicates int      `json:"duplicates"`
	MaxLength  int      `json:"max_length"`
	Long       int      `json:"long_rows"`
	Tokens     Tokens   `json:"tokens"`
	Histogram  []Bucket `json:"histogram"`
	// ReasoningDropped counts characters of reasoning_content in turns where the template leaves it out.
	ReasoningDropped int                `json:"reasoning_characters_dropped"`
	CallsUnread      bool               `json:"calls_unread"`
	Templates        []TemplateUsed     `json:"templates"`
	Second           Second             `json:"second_opinion"`
	Bad              []BadRow           `json:"bad"`
	Findings         []playbook.Finding `json:"findings"`
	NotListed        map[string]int     `json:"findings_not_listed"` // by rule, beyond the first of each
}

// Tokens sums the prompts up.
type Tokens struct {
	Total  int `json:"total"`
	Min    int `json:"min"`
	Median int `json:"median"`
	P95    int `json:"p95"`
	Max    int `json:"max"`
}

// Bucket counts rows of more than the bucket before and at most UpTo tokens.
type Bucket struct {
	UpTo int `json:"up_to"`
	Rows int `json:"rows"`
}

// TemplateUsed is a template with its hash.
type TemplateUsed struct {
	Name   string `json:"name"`
	From   string `json:"from"`
	BLAKE3 string `json:"blake3"`
}

// Second counts the other engine's opinions.
type Second struct {
	Agreed     int    `json:"agreed"`
	Differed   int    `json:"differed"`
	Unanswered int    `json:"unanswered"`
	Why        string `json:"why,omitempty"` // of the last one that was not answered
}

// BadRow is a row that must not be used, with every reason.
type BadRow struct {
	Row     int      `json:"row"`
	Reasons []string `json:"reasons"`
}

// maxShown is how many findings of one rule are listed; Bad names every bad row.
const maxShown = 20

func newReport(file string, lines []Line, o Options) *Report {
	h := blake3.New(32, nil)
	for _, l := range lines {
		h.Write(l.Data)
		h.Write([]byte("\n"))
	}
	return &Report{Schema: 1, File: file, BLAKE3: fmt.Sprintf("%x", h.Sum(nil)), Rows: len(lines), AllowBad: o.AllowBad, MaxLength: o.MaxLength,
		Templates: []TemplateUsed{}, Bad: []BadRow{}, Findings: []playbook.Finding{}, Histogram: []Bucket{},
		NotListed: map[string]int{}}
}

// add takes the findings of one row.
func (r *Report) add(row int, found []playbook.Finding, shown map[string]int) {
	bad := BadRow{Row: row}
	for _, f := range found {
		if f.Severity == playbook.Error {
			bad.Reasons = append(bad.Reasons, f.Rule+": "+f.Message)
		}
		if shown[f.Rule]++; shown[f.Rule] <= maxShown {
			r.Findings = append(r.Findings, f)
		} else {
			r.NotListed[f.Rule]++
		}
	}
	if len(bad.Reasons) > 0 {
		r.BadRows++
		r.Bad = append(r.Bad, bad)
	}
}

func (r *Report) finish(lengths []int) {
	if r.Rows > 0 {
		r.ToolShare = float64(r.ToolRows) / float64(r.Rows)
	}
	if len(lengths) > 0 {
		slices.Sort(lengths)
		for _, n := range lengths {
			r.Tokens.Total += n
		}
		r.Tokens.Min, r.Tokens.Max = lengths[0], lengths[len(lengths)-1]
		r.Tokens.Median, r.Tokens.P95 = lengths[len(lengths)/2], lengths[min(len(lengths)-1, len(lengths)*95/100)]
		at := 0
		for upTo := 64; at < len(lengths); upTo *= 2 {
			n := 0
			for at < len(lengths) && lengths[at] <= upTo {
				n, at = n+1, at+1
			}
			if n > 0 || len(r.Histogram) > 0 {
				r.Histogram = append(r.Histogram, Bucket{upTo, n})
			}
		}
	}
	general, warn := false, false // an error that is no row's; anything to look at
	for _, f := range r.Findings {
		general = general || f.Rule == "control-split" || f.Rule == "dataset-empty"
		warn = warn || f.Severity != playbook.Info
	}
	r.Verdict = "ok"
	switch {
	case general || r.BadRows-r.Unknown > r.AllowBad:
		r.Verdict = "fail"
	case r.BadRows > r.AllowBad:
		r.Verdict = "unknown"
	case warn:
		r.Verdict = "warn"
	}
}
