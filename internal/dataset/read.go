package dataset

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// Line is a row as it is written.
type Line struct {
	Number int // in its file, from 1
	Data   []byte
}

// MaxFile is how large a data set may be, in bytes. It is held in memory.
const MaxFile = 1 << 30

// Read cuts a JSON Lines file into its rows. Blank lines are no rows but count as lines; a byte-order mark is taken off.
func Read(path string) ([]Line, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the data set: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading the data set %s: %w", path, err)
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("reading the data set %s: more than %d bytes; split it", path, MaxFile)
	}
	return Lines(data), nil
}

// Lines is [Read] of bytes.
func Lines(data []byte) []Line {
	var out []Line
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	for n := 1; len(data) > 0; n++ {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out = append(out, Line{n, line})
		}
	}
	return out
}
