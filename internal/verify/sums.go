package verify

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// sumsName is the list of SHA-256 that a published folder carries, in the form that sha256sum reads. It holds every file but
// itself, the model card and the record too; the record does not hold it.
const sumsName = "SHA256SUMS"

// mostSums is how large such a list may be.
const mostSums = 4 << 20

// readSums reads SHA256SUMS, when the folder has one.
func (j *judge) readSums(context.Context) error {
	data, err := safetensors.ReadRegular(filepath.Join(j.dir, sumsName), mostSums)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	wants := map[string]string{}
	scan := bufio.NewScanner(bytes.NewReader(data))
	for line := 1; scan.Scan(); line++ {
		sum, name, ok := strings.Cut(scan.Text(), " ")
		name = strings.TrimPrefix(strings.TrimPrefix(name, " "), "*") // text or binary mode
		if !ok || len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" || !filepath.IsLocal(name) || wants[name] != "" {
			j.add(playbook.New("sums-differ", sumsName, fmt.Sprintf("line %d is no hash of a file of this folder, or of one that was listed before", line), "copy the file again from where the folder was made"))
			return nil
		}
		wants[name] = sum
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("%s: %w", sumsName, err)
	}
	j.summed = wants
	return nil
}

// sums checks what SHA256SUMS says. A file that was checked by the record's own SHA-256 is not read again: the two lists
// are compared.
func (j *judge) sums(ctx context.Context) error {
	wants, names := j.summed, slices.Sorted(maps.Keys(j.summed))
	found := make([]model.FileHash, len(names))
	missing := make([]bool, len(names))
	known := func(i int) string {
		if j.record == nil {
			return ""
		}
		return j.record.Files[names[i]].SHA256
	}
	none := func(int) int64 { return 0 }
	err := j.each(ctx, "hash", len(names), none, func(i int, b *buffers) error {
		if known(i) != "" {
			found[i].SHA256 = known(i)
			return nil
		}
		var err error
		found[i], err = hashFile(ctx, filepath.Join(j.dir, filepath.FromSlash(names[i])), true, b)
		if errors.Is(err, fs.ErrNotExist) {
			missing[i], err = true, nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for i, name := range names {
		switch {
		case j.blamed[name] || j.notes.names(name, "hash-mismatch"): // it is told already
		case missing[i]:
			f := playbook.New("sums-differ", name, "the file is listed and is not there", "copy the folder again from where it was made")
			if !read(name) {
				f = f.As(playbook.Warning)
			}
			j.notes.join("gone", f)
		case found[i].SHA256 != wants[name]:
			f := playbook.New("sums-differ", name, "its SHA-256 is not the one that is listed: it was changed after the folder was made", "copy the file again from where the folder was made")
			if !read(name) && name != model.ProvenanceFile {
				f = f.As(playbook.Info)
				f.Message, f.Fix = "the file was edited after the folder was made", ""
			}
			j.notes.join("changed", f)
		}
	}
	return nil
}
