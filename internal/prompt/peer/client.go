package peer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"seatsmith/internal/prompt/ordered"
)

// Marker is the only variable in a child's environment. A program that finds it is a second engine, and must not start one
// of its own: a binary that does not know the hidden command would start itself without end.
const Marker = "SEATSMITH_SECOND_ENGINE"

// ErrNoAnswer says that the second engine died, hung or refused: there is no second opinion on this row.
var ErrNoAnswer = errors.New("no second opinion")

// Client asks a child process.
type Client struct {
	command []string
	wait    time.Duration // for one answer

	mu     sync.Mutex
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tail
	sent   string // the template that the child has
}

// Start prepares a client of a command line that runs [Child], such as this program with its hidden command. The child is
// started with the first question, with nothing but [Marker] in its environment.
func Start(command ...string) *Client {
	return &Client{command: command, wait: 10 * time.Second}
}

// Render asks for a render of vars. The text that stands for the clock is used for every strftime_now. Any error wraps
// [ErrNoAnswer] and says why.
func (c *Client) Render(ctx context.Context, source, now string, vars []ordered.Member) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil {
		if err := c.start(); err != nil {
			return "", fmt.Errorf("%w: starting %s: %w", ErrNoAnswer, c.command[0], err)
		}
	}
	q := ordered.NewObject(ordered.Member{Key: "vars", Value: ordered.NewObject(vars...)}, ordered.Member{Key: "now", Value: ordered.NewString(now)})
	if c.sent != source {
		q = q.With("template", ordered.NewString(source))
	}
	answer, err := c.ask(ctx, q.Append(nil))
	if err != nil {
		said := c.stop()
		return "", fmt.Errorf("%w: %w%s", ErrNoAnswer, err, said)
	}
	c.sent = source
	if len(answer) == 0 || answer[0] != '+' {
		return "", fmt.Errorf("%w: it refuses: %s", ErrNoAnswer, bytes.TrimPrefix(answer, []byte("-")))
	}
	return string(answer[1:]), nil
}

func (c *Client) start() error {
	cmd := exec.Command(c.command[0], c.command[1:]...)
	cmd.Env = []string{Marker + "=1"}
	c.stderr = &tail{}
	cmd.Stderr = c.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.cmd, c.in, c.out, c.sent = cmd, in, bufio.NewReader(out), ""
	return nil
}

func (c *Client) ask(ctx context.Context, question []byte) ([]byte, error) {
	type result struct {
		answer []byte
		err    error
	}
	done := make(chan result, 1)
	in, out := c.in, c.out
	go func() {
		if err := writeFrame(in, question); err != nil {
			done <- result{nil, fmt.Errorf("the second engine's process died: %w", err)}
			return
		}
		answer, err := readFrame(out)
		if err != nil {
			err = fmt.Errorf("the second engine's process died: %w", err)
		}
		done <- result{answer, err}
	}()
	timer := time.NewTimer(c.wait)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-timer.C:
		return nil, fmt.Errorf("the second engine gave no answer in %s", c.wait)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// stop ends the child and says what it last wrote to its standard error.
func (c *Client) stop() string {
	if c.cmd == nil {
		return ""
	}
	c.in.Close()
	c.cmd.Process.Kill() //nolint:errcheck // it may be dead already
	_ = c.cmd.Wait()     // a killed child's exit status says nothing
	c.cmd = nil
	if first, _, _ := strings.Cut(c.stderr.String(), "\n"); first != "" {
		return " (" + first + ")"
	}
	return ""
}

// Close ends the child.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd != nil {
		c.in.Close()
	}
	c.stop()
}

// tail keeps the first kilobyte that a child says.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p[:min(len(p), 1024-len(t.b))]...)
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
