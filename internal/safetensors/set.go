package safetensors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Ref is a tensor in a file.
type Ref struct {
	File   *File
	Tensor Tensor
}

// ReadAt fills p from byte off of the tensor, as File.ReadAt does.
func (r Ref) ReadAt(p []byte, off int64) error { return r.File.ReadAt(r.Tensor, p, off) }

// Lost is a tensor that a shard's header names and that cannot be read, because the shard ends too early.
type Lost struct {
	File   string // base name of the shard
	Tensor Tensor
	Cut    bool // its bytes reach beyond the end of the file; else they are there, but nothing vouches for them
}

// Set is the shards of one folder, as an index (or the lack of one) binds them. It is read-only after OpenSet: every
// method but Close may be called from any goroutine.
type Set struct {
	Dir      string
	Index    *Index // nil when the folder has none, or none that can be read
	Files    []*File
	Problems []Problem

	// Lost is what the headers of truncated shards name (rule file-truncated), in order of files and offsets, so that a
	// person can be shown what should be there. None of it is in Files, Lookup or Refs. A shard that was cut inside its
	// header names nothing.
	Lost []Lost

	promise map[string][]string // file -> tensors that the index puts into it, in no order
	absent  int                 // shards that are not there

	once  sync.Once
	place map[string]Ref
	refs  []Ref
}

// OpenSet opens every shard that belongs to the folder. Faults of the content become Problems; only a
// folder that cannot be read at all, or holds no safetensors file, is an error.
//
// Which shards belong to it is what vLLM would read (017e9f4448, model_loader/weight_utils.py
// filter_duplicate_safetensors_files): with an index exactly the files that it names, without one every *.safetensors
// that is not hidden. A shard with a fault becomes a Problem and is not in Files; the others are opened all the same.
func OpenSet(dir string) (*Set, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint folder: %w", err)
	}
	var present []string
	for _, e := range entries {
		// A shell's and Python's glob leave hidden files out, and so does the server.
		if name := e.Name(); strings.HasSuffix(name, ".safetensors") && !strings.HasPrefix(name, ".") {
			present = append(present, name)
		}
	}
	slices.SortFunc(present, NaturalCompare)
	s := &Set{Dir: dir}
	index, p := readIndex(dir)
	if p != nil {
		s.Problems = append(s.Problems, *p)
	}
	s.Index = index
	wanted := present
	if index != nil {
		s.promise = index.byFile()
		wanted = s.named()
	}
	if len(present) == 0 && index == nil && p == nil {
		return nil, fmt.Errorf("%s holds no .safetensors file and no %s: not a checkpoint folder, or an empty download", dir, IndexName)
	}
	for _, name := range wanted {
		s.open(name)
	}
	if n := s.absent - maxMissing; n > 0 {
		s.Problems = append(s.Problems, Problem{
			Rule: "shard-missing", Severity: SeverityError, File: index.Path,
			Message: fmt.Sprintf("%s more are missing", count(n, "shard")), Fix: copyAgain,
		})
	}
	s.judge(present, wanted, p != nil)
	return s, nil
}

// OpenFileSet opens one file as a set of its own, without looking at its neighbours. Unlike OpenSet it returns a fault of
// the file as an error.
func OpenFileSet(path string) (*Set, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	s := &Set{Dir: filepath.Dir(path), Files: []*File{f}}
	s.unaligned()
	return s, nil
}

// open opens one shard of the folder, or says why not.
func (s *Set) open(name string) {
	path := filepath.Join(s.Dir, name)
	f, cut, err := open(path)
	if err == nil {
		s.Files = append(s.Files, f)
		return
	}
	if cut != nil {
		for _, t := range cut.Tensors {
			s.Lost = append(s.Lost, Lost{File: name, Tensor: t, Cut: t.End > cut.Size-cut.DataStart})
		}
	}
	var p *Problem
	if !errors.As(err, &p) {
		p = unreadable(path, err)
	}
	problem := *p
	if s.Index != nil && (problem.Rule == "shard-missing" || problem.Rule == "link-dangling") {
		if problem.Rule == "shard-missing" {
			problem.Message = "shard missing"
		}
		n, list := s.promised(name)
		problem.Message += fmt.Sprintf(": the index puts %s into it: %s", n, list)
		s.missing(problem)
		return
	}
	s.Problems = append(s.Problems, problem)
}

// maxMissing is how many missing shards are told one by one. A hostile index can name a million.
const maxMissing = 1000

// missing takes a problem of a shard that is not there.
func (s *Set) missing(p Problem) {
	s.absent++
	if s.absent <= maxMissing {
		s.Problems = append(s.Problems, p)
	}
}

// Close closes every file of the set.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.Files {
		if err := f.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Lookup finds a tensor by name, listed in the index or not. Where two open files hold it, the one that the index names
// counts, else the last in natural order, which is the one whose bytes a server ends up with (such a set has a Problem
// stale-copy).
func (s *Set) Lookup(name string) (Ref, bool) {
	s.bind()
	r, ok := s.place[name]
	return r, ok
}

// Refs lists every tensor once, in natural name order (layer 2 before layer 10). The slice is the caller's.
func (s *Set) Refs() []Ref {
	s.bind()
	return slices.Clone(s.refs)
}

// bind settles once which file each name is read from.
func (s *Set) bind() {
	s.once.Do(func() {
		n := 0
		for _, f := range s.Files {
			n += len(f.Tensors)
		}
		s.place = make(map[string]Ref, n)
		for _, f := range s.Files {
			for _, t := range f.Tensors {
				if old, ok := s.place[t.Name]; ok && s.Index != nil && s.Index.WeightMap[t.Name] == old.File.Name {
					continue
				}
				s.place[t.Name] = Ref{f, t}
			}
		}
		s.refs = make([]Ref, 0, len(s.place))
		for _, r := range s.place {
			s.refs = append(s.refs, r)
		}
		slices.SortFunc(s.refs, func(a, b Ref) int { return NaturalCompare(a.Tensor.Name, b.Tensor.Name) })
	})
}
