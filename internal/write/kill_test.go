package write_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/write"
)

// A child is this test binary, run again to be killed or limited: a run on the tiny fixture that takes its orders from
// the environment.
const (
	childOut   = "SEATSMITH_TEST_OUT"   // the output; set in a child only
	childKill  = "SEATSMITH_TEST_KILL"  // the failpoint at which it kills itself
	childWait  = "SEATSMITH_TEST_WAIT"  // the failpoint at which it says so on stdout, and waits to be killed
	childBody  = "SEATSMITH_TEST_BODY"  // another source than the tiny fixture, with
	childPlan  = "SEATSMITH_TEST_PLAN"  // the file of its plan
	childLimit = "SEATSMITH_TEST_LIMIT" // the failpoint from which on no file may have more than fileLimit bytes
)

const fileLimit = 100_000

// killShards makes few shards, since each is killed at each of its steps.
var killShards = plan.Options{ShardSize: 400_000}

func TestMain(m *testing.M) {
	if out := os.Getenv(childOut); out != "" {
		if err := child(out); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childWork opens what a child works on.
func childWork() (*model.Model, *plan.Plan, error) {
	if dir := os.Getenv(childBody); dir != "" {
		m, err := model.Open(dir)
		if err != nil {
			return nil, nil, err
		}
		text, err := os.ReadFile(os.Getenv(childPlan))
		if err != nil {
			return nil, nil, err
		}
		var p plan.Plan
		return m, &p, json.Unmarshal(text, &p)
	}
	body, err := model.Open(tinyBody)
	if err != nil {
		return nil, nil, err
	}
	donor, err := model.OpenDonor(tinyDonor)
	if err != nil {
		return nil, nil, err
	}
	view, err := model.Overlay(body, donor)
	if err != nil {
		return nil, nil, err
	}
	p, err := plan.Make(view, killShards)
	return view, p, err
}

func child(out string) error {
	view, p, err := childWork()
	if err != nil {
		return err
	}
	kill, wait, limit := os.Getenv(childKill), os.Getenv(childWait), os.Getenv(childLimit)
	signal.Ignore(unix.SIGXFSZ) // a write over the limit then fails with EFBIG
	write.SetFailpoint(func(name string) {
		switch name {
		case kill:
			unix.Kill(os.Getpid(), unix.SIGKILL)
			select {} // the signal is on its way
		case wait:
			fmt.Println("waiting")
			select {}
		case limit:
			if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: fileLimit, Max: fileLimit}); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	})
	_, err = write.Run(context.Background(), p, view, out, write.Options{Workers: 2})
	return err
}

// inChild prepares a child; env is more of its orders.
func inChild(out string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childOut+"="+out), env...)
	return cmd
}

// TestARunKilledAtAnyStepIsFinishedByTheNext kills a process at every place between two durable steps.
func TestARunKilledAtAnyStepIsFinishedByTheNext(t *testing.T) {
	m := openView(t, tinyBody, tinyDonor)
	p := makePlan(t, m, killShards)
	dir := t.TempDir()
	var mu sync.Mutex
	var steps []string
	undo := write.SetFailpoint(func(name string) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, name)
	})
	mustRun(t, p, m, filepath.Join(dir, "whole"), write.Options{Workers: 2})
	undo()
	want := tree(t, filepath.Join(dir, "whole"))
	if least := 5 + 6*len(p.Shards); len(steps) < least {
		t.Fatalf("only %d failpoints: %q", len(steps), steps)
	}
	seen := map[string]bool{}
	for i, step := range steps {
		if seen[step] {
			t.Errorf("failpoint %s is passed twice", step)
		}
		seen[step] = true
		out := filepath.Join(dir, fmt.Sprintf("out%d", i))
		killChild(t, out, step)
		if step == "published" { // whole and in place: there is nothing left to do
			sameTree(t, tree(t, out), want)
			continue
		}
		absent(t, out)
		if i%3 == 0 { // and killed again, near the end
			killChild(t, out, "file-written:model.safetensors.index.json")
			absent(t, out)
		}
		res, err := write.Run(context.Background(), p, m, out, write.Options{Workers: 2})
		if err != nil {
			t.Errorf("after a kill at %s: %v", step, err)
			continue
		}
		sameTree(t, tree(t, out), want)
		absent(t, out+".partial")
		if t.Failed() {
			t.Fatalf("after a kill at %s (resumed %d shards)", step, res.Resumed)
		}
		must(t, os.RemoveAll(out))
	}
}

// killChild runs a child that is killed at the step.
func killChild(t *testing.T, out, step string) {
	t.Helper()
	err := inChild(out, childKill+"="+step).Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(interface{ Signal() unix.Signal }).Signal() != unix.SIGKILL {
		t.Fatalf("%s: the child was not killed but ended with %v", step, err)
	}
}

func TestASecondProcessIsRefusedWhileTheFirstRuns(t *testing.T) {
	m := openView(t, tinyBody, tinyDonor)
	p := makePlan(t, m, killShards)
	out := filepath.Join(t.TempDir(), "out")
	first := inChild(out, childWait+"=shard-checked:"+p.Shards[0].File)
	stdout, err := first.StdoutPipe()
	must(t, err)
	must(t, first.Start())
	line := make([]byte, 8)
	if _, err := stdout.Read(line); err != nil || !bytes.HasPrefix(line, []byte("waiting")) {
		t.Fatalf("the child said %q (%v)", line, err)
	}
	_, err = write.Run(context.Background(), p, m, out, write.Options{})
	if !errors.Is(err, write.ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
	says(t, err, out+".partial", "locked")
	must(t, first.Process.Kill())
	first.Wait()
	mustRun(t, p, m, out, write.Options{})
}

func TestASecondRunOfTheSameProcessIsRefused(t *testing.T) {
	m := openView(t, tinyBody, tinyDonor)
	p := makePlan(t, m, killShards)
	out := filepath.Join(t.TempDir(), "out")
	var second error
	defer write.SetFailpoint(func(name string) {
		if name == "file-written:config.json" {
			write.SetFailpoint(nil)
			_, second = write.Run(context.Background(), p, m, out, write.Options{})
		}
	})()
	mustRun(t, p, m, out, write.Options{})
	if !errors.Is(second, write.ErrBusy) {
		t.Errorf("got %v, want ErrBusy", second)
	}
}

func TestAFullDiskIsSaidWithNumbersAndCanBeResumed(t *testing.T) {
	m := openView(t, tinyBody, tinyDonor)
	p := makePlan(t, m, killShards)
	dir := t.TempDir()
	mustRun(t, p, m, filepath.Join(dir, "whole"), write.Options{})
	out := filepath.Join(dir, "out")
	var stderr bytes.Buffer
	cmd := inChild(out, childLimit+"=shard-journalled:"+p.Shards[0].File)
	cmd.Stderr = &stderr
	if err := cmd.Run(); err == nil {
		t.Fatal("a file grew over its limit")
	}
	says(t, errors.New(stderr.String()), "not enough disk space", out+".partial", "bytes", "free")
	absent(t, out)
	if res := mustRun(t, p, m, out, write.Options{}); res.Resumed < 1 {
		t.Error("nothing was kept")
	}
	sameTree(t, tree(t, out), tree(t, filepath.Join(dir, "whole")))
}

func TestTooLittleRoomIsRefusedBeforeAnyWork(t *testing.T) {
	m := openView(t, tinyBody, tinyDonor)
	p := makePlan(t, m, killShards)
	out := filepath.Join(t.TempDir(), "out")
	defer write.SetFreeSpace(p.BytesOut / 2)()
	_, err := write.Run(context.Background(), p, m, out, write.Options{})
	if !errors.Is(err, write.ErrNoSpace) {
		t.Errorf("got %v, want ErrNoSpace", err)
	}
	says(t, err, out+".partial", fmt.Sprint(p.BytesOut/2), "free")
	absent(t, out)
	absent(t, out+".partial")
}
