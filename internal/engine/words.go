package engine

import (
	"fmt"
	"strings"
)

// maxWords bounds a command line.
const maxWords = 10_000

// Words splits a command as a POSIX shell does: quotes, backslashes, a backslash at the end of a line, # to the end of a
// line. What a shell would expand (variables, globs, commands) stays as it is. The error names an open quote.
func Words(line string) ([]string, error) {
	var out []string
	var w strings.Builder
	open, quote := false, byte(0)
	flush := func() {
		if open {
			out = append(out, w.String())
			w.Reset()
			open = false
		}
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == '\'':
			if c == '\'' {
				quote = 0
			} else {
				w.WriteByte(c)
			}
		case c == '\\' && i+1 < len(line):
			i++
			if line[i] == '\r' && i+1 < len(line) && line[i+1] == '\n' {
				i++
			}
			if line[i] == '\n' {
				continue
			}
			if quote == '"' && strings.IndexByte("\"\\$`", line[i]) < 0 {
				w.WriteByte('\\')
			}
			w.WriteByte(line[i])
			open = true
		case quote == '"':
			if c == '"' {
				quote = 0
			} else {
				w.WriteByte(c)
			}
		case c == '\'' || c == '"':
			quote, open = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			flush()
		case c == '#' && !open:
			for i < len(line) && line[i] != '\n' {
				i++
			}
		default:
			w.WriteByte(c)
			open = true
		}
		if len(out) > maxWords {
			return nil, fmt.Errorf("more than %d words", maxWords)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a %c is open to the end", quote)
	}
	flush()
	return out, nil
}
