package token

import (
	"container/heap"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Encoder encodes texts on one goroutine; it remembers the words it met.
type Encoder struct {
	t     *Tokenizer
	cache map[string]span
	arena []int32
	ids   []int32
	ranks []merge
	out   []int32
}

type span struct{ from, to int32 }

// The cache is emptied when it holds that many words; longer words are not kept.
const (
	maxCached  = 1 << 16
	maxCacheID = 1 << 20
	longWord   = 64 // bytes; longer words are merged through a heap
)

// NewEncoder makes an encoder with an empty cache.
func (t *Tokenizer) NewEncoder() *Encoder {
	return &Encoder{t: t, cache: make(map[string]span, 1024)}
}

// Encode appends the ids of a text, without the special tokens that a post-processor would add: a rendered chat template
// holds its own. The text must be UTF-8, as every Python string that can be tokenized is.
func (e *Encoder) Encode(dst []int32, text string) ([]int32, error) {
	if !utf8.ValidString(text) {
		return dst, fmt.Errorf("the text is not UTF-8")
	}
	if len(text) > math.MaxInt32 {
		return dst, fmt.Errorf("the text has %d bytes; at most 2 GiB are encoded at once", len(text))
	}
	e.out = dst
	err := e.t.early.split(text, e.segment, e.token)
	dst, e.out = e.out, nil
	return dst, err
}

// EncodeDocument is [Encoder.Encode] with the special tokens of a TemplateProcessing post-processor around it.
func (e *Encoder) EncodeDocument(dst []int32, text string) ([]int32, error) {
	dst, err := e.Encode(append(dst, e.t.before...), text)
	return append(dst, e.t.after...), err
}

func (e *Encoder) token(a Added, _, _ int) { e.out = append(e.out, a.ID) }

// segment is text between raw added tokens.
func (e *Encoder) segment(s string) error {
	if e.t.nfc {
		s = normalize(s)
	}
	return e.t.late.split(s, e.plain, e.token)
}

func (e *Encoder) plain(s string) error { return e.splitFrom(0, s) }

// splitFrom runs the split expressions one inside the other, and ByteLevel's own last.
func (e *Encoder) splitFrom(i int, s string) error {
	switch {
	case i < len(e.t.splits)-1 || i < len(e.t.splits) && (e.t.prefixSpace || e.t.gpt2):
		return e.t.splits[i](s, func(piece string) error { return e.splitFrom(i+1, piece) })
	case i < len(e.t.splits):
		return e.t.splits[i](s, e.word)
	}
	if e.t.prefixSpace && !strings.HasPrefix(s, " ") {
		s = " " + s
	}
	if e.t.gpt2 {
		return splitGPT2(s, e.word)
	}
	return e.word(s)
}

// word appends the ids of one piece.
func (e *Encoder) word(w string) error {
	if at, ok := e.cache[w]; ok {
		e.out = append(e.out, e.arena[at.from:at.to]...)
		return nil
	}
	from := len(e.out)
	if id, whole := e.whole(w); whole {
		e.out = append(e.out, id)
	} else {
		e.merge(w)
	}
	if len(w) <= longWord {
		ids := e.out[from:]
		if len(e.cache) >= maxCached || len(e.arena)+len(ids) > maxCacheID {
			clear(e.cache)
			e.arena = e.arena[:0]
		}
		at := len(e.arena)
		e.arena = append(e.arena, ids...)
		e.cache[strings.Clone(w)] = span{int32(at), int32(len(e.arena))}
	}
	return nil
}

func (e *Encoder) whole(w string) (int32, bool) {
	if !e.t.ignoreMerges {
		return 0, false
	}
	id, ok := e.t.raw[w]
	return id, ok
}

// merge joins neighbours, the lowest rank first and of equal ranks the leftmost, one at a time.
func (e *Encoder) merge(w string) {
	e.ids = e.ids[:0]
	for i := range len(w) {
		e.ids = append(e.ids, e.t.bytes[w[i]])
	}
	if len(e.ids) > longWord {
		e.mergeLong()
		return
	}
	ids, ranks := e.ids, e.ranks[:0]
	for i := 0; i+1 < len(ids); i++ {
		ranks = append(ranks, e.t.merges.get(ids[i], ids[i+1]))
	}
	for len(ranks) > 0 {
		best := 0
		for i := range ranks {
			if ranks[i].rank < ranks[best].rank {
				best = i
			}
		}
		m := ranks[best]
		if m.rank == noRank {
			break
		}
		ids[best] = m.id
		ids = append(ids[:best+1], ids[best+2:]...)
		ranks = append(ranks[:best], ranks[best+1:]...)
		if best < len(ranks) {
			ranks[best] = e.t.merges.get(ids[best], ids[best+1])
		}
		if best > 0 {
			ranks[best-1] = e.t.merges.get(ids[best-1], ids[best])
		}
	}
	e.ranks = ranks[:0]
	e.out = append(e.out, ids...)
}

type candidate struct {
	rank, at, left, right, id int32
}

type candidates []candidate

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, j int) bool {
	return c[i].rank < c[j].rank || c[i].rank == c[j].rank && c[i].at < c[j].at
}
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) }
func (c *candidates) Pop() any {
	old := *c
	x := old[len(old)-1]
	*c = old[:len(old)-1]
	return x
}

// mergeLong is merge in n log n: symbols are a linked list, merges wait in a heap, and one whose symbols have changed
// since is dropped.
func (e *Encoder) mergeLong() {
	n := int32(len(e.ids))
	ids := e.ids
	prev, next := make([]int32, n), make([]int32, n)
	for i := range n {
		prev[i], next[i] = i-1, i+1
	}
	const gone = int32(-1)
	var h candidates
	offer := func(i int32, push bool) {
		if i < 0 || next[i] >= n {
			return
		}
		j := next[i]
		if m := e.t.merges.get(ids[i], ids[j]); m.rank != noRank {
			c := candidate{m.rank, i, ids[i], ids[j], m.id}
			if push {
				heap.Push(&h, c)
			} else {
				h = append(h, c)
			}
		}
	}
	for i := range n {
		offer(i, false)
	}
	heap.Init(&h)
	for len(h) > 0 {
		c := heap.Pop(&h).(candidate)
		i := c.at
		if ids[i] != c.left || next[i] >= n || ids[next[i]] != c.right {
			continue
		}
		j := next[i]
		ids[i], ids[j] = c.id, gone
		next[i] = next[j]
		if next[i] < n {
			prev[next[i]] = i
		}
		offer(prev[i], true)
		offer(i, true)
	}
	for i := int32(0); i < n; i = next[i] {
		e.out = append(e.out, ids[i])
	}
}
