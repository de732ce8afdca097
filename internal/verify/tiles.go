package verify

import (
	"context"
	"sync"
)

// span is a range of bytes (or rows) of the of-th thing in a list.
type span struct {
	of     int
	off, n int64
}

// spans cuts size into pieces of at most tile.
func spans(of int, size, tile int64) []span {
	var out []span
	for off := int64(0); off < size; off += tile {
		out = append(out, span{of, off, min(tile, size-off)})
	}
	return out
}

// buffers are one worker's memory, reused from tile to tile.
type buffers struct {
	raw    [2][]byte
	values []float32
}

// bytes returns one of two byte buffers with room for n.
func (b *buffers) bytes(which int, n int64) []byte {
	if int64(cap(b.raw[which])) < n {
		b.raw[which] = make([]byte, n)
	}
	return b.raw[which][:n]
}

// floats returns a buffer for n values.
func (b *buffers) floats(n int64) []float32 {
	if int64(cap(b.values)) < n {
		b.values = make([]float32, n)
	}
	return b.values[:n]
}

// each runs do for 0 … n-1 on the workers, the first error (by index, among those that ran) ends it. size(i) is told to
// Progress.
func (j *judge) each(ctx context.Context, stage string, n int, size func(int) int64, do func(int, *buffers) error) error {
	total := int64(0)
	for i := range n {
		total += size(i)
	}
	var mu sync.Mutex
	next, done, failed := 0, int64(0), -1
	var first error
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			if err := ctx.Err(); err != nil {
				first, failed = err, next
			}
		}
		if first != nil || next >= n {
			return 0, false
		}
		next++
		return next - 1, true
	}
	finish := func(i int, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil && (first == nil || i < failed) {
			first, failed = err, i
		}
		done += size(i)
		if j.o.Progress != nil {
			j.o.Progress(stage, done, total)
		}
	}
	var wg sync.WaitGroup
	for range min(j.o.Workers, n) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var b buffers
			for {
				i, ok := take()
				if !ok {
					return
				}
				finish(i, do(i, &b))
			}
		}()
	}
	wg.Wait()
	return first
}
