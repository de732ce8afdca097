package line_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"seatsmith/internal/line"
)

func TestJobPathsAreRelativeToTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "job.yaml")
	text := "schema: 1\nbody: body\ndonor: /abs/donor\noutput: ../out\nrecipe: mine.yaml\nstats: ./stats.safetensors\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	j, err := line.ReadJob(path)
	if err != nil {
		t.Fatal(err)
	}
	want := line.Job{Schema: 1, Body: filepath.Join(dir, "body"), Donor: "/abs/donor", Output: filepath.Join(filepath.Dir(dir), "out"), Recipe: filepath.Join(dir, "mine.yaml"), Stats: filepath.Join(dir, "stats.safetensors")}
	if j.Body != want.Body || j.Donor != want.Donor || j.Output != want.Output || j.Recipe != want.Recipe || j.Stats != want.Stats {
		t.Errorf("got %+v, want %+v", j, want)
	}
	if err := os.WriteFile(path, []byte(text+"---\nschema: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := line.ReadJob(path); err == nil || !strings.Contains(err.Error(), "more than one YAML document") {
		t.Errorf("two documents: %v", err)
	}
}

func TestCheckNamesEveryFieldAtOnce(t *testing.T) {
	j := line.Job{Workers: -2, Math: "fp3", Bounds: line.Bounds{RelativeMSE: map[string]float64{"mlp": 0}}}
	err := j.Check()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"body: missing", "output: missing", "workers: -2", "math:", "bounds.relative_mse.mlp: 0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %q", err, want)
		}
	}
	for _, c := range []struct{ name, want string }{{"recipe", "no-such"}, {"dialect", "gguf"}, {"search", "gptq"}, {"groups", "mine"}, {"shard_size", "lots"}} {
		j := line.Job{Body: "b", Output: "o"}
		switch c.name {
		case "recipe":
			j.Recipe = c.want
		case "dialect":
			j.Dialect = c.want
		case "search":
			j.Search = c.want
		case "groups":
			j.Groups = c.want
		case "shard_size":
			j.ShardSize = c.want
		}
		if err := j.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v", c.name, c.want, err)
		}
	}
}

func TestAJobMustBeASmallRegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.yaml")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	big := filepath.Join(dir, "big.yaml")
	if err := os.WriteFile(big, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, 1<<40); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "FIFO", dir: "folder", big: "larger than"} {
		if _, err := line.ReadJob(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestABoundNamesARole(t *testing.T) {
	j := line.Job{Body: "b", Output: "o", Bounds: line.Bounds{RelativeMSE: map[string]float64{"mpl": 0.1}}}
	if err := j.Check(); err == nil || !strings.Contains(err.Error(), "bounds.relative_mse.mpl") || !strings.Contains(err.Error(), "mlp") {
		t.Errorf("got %v", err)
	}
}

func TestTheExampleJobIsValid(t *testing.T) {
	j, err := line.ReadJob(filepath.Join("..", "..", "examples", "tavern", "job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Check(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(j.Body); err != nil {
		t.Error(err)
	}
}
