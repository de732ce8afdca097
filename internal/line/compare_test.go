package line_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/line"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
)

func TestAMergeThatMergedNothingIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	nothing := take(t, fixture(t, "tiny")).without("mtp.").put()
	half := take(t, fixture(t, "tiny-finetune"))
	base := take(t, fixture(t, "tiny")).all()
	half.each(func(name string, x *stored) (string, bool) {
		if strings.Contains(name, ".mlp.") {
			x.data = base[name].data
		}
		return name, true
	})
	unmerged := half.put()
	for _, c := range []struct{ name, body, rule, subject string }{
		{"nothing", nothing, "diff-nothing-changed", ""},
		{"not the MLPs, though norms were trained", unmerged, "diff-role-untouched", "mlp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := tavern(t)
			j.Body = c.body
			out, err := line.Forge(t.Context(), j, "test", line.Reporter{})
			if err != nil {
				t.Fatal(err)
			}
			if out.Verdict != "fail" || out.Output != "" || out.Diff == nil || out.Diff.Verdict != "fail" {
				t.Errorf("verdict %s, output %q, diff %+v", out.Verdict, out.Output, out.Diff)
			}
			has(t, out.Findings, c.rule, c.subject, "--trained", "--no-diff")
			absent(t, j.Output)
			absent(t, j.Output+".partial")
			absent(t, line.RunDir(j.Output))
		})
	}

	t.Run("the job says what was trained", func(t *testing.T) {
		j := tavern(t)
		j.Body, j.Trained = unmerged, []model.Role{model.RoleAttention}
		if out, err := line.Forge(t.Context(), j, "test", line.Reporter{}); err != nil || out.Output == "" || out.Diff == nil {
			t.Errorf("%+v, %v", out, err)
		}
	})
	t.Run("the job leaves the comparison out", func(t *testing.T) {
		j, no := tavern(t), false
		j.Body, j.Diff = nothing, &no
		out, err := line.Forge(t.Context(), j, "test", line.Reporter{})
		if err != nil || out.Output == "" || out.Diff != nil {
			t.Fatalf("%+v, %v", out, err)
		}
		unchecked(t, out, "leaves the comparison")
	})
}

func unchecked(t *testing.T, out *line.Outcome, words string) {
	t.Helper()
	if !strings.Contains(strings.Join(out.NotChecked, "\n"), words) {
		t.Errorf("not checked: %q, want %q", out.NotChecked, words)
	}
}

func TestTheRunKeepsTheComparison(t *testing.T) {
	j := tavern(t)
	out, err := line.Forge(t.Context(), j, "test", line.Reporter{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(out.Run, "diff.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Schema  int
		Verdict string
		Roles   map[string]struct{ Changed, Missing int }
	}
	if err := json.Unmarshal(data, &doc); err != nil || doc.Schema != 1 || doc.Roles["mlp"].Changed != 12 || doc.Roles["head"].Missing != 15 {
		t.Errorf("%+v, %v", doc, err)
	}
	dropped := 0
	for _, f := range out.Findings {
		if f.Rule == "diff-head-dropped" {
			dropped++
			if f.Severity != playbook.Info {
				t.Errorf("the head is the donor's: %+v", f)
			}
		}
	}
	if dropped != 1 || len(out.NotChecked) != 0 {
		t.Errorf("%d findings of the head, not checked %v", dropped, out.NotChecked)
	}
}

func TestADonorThatIsNoWholeBaseIsSaidToBeUncompared(t *testing.T) {
	base := take(t, fixture(t, "tiny"))
	holder := ""
	for file, tensors := range base.shards {
		if _, ok := tensors["mtp.fc.weight"]; ok {
			holder = file
		}
	}
	head := take(t, fixture(t, "tiny")).each(func(name string, _ *stored) (string, bool) { return name, strings.HasPrefix(name, "mtp.") }).put()
	for name, c := range map[string]struct{ donor, says string }{
		"one file":      {filepath.Join(fixture(t, "tiny"), holder), "one file"},
		"the head only": {head, "not a whole base"},
	} {
		t.Run(name, func(t *testing.T) {
			j := tavern(t)
			j.Donor = c.donor
			out, err := line.Forge(t.Context(), j, "test", line.Reporter{})
			if err != nil || out.Output == "" || out.Diff != nil {
				t.Fatalf("%+v, %v", out, err)
			}
			unchecked(t, out, c.says)
		})
	}
	j := tavern(t)
	j.Body, j.Donor = fixture(t, "tiny"), ""
	out, err := line.Forge(t.Context(), j, "test", line.Reporter{})
	if err != nil || out.Output == "" {
		t.Fatalf("%+v, %v", out, err)
	}
	unchecked(t, out, "there is no donor")
}

func TestRolesOfAJobAreChecked(t *testing.T) {
	j, no := tavern(t), false
	j.Trained = []model.Role{"everything"}
	if err := j.Check(); err == nil || !strings.Contains(err.Error(), `"everything"`) {
		t.Errorf("%v", err)
	}
	j.Trained, j.Diff = []model.Role{model.RoleMLP}, &no
	if err := j.Check(); err == nil || !strings.Contains(err.Error(), "diff is false") {
		t.Errorf("%v", err)
	}
}
