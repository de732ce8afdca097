package engine

import (
	"fmt"
	"strings"
)

// entries is a list of ignore entries or targets as the server sees it after mapping: exact names and patterns.
type entries struct {
	list     []entry
	exact    map[string]int // mapped name -> first index
	patterns []int
}

// entry is one entry with both spellings.
type entry struct {
	written string // as it stands in config.json
	mapped  string // after Mapper.Entry
	re      *pattern
}

func newEntries(m Mapper, written []string, compiled map[string]*pattern) entries {
	e := entries{exact: map[string]int{}}
	for i, w := range written {
		it := entry{written: w, mapped: m.Entry(w)}
		if text, ok := strings.CutPrefix(w, "re:"); ok {
			it.re = compiled[text]
			e.patterns = append(e.patterns, i)
		} else if _, seen := e.exact[it.mapped]; !seen {
			e.exact[it.mapped] = i
		}
		e.list = append(e.list, it)
	}
	return e
}

// matches is check_equal_or_regex_match: equality, or re.match for an entry that starts "re:", with any entry. which is
// the entry that said yes, or the first that could not be judged.
func (e *entries) matches(name string) (a Answer, which string) {
	if i, ok := e.exact[name]; ok {
		return Yes, e.list[i].written
	}
	a = No
	for _, i := range e.patterns {
		switch e.list[i].re.match(name) {
		case Yes:
			return Yes, e.list[i].written
		case Unknown:
			if a == No {
				a, which = Unknown, e.list[i].written
			}
		}
	}
	return a, which
}

// PartialError is the server's refusal of a fused module of which the ignore list covers only some shards.
type PartialError struct {
	Runtime   string
	Ignored   []string // runtime names of the shards that an entry covers
	Uncovered []string
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("%s is fused: the ignore list covers %s but not %s", e.Runtime, strings.Join(e.Ignored, ", "), strings.Join(e.Uncovered, ", "))
}

// ignored is should_ignore_layer (vLLM 017e9f4448, compressed_tensors/utils.py): a fused module is asked by its shard
// names, unless its own name stands in the list word for word; shards that disagree are a ValueError. No entry is a
// prefix or a glob.
func ignored(layer string, e *entries, packed []Packed) (a Answer, which string, err error) {
	last := layer[strings.LastIndexByte(layer, '.')+1:]
	shards := lookupPacked(packed, last)
	if _, whole := e.exact[layer]; shards == nil || whole {
		a, which = e.matches(layer)
		return a, which, nil
	}
	var yes, no, unsure []string
	for _, s := range shards {
		name := strings.ReplaceAll(layer, last, s)
		switch got, by := e.matches(name); got {
		case Yes:
			yes, which = append(yes, name), by
		case No:
			no = append(no, name)
		default:
			unsure = append(unsure, by)
		}
	}
	switch {
	case len(yes) > 0 && len(no) > 0:
		return No, "", &PartialError{Runtime: layer, Ignored: yes, Uncovered: no}
	case len(unsure) > 0:
		return Unknown, unsure[0], nil
	case len(yes) > 0:
		return Yes, which, nil
	}
	return No, "", nil
}

func lookupPacked(packed []Packed, last string) []string {
	for _, p := range packed {
		if p.Fused == last {
			return p.Shards
		}
	}
	return nil
}

// step says how a target was found. A lower step beats a higher one, whatever the order of the groups.
type step int

const (
	stepNone  step = iota
	stepName       // equality or pattern on the module's own name
	stepFused      // every shard of a fused module matches
	stepClass      // the name of the module's class contains the target, upper and lower case alike
)

// match is a target that was found.
type match struct {
	target int // index in the list of targets
	step   step
}

// findTarget is find_matched_target (utils.py): by name, then by shards, then by class; the first in the order of the
// groups wins inside a step. unsure names a pattern that could not be judged and stands where it could have won.
func findTarget(layer, class string, e *entries, packed []Packed) (m match, found bool, unsure string) {
	first := func(name string, contains bool) (int, string) {
		for i := range e.list {
			it := &e.list[i]
			switch {
			case it.re != nil:
				switch it.re.match(name) {
				case Yes:
					return i, ""
				case Unknown:
					return -1, it.written
				}
			case contains:
				if strings.Contains(strings.ToLower(name), strings.ToLower(it.mapped)) {
					return i, ""
				}
			case it.mapped == name:
				return i, ""
			}
		}
		return -1, ""
	}
	if i, u := first(layer, false); i >= 0 || u != "" {
		return match{i, stepName}, i >= 0, u
	}
	for _, p := range packed {
		if !strings.HasSuffix(layer, p.Fused) {
			continue
		}
		// the first key that the name ends with decides, as in _match_fused_layer
		target := -1
		for k, s := range p.Shards {
			i, u := first(strings.ReplaceAll(layer, p.Fused, s), false)
			if u != "" {
				return match{}, false, u
			}
			if i < 0 {
				target = -1
				break
			}
			if k == 0 {
				target = i
			}
		}
		if target >= 0 {
			return match{target, stepFused}, true, ""
		}
		break
	}
	if i, u := first(class, true); i >= 0 || u != "" {
		return match{i, stepClass}, i >= 0, u
	}
	return match{}, false, ""
}

// allTargets lists every target that matches at the given step, for the report on overlapping groups.
func allTargets(layer, class string, e *entries, packed []Packed, at step) []int {
	var out []int
	for i := range e.list {
		one := entries{list: e.list[i : i+1]}
		if m, ok, _ := findTarget(layer, class, &one, packed); ok && m.step == at {
			out = append(out, i)
		}
	}
	return out
}
