package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
)

// tavernMCP is an MCP server on its standard input and output whose tools/list is the content of a file, one line a page.
func tavernMCP() {
	data, err := os.Open(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "tavern-mcp:", err)
		os.Exit(1)
	}
	pages := bufio.NewScanner(data)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(in.Bytes(), &call) != nil || len(call.ID) == 0 {
			continue
		}
		switch {
		case call.Method == "initialize":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"tavern","version":"7"}}}`+"\n", call.ID)
		case call.Method == "tools/list" && pages.Scan():
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", call.ID, pages.Text())
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no method %s"}}`+"\n", call.ID, call.Method)
		}
	}
}

// serve serves the files of the story on the loopback and puts the address into $URL.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	s := httptest.NewServer(http.FileServer(http.Dir(ts.MkAbs("."))))
	ts.Defer(s.Close)
	ts.Setenv("URL", s.URL)
}
