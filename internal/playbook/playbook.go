package playbook

import "fmt"

// Severity of a finding. An error means the answer is no (exit code 1); a warning and information never change the
// exit code.
type Severity string

const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is a judgement about a checkpoint, seat, job or host. Scripts read these five fields.
type Finding struct {
	Rule     string   `json:"rule"`     // id of the playbook entry that explains it
	Severity Severity `json:"severity"` // "error", "warning" or "info"
	Subject  string   `json:"subject"`  // the file, tensor, row or field that is meant
	Message  string   `json:"message"`  // one sentence with the numbers
	Fix      string   `json:"fix"`      // the next step, "" when there is nothing to do
}

// New makes a finding with the rule's own severity. An id without an entry is a mistake in this program, not in its
// input, so it panics; a house test makes sure that every id written in code has an entry.
func New(rule, subject, message, fix string) Finding {
	r, ok := ruleByID(rule)
	if !ok {
		panic(fmt.Sprintf("playbook: no rule %q", rule))
	}
	return Finding{Rule: rule, Severity: r.Severity, Subject: subject, Message: message, Fix: fix}
}

// As changes the severity of one finding, for a rule that knows several.
func (f Finding) As(s Severity) Finding {
	f.Severity = s
	return f
}

// String is the finding on one line, as logs print it.
func (f Finding) String() string {
	s := fmt.Sprintf("%s %s: %s: %s", f.Severity, f.Rule, f.Subject, f.Message)
	if f.Fix != "" {
		s += " -> " + f.Fix
	}
	return s
}

// Worst is the gravest severity among findings, "" when there are none.
func Worst(findings []Finding) Severity {
	worst := Severity("")
	for _, f := range findings {
		if rank(f.Severity) > rank(worst) {
			worst = f.Severity
		}
	}
	return worst
}

// Errors returns the findings of severity error, in order.
func Errors(findings []Finding) []Finding {
	var out []Finding
	for _, f := range findings {
		if f.Severity == Error {
			out = append(out, f)
		}
	}
	return out
}

func rank(s Severity) int {
	switch s {
	case Error:
		return 3
	case Warning:
		return 2
	case Info:
		return 1
	}
	return 0
}
