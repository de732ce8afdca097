// Package playbook holds what has been learnt, as data, and the Finding that cites it.
//
// # Vocabulary
//
// An entry says what is claimed, why it is so, what to do, and the evidence with its source and date. Each is one YAML file
// named after its id. A rule (rules/head-missing.yaml) is enforced and cited by code; a lesson (lessons/cache-lies.yaml) is
// followed by people. A chapter is a part of docs/playbook.md, which Markdown makes from the entries. A claim that no longer
// holds is superseded: it stays, with the entry that took its place, the day, and its true cause. A finding is a judgement about one
// subject (a file, a tensor, a key of a configuration) that cites a rule; the command line prints findings, JSON carries
// them, and `seatsmith playbook show ID` prints the rule behind one.
//
// Evidence is what can be looked up: source at a commit, a published report, a measurement of a named program. Its date is the
// day that the source is of, so one commit has one date in every rule; a thread, which can still change, has the day it was
// read. Paths in vLLM are those below vllm/ in its repository. A reference is a public report (owner/repo#n) or an id such
// as C13, which docs/references.md says in one sentence, with its source.
//
// # Order of calls
//
// Code that judges calls New(rule, subject, message, fix), collects the findings, and never returns them one by one:
// one run reports every problem. Where a rule knows several severities (a head count of 0 is information without head
// tensors and an error with them), Finding.As changes the severity of the one finding. Worst folds findings into the
// verdict that decides the exit code.
//
// # What it refuses to know
//
// It knows nothing about checkpoints or engines: it cannot decide whether a rule is broken, only say what the rule is.
// It judges itself, though: Lint holds every claim against claims.lock, so that none changes quietly, LintCode compares entries
// with the ids in Go code, and LintText finds superseded claims in Markdown, whatever its line breaks, case and emphasis.
//
// # An owner's entries
//
// Open reads a folder of lessons beside ours, under the same rules and with a claims.lock of its own. They may supersede ours
// and never hide them. Successor and Write make the dated entry that takes the place of another; no file is overwritten.
//
// # Concurrency
//
// The rules are parsed once, on first use, and never change afterwards: every function may be called from any goroutine.
package playbook
