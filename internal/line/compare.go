package line

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"seatsmith/internal/diff"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// unmergedUnchecked is what nobody knows of a job whose fine-tune was not held against its base.
const unmergedUnchecked = "whether the training is in the fine-tune: "

// compare holds the fine-tune against its donor before anything is written, when the donor is the whole base: a merge that
// merged nothing must not become a checkpoint. It reads both folders once, which is said as a stage of its own. why says
// what was not checked, "" when it was; report is nil then.
//
// What a view takes from the donor, the head, a tower and small files, is no fault of the fine-tune any more; such findings
// become information. The rest counts as it stands: an error ends the line, unless the job says what was trained or leaves
// the comparison out.
func compare(ctx context.Context, j Job, view *model.Model, rep Reporter) (report *diff.Report, why string, err error) {
	switch {
	case j.Donor == "":
		return nil, unmergedUnchecked + "there is no donor to compare it with", nil
	case !j.compares():
		return nil, unmergedUnchecked + "the job leaves the comparison with the donor out", nil
	}
	if info, err := os.Stat(j.Donor); err != nil || !info.IsDir() {
		return nil, unmergedUnchecked + "the donor is one file, and only a whole base can be compared", nil
	}
	base, err := model.Open(j.Donor)
	if err != nil {
		return nil, unmergedUnchecked + "the donor cannot be opened as a whole base: " + err.Error(), nil
	}
	defer base.Close()
	if lack := partial(base); lack != "" {
		return nil, unmergedUnchecked + "the donor is not a whole base: " + lack, nil
	}
	body, err := model.Open(j.Body)
	if err != nil {
		return nil, "", err
	}
	defer body.Close()
	rep.stage("diff")
	o := diff.Options{Workers: j.Workers, Trained: j.Trained}
	if rep.Progress != nil {
		var one sync.Mutex // diff tells of its progress from every worker
		o.Progress = func(stage string, done, total int64) {
			one.Lock()
			defer one.Unlock()
			rep.Progress(stage, done, total)
		}
	}
	report, err = diff.Run(ctx, body, base, o)
	if err != nil {
		return nil, "", fmt.Errorf("comparing the fine-tune with its base: %w", err)
	}
	for i, f := range report.Findings {
		if supplied(f, view) {
			report.Findings[i] = f.As(playbook.Info)
			report.Findings[i].Fix = ""
		}
	}
	switch playbook.Worst(report.Findings) {
	case playbook.Warning:
		report.Verdict = "warn"
	case playbook.Info, "":
		report.Verdict = "ok"
	}
	if report.Unjudged {
		report.Verdict = "fail"
		return report, unmergedUnchecked + "no weight of it could be compared with the donor's", nil
	}
	return report, "", nil
}

// compare is the step of the outcome; good says whether the line goes on.
func (o *Outcome) compare(ctx context.Context, j Job, view *model.Model, rep Reporter) (good bool, err error) {
	report, why, err := compare(ctx, j, view, rep)
	if err != nil {
		return false, err
	}
	o.Diff = report
	if why != "" {
		o.NotChecked = append(o.NotChecked, why)
	}
	if report == nil {
		return true, nil
	}
	found := answers(report.Findings)
	rep.findings("diff", found)
	o.Findings = append(o.Findings, found...)
	if playbook.Worst(found) == playbook.Error {
		o.judge()
		return false, nil
	}
	return true, nil
}

// partial says what a donor lacks of a base that a fine-tune can be compared with, "" when nothing.
func partial(base *model.Model) string {
	for _, f := range base.Findings {
		if safetensors.Blinds(f.Rule) && f.Severity == playbook.Error {
			return f.Subject + ": " + f.Message
		}
	}
	for i := range base.Expected {
		e := &base.Expected[i]
		if e.Role == model.RoleHead || e.Role == model.RoleVision {
			continue
		}
		if _, ok := base.Lookup(e.Name); !ok {
			return "it lacks " + e.Name
		}
	}
	return ""
}

// supplied says whether a finding is about something that the view has from the donor.
func supplied(f playbook.Finding, view *model.Model) bool {
	from := func(role model.Role) bool {
		return slices.ContainsFunc(view.Tensors, func(t model.Tensor) bool { return t.Role == role && t.Origin == model.Donor })
	}
	switch f.Rule {
	case "diff-head-dropped":
		return from(model.RoleHead)
	case "diff-tower-dropped":
		return from(model.RoleVision)
	case "diff-tokenizer", "diff-template", "diff-generation":
		name, _, _ := strings.Cut(f.Subject, ":")
		return slices.ContainsFunc(view.Files, func(c model.CompanionFile) bool { return c.Name == name && c.Origin == model.Donor })
	}
	return false
}

// answers adds advice to the errors of a comparison: how the user says that it was meant so.
func answers(found []playbook.Finding) []playbook.Finding {
	out := slices.Clone(found)
	for i := range out {
		if out[i].Severity != playbook.Error {
			continue
		}
		out[i].Fix = strings.TrimPrefix(out[i].Fix+"; if it is meant so, name the trained roles in the job (trained, --trained), or leave the comparison out (diff: false, --no-diff)", "; ")
	}
	return out
}
