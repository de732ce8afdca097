package safetensors

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// IndexName is the file that says which shard holds which tensor.
const IndexName = "model.safetensors.index.json"

// Index is model.safetensors.index.json.
type Index struct {
	Path      string
	TotalSize int64 // metadata.total_size, -1 when absent
	WeightMap map[string]string
}

// Files lists the file names that the index gives, each once, in natural order.
func (x *Index) Files() []string {
	return slices.SortedFunc(maps.Keys(x.byFile()), NaturalCompare)
}

// byFile turns the weight map around: the tensors of each file, in no order.
func (x *Index) byFile() map[string][]string {
	out := map[string][]string{}
	for name, file := range x.WeightMap {
		out[file] = append(out[file], name)
	}
	return out
}

// readIndex reads the index of a folder; nil, nil when there is none.
func readIndex(dir string) (*Index, *Problem) {
	path := filepath.Join(dir, IndexName)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	f, size, p := openRegular(path)
	if p != nil {
		if p.Rule == "file-not-safetensors" {
			p.Rule, p.Message = "index-syntax", strings.Replace(p.Message, "not a safetensors file", "not an index", 1)
		}
		return nil, p
	}
	defer f.Close()
	fault := func(message string) *Problem {
		return &Problem{Rule: "index-syntax", Severity: SeverityError, File: path, Message: message, Fix: "write the index again from the shards' headers, or get another copy"}
	}
	if size > maxHeader {
		return nil, fault(fmt.Sprintf("the index has %d bytes; at most %d are read", size, maxHeader))
	}
	text, err := readText(f, 0, size)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if p := sniff([]byte(text[:min(len(text), sniffLen)]), size, path); p != nil {
		if p.Rule == "file-not-safetensors" {
			p.Rule, p.Message = "index-syntax", strings.Replace(p.Message, ", not a safetensors file", ", not an index", 1)
		}
		return nil, p
	}
	if !utf8.ValidString(text) {
		return nil, fault("the index is not valid UTF-8")
	}
	x, err := parseIndex(text)
	if err != nil {
		return nil, fault("the index cannot be read: " + err.Error())
	}
	x.Path = path
	return x, nil
}

// parseIndex reads {"metadata": {"total_size": n}, "weight_map": {tensor: file}}; other keys are legal and not looked at.
func parseIndex(text string) (*Index, error) {
	x := &Index{TotalSize: -1}
	sc := scanner{s: text}
	seen := map[string]bool{}
	err := sc.object(func(key string) error {
		if seen[key] {
			return &duplicateError{"the key " + quote(key)}
		}
		seen[key] = true
		switch key {
		case "metadata":
			if sc.peek() != '{' {
				return sc.skip(0)
			}
			return sc.object(func(key string) (err error) {
				if key != "total_size" {
					return sc.skip(0)
				}
				x.TotalSize, err = sc.wholeNumber()
				return err
			})
		case "weight_map":
			x.WeightMap = make(map[string]string, min(strings.Count(text, ":"), len(text)/8))
			names := map[string]string{} // one string per file, not one per tensor
			return sc.object(func(key string) error {
				if _, ok := x.WeightMap[key]; ok {
					return &duplicateError{"the tensor " + quote(key) + " of weight_map"}
				}
				if sc.peek() != '"' {
					return sc.errorf("weight_map gives no file name for tensor %s", quote(key))
				}
				file, err := sc.str()
				if err != nil {
					return err
				}
				name, ok := names[file]
				if !ok {
					name = strings.Clone(file)
					names[name] = name
				}
				x.WeightMap[key] = name
				return nil
			})
		}
		return sc.skip(0)
	})
	if err != nil {
		return nil, err
	}
	sc.space()
	switch {
	case sc.i != len(text):
		return nil, sc.unexpected("the end")
	case x.WeightMap == nil:
		return nil, sc.errorf("there is no weight_map")
	}
	return x, nil
}

// wholeNumber takes any value; a number that is whole and fits, also one spelled 1.5e9, is its result, anything else is
// -1. Writers differ here, and no loader reads total_size.
func (sc *scanner) wholeNumber() (int64, error) {
	if c := sc.peek(); c != '-' && !isDigit(c) {
		return -1, sc.skip(0)
	}
	text, err := sc.float()
	if err != nil || len(text) > 40 {
		return -1, err
	}
	f, _, err := big.ParseFloat(text, 10, 128, big.ToNearestEven)
	if err != nil || !f.IsInt() {
		return -1, nil
	}
	if n, accuracy := f.Int64(); accuracy == big.Exact && n >= 0 {
		return n, nil
	}
	return -1, nil
}
