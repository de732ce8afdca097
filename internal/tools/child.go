package tools

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// child is a process with everything that it starts, in one group where the system has such groups.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser // nil: it reads nothing
	out    *os.File       // what is read of it
	stderr *tail

	once   sync.Once
	ending string
}

// spawn starts a command with its standard output, or file descriptor 3 when extra is true, at our end of a pipe.
func spawn(cmd *exec.Cmd, stdin, extra bool) (*child, error) {
	c := &child{cmd: cmd, stderr: &tail{}}
	if stdin {
		w, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		c.stdin = w
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	cmd.Stderr = c.stderr
	if extra {
		cmd.ExtraFiles = []*os.File{w}
		cmd.Stdout = c.stderr
	} else {
		cmd.Stdout = w
	}
	cmd.WaitDelay = time.Second // for a grandchild that keeps the pipes
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		r.Close()
		return nil, err
	}
	c.out = r
	return c, nil
}

// end ends the child and all that it started, reaps it, and says how it ended. A child that was told to go by its closed input gets
// grace to do so; then it is asked, then killed. Further calls give the first answer.
func (c *child) end(grace time.Duration) string {
	c.once.Do(func() {
		if c.stdin != nil {
			c.stdin.Close()
		}
		if !gone(c.cmd, grace) && grace > 0 {
			interrupt(c.cmd)
			gone(c.cmd, grace)
		}
		own := gone(c.cmd, 0)
		kill(c.cmd)
		err := c.cmd.Wait()
		c.out.Close()
		switch exit, ok := errors.AsType[*exec.ExitError](err); {
		case !own:
			c.ending = "it was ended by seatsmith"
		case ok:
			c.ending = "it ended with " + exit.String()
		default:
			c.ending = "it ended with exit status 0"
		}
	})
	return c.ending
}

// report is how a child ended and the last that it said, for an error's end.
func (c *child) report(ending string) string {
	if text := c.stderr.last(12); text != "" {
		return fmt.Sprintf("%s; it last said:\n%s", ending, text)
	}
	return ending + " and said nothing"
}

// tail keeps the last bytes of what a child says.
type tail struct {
	skip []string // lines with one of these are not shown

	mu sync.Mutex
	b  []byte
}

const tailBytes = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > tailBytes {
		t.b = bytes.Clone(t.b[len(t.b)-tailBytes:])
	}
	return len(p), nil
}

// last is the last lines, the newest at the end.
func (t *tail) last(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(t.b), "")), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return slices.ContainsFunc(t.skip, func(s string) bool { return strings.Contains(line, s) })
	})
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
