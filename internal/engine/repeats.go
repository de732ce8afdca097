package engine

import (
	"encoding/json"
	"strings"
)

// repeated finds the first key that an object in raw repeats, with its path. The server keeps the last of them, others
// keep the first: such a block means two things, so nobody can judge it.
func repeated(raw string) string {
	dec := json.NewDecoder(strings.NewReader(raw))
	path, _ := walk(dec)
	return path
}

// walk reads one value; it returns the path of a repeated key below it.
func walk(dec *json.Decoder) (string, error) {
	tok, err := dec.Token()
	if err != nil {
		return "", err
	}
	open, ok := tok.(json.Delim)
	if !ok {
		return "", nil
	}
	seen := map[string]bool{}
	for dec.More() {
		step := "[]"
		if open == '{' {
			key, err := dec.Token()
			if err != nil {
				return "", err
			}
			name, _ := key.(string)
			if seen[name] {
				return "." + name, nil
			}
			seen[name], step = true, "."+name
		}
		if below, err := walk(dec); below != "" || err != nil {
			if below != "" {
				return step + below, err
			}
			return "", err
		}
	}
	_, err = dec.Token()
	return "", err
}
