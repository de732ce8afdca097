package verify

import (
	"fmt"
	"slices"

	"seatsmith/internal/engine"
	"seatsmith/internal/playbook"
)

// patterns tells of entries that no engine of regular expressions compiles.
func (j *judge) patterns(q *engine.Quantization) {
	for _, p := range q.BadPatterns() {
		j.blameConfig()
		j.add(playbook.New("pattern-invalid", fmt.Sprintf("%s: %q", q.Key, p.Entry),
			fmt.Sprintf("it is no regular expression (%s): the server stops with regex.error at the first module that it asks about", p.Why),
			"correct the entry, or take it out"))
	}
}

// unjudged picks, of what the block may say about a module that a pattern leaves open, the outcome that what is stored
// fits: nobody knows whether the server builds the module so, but if it does the module must be whole. fits is false when
// no outcome goes with what is stored; then the first one is returned.
func (j *judge) unjudged(i int, k kind) (r engine.Resolution, fits bool) {
	l, by := &j.srv.Linears[i], j.resolved[i].By
	if !slices.ContainsFunc(j.quant.BadPatterns(), func(p engine.BadPattern) bool { return p.Entry == by }) {
		j.notes.join(by, playbook.New("pattern-unjudged", by,
			fmt.Sprintf("the pattern uses Python syntax that cannot be run here with the same meaning, so nobody knows what becomes of %s", l.Runtime),
			"write the entry without look-around, back-references and set operations, or as exact names"))
	}
	j.skip("modules that the pattern "+by+" may match", true)
	possible := j.bound.Possible(l)
	var same []engine.Resolution
	for _, p := range possible {
		if p.State != engine.Refused && kindFor(p.Scheme) == k {
			same = append(same, p)
		}
	}
	for _, p := range same {
		if j.whole(i, p.Scheme) {
			return p, true
		}
	}
	switch {
	case len(same) > 0:
		return same[0], true
	case len(possible) > 0:
		return possible[0], false
	}
	return engine.Resolution{}, false
}

// whole says whether a module's stored tensors are those of the scheme, without a finding.
func (j *judge) whole(i int, s engine.Scheme) bool {
	for n, sh := range j.srv.Linears[i].Shards {
		needs, have := s.Tensors(sh.Out, sh.In), j.stored[i][n]
		if len(have) != len(needs) && (have["bias"] == nil || len(have) != len(needs)+1) {
			return false
		}
		for _, need := range needs {
			t := have[need.Suffix]
			if t == nil || !slices.Contains(need.Dtypes, t.Dtype()) || !slices.ContainsFunc(need.Shapes, func(shape []int64) bool { return slices.Equal(shape, t.Shape()) }) {
				return false
			}
		}
	}
	return true
}
