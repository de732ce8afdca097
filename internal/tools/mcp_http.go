package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// tee is the way of an MCP session over HTTP: it adds the caller's headers, bounds every answer in time and size, and keeps the
// bytes of the answers to tools/list.
type tee struct {
	base     *http.Transport
	header   http.Header
	deadline time.Time

	mu     sync.Mutex
	id     jsonrpc.ID
	kept   []*keeper
	status string // of the last refusal
}

func newTee(r Request) *tee {
	return &tee{base: newTransport(), header: r.Header, deadline: time.Now().Add(r.Timeout)}
}

func (t *tee) client() *http.Client {
	return &http.Client{Transport: t, CheckRedirect: sameHost}
}

// refused is the status of the last request that was refused, "" when none was.
func (t *tee) refused() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// RoundTrip implements http.RoundTripper.
func (t *tee) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithDeadline(req.Context(), t.deadline)
	req = req.Clone(ctx)
	for k, v := range t.header {
		req.Header[k] = v
	}
	listing := t.outgoing(req)
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		cancel()
		return nil, err
	}
	body := &keeper{ReadCloser: resp.Body, limit: limited{r: resp.Body, left: MaxBytes}, cancel: cancel, keep: listing,
		events: strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")}
	t.mu.Lock()
	t.status = ""
	t.mu.Unlock()
	if resp.StatusCode >= http.StatusBadRequest {
		head, _ := io.ReadAll(io.LimitReader(&body.limit, 4096)) // what comes is enough to say
		body.head = bytes.NewReader(head)
		t.mu.Lock()
		t.status = resp.Status + said(head) + advice(resp.StatusCode)
		t.mu.Unlock()
	} else if listing {
		t.mu.Lock()
		t.kept = append(t.kept, body)
		t.mu.Unlock()
	}
	resp.Body = body
	return resp, nil
}

// outgoing looks whether a request calls tools/list, or resumes the stream of one that did.
func (t *tee) outgoing(req *http.Request) bool {
	if req.Method == http.MethodGet {
		return true
	}
	if req.GetBody == nil {
		return false
	}
	r, err := req.GetBody()
	if err != nil {
		return false
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return false
	}
	m, err := jsonrpc.DecodeMessage(data)
	if call, ok := m.(*jsonrpc.Request); err == nil && ok && call.Method == "tools/list" {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.id, t.kept = call.ID, nil
		return true
	}
	return false
}

func (t *tee) take() (json.RawMessage, bool) {
	t.mu.Lock()
	kept, id := t.kept, t.id
	t.kept = nil
	t.mu.Unlock()
	for _, k := range kept {
		if raw, ok := k.find(id); ok {
			return raw, true
		}
	}
	return nil, false
}

// keeper is a response's body that keeps what was read of it.
type keeper struct {
	io.ReadCloser
	limit  limited
	head   *bytes.Reader // what was read already
	cancel context.CancelFunc
	keep   bool
	events bool

	mu   sync.Mutex
	data []byte
}

func (k *keeper) Read(p []byte) (int, error) {
	if k.head != nil && k.head.Len() > 0 {
		return k.head.Read(p)
	}
	n, err := k.limit.Read(p)
	if k.keep {
		k.mu.Lock()
		k.data = append(k.data, p[:n]...)
		k.mu.Unlock()
	}
	return n, err
}

func (k *keeper) Close() error {
	err := k.ReadCloser.Close()
	k.cancel()
	if err != nil {
		return fmt.Errorf("closing an answer: %w", err)
	}
	return nil
}

// find looks for the answer to a call: in a document, or in the events of a stream (WHATWG HTML, server-sent events: the data
// lines of an event are joined by line feeds, an empty line ends it).
func (k *keeper) find(id jsonrpc.ID) (json.RawMessage, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.events {
		return answer(k.data, id)
	}
	var event []string
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(k.data))
	for line := range strings.SplitSeq(text, "\n") {
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			event = append(event, strings.TrimPrefix(data, " "))
			continue
		}
		if line == "" && len(event) > 0 {
			if raw, ok := answer([]byte(strings.Join(event, "\n")), id); ok {
				return raw, true
			}
			event = nil
		}
	}
	return answer([]byte(strings.Join(event, "\n")), id) // a stream may end with its last event
}
