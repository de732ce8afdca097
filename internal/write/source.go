package write

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"seatsmith/internal/model"
	"seatsmith/internal/safetensors"
)

// identity is what tells a file from a later state of it, or from another file of the same name, without reading it. The
// inode is there for files whose times were all set to one moment, as images and stores do.
type identity struct {
	Bytes   int64  `json:"bytes"`
	MtimeNS int64  `json:"mtime_ns"`
	Inode   uint64 `json:"inode,omitempty"`
}

// same says whether the file is as it was. Within a run it stays open, so a path that leads to another inode by now is
// no harm, and on some network file systems inodes change by themselves.
func (id identity) same(now identity) bool { return id.Bytes == now.Bytes && id.MtimeNS == now.MtimeNS }

// sources remembers the state of every source file when the run began.
type sources struct {
	ids map[*safetensors.File]identity
}

// snapshot looks at the files that c reads, links followed, and refuses those that are no longer what was opened.
func snapshot(c *check) (*sources, error) {
	s := &sources{ids: map[*safetensors.File]identity{}}
	for _, sh := range c.shards {
		for _, w := range sh.works {
			for _, f := range w.files() {
				if _, ok := s.ids[f]; ok {
					continue
				}
				id, err := identify(f.Path)
				if err != nil {
					return nil, fmt.Errorf("tensor %s: %w", w.item.Source, err)
				}
				if id.Bytes != f.Size {
					return nil, fmt.Errorf("%w: %s had %d bytes when it was opened and has %d now (tensor %s was to be read from it): start again when it is at rest",
						ErrSourceChanged, f.Path, f.Size, id.Bytes, w.item.Source)
				}
				s.ids[f] = id
			}
		}
	}
	for _, f := range c.companions {
		if _, err := identify(f.Path); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// identify stats a regular file through links; a link without a target is named as such.
func identify(path string) (identity, error) {
	info, err := os.Stat(path)
	if err != nil {
		if target, lerr := os.Readlink(path); lerr == nil && errors.Is(err, fs.ErrNotExist) {
			return identity{}, fmt.Errorf("%s is a dangling link to %s: fetch the file again", path, target)
		}
		return identity{}, fmt.Errorf("looking at a source file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return identity{}, fmt.Errorf("%s is not a regular file", path)
	}
	id := identity{Bytes: info.Size(), MtimeNS: info.ModTime().UnixNano()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		id.Inode = s.Ino
	}
	return id, nil
}

// unchanged checks the files of a shard against the snapshot.
func (s *sources) unchanged(sh *shard) error {
	seen := map[*safetensors.File]bool{}
	for _, w := range sh.works {
		for _, f := range w.files() {
			if seen[f] {
				continue
			}
			seen[f] = true
			id, err := identify(f.Path)
			if err != nil {
				return fmt.Errorf("%w while tensor %s was read: %w", ErrSourceChanged, w.item.Source, err)
			}
			if !s.ids[f].same(id) {
				return fmt.Errorf("%w while it was read: %s (%d bytes, was %d; tensor %s is in it): start again when the file is at rest",
					ErrSourceChanged, f.Path, id.Bytes, s.ids[f].Bytes, w.item.Source)
			}
		}
	}
	return nil
}

// of lists the identities of a shard's sources, by origin and file name.
func (s *sources) of(sh *shard) map[string]identity {
	ids := map[string]identity{}
	for _, w := range sh.works {
		ids[sourceKey(w.item.Origin, w.ref.File)] = s.ids[w.ref.File]
		if w.scale != nil {
			ids[sourceKey(w.scale.origin, w.scale.ref.File)] = s.ids[w.scale.ref.File]
		}
	}
	return ids
}

func sourceKey(o model.Origin, f *safetensors.File) string { return string(o) + "/" + f.Name }
