package diff

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"

	"seatsmith/internal/safetensors"
)

// tileValues is how many values (bytes, of what is not BF16, F16 or F32) are compared at once.
const tileValues = 512 << 10

// tile is a range of a unit, in values.
type tile struct {
	unit   int
	off, n int64
	same   bool
	sum    sum
}

// width is how many bytes a value has for the comparison: 1 where only bytes can be compared.
func width(d safetensors.Dtype) int64 {
	switch d {
	case safetensors.F32:
		return 4
	case safetensors.BF16, safetensors.F16:
		return 2
	}
	return 1
}

// stream reads both sides of every unit. Equal tiles cost one comparison of bytes; where a unit turns out changed, the
// norm of the base in its equal tiles is read afterwards, so that an untouched checkpoint is never decoded.
func (c *comparison) stream(ctx context.Context) error {
	same := sameFiles{}
	var tiles []tile
	for i := range c.units {
		u := &c.units[i]
		c.r.BytesCompared += u.base.bytes
		if u.body.bytes == u.base.bytes && same.at(u.body) == same.at(u.base) && same.is(u.body.t.File, u.base.t.File) {
			u.shared = true
			c.r.BytesShared += u.base.bytes
			continue
		}
		n := u.base.bytes / width(u.base.dtype)
		for off := int64(0); off < n; off += tileValues {
			tiles = append(tiles, tile{unit: i, off: off, n: min(tileValues, n-off)})
		}
	}
	size := func(list []tile) func(int) int64 {
		return func(i int) int64 { return list[i].n * width(c.units[list[i].unit].base.dtype) }
	}
	if err := c.each(ctx, "compare", len(tiles), size(tiles), func(i int, b *buffers) error { return c.compare(&tiles[i], b) }); err != nil {
		return err
	}
	for i := range tiles {
		if !tiles[i].same {
			c.units[tiles[i].unit].differs = true
		}
	}
	var rest []int
	for i := range tiles {
		if u := &c.units[tiles[i].unit]; tiles[i].same && u.differs && isFloat(u.base.dtype) {
			rest = append(rest, i)
		}
	}
	norm := func(i int) int64 { return size(tiles)(rest[i]) }
	if err := c.each(ctx, "norms", len(rest), norm, func(i int, b *buffers) error { return c.norm(&tiles[rest[i]], b) }); err != nil {
		return err
	}
	for i := range tiles { // in order, so that the sums do not depend on who was first
		c.units[tiles[i].unit].sum.merge(tiles[i].sum)
	}
	return nil
}

// compare reads one tile of both sides.
func (c *comparison) compare(t *tile, b *buffers) error {
	u := &c.units[t.unit]
	x, y := b.bytes(0, t.n*width(u.body.dtype)), b.bytes(1, t.n*width(u.base.dtype))
	if err := u.body.t.ReadAt(x, u.body.begin+t.off*width(u.body.dtype)); err != nil {
		return fmt.Errorf("reading the body: %w", err)
	}
	if err := u.base.t.ReadAt(y, u.base.begin+t.off*width(u.base.dtype)); err != nil {
		return fmt.Errorf("reading the base: %w", err)
	}
	if u.body.dtype == u.base.dtype {
		if t.same = bytes.Equal(x, y); t.same || !isFloat(u.base.dtype) {
			return nil
		}
	}
	t.sum, t.same = measure(u.body.dtype, u.base.dtype, x, y, b)
	return nil
}

// norm adds the squares of the base in a tile that is equal.
func (c *comparison) norm(t *tile, b *buffers) error {
	u := &c.units[t.unit]
	y := b.bytes(1, t.n*width(u.base.dtype))
	if err := u.base.t.ReadAt(y, u.base.begin+t.off*width(u.base.dtype)); err != nil {
		return fmt.Errorf("reading the base: %w", err)
	}
	t.sum, _ = measure(u.base.dtype, u.base.dtype, y, y, b)
	return nil
}

// buffers are one worker's memory, reused from tile to tile.
type buffers struct {
	raw    [2][]byte
	values [2][]float32
	wide   []byte
}

func (b *buffers) bytes(which int, n int64) []byte {
	if int64(cap(b.raw[which])) < n {
		b.raw[which] = make([]byte, n)
	}
	return b.raw[which][:n]
}

func (b *buffers) floats(which int, n int) []float32 {
	if cap(b.values[which]) < n {
		b.values[which] = make([]float32, n)
	}
	return b.values[which][:n]
}

// each runs do for 0 … n-1 on the workers; the first error, or the end of ctx, ends it.
func (c *comparison) each(ctx context.Context, stage string, n int, size func(int) int64, do func(int, *buffers) error) error {
	total, done := int64(0), int64(0)
	for i := range n {
		total += size(i)
	}
	var mu sync.Mutex
	var first error
	next, failed := 0, n
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if err := ctx.Err(); err != nil && first == nil {
			first = err
		}
		if first != nil || next >= n {
			return 0, false
		}
		next++
		return next - 1, true
	}
	finish := func(i int, err error) {
		mu.Lock()
		if err != nil && (first == nil || i < failed) {
			first, failed = err, i
		}
		done += size(i)
		sofar := done
		mu.Unlock()
		if c.o.Progress != nil {
			c.o.Progress(stage, sofar, total)
		}
	}
	var wg sync.WaitGroup
	for range min(c.o.Workers, n) {
		wg.Go(func() {
			var b buffers
			for {
				i, ok := take()
				if !ok {
					return
				}
				finish(i, do(i, &b))
			}
		})
	}
	wg.Wait()
	return first
}

// sameFiles knows which pairs of open files are one file: hard links, or links to one blob of a Hugging Face cache.
type sameFiles map[[2]*safetensors.File]bool

func (s sameFiles) is(a, b *safetensors.File) bool {
	pair := [2]*safetensors.File{a, b}
	same, known := s[pair]
	if !known {
		x, errA := os.Stat(a.Path)
		y, errB := os.Stat(b.Path)
		same = errA == nil && errB == nil && os.SameFile(x, y)
		s[pair] = same
	}
	return same
}

// at is where a part begins in the data of its file.
func (s sameFiles) at(p part) int64 { return p.t.Ref.Tensor.Begin + p.begin }
