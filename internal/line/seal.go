package line

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"seatsmith/internal/atomicfile"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
)

// sumsFile lists the SHA-256 of every file of a published folder but itself, in the form that sha256sum -c reads.
//
// The order in which the records are made leaves no circle: seatsmith.json holds the hashes of weights, configuration and
// companions; the card is written from what verify says of those; SHA256SUMS holds the hashes of all of them, the card and
// seatsmith.json included. Neither of the first two names the third.
const sumsFile = "SHA256SUMS"

// seal writes the card and the sums into a folder that has been judged. A link, or anything that is no plain file, is
// refused: what is published must not depend on what lies elsewhere.
func seal(ctx context.Context, dir string, c *card) ([]playbook.Finding, error) {
	page, err := c.render()
	if err != nil {
		return nil, err
	}
	if err := atomicfile.WriteFile(filepath.Join(dir, cardFile), page, 0o644); err != nil {
		return nil, fmt.Errorf("writing the model card: %w", err)
	}
	known, err := recordedSums(dir)
	if err != nil {
		return nil, err
	}
	names, odd, err := plainFiles(dir)
	if err != nil || len(odd) > 0 {
		return odd, err
	}
	var sums bytes.Buffer
	for _, name := range names {
		sum := known[name]
		if sum == "" {
			if sum, err = sha256Of(ctx, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, name)
	}
	if err := atomicfile.WriteFile(filepath.Join(dir, sumsFile), sums.Bytes(), 0o644); err != nil {
		return nil, fmt.Errorf("writing %s: %w", sumsFile, err)
	}
	return nil, nil
}

// recordedSums are the SHA-256 that the writer computed while it read its shards back.
func recordedSums(dir string) (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, model.ProvenanceFile))
	if err != nil {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	var p model.Provenance
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	out := map[string]string{}
	for name, h := range p.Files {
		if h.SHA256 != "" {
			out[name] = h.SHA256
		}
	}
	return out, nil
}

// plainFiles lists the files of an unfinished folder by their names below it, without the writer's own journal; odd is
// what is no plain file.
func plainFiles(dir string) (names []string, odd []playbook.Finding, err error) {
	err = filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		switch {
		case d.IsDir():
		case !d.Type().IsRegular():
			odd = append(odd, playbook.New("link-published", name, "it is a "+d.Type().String()+" and no plain file: a folder that is published must not depend on what lies elsewhere", "remove it, and run the same command again"))
		case name != sumsFile && name[0] != '.': // hidden: the writer's journal, which is gone before the folder has its name
			names = append(names, name)
		}
		return nil
	})
	slices.Sort(names)
	return names, odd, err
}

func sha256Of(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	buf := make([]byte, 1<<20)
	for {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		n, err := f.Read(buf)
		h.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", fmt.Errorf("hashing %s: %w", path, err)
		}
	}
}
