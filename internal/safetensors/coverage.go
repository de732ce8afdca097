package safetensors

import (
	"cmp"
	"slices"
)

// span is the bytes [begin, end).
type span struct{ begin, end int64 }

// coverage is the set of a tensor's bytes that have been written: sorted spans that neither overlap nor touch, so a
// tensor written front to back by several goroutines needs about as many spans as there are goroutines.
type coverage struct{ spans []span }

// add takes s into the set. When a byte of it is there already, the set stays as it is and clash is the first span that
// is in both.
func (c *coverage) add(s span) (clash span, ok bool) {
	if s.begin == s.end {
		return span{}, true
	}
	// i is the first span that ends after s begins; a span that only touches s from the left is before it.
	i, _ := slices.BinarySearchFunc(c.spans, s.begin, func(x span, begin int64) int {
		return cmp.Or(cmp.Compare(x.end, begin), -1)
	})
	if i < len(c.spans) && c.spans[i].begin < s.end {
		return span{max(s.begin, c.spans[i].begin), min(s.end, c.spans[i].end)}, false
	}
	left := i > 0 && c.spans[i-1].end == s.begin
	right := i < len(c.spans) && c.spans[i].begin == s.end
	switch {
	case left && right:
		c.spans[i-1].end = c.spans[i].end
		c.spans = slices.Delete(c.spans, i, i+1)
	case left:
		c.spans[i-1].end = s.end
	case right:
		c.spans[i].begin = s.begin
	default:
		c.spans = slices.Insert(c.spans, i, s)
	}
	return span{}, true
}

// gap is the first run of bytes of [0, size) that is not in the set.
func (c *coverage) gap(size int64) (span, bool) {
	at := int64(0)
	for _, s := range c.spans {
		if s.begin > at {
			return span{at, s.begin}, true
		}
		at = s.end
	}
	if at < size {
		return span{at, size}, true
	}
	return span{}, false
}
