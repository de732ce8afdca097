package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Request is how an HTTP source is asked.
type Request struct {
	URL     string
	Header  http.Header   // the caller's own: authorization and the like; never shown
	Timeout time.Duration // for all of it
}

// check refuses what cannot be asked.
func (r Request) check() error {
	u, err := url.Parse(r.URL)
	if err != nil {
		return err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s: want an address that starts with http:// or https://", u.Redacted())
	}
	return nil
}

// from is the address as it may be shown: without a password and without a query, where tokens stand.
func (r Request) from() string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return "the address"
	}
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}

// HTTP asks an endpoint for its list with one GET: an array of OpenAI's or MCP's definitions, {"tools": […]} or {"data": […]}.
// It follows redirects on the same host only, and reads at most [MaxBytes].
func HTTP(ctx context.Context, r Request) (*Capture, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	from := r.from()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	for k, v := range r.Header {
		req.Header[k] = v
	}
	base := newTransport()
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: base, CheckRedirect: sameHost}
	resp, err := client.Do(req)
	if err != nil {
		return nil, late(ctx, r.Timeout, from, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(&limited{r: resp.Body, left: MaxBytes})
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answers %s%s%s", from, resp.Status, said(body), advice(resp.StatusCode))
	case err != nil:
		return nil, late(ctx, r.Timeout, from, err)
	}
	c := &Capture{Kind: "http", From: from}
	if err := c.document(body); err != nil {
		return nil, fmt.Errorf("%s: %w%s", from, err, said(body))
	}
	return c, nil
}

func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = 1 << 20
	return t
}

// sameHost keeps the caller's headers where the caller sent them: net/http drops Authorization and cookies on the way to another
// host, and no other header.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("ten redirects, and no end")
	}
	if req.URL.Host != via[0].URL.Host || via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("it redirects to %s://%s; if that is meant, give that address", req.URL.Scheme, req.URL.Host)
	}
	return nil
}

// late turns the end of the time into words; net/http would repeat the address with its query.
func late(ctx context.Context, limit time.Duration, from string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s gave no whole answer in %s; --timeout allows more", from, limit)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return fmt.Errorf("asking %s: %w", from, err)
}

// said is the start of a text that was not what was wanted.
func said(body []byte) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body[:min(len(body), 300)]), "")), " ")
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" (it says: %s)", short(text))
}

func advice(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "; --header 'Authorization: Bearer …' sends what it wants to see"
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return "; see that the path is the right one"
	}
	return ""
}

// limited fails where io.LimitReader would end, for a cut document is not a short one.
type limited struct {
	r    io.Reader
	left int
}

var errTooLong = fmt.Errorf("more than %d MiB, which no list of tools is", MaxBytes>>20)

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLong
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
