package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"seatsmith/internal/prompt/ordered"
)

// maxPages bounds the pages of one list; [MaxTools] bounds what is on them.
const maxPages = 256

// errSilent is what the end of the time means in the middle of a conversation.
var errSilent = errors.New("it gave no answer in time")

// record is the last answer to tools/list as it came over the wire. The SDK decodes schemas into Go maps, which sorts their
// keys (modelcontextprotocol/go-sdk#434), and leaves out tools that it does not like without a word, so what it returns is
// not read.
type record interface {
	// take gives the result of the last tools/list, once.
	take() (json.RawMessage, bool)
}

// MCP asks an MCP server for all its tools over streamable HTTP.
func MCP(ctx context.Context, r Request) (*Capture, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	wire := newTee(r)
	defer wire.base.CloseIdleConnections()
	c := &Capture{Kind: "mcp", From: r.from()}
	t := &mcp.StreamableClientTransport{Endpoint: r.URL, HTTPClient: wire.client(), MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: MaxBytes}
	if err := c.converse(ctx, t, wire); err != nil {
		if code := wire.refused(); code != "" && ctx.Err() == nil {
			return nil, fmt.Errorf("%s answers %s", c.From, code)
		}
		return nil, late(ctx, r.Timeout, c.From, err)
	}
	return c, nil
}

// MCPCommand starts an MCP server that speaks on its standard input and output, asks it for all its tools, and ends it and all
// that it started. dir is where it runs, "" for here.
func MCPCommand(ctx context.Context, command []string, dir string, timeout time.Duration) (*Capture, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := &Capture{Kind: "mcp", From: command[0]} // arguments may be secrets
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	p, err := spawn(cmd, true, false)
	if err != nil {
		return nil, fmt.Errorf("starting the server %s: %w; the command stands after --, and is looked for in PATH", command[0], err)
	}
	defer p.end(0)
	pipe := newPipe(p)
	defer pipe.Close()
	err = c.converse(ctx, pipe, pipe)
	if noise := pipe.noise(); noise != "" {
		c.Notes = append(c.Notes, "it writes lines on its standard output that are not JSON-RPC, which the protocol forbids; the first: "+noise)
	}
	if err == nil {
		p.end(grace)
		return c, nil
	}
	died := gone(p.cmd, 200*time.Millisecond)
	ending := p.end(0)
	switch {
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, ctx.Err()
	case died:
		return nil, fmt.Errorf("the server %s ended before it had listed its tools: %s", command[0], p.report(ending))
	case ctx.Err() != nil:
		err = fmt.Errorf("%w (%s); --timeout allows more", errSilent, timeout)
	}
	for _, n := range c.Notes {
		err = fmt.Errorf("%w; %s", err, n)
	}
	return nil, fmt.Errorf("the server %s: %w; %s", command[0], err, p.report("its standard error"))
}

// grace is how long a server may take to end after its input was closed (MCP 2025-11-25, lifecycle, shutdown over stdio).
const grace = 2 * time.Second

// converse opens a session and reads every page of the list.
func (c *Capture) converse(ctx context.Context, t mcp.Transport, wire record) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "seatsmith", Version: "1"}, &mcp.ClientOptions{Logger: slog.New(slog.DiscardHandler)})
	session, err := client.Connect(ctx, t, nil)
	if err != nil {
		return fmt.Errorf("opening the session: %w", err)
	}
	defer closeSession(session)
	if r := session.InitializeResult(); r != nil && r.ServerInfo != nil {
		c.Server = strings.TrimSpace(r.ServerInfo.Name + " " + r.ServerInfo.Version)
	}
	seen := map[string]bool{}
	for cursor := ""; ; {
		wire.take() // of an earlier page
		_, err := session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		raw, ok := wire.take()
		if !ok {
			if err == nil {
				err = errors.New("its answer was not seen on the wire")
			}
			return fmt.Errorf("listing the tools: %w", err)
		}
		cursor, err = c.page(raw)
		switch {
		case err != nil:
			return fmt.Errorf("page %d of its tools: %w", len(seen)+1, err)
		case cursor == "":
			return nil
		case seen[cursor]:
			return fmt.Errorf("page %d of its tools leads back to a page that was read (cursor %.80q): the list has no end", len(seen)+1, cursor)
		case len(seen) >= maxPages:
			return fmt.Errorf("its list has more than %d pages: it may have no end", maxPages)
		}
		seen[cursor] = true
	}
}

// page reads one result of tools/list and returns the cursor of the next.
func (c *Capture) page(raw json.RawMessage) (string, error) {
	v, err := ordered.Decode(raw)
	if err != nil {
		return "", err
	}
	list, ok := v.Get("tools")
	if !ok || !list.IsArray() {
		return "", fmt.Errorf("the result has no array \"tools\": %.120s", v)
	}
	next, ok := v.Get("nextCursor")
	if ok && !next.IsString() && !next.IsNull() {
		return "", fmt.Errorf("nextCursor is %.80s, not a string", next)
	}
	return next.Text(), c.add(list.Items())
}

// closeSession says good-bye, but does not wait for a server that never answers: what it started is ended by who started it.
func closeSession(s *mcp.ClientSession) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Close() // the list is read; how the good-bye went says nothing about it
	}()
	select {
	case <-done:
	case <-time.After(grace):
	}
}

// answer finds the result that belongs to a call in one message.
func answer(data []byte, id jsonrpc.ID) (json.RawMessage, bool) {
	m, err := jsonrpc.DecodeMessage(data)
	if err != nil {
		return nil, false
	}
	r, ok := m.(*jsonrpc.Response)
	if !ok || r.ID != id || r.Error != nil || len(r.Result) == 0 {
		return nil, false
	}
	return r.Result, true
}
