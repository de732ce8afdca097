package safetensors

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// named is the files that the index names and that may be opened: plain names of .safetensors files in the folder. The
// others become Problems.
func (s *Set) named() []string {
	var good, escaping []string
	for _, name := range s.Index.Files() {
		switch {
		case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"):
			escaping = append(escaping, name)
		case !strings.HasSuffix(name, ".safetensors") || strings.HasPrefix(name, "."):
			n, list := s.promised(name)
			s.missing(Problem{
				Rule: "shard-missing", Severity: SeverityError, File: filepath.Join(s.Dir, name),
				Message: fmt.Sprintf("the index puts %s into this file (%s), but loaders look only at *.safetensors", n, list),
				Fix:     "convert the file to safetensors and correct the index",
			})
		default:
			good = append(good, name)
		}
	}
	if len(escaping) > 0 {
		tensors := 0
		for _, name := range escaping {
			tensors += len(s.promise[name])
		}
		s.Problems = append(s.Problems, Problem{
			Rule: "path-escape", Severity: SeverityError, File: s.Index.Path,
			Message: fmt.Sprintf("the index names %s outside its folder (%s): %s; not opened", count(len(escaping), "file"), count(tensors, "tensor"), namelist(escaping, len(escaping))),
			Fix:     "an index may name only files beside it: do not trust this checkpoint, or correct the index",
		})
	}
	return good
}

// promised spells how many tensors the index puts into a file, and the first of them.
func (s *Set) promised(file string) (n, list string) {
	names := slices.SortedFunc(slices.Values(s.promise[file]), NaturalCompare)
	return count(len(names), "tensor"), namelist(names, len(names))
}

// judge compares the index, the open shards and the folder's other files. present is every *.safetensors of the folder,
// wanted those that belong to it; broken says that there is an index which cannot be read.
func (s *Set) judge(present, wanted []string, broken bool) {
	if s.Index == nil {
		s.withoutIndex(present, broken)
	} else {
		s.againstIndex()
		s.leftovers(present)
		s.numbering(wanted, "the index names", s.Index.Path)
	}
	s.unaligned()
}

// withoutIndex judges a folder whose files are all read.
func (s *Set) withoutIndex(present []string, broken bool) {
	if !broken && len(present) >= 2 {
		s.Problems = append(s.Problems, Problem{
			Rule: "index-missing", Severity: SeverityWarning, File: filepath.Join(s.Dir, IndexName),
			Message: fmt.Sprintf("%d shards and no index: a missing shard would not be noticed", len(present)),
			Fix:     "write an index from the shards' headers, or copy the source's",
		})
	}
	s.numbering(present, "the folder holds", s.Dir)
	holder := map[string]string{}
	for _, f := range s.Files {
		var names []string
		other := ""
		for _, t := range f.Tensors {
			if first, ok := holder[t.Name]; ok {
				names = append(names, t.Name)
				other = first
			} else {
				holder[t.Name] = f.Name
			}
		}
		if len(names) > 0 {
			s.stale(f, names, fmt.Sprintf("%s of %s that %s holds too", plural(len(names), "copy", "copies"), count(len(names), "tensor"), other))
		}
	}
}

// againstIndex compares every open shard with the index, both ways.
func (s *Set) againstIndex() {
	open := map[string]*File{}
	for _, f := range s.Files {
		open[f.Name] = f
	}
	inVain, total := 0, int64(0)
	counted := map[string]bool{}
	for _, f := range s.Files {
		inVain += s.lacking(f)
		s.surplus(f, open)
		for _, t := range f.Tensors {
			if !counted[t.Name] {
				counted[t.Name] = true
				total += t.Bytes()
			}
		}
	}
	// With a shard or a tensor missing the sum means nothing, and that has been told already.
	whole := len(s.Files) == len(s.promise) && inVain == 0
	if whole && s.Index.TotalSize >= 0 && s.Index.TotalSize != total {
		s.Problems = append(s.Problems, Problem{
			Rule: "index-size", Severity: SeverityWarning, File: s.Index.Path,
			Message: fmt.Sprintf("metadata.total_size says %d bytes, the tensors have %d", s.Index.TotalSize, total),
			Fix:     "write the index again; loaders do not read the number, download tools do",
		})
	}
}

// lacking reports the tensors that the index puts into f in vain, and counts them.
func (s *Set) lacking(f *File) int {
	var names []string
	for _, name := range s.promise[f.Name] {
		if _, held := f.Lookup(name); !held {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return 0
	}
	slices.SortFunc(names, NaturalCompare)
	message := fmt.Sprintf("the index maps %s to %s, which does not hold %s: %s", count(len(names), "tensor"), f.Name, pronoun(names), namelist(names, len(names)))
	if other := s.holder(names[0]); other != "" {
		message += fmt.Sprintf("; %s holds %s", other, quote(names[0]))
	}
	s.Problems = append(s.Problems, Problem{
		Rule: "index-wrong", Severity: SeverityError, File: f.Path, Tensor: names[0], Message: message,
		Fix: "write the index again from the shards' headers, or get the right shard",
	})
	return len(names)
}

// surplus reports the tensors of f that the index does not list, and those that it gives to another file. A tensor that
// the other file turns out not to hold is no stale copy but the only one; lacking tells of it.
func (s *Set) surplus(f *File, open map[string]*File) {
	var unlisted, stale []string
	for _, t := range f.Tensors {
		owner, listed := s.Index.WeightMap[t.Name]
		switch {
		case !listed:
			unlisted = append(unlisted, t.Name)
		case owner != f.Name:
			held := true // by a file that is not open, for all we know
			if other, ok := open[owner]; ok {
				_, held = other.Lookup(t.Name)
			}
			if held {
				stale = append(stale, t.Name)
			}
		}
	}
	if len(unlisted) > 0 {
		slices.SortFunc(unlisted, NaturalCompare)
		s.Problems = append(s.Problems, Problem{
			Rule: "index-unlisted", Severity: SeverityWarning, File: f.Path, Tensor: unlisted[0],
			Message: fmt.Sprintf("the shard holds %s that the index does not list, which loaders read all the same: %s", count(len(unlisted), "tensor"), namelist(unlisted, len(unlisted))),
			Fix:     "write the index again from the shards' headers, or take the tensors out of the shard",
		})
	}
	if len(stale) > 0 {
		slices.SortFunc(stale, NaturalCompare)
		s.stale(f, stale, fmt.Sprintf("%s in %s, but the index gives %s to another shard (%s to %s)",
			plural(len(stale), "stale copy", "stale copies"), f.Name, pronoun(stale), quote(stale[0]), s.Index.WeightMap[stale[0]]))
	}
}

// stale reports copies of tensors that belong to another shard.
func (s *Set) stale(f *File, names []string, message string) {
	s.Problems = append(s.Problems, Problem{
		Rule: "stale-copy", Severity: SeverityError, File: f.Path, Tensor: names[0],
		Message: message + ": " + namelist(names, len(names)) + "; loaders read every tensor of an opened shard and the last one wins",
		Fix:     "write the shard again without them; an index cannot hide a tensor",
	})
}

// holder is the name of an open file that holds a tensor, "" when none does.
func (s *Set) holder(tensor string) string {
	for _, f := range s.Files {
		if _, ok := f.Header.Lookup(tensor); ok {
			return f.Name
		}
	}
	return ""
}

// maxListed is how many leftover files a message lists.
const maxListed = 20

// leftovers lists the safetensors files that the index does not name.
func (s *Set) leftovers(present []string) {
	named := s.promise
	var names []string
	var total int64
	for _, name := range present {
		if _, ok := named[name]; ok {
			continue
		}
		info, err := os.Stat(filepath.Join(s.Dir, name))
		switch {
		case err != nil:
			names = append(names, quote(name)+" (cannot be read)")
		case !info.IsDir():
			names = append(names, fmt.Sprintf("%s (%d bytes)", quote(name), info.Size()))
			total += info.Size()
		}
	}
	if len(names) == 0 {
		return
	}
	more := ""
	if len(names) > maxListed {
		more = fmt.Sprintf(" and %d more", len(names)-maxListed)
	}
	s.Problems = append(s.Problems, Problem{
		Rule: "shard-leftover", Severity: SeverityWarning, File: s.Index.Path,
		Message: fmt.Sprintf("the index does not name %s, %d bytes in all, which loaders never read: %s", count(len(names), "file"), total, strings.Join(names[:min(len(names), maxListed)], ", ")+more),
		Fix:     "move the files away, or write an index that names them if their tensors belong to the model",
	})
}

// numbering compares the numbers in shard names (model-00001-of-00005.safetensors) with the shards that there are. The
// numbers may begin at 0 or at 1.
func (s *Set) numbering(names []string, where, subject string) {
	type series struct {
		prefix string
		total  int
	}
	found := map[series]map[int]bool{}
	var order []series
	for _, name := range names {
		if prefix, n, total, ok := shardNumber(name); ok {
			k := series{prefix, total}
			if found[k] == nil {
				found[k] = map[int]bool{}
				order = append(order, k)
			}
			found[k][n] = true
		}
	}
	message, incomplete := "", 0
	for _, k := range order {
		if complete(found[k], k.total) {
			continue
		}
		if incomplete++; incomplete > 1 {
			continue
		}
		message = fmt.Sprintf("file names say %s (%s), %s %d", count(k.total, "shard"), quote(fmt.Sprintf("%s-…-of-%05d", k.prefix, k.total)), where, len(found[k]))
		message += firstMissing(found[k], k.total)
	}
	if incomplete > 1 {
		message += fmt.Sprintf("; %d more such sets are incomplete", incomplete-1)
	}
	if incomplete > 0 {
		s.Problems = append(s.Problems, Problem{
			Rule: "shard-numbering", Severity: SeverityError, File: subject, Message: message,
			Fix: "get the missing shards and the index that belongs to them",
		})
	}
}

// complete says whether these numbers are a whole set of total shards: 1 to total as transformers counts, 0 to total-1 as
// some published models do (unslothai/unsloth#10857), or 0 to total, where the name says the last number.
func complete(numbers map[int]bool, total int) bool {
	first := 1
	if numbers[0] {
		first = 0
	}
	if n := len(numbers); n != total && (first == 1 || n != total+1) {
		return false
	}
	for n := range len(numbers) {
		if !numbers[first+n] {
			return false
		}
	}
	return true
}

// firstMissing names the first number that is absent from a set that is not complete, "" when there are only too many.
func firstMissing(numbers map[int]bool, total int) string {
	first := 1
	if numbers[0] {
		first = 0
	}
	for n := first; n < first+total; n++ {
		switch {
		case numbers[n]:
		case n == total && len(numbers) == total-1 && total > 1:
			return fmt.Sprintf("; number %d is missing, or number 0 if they count from 0", n)
		default:
			return fmt.Sprintf("; the first missing is number %d", n)
		}
	}
	return ""
}

// shardNumber reads prefix-N-of-TOTAL.safetensors.
func shardNumber(name string) (prefix string, n, total int, ok bool) {
	stem, isFile := strings.CutSuffix(name, ".safetensors")
	rest, last, hasOf := cutLast(stem, "-of-")
	prefix, number, hasNumber := cutLast(rest, "-")
	if !isFile || !hasOf || !hasNumber || len(number) > 9 || len(last) > 9 ||
		number == "" || last == "" || digits(number) != number || digits(last) != last {
		return "", 0, 0, false
	}
	n, _ = strconv.Atoi(number)
	total, _ = strconv.Atoi(last)
	return prefix, n, total, true
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+len(sep):], true
}

// unaligned tells of files whose data cannot be looked at in place.
func (s *Set) unaligned() {
	for _, f := range s.Files {
		n := f.Unaligned()
		if n == 0 && f.DataStart%8 == 0 {
			continue
		}
		s.Problems = append(s.Problems, Problem{
			Rule: "data-unaligned", Severity: SeverityInfo, File: f.Path,
			Message: fmt.Sprintf("unaligned: the data starts at byte %d (%d mod 8 = %d), %d of %s not aligned to the element size", f.DataStart, f.DataStart, f.DataStart%8, n, count(len(f.Tensors), "tensor")),
			Fix:     "",
		})
	}
}

func pronoun(names []string) string {
	if len(names) == 1 {
		return "it"
	}
	return "them"
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
