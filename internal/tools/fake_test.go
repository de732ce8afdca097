package tools

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// This test binary is its own MCP server: started with fakeServer and a way to behave, it speaks on its standard input and output.
const fakeServer = "fake-mcp-server"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == fakeServer {
		fakeMain(os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

// firstPage and secondPage are what a good server lists; the keys of its schemas are in no order.
const (
	firstPage  = `{"tools":[{"name":"zebra","title":"Z","description":"first","inputSchema":{"type":"object","properties":{"z":{"type":"number","maximum":1.50},"a":{"type":"string"}},"required":["z"]},"annotations":{"readOnlyHint":true}}],"nextCursor":"two"}`
	secondPage = `{"tools":[{"name":"apple","inputSchema":{"type":"object","$schema":"https://json-schema.org/draft/2020-12/schema"},"description":"second"}]}`
	wholeList  = `[
{"type": "function", "function": {"name": "zebra", "description": "first", "parameters": {"type": "object", "properties": {"z": {"type": "number", "maximum": 1.50}, "a": {"type": "string"}}, "required": ["z"]}}},
{"type": "function", "function": {"name": "apple", "description": "second", "parameters": {"type": "object", "$schema": "https://json-schema.org/draft/2020-12/schema"}}}
]
`
)

type call struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Cursor string `json:"cursor"`
	} `json:"params"`
}

// answerTo is what a server that behaves in this way says, "" for nothing.
func answerTo(way string, c call, calls int) string {
	result := func(text string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, text) }
	switch {
	case len(c.ID) == 0:
		return ""
	case way == "modern" && c.Method == "server/discover":
		return result(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{}}`)
	case c.Method == "initialize" && way != "modern":
		return result(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"tavern","version":"7"}}`)
	case c.Method != "tools/list":
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no method %s"}}`, c.ID, c.Method)
	}
	switch way {
	case "refuse":
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"not for you"}}`, c.ID)
	case "endless":
		return result(fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, calls))
	case "circle":
		return result(`{"tools":[],"nextCursor":"again"}`)
	case "nonsense":
		return result(`{"tools":{"a":1}}`)
	case "cursor":
		return result(`{"tools":[],"nextCursor":5}`)
	case "odd":
		return result(`{"tools":[{"name":"good","description":"d","inputSchema":{"type":"object"}},null,{"name":"h","description":"d","inputSchema":{"type":"object","properties":{"q":{"type":"object","x-mcp-header":"Q"}}}},{"name":"bare","description":5,"inputSchema":{}}]}`)
	case "deep":
		return result(`{"tools":` + strings.Repeat("[", 20<<20))
	case "empty":
		return result(`{"tools":[]}`)
	}
	if c.Params.Cursor == "two" {
		return result(secondPage)
	}
	return result(firstPage)
}

func fakeMain(args []string) {
	way := args[0]
	in := bufio.NewScanner(os.Stdin)
	fmt.Fprintln(os.Stderr, "fake server, way:", way)
	switch way {
	case "noisy":
		fmt.Println("INFO starting up")
	case "chatty":
		for {
			fmt.Println("log")
		}
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		child := exec.Command("sleep", "600")
		if err := child.Start(); err != nil {
			panic(err)
		}
		if err := os.WriteFile(args[1], fmt.Appendf(nil, "%d", child.Process.Pid), 0o600); err != nil {
			panic(err)
		}
	case "huge":
		fmt.Print(`{"jsonrpc":"2.0","id":1,"result":"`)
		for {
			if _, err := fmt.Print(strings.Repeat("x", 1<<20)); err != nil {
				return
			}
		}
	}
	for calls := 0; in.Scan(); calls++ {
		var c call
		if json.Unmarshal(in.Bytes(), &c) != nil || way == "silent" {
			continue
		}
		if way == "dying" && c.Method == "tools/list" {
			fmt.Fprintln(os.Stderr, "the cellar is flooded")
			os.Exit(3)
		}
		if text := answerTo(way, c, calls); text != "" {
			fmt.Println(text)
		}
	}
	if way == "stubborn" {
		time.Sleep(time.Hour)
	}
}

// webServer speaks streamable HTTP, as documents or as events.
func webServer(way string, events bool) http.Handler {
	calls := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if way == "private" && r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		data, err := io.ReadAll(r.Body)
		var c call
		if err != nil || json.Unmarshal(data, &c) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		calls++
		if way == "slow" && c.Method == "tools/list" {
			<-r.Context().Done()
			return
		}
		text := answerTo(way, c, calls)
		switch {
		case text == "":
			w.WriteHeader(http.StatusAccepted)
		case way == "page":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>Welcome")
		case events:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, ": a comment\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"x\"}}\r\n\r\nevent: message\r\ndata: %s\r\n\r\n", text)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text)
		}
	})
}
