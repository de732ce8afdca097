package tools

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// pipe is a transport of the SDK over a child's standard input and output, one message a line, which keeps the answer to
// tools/list as it came.
type pipe struct {
	c        *child
	messages chan message
	closed   chan struct{}
	once     sync.Once
	writing  sync.Mutex

	mu     sync.Mutex
	listID jsonrpc.ID
	listed json.RawMessage
	stray  string // the first line that is no message
	strays int
}

type message struct {
	m   jsonrpc.Message
	err error
}

// maxStrays bounds the lines that are no messages: a program that prints for ever is no server.
const maxStrays = 10000

func newPipe(c *child) *pipe {
	return &pipe{c: c, messages: make(chan message), closed: make(chan struct{})}
}

// Connect implements mcp.Transport.
func (p *pipe) Connect(context.Context) (mcp.Connection, error) {
	go p.read()
	return p, nil
}

// SessionID implements mcp.Connection: a pipe has one session.
func (p *pipe) SessionID() string { return "" }

// Read implements mcp.Connection.
func (p *pipe) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-p.messages:
		return m.m, m.err
	case <-p.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements mcp.Connection.
func (p *pipe) Write(_ context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == "tools/list" {
		p.mu.Lock()
		p.listID, p.listed = r.ID, nil
		p.mu.Unlock()
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err = p.c.stdin.Write(append(data, '\n'))
	return err
}

// Close implements mcp.Connection. The child is ended by who started it.
func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipe) take() (json.RawMessage, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	raw := p.listed
	p.listed = nil
	return raw, raw != nil
}

func (p *pipe) noise() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stray
}

// read turns lines into messages until the child's output ends.
func (p *pipe) read() {
	in := bufio.NewReaderSize(&limited{r: p.c.out, left: MaxBytes}, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 && !errors.Is(err, errTooLong) {
			m, ok, bad := p.line(line)
			if bad != nil {
				err = bad
			} else if ok && !p.send(message{m: m}) {
				return
			}
		}
		if err != nil {
			if !errors.Is(err, errTooLong) && !errors.Is(err, errNoise) && !errors.Is(err, errMessage) {
				err = io.EOF
			}
			p.send(message{err: err})
			return
		}
	}
}

var errMessage = errors.New("it wrote a message that cannot be read")

var errNoise = fmt.Errorf("it wrote more than %d lines that are not JSON-RPC", maxStrays)

func (p *pipe) line(line []byte) (jsonrpc.Message, bool, error) {
	m, err := jsonrpc.DecodeMessage(line)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && bytes.Contains(line[:min(len(line), 200)], []byte(`"jsonrpc"`)) {
		return nil, false, fmt.Errorf("%w: %s", errMessage, short(err.Error()))
	}
	if err != nil {
		if p.strays++; p.strays == 1 {
			p.stray = short(strings.ToValidUTF8(string(line[:min(len(line), 1000)]), ""))
		}
		if p.strays > maxStrays {
			return nil, false, errNoise
		}
		return nil, false, nil
	}
	if r, ok := m.(*jsonrpc.Response); ok && r.ID == p.listID && r.Error == nil {
		p.listed = bytes.Clone(r.Result)
	}
	return m, true, nil
}

func (p *pipe) send(m message) bool {
	select {
	case p.messages <- m:
		return true
	case <-p.closed:
		return false
	}
}
