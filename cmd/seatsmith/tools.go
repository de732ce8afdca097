package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"seatsmith/internal/atomicfile"
	"seatsmith/internal/playbook"
	"seatsmith/internal/prompt/ordered"
	"seatsmith/internal/tools"
)

func (a *app) toolsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "Capture the live schemas of an agent's tools",
		Long:  "tools works on the list of tools that a request carries, in the form of OpenAI's API.",
		Example: `  seatsmith tools capture http http://127.0.0.1:8080/tools --out tools.json
  seatsmith tools capture mcp --diff tools.json -- ./my-server --stdio`,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	capture := &cobra.Command{
		Use:   "capture",
		Short: "Take the tools from a running server, an endpoint or a source tree",
		Long: `capture takes the schemas from where they live and prints an OpenAI tools array, [{"type": "function", "function": {"name",
"description", "parameters"}}, …], one tool to a line. Keys keep their order and numbers their spelling, for a chat template prints
them so. The schemas are checked as JSON Schema (draft 2020-12). Nothing is printed or written when one of them is wrong.

It exits 1 when a schema is wrong or --diff finds a difference, 3 when the list could not be had whole.`,
		Example: `  seatsmith tools capture mcp --url https://tools.example/mcp --header 'Authorization: Bearer …'
  seatsmith tools capture http http://127.0.0.1:8080/tools --prefix shop_
  seatsmith tools capture python ./backend --import app.tools --register register_tool --out tools.json`,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	capture.AddCommand(a.toolsMCPCmd(), a.toolsHTTPCmd(), a.toolsPythonCmd())
	cmd.AddCommand(capture)
	return cmd
}

// captured are the flags that say what becomes of a list.
type captured struct {
	prefix, diff, out string
	sorted            bool
	timeout           time.Duration
	headers           []string
}

func (c *captured) flags(cmd *cobra.Command, timeout time.Duration) {
	f := cmd.Flags()
	f.StringVar(&c.prefix, "prefix", "", "`TEXT` put before every name, nothing between: shop_")
	f.StringVar(&c.diff, "diff", "", "compare with an older list, a `FILE`, and exit 1 when they differ")
	f.StringVar(&c.out, "out", "", "write the list to a `FILE`, which must not be there yet")
	f.BoolVar(&c.sorted, "sort", false, "order the tools by name (default: the order of the source)")
	f.DurationVar(&c.timeout, "timeout", timeout, "for the whole capture")
}

func (c *captured) headerFlag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&c.headers, "header", nil, "a header of every request, `'NAME: VALUE'`; may be given several times, is never printed")
}

func (c *captured) check() error {
	if c.timeout <= 0 {
		return usageError{fmt.Errorf("--timeout %s: want more than 0, such as 30s", c.timeout)}
	}
	if c.out != "" {
		if _, err := os.Lstat(c.out); !errors.Is(err, fs.ErrNotExist) {
			return usageError{fmt.Errorf("%s is there already; nothing is overwritten", c.out)}
		}
	}
	return nil
}

// headerName is a token of RFC 9110, section 5.6.2.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

func (c *captured) request(url string) (tools.Request, error) {
	r := tools.Request{URL: url, Header: http.Header{}, Timeout: c.timeout}
	for _, h := range c.headers {
		name, value, ok := strings.Cut(h, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !headerName.MatchString(name) || strings.ContainsFunc(value, unicode.IsControl) {
			return r, usageError{errors.New("--header: want 'NAME: VALUE'")} // the value may be a secret
		}
		r.Header.Add(name, value)
	}
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return r, usageError{errors.New("the address must start with http:// or https://")}
	}
	return r, nil
}

func (a *app) toolsMCPCmd() *cobra.Command {
	var c captured
	var url string
	cmd := &cobra.Command{
		Use:   "mcp (--url URL | -- COMMAND ARGS...)",
		Short: "Ask an MCP server",
		Long: `mcp asks an MCP server for all pages of its tools: over streamable HTTP (--url), or one that it starts and that speaks on its
standard input and output (the command after --). The command gets this environment and its own process group, and is ended with all
that it started.`,
		Example: `  seatsmith tools capture mcp --url http://127.0.0.1:3000/mcp
  seatsmith tools capture mcp --out tools.json -- npx -y @example/server --stdio`,
		Args: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			switch {
			case url == "" && len(args) == 0:
				return errors.New("mcp: which server? --url URL, or a command after --")
			case url != "" && len(args) > 0:
				return errors.New("mcp: --url and a command are two servers; capture one at a time, each with its --prefix")
			case len(args) > 0 && dash != 0:
				return errors.New("mcp: the command stands after --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(); err != nil {
				return err
			}
			if url == "" {
				if len(c.headers) > 0 {
					return usageError{errors.New("--header is for --url; a command has no headers")}
				}
				got, err := tools.MCPCommand(cmd.Context(), args, "", c.timeout)
				return a.captured(got, err, c)
			}
			r, err := c.request(url)
			if err != nil {
				return err
			}
			got, err := tools.MCP(cmd.Context(), r)
			return a.captured(got, err, c)
		},
	}
	c.flags(cmd, 30*time.Second)
	c.headerFlag(cmd)
	cmd.Flags().StringVar(&url, "url", "", "`URL` of a server that speaks streamable HTTP")
	return cmd
}

func (a *app) toolsHTTPCmd() *cobra.Command {
	var c captured
	cmd := &cobra.Command{
		Use:   "http URL",
		Short: "Ask an endpoint that serves the list",
		Long: `http reads a list of tools with one GET: an array, {"tools": […]} or {"data": […]}, of definitions in OpenAI's form (kept as they
are) or in MCP's. A list that says that it is one page of several is refused, and so is a redirect to another host.`,
		Example: `  seatsmith tools capture http http://127.0.0.1:8080/tools --header 'X-Api-Key: …' --out tools.json
  seatsmith tools capture http http://127.0.0.1:8080/tools --diff tools.json`,
		Args: args("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(); err != nil {
				return err
			}
			r, err := c.request(args[0])
			if err != nil {
				return err
			}
			got, err := tools.HTTP(cmd.Context(), r)
			return a.captured(got, err, c)
		},
	}
	c.flags(cmd, 30*time.Second)
	c.headerFlag(cmd)
	return cmd
}

func (a *app) toolsPythonCmd() *cobra.Command {
	var c captured
	var t tools.Tree
	cmd := &cobra.Command{
		Use:   "python TREE --import MODULE --register NAME",
		Short: "Run a Python source tree and capture what it registers",
		Long: `python imports modules of a source tree with the tree's own interpreter and captures every call of its registration function,
which a stand-in takes: as a decorator, as a plain call, by any receiver (--register mcp.tool for a method, whose receiver is
called mcp). The schema is the registration's own argument; where there is none it is made from the function's annotations, if
these leave no doubt, and said to be. A missing dependency is stood in for, and said; a server that would start at import does
not; nothing is written into the tree.

THE CODE OF THE TREE RUNS, as you, as it would when the backend is imported.`,
		Example: `  seatsmith tools capture python ./backend --import app.tools --register register_tool
  seatsmith tools capture python ./backend --import app/main.py:setup --register mcp.tool --python ./venv/bin/python
  seatsmith tools capture python ./backend --from app.tools:openai_tools`,
		Args: args("TREE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t.Root, t.Timeout = args[0], c.timeout
			if err := errors.Join(c.check(), asks(t)); err != nil {
				return usageError{err}
			}
			got, err := tools.Python(cmd.Context(), t)
			return a.captured(got, err, c)
		},
	}
	c.flags(cmd, time.Minute)
	f := cmd.Flags()
	f.StringArrayVar(&t.Imports, "import", nil, "`MODULE`, FILE.py or MODULE:FUNCTION (imported, then called) to run; may be given several times")
	f.StringVar(&t.Register, "register", "", "`NAME` of the registration function, RECEIVER.NAME for a method")
	f.StringVar(&t.Source, "from", "", "`MODULE:NAME` of the backend's own list, or of a function that makes it, instead of --register")
	f.StringVar(&t.SchemaArg, "schema-arg", "", "`NAME` of the registration's argument that is the schema (default: parameters, schema, input_schema …)")
	f.StringVar(&t.Python, "python", "", "the `INTERPRETER` (default: .venv, venv or env of the tree, then python3)")
	f.StringArrayVar(&t.Paths, "path", nil, "a `FOLDER` of the tree that belongs on sys.path, such as src; may be given several times")
	f.BoolVar(&t.NoStubs, "no-stubs", false, "a missing dependency is an error")
	return cmd
}

// asks says whether the flags of python name one thing to capture.
func asks(t tools.Tree) error {
	switch {
	case t.Register == "" && t.Source == "":
		return errors.New("--register is missing: the name of the function that registers tools (or --from MODULE:NAME, the backend's own list)")
	case t.Register != "" && t.Source != "":
		return errors.New("--register and --from are two ways; choose one")
	case t.Register != "" && len(t.Imports) == 0:
		return errors.New("--import is missing: a module that registers tools, such as app.tools or app/tools.py")
	case t.Source != "" && !strings.Contains(t.Source, ":"):
		return fmt.Errorf("--from %s: want MODULE:NAME", t.Source)
	}
	return nil
}

// captured judges a list, compares it, and gives it out.
func (a *app) captured(got *tools.Capture, err error, c captured) error {
	if err != nil {
		return err
	}
	var old *tools.Capture
	if c.diff != "" {
		if old, err = tools.Read(c.diff); err != nil {
			return fmt.Errorf("--diff: %w", err)
		}
	}
	got.Prefix(c.prefix)
	if c.sorted {
		got.Sort()
		if old != nil {
			old.Sort()
		}
	}
	found := got.Judge()
	doc := map[string]any{
		"schema": 1, "kind": got.Kind, "from": got.From, "server": got.Server, "count": len(got.Tools), "verdict": "ok",
		"stubbed": list(got.Stubbed), "refused": list(got.Refused), "notes": list(got.Notes),
	}
	if playbook.Worst(found) == playbook.Warning {
		doc["verdict"] = "warn"
	}
	for _, f := range playbook.Errors(found) {
		doc["verdict"], a.answer = "fail", max(a.answer, exitNo)
		if f.Rule == "tool-underivable" {
			doc["verdict"], a.answer = "unknown", exitUnknown
			break
		}
	}
	usable := a.answer == exitGood
	if old != nil {
		d := tools.Compare(old, got)
		doc["diff"] = d
		found = append(found, d.Findings()...)
		a.say("diff: %d the same, %d changed, %d added, %d removed", d.Same, len(d.Changed), len(d.Added), len(d.Removed))
		if d.Differs() && usable {
			doc["verdict"], a.answer = "differs", exitNo
		}
	}
	data := tools.Encode(got.Tools)
	switch {
	case !usable && c.out != "":
		a.say("%s is not written", printable(c.out))
	case c.out != "":
		if err := atomicfile.WriteNew(c.out, data, 0o666); err != nil {
			return err
		}
		doc["out"] = c.out
	}
	for _, n := range got.Notes {
		a.say("note: %s", printable(n))
	}
	for _, r := range got.Refused {
		a.say("note: not started: %s", printable(r))
	}
	a.findings(found)
	a.say("%s from %s: %s", plural(len(got.Tools), "tool"), printable(got.From), doc["verdict"])
	if a.json {
		doc["findings"] = append([]playbook.Finding{}, found...)
		if usable {
			values := []ordered.Value{}
			for _, t := range got.Tools {
				values = append(values, t.Value)
			}
			doc["tools"] = values
		}
		a.document(doc)
	} else if usable && c.out == "" && c.diff == "" {
		_, err = a.stdout.Write(data)
	}
	return err
}

func list(s []string) []string { return append([]string{}, s...) }
