package tools

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func get(t *testing.T, timeout time.Duration, h http.HandlerFunc) (*Capture, error) {
	t.Helper()
	s := httptest.NewServer(h)
	defer s.Close()
	defer s.CloseClientConnections()
	return HTTP(t.Context(), Request{URL: s.URL + "/tools?key=hidden", Header: http.Header{"X-Api-Key": {"secret"}}, Timeout: timeout})
}

func TestAnEndpointGivesItsListWithTheCallersHeaders(t *testing.T) {
	c, err := get(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/tools" && r.URL.Query().Get("key") == "hidden":
			http.Redirect(w, r, "/v2/tools", http.StatusFound)
		case r.Method == http.MethodGet && r.Header.Get("X-Api-Key") == "secret":
			fmt.Fprint(w, `{"data": [{"type": "function", "function": {"name": "b", "description": "d", "parameters": {"type": "object", "properties": {"y": {}, "x": {}}}}}]}`)
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Tools[0].Value.String(); !strings.Contains(got, `{"y": {}, "x": {}}`) || len(c.Judge()) != 0 || strings.Contains(c.From, "hidden") {
		t.Errorf("%s from %s: %v", got, c.From, c.Judge())
	}
}

func TestAnEndpointThatGivesNoWholeListIsAnError(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "" {
			t.Error("the caller's header went to another host")
		}
		fmt.Fprint(w, "[]")
	}))
	defer elsewhere.Close()
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"forbidden": {func(w http.ResponseWriter, r *http.Request) { http.Error(w, "go away", http.StatusForbidden) }, "answers 403 Forbidden (it says: go away); --header"},
		"missing":   {func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, "the path is the right one"},
		"page":      {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>Hello") }, "not JSON at byte 0: a value cannot start with '<' (it says: <html>Hello)"},
		"empty":     {func(w http.ResponseWriter, r *http.Request) {}, "the text ends where a value should be"},
		"cut": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "[]")
		}, "unexpected EOF"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "it redirects to http://127.0.0.1"},
		"circle": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/tools", http.StatusFound) }, "ten redirects"},
		"huge": {func(w http.ResponseWriter, r *http.Request) {
			for range 64 {
				if _, err := w.Write([]byte(strings.Repeat(" ", 1<<20))); err != nil {
					return
				}
			}
		}, "more than 32 MiB"},
	} {
		c, err := get(t, time.Minute, test.handler)
		if err == nil {
			t.Errorf("%s: %s", name, Encode(c.Tools))
		} else if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	for name, slow := range map[string]http.HandlerFunc{
		"no header": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"no end": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "[")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		if _, err := get(t, 200*time.Millisecond, slow); err == nil || !strings.Contains(err.Error(), "no whole answer in 200ms; --timeout") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := HTTP(t.Context(), Request{URL: "http://127.0.0.1:1/", Timeout: time.Minute}); err == nil || !strings.Contains(err.Error(), "asking http://127.0.0.1:1/") {
		t.Error(err)
	}
}
