package dataset

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"lukechampine.com/blake3"

	"seatsmith/internal/prompt"
	"seatsmith/internal/prompt/ordered"
)

// Mix is a calibration set's recipe.
type Mix struct {
	Schema  int      `yaml:"schema"`
	Seed    uint64   `yaml:"seed"`
	Rows    int      `yaml:"rows"` // of the whole set
	Sources []Source `yaml:"sources"`

	dir string
}

// Source is one file of a mix.
type Source struct {
	File    string  `yaml:"file"`  // relative to the mix
	Share   float64 `yaml:"share"` // of the rows; shares are weights, they need not add up to 1
	Filters Filters `yaml:"filters"`
}

// Filters choose rows of a file. A row must pass all that are set.
type Filters struct {
	Tools       *bool    `yaml:"tools"` // with tools, or without
	Calls       *bool    `yaml:"calls"` // with tool calls, or without
	Roles       []string `yaml:"roles"` // only rows in which no other role speaks
	MinMessages int      `yaml:"min_messages"`
	MaxMessages int      `yaml:"max_messages"`
	MinChars    int      `yaml:"min_chars"` // characters of all contents together
	MaxChars    int      `yaml:"max_chars"`
	Contains    []string `yaml:"contains"` // each must occur in some content
	Excludes    []string `yaml:"excludes"` // none may
}

// LoadMix reads a mix. Unknown fields are refused, with their line.
func LoadMix(path string) (*Mix, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the mix: %w", err)
	}
	m := &Mix{dir: filepath.Dir(path)}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(m); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: the file is empty", path)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var bad []error
	say := func(format string, args ...any) { bad = append(bad, fmt.Errorf(path+": "+format, args...)) }
	if m.Schema != 1 {
		say("schema: got %d, want 1", m.Schema)
	}
	if m.Rows < 1 || m.Rows > 10_000_000 {
		say("rows: got %d, want 1 to 10,000,000", m.Rows)
	}
	if len(m.Sources) == 0 {
		say("sources: there is none")
	}
	for i, s := range m.Sources {
		if s.File == "" {
			say("sources[%d].file: missing", i)
		}
		if !(s.Share > 0) || math.IsInf(s.Share, 0) {
			say("sources[%d].share: got %v, want a positive number", i, s.Share)
		}
	}
	return m, errors.Join(bad...)
}

// Built is what a mix makes.
type Built struct {
	Data    []byte       // JSON Lines
	BLAKE3  string       // of Data
	Sources []BuiltCount // in the order of the mix
}

// BuiltCount says what became of one source.
type BuiltCount struct {
	File  string `json:"file"`
	Rows  int    `json:"rows"`  // in the file
	Fit   int    `json:"fit"`   // that pass the filters, each text once
	Taken int    `json:"taken"` //
}

// candidate is a row that may be taken.
type candidate struct {
	key  [32]byte // the order in which a seed draws rows
	data []byte
}

// Build draws the rows. Each row has a key, the BLAKE3 of seed and text; a source gives its rows with the lowest keys, and the
// set is ordered by key: so the same seed gives the same bytes, adding a row to a file changes at most one choice, and the
// order of rows in a file is nothing. A text that was taken is not taken again. Shares are rounded by largest remainder, the
// first source first. Rows are written as they stand in their file.
func Build(m *Mix) (*Built, error) {
	want := apportion(m.Rows, m.Sources)
	taken := map[[32]byte]bool{}
	var rows []candidate
	b := &Built{}
	var short []error
	for i, s := range m.Sources {
		path := s.File
		if !filepath.IsAbs(path) {
			path = filepath.Join(m.dir, path)
		}
		lines, err := Read(path)
		if err != nil {
			return nil, err
		}
		var fit []candidate
		for _, line := range lines {
			ok, err := s.Filters.pass(line.Data)
			if err != nil {
				return nil, fmt.Errorf("%s: row %d: %w; calib check lists every bad row", path, line.Number, err)
			}
			key := rowKey(m.Seed, line.Data)
			if ok && !taken[key] {
				fit = append(fit, candidate{key, line.Data})
			}
		}
		slices.SortFunc(fit, func(x, y candidate) int { return bytes.Compare(x.key[:], y.key[:]) })
		fit = slices.CompactFunc(fit, func(x, y candidate) bool { return x.key == y.key })
		if len(fit) < want[i] {
			short = append(short, fmt.Errorf("sources[%d] (%s): the share asks for %d rows, and %d of %d pass the filters", i, s.File, want[i], len(fit), len(lines)))
		}
		n := min(want[i], len(fit))
		for _, c := range fit[:n] {
			taken[c.key] = true
		}
		rows = append(rows, fit[:n]...)
		b.Sources = append(b.Sources, BuiltCount{s.File, len(lines), len(fit), n})
	}
	if len(short) > 0 {
		return nil, fmt.Errorf("the files have too few rows; lower rows or the share:\n%w", errors.Join(short...))
	}
	slices.SortFunc(rows, func(x, y candidate) int { return bytes.Compare(x.key[:], y.key[:]) })
	for _, r := range rows {
		b.Data = append(append(b.Data, r.data...), '\n')
	}
	b.BLAKE3 = fmt.Sprintf("%x", blake3.Sum256(b.Data))
	return b, nil
}

func rowKey(seed uint64, data []byte) [32]byte {
	return blake3.Sum256(append(binary.LittleEndian.AppendUint64(nil, seed), data...))
}

// apportion gives every source its rows by largest remainder.
func apportion(rows int, sources []Source) []int {
	total := 0.0
	for _, s := range sources {
		total += s.Share
	}
	out := make([]int, len(sources))
	order := make([]int, len(sources))
	rest := make([]float64, len(sources))
	left := rows
	for i, s := range sources {
		exact := float64(rows) * (s.Share / total)
		out[i] = int(exact)
		rest[i] = exact - float64(out[i])
		left -= out[i]
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for k := 0; left > 0; k, left = k+1, left-1 {
		out[order[k%len(order)]]++
	}
	return out
}

func (f *Filters) pass(line []byte) (bool, error) {
	v, err := ordered.Decode(line)
	if err != nil {
		return false, err
	}
	messages, _ := v.Get("messages")
	if !messages.IsArray() {
		return false, errors.New("no messages")
	}
	tools, _ := v.Get("tools")
	calls, chars := 0, 0
	var all strings.Builder
	for _, m := range messages.Items() {
		if len(f.Roles) > 0 && !slices.Contains(f.Roles, m.TextOf("role")) {
			return false, nil
		}
		list, _ := m.Get("tool_calls")
		calls += list.Len()
		for _, t := range texts(m) {
			chars += len([]rune(t))
			all.WriteString(t)
			all.WriteByte('\n')
		}
	}
	n, text := messages.Len(), all.String()
	within := func(n, least, most int) bool { return n >= least && (most == 0 || n <= most) }
	switch {
	case f.Tools != nil && *f.Tools != (tools.Len() > 0), f.Calls != nil && *f.Calls != (calls > 0):
		return false, nil
	case !within(n, f.MinMessages, f.MaxMessages) || !within(chars, f.MinChars, f.MaxChars):
		return false, nil
	}
	for _, s := range f.Contains {
		if !strings.Contains(text, s) {
			return false, nil
		}
	}
	return !slices.ContainsFunc(f.Excludes, func(s string) bool { return strings.Contains(text, s) }), nil
}

// RowOf finds a row by the number of its line.
func RowOf(lines []Line, number int) (prompt.Row, []prompt.Problem, error) {
	i := slices.IndexFunc(lines, func(l Line) bool { return l.Number == number })
	if i < 0 {
		return prompt.Row{}, nil, fmt.Errorf("there is no row %d: the file has %d rows", number, len(lines))
	}
	row, problems := prompt.ParseRow(lines[i].Data)
	return row, problems, nil
}
