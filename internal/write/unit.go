package write

import (
	"math"
	"sync"

	"seatsmith/internal/dialect"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
)

// kind is how a unit is carried out.
type kind uint8

const (
	keep    kind = iota // bytes copied, or rounded to BF16 on the way
	turned              // one number, stored as its reciprocal
	nvfp4               // scanned, then coded with one global scale for all members
	fp8                 // scanned, then coded with one scale
	fp8Rows             // scanned and coded row by row in one pass
	fp8Wide             // as fp8Rows, but a row is wider than a tile: scanned, then coded
)

// unit is what can be coded on its own: one work, or the works of an NVFP4 group.
type unit struct {
	kind  kind
	works []*work

	mu    sync.Mutex
	left  int // scan tiles not done yet
	scans []scan
	rows  []float32     // fp8Wide: the largest absolute value of each row, then its scale
	q     numeric.NVFP4 // nvfp4, once settled
	scale float32       // fp8, once settled
}

// scan is what was seen of one member.
type scan struct {
	amax      float32
	bad       int64 // element of the item that is the first NaN or Inf, or that BF16 cannot hold; -1
	badValue  float32
	badScale  int64 // index of the first scale of an FP8 source that is no scale, -1
	scale     float32
	changed   int64   // values that rounding to BF16 changed
	collapsed int64   // non-zero blocks whose every code is zero
	smallest  float32 // the smallest largest-absolute-value of those blocks
}

// step is what a worker does with a tile.
type step uint8

const (
	stepCopy   step = iota // read, look, write
	stepRound              // read, round to BF16, write
	stepTurn               // read one number, write its reciprocal
	stepScan               // read, look
	stepCode               // read, code, write
	stepRows               // read, look, code, write, row by row
	stepSettle             // no tile: turn what was seen into scales
)

// tile is a stretch of a member's bytes, and the rows that it is of.
type tile struct {
	u         *unit
	w         int // index of the member
	step      step
	off, n    int64 // bytes of what the item takes of the source tensor
	row, rows int64 // stepRows, and for fp8Wide the row that holds the tile
}

// units cuts a shard into units, in the order of its items; the members of a group stand where the first of them does.
func units(sh *shard, tileBytes int64) []*unit {
	var us []*unit
	groups := map[string]*unit{}
	for _, w := range sh.works {
		u := &unit{}
		switch s := w.item.Scheme; {
		case w.item.Action == plan.Reciprocal:
			u.kind = turned
		case s.NVFP4():
			u.kind = nvfp4
			if g := w.item.Group; g != "" {
				if known := groups[g]; known != nil {
					known.works = append(known.works, w)
					continue
				}
				groups[g] = u
			}
		case s == dialect.FP8Channel && w.cols*w.width > w.tile(tileBytes):
			u.kind = fp8Wide
			u.rows = make([]float32, w.rows)
		case s == dialect.FP8Channel:
			u.kind = fp8Rows
		case s.FP8():
			u.kind = fp8
		}
		u.works = []*work{w}
		us = append(us, u)
	}
	for _, u := range us {
		u.scans = make([]scan, len(u.works))
		for i := range u.scans {
			u.scans[i] = scan{bad: -1, badScale: -1, smallest: math.MaxFloat32}
		}
	}
	return us
}

// first lists the tiles of the first pass over the source; for kept tensors and fp8Rows there is no other. A unit
// with nothing to scan settles at once.
func (u *unit) first(tileBytes int64) []tile {
	switch u.kind {
	case keep:
		if u.works[0].item.Action != plan.Keep {
			return u.cut(stepRound, tileBytes)
		}
		return u.cut(stepCopy, tileBytes)
	case turned:
		return u.cut(stepTurn, tileBytes)
	case fp8Rows:
		return u.cutRows(tileBytes)
	}
	tiles := u.cut(stepScan, tileBytes)
	u.left = len(tiles)
	if len(tiles) == 0 {
		return []tile{{u: u, step: stepSettle}}
	}
	return tiles
}

// second lists the tiles that can be coded now that the unit has its scales.
func (u *unit) second(tileBytes int64) []tile { return u.cut(stepCode, tileBytes) }

// smallestWide is the fewest elements of a tile that becomes float32: an NVFP4 block.
const smallestWide = 16

// tile is the size of the work's tiles, whole NVFP4 blocks, in bytes of its source. tileBytes is a multiple of 32, the bytes
// of such a block in BF16; a source that is widened to float32 gets tiles that have tileBytes then.
func (w *work) tile(tileBytes int64) int64 {
	if !w.wide() {
		return tileBytes
	}
	return max(smallestWide, tileBytes/4&^(smallestWide-1)) * w.width
}

// cut divides every member into tiles. In an fp8Wide unit no tile crosses a row.
func (u *unit) cut(s step, tileBytes int64) []tile {
	var tiles []tile
	for i, w := range u.works {
		run, rows, tileBytes := w.bytes, int64(1), w.tile(tileBytes)
		if u.kind == fp8Wide {
			run, rows = w.cols*w.width, w.rows
		}
		for row := range rows {
			for off := int64(0); off < run; off += tileBytes {
				tiles = append(tiles, tile{u: u, w: i, step: s, off: row*run + off, n: min(tileBytes, run-off), row: row})
			}
		}
	}
	return tiles
}

// cutRows divides an fp8Rows unit into tiles of whole rows, few enough that their scales fit a worker's scale buffer.
func (u *unit) cutRows(tileBytes int64) []tile {
	w := u.works[0]
	width := w.cols * w.width
	most := tileBytes / 32
	if width > 0 {
		most = min(most, w.tile(tileBytes)/width)
	}
	var tiles []tile
	for row := int64(0); row < w.rows; row += most {
		n := min(most, w.rows-row)
		tiles = append(tiles, tile{u: u, step: stepRows, off: row * width, n: n * width, row: row, rows: n})
	}
	return tiles
}

// seen adds what was seen in a tile, also of a kept tensor; ready is true for the last scan tile of a unit.
func (u *unit) seen(t *tile, what sight) (ready bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := &u.scans[t.w]
	switch {
	case what.badScale >= 0:
		if s.badScale < 0 || what.badScale < s.badScale {
			s.badScale, s.scale = what.badScale, what.value
		}
	case what.bad >= 0:
		if at := t.off/u.works[t.w].width + int64(what.bad); s.bad < 0 || at < s.bad {
			s.bad, s.badValue = at, what.value
		}
	default:
		s.amax = max(s.amax, what.amax)
		s.changed += what.changed
		if u.kind == fp8Wide {
			u.rows[t.row] = max(u.rows[t.row], what.amax)
		}
	}
	if t.step != stepScan {
		return false
	}
	u.left--
	return u.left == 0
}

// lost adds blocks that were lost in a tile.
func (u *unit) lost(w int, blocks int64, smallest float32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.scans[w].collapsed += blocks
	u.scans[w].smallest = min(u.scans[w].smallest, smallest)
}

// finite says whether every member can be coded.
func (u *unit) finite() bool {
	for i := range u.scans {
		if u.scans[i].bad >= 0 || u.scans[i].badScale >= 0 {
			return false
		}
	}
	return true
}

// extreme says whether the values are so small or so large that NVFP4's own global scale fails (an amax below 3.2e-35, or
// above 3.3e38 under ct arithmetic). A unit of zeros only is not extreme: it has a scale of 1.
func (u *unit) extreme() bool { return u.kind == nvfp4 && u.amax() > 0 && u.q.Extreme() }

// amax is the largest absolute value of all members.
func (u *unit) amax() float32 {
	var a float32
	for i := range u.scans {
		a = max(a, u.scans[i].amax)
	}
	return a
}
