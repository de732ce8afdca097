package line_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/line"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/write"
)

func fixture(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// tavern is the job of the example, into a folder of the test's own.
func tavern(t *testing.T) line.Job {
	return line.Job{Schema: 1, Name: "tavern", Body: fixture(t, "tiny-finetune"), Donor: fixture(t, "tiny"), Output: filepath.Join(t.TempDir(), "out"),
		Bounds: line.Bounds{RelativeMSE: map[string]float64{"mlp": 0.012}}}
}

func absent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there (%v)", path, err)
	}
}

// events reads the run's log: the kind of each line.
func events(t *testing.T, run string) []string {
	t.Helper()
	f, err := os.Open(filepath.Join(run, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []string
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var e struct {
			Schema      int
			Event, Time string
		}
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil || e.Schema != 1 || e.Time == "" {
			t.Fatalf("event %q: %v", scan.Text(), err)
		}
		out = append(out, e.Event)
	}
	return out
}

func TestForgeLeavesACheckpointAndTheRecordOfIt(t *testing.T) {
	j := tavern(t)
	var stages []string
	var planned *plan.Plan
	out, err := line.Forge(t.Context(), j, "test", line.Reporter{
		Stage: func(name string) { stages = append(stages, name) },
		Plan:  func(p *plan.Plan) { planned = p },
	})
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != "ok" || out.Output != j.Output || out.HeadFrom != "donor" || out.Head.Present != 15 || out.Verify == nil || out.Verify.Verdict != "ok" {
		t.Errorf("outcome %+v", out)
	}
	if want := []string{"open", "diff", "write", "verify"}; !slices.Equal(stages, want) {
		t.Errorf("stages %v, want %v", stages, want)
	}
	if planned == nil || planned.Version != "test" || planned.BytesOut != out.BytesOut {
		t.Errorf("the plan that was shown is not the one that was carried out: %+v", planned)
	}
	if got := events(t, out.Run); got[0] != "planned" || got[len(got)-1] != "published" || !slices.Contains(got, "verified") {
		t.Errorf("events %v", got)
	}
	for _, name := range []string{"plan.json", "verify.json"} {
		data, err := os.ReadFile(filepath.Join(out.Run, name))
		if err != nil {
			t.Fatal(err)
		}
		var doc struct{ Schema int }
		if err := json.Unmarshal(data, &doc); err != nil || doc.Schema != 1 {
			t.Errorf("%s: schema %d, %v", name, doc.Schema, err)
		}
	}
	again, err := line.ReadJob(filepath.Join(out.Run, "job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if again.Body != j.Body || again.Donor != j.Donor || again.Bounds.RelativeMSE["mlp"] != 0.012 {
		t.Errorf("the recorded job %+v is not %+v", again, j)
	}
	if _, err := line.Forge(t.Context(), again, "test", line.Reporter{}); !errors.Is(err, line.ErrExists) {
		t.Errorf("a second run on the same output: %v", err)
	}
}

func TestARefusedViewTouchesNothing(t *testing.T) {
	for _, c := range []struct {
		name, rule string
		change     func(*line.Job)
	}{
		{"no head and no donor", "head-missing", func(j *line.Job) { j.Donor = "" }},
		{"a donor without a head", "donor-headless", func(j *line.Job) { j.Donor = j.Body }},
		{"a stranger", "donor-stranger", func(j *line.Job) { j.Donor = fixture(t, "moe") }},
		{"a name that vLLM takes for a method", "path-trap", func(j *line.Job) { j.Output = filepath.Join(filepath.Dir(j.Output), "tavern-eagle3") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := tavern(t)
			c.change(&j)
			var told []playbook.Finding
			out, err := line.Forge(t.Context(), j, "test", line.Reporter{Findings: func(_ string, f []playbook.Finding) { told = append(told, f...) }})
			if err != nil {
				t.Fatal(err)
			}
			errs := playbook.Errors(out.Findings)
			if out.Verdict != "fail" || len(errs) != 1 || errs[0].Rule != c.rule || errs[0].Fix == "" {
				t.Errorf("verdict %s, errors %v, want exactly %s", out.Verdict, errs, c.rule)
			}
			if len(playbook.Errors(told)) != 1 {
				t.Errorf("the reporter was told %v", told)
			}
			absent(t, j.Output)
			absent(t, line.RunDir(j.Output))
			absent(t, j.Output+".partial")
		})
	}
}

func TestAnInterruptedLineCanBeResumed(t *testing.T) {
	j := tavern(t)
	j.ShardSize = "200kB"
	ctx, cancel := context.WithCancel(t.Context())
	rep := line.Reporter{Event: func(kind string, _ map[string]any) {
		if kind == "shard-done" {
			cancel()
		}
	}}
	out, err := line.Forge(ctx, j, "test", rep)
	if !errors.Is(err, context.Canceled) || out == nil || out.Output != "" {
		t.Fatalf("outcome %+v, error %v", out, err)
	}
	absent(t, j.Output)
	if got := events(t, out.Run); got[len(got)-1] != "stopped" {
		t.Errorf("events %v", got)
	}
	out, err = line.Forge(t.Context(), j, "test", line.Reporter{})
	if err != nil || out.Verdict != "ok" || out.Resumed == 0 {
		t.Errorf("resumed: %+v, %v", out, err)
	}
	absent(t, j.Output+".partial")
}

func TestABoundIsAPromise(t *testing.T) {
	for role, want := range map[string]string{"mlp": "above the job's bound", "expert": "no tensor of that role was quantized"} {
		j := tavern(t)
		j.Bounds.RelativeMSE = map[string]float64{role: 1e-9}
		out, err := line.Forge(t.Context(), j, "test", line.Reporter{})
		if err != nil {
			t.Fatal(err)
		}
		errs := playbook.Errors(out.Findings)
		if out.Verdict != "fail" || len(errs) != 1 || errs[0].Rule != "bound-exceeded" || errs[0].Subject != role || !strings.Contains(errs[0].Message, want) {
			t.Errorf("%s: verdict %s, errors %v", role, out.Verdict, errs)
		}
		absent(t, j.Output)
		if out.Output != "" || out.Kept != j.Output+".partial" || out.Shards == 0 || !out.Verified {
			t.Errorf("%s: output %q, kept %q", role, out.Output, out.Kept)
		}
		j.Bounds.RelativeMSE = map[string]float64{"mlp": 0.012}
		again, err := line.Forge(t.Context(), j, "test", line.Reporter{})
		if err != nil || again.Verdict != "ok" || again.Output != j.Output || again.Resumed != again.Shards {
			t.Errorf("%s: with a bound that holds: %+v, %v", role, again, err)
		}
	}
}

func TestARefusedRunLeavesTheRecordsOfTheOther(t *testing.T) {
	j := tavern(t)
	ctx, cancel := context.WithCancel(t.Context())
	j.ShardSize = "200kB"
	_, err := line.Forge(ctx, j, "test", line.Reporter{Event: func(kind string, _ map[string]any) {
		if kind == "shard-done" {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(line.RunDir(j.Output), "job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	other := j
	other.Recipe = "fp8-dynamic"
	if _, err := line.Forge(t.Context(), other, "test", line.Reporter{}); !errors.Is(err, write.ErrOtherPlan) {
		t.Fatalf("another plan on the same unfinished output: %v", err)
	}
	after, err := os.ReadFile(filepath.Join(line.RunDir(j.Output), "job.yaml"))
	if err != nil || string(before) != string(after) {
		t.Errorf("the record of the unfinished run changed (%v):\n%s", err, after)
	}
}

func TestAnEarlierJudgementIsNotKeptBesideANewOutput(t *testing.T) {
	j := tavern(t)
	if _, err := line.Forge(t.Context(), j, "test", line.Reporter{}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(j.Output); err != nil {
		t.Fatal(err)
	}
	out, err := line.Quantize(t.Context(), j, "test", line.Reporter{})
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != "warn" || out.Verify != nil || out.Verified {
		t.Errorf("an output that nobody verified has the verdict %q", out.Verdict)
	}
	absent(t, filepath.Join(out.Run, "verify.json"))
}

func TestTheRecordedJobRunsFromAnywhere(t *testing.T) {
	j := tavern(t)
	t.Chdir(filepath.Dir(j.Output))
	recipe := "name: mine\nrules:\n  - roles: [mlp]\n    scheme: nvfp4-w4a16\n"
	if err := os.WriteFile("mine.yaml", []byte(recipe), 0o644); err != nil {
		t.Fatal(err)
	}
	j.Recipe, j.Output = "mine.yaml", "out"
	if _, err := line.Forge(t.Context(), j, "test", line.Reporter{}); err != nil {
		t.Fatal(err)
	}
	record, err := filepath.Abs("out.run/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	again, err := line.ReadJob(record)
	if err != nil {
		t.Fatal(err)
	}
	again.Output = filepath.Join(t.TempDir(), "again")
	if out, err := line.Forge(t.Context(), again, "test", line.Reporter{}); err != nil || out.Verdict != "ok" {
		t.Errorf("%+v, %v", out, err)
	}
}
