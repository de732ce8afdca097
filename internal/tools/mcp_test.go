package tools

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func startFake(t *testing.T, timeout time.Duration, args ...string) (*Capture, error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return MCPCommand(t.Context(), append([]string{exe, fakeServer}, args...), t.TempDir(), timeout)
}

func TestACommandIsAskedForEveryPageAndKeepsKeyOrder(t *testing.T) {
	for _, way := range []string{"good", "modern", "noisy"} {
		c, err := startFake(t, time.Minute, way)
		if err != nil {
			t.Fatal(way, err)
		}
		if got := string(Encode(c.Tools)); got != wholeList {
			t.Errorf("%s: %s", way, got)
		}
		if found := c.Judge(); len(found) != 0 {
			t.Errorf("%s: %v", way, found)
		}
		if way == "good" && c.Server != "tavern 7" {
			t.Errorf("it calls itself %q", c.Server)
		}
		if noisy := strings.Contains(strings.Join(c.Notes, ""), "INFO starting up"); noisy != (way == "noisy") {
			t.Errorf("%s: %v", way, c.Notes)
		}
	}
}

// The SDK leaves out what it does not like, and would have given three of these or none.
func TestToolsThatTheSDKWouldDropAreJudged(t *testing.T) {
	c, err := startFake(t, time.Minute, "odd")
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, f := range c.Judge() {
		said = append(said, f.Rule+" "+f.Message)
	}
	if len(c.Tools) != 2 || c.Tools[1].Name() != "h" || len(said) != 2 || said[0] != "tool-shape it is null, not an object" || said[1] != "tool-shape its description is a number, not a string" {
		t.Errorf("%s\n%q", Encode(c.Tools), said)
	}
}

func TestAServerThatDoesNotListItsToolsIsAnError(t *testing.T) {
	for way, want := range map[string][]string{
		"dying":    {"ended before it had listed its tools", "exit status 3", "the cellar is flooded"},
		"refuse":   {"not for you"},
		"endless":  {"more than 256 pages"},
		"circle":   {"leads back to a page that was read", `"again"`},
		"nonsense": {`has no array "tools"`},
		"cursor":   {"nextCursor is 5"},
		"deep":     {"a message that cannot be read"},
		"huge":     {"more than 32 MiB"},
		"chatty":   {"more than 10000 lines that are not JSON-RPC", "the first: log"},
	} {
		c, err := startFake(t, time.Minute, way)
		if err == nil {
			t.Errorf("%s: %s", way, Encode(c.Tools))
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", way, err, part)
			}
		}
	}
	if _, err := startFake(t, 300*time.Millisecond, "silent"); err == nil || !strings.Contains(err.Error(), "no answer in time (300ms); --timeout") || !strings.Contains(err.Error(), "way: silent") {
		t.Errorf("silent: %v", err)
	}
	if _, err := MCPCommand(t.Context(), []string{"/no/such/server"}, "", time.Minute); err == nil || !strings.Contains(err.Error(), "starting the server /no/such/server") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	exe, _ := os.Executable()
	if _, err := MCPCommand(ctx, []string{exe, fakeServer, "silent"}, "", time.Minute); err != context.Canceled {
		t.Error(err)
	}
}

func TestWhatAServerStartedEndsWithIt(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("SKIPPED: process groups are ended on Linux only")
	}
	path := filepath.Join(t.TempDir(), "pid")
	if _, err := startFake(t, time.Minute, "stubborn", path); err != nil {
		t.Fatal(err)
	}
	pid, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 200 { // the kill is sent; the system carries it out
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%s/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %s still runs", pid)
}

func ask(t *testing.T, h http.Handler, timeout time.Duration, header ...string) (*Capture, error) {
	t.Helper()
	s := httptest.NewServer(h)
	defer s.Close()
	defer s.CloseClientConnections()
	r := Request{URL: s.URL + "/mcp?token=hidden", Header: http.Header{}, Timeout: timeout}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return MCP(t.Context(), r)
}

func TestAServerOverHTTPIsAskedForEveryPageAndKeepsKeyOrder(t *testing.T) {
	for _, way := range []string{"good", "modern", "private"} {
		for _, events := range []bool{false, true} {
			c, err := ask(t, webServer(way, events), time.Minute, "Authorization", "Bearer secret")
			if err != nil {
				t.Fatalf("%s, events %v: %v", way, events, err)
			}
			if got := string(Encode(c.Tools)); got != wholeList || strings.Contains(c.From, "hidden") {
				t.Errorf("%s, events %v: %s from %s", way, events, got, c.From)
			}
		}
	}
}

func TestAServerOverHTTPThatDoesNotListItsToolsIsAnError(t *testing.T) {
	for way, want := range map[string]string{
		"private":  "answers 401 Unauthorized (it says: who are you?); --header",
		"refuse":   "not for you",
		"endless":  "more than 256 pages",
		"circle":   "leads back",
		"nonsense": `has no array "tools"`,
		"page":     "text/html",
	} {
		for _, events := range []bool{false, true} {
			c, err := ask(t, webServer(way, events), time.Minute)
			if err == nil {
				t.Errorf("%s: %s", way, Encode(c.Tools))
			} else if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
				t.Errorf("%s: %v, want %q", way, err, want)
			}
		}
	}
	if _, err := ask(t, webServer("slow", false), 300*time.Millisecond); err == nil || !strings.Contains(err.Error(), "no whole answer in 300ms") {
		t.Errorf("slow: %v", err)
	}
	huge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for range 64 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	})
	if _, err := ask(t, huge, time.Minute); err == nil || !strings.Contains(err.Error(), "more than 32 MiB") {
		t.Errorf("huge: %v", err)
	}
	if _, err := MCP(t.Context(), Request{URL: "tools.example", Timeout: time.Second}); err == nil || !strings.Contains(err.Error(), "http://") {
		t.Error(err)
	}
}
