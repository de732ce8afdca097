package write

import "sync"

// queue hands the tiles of one shard to the workers. Tiles that can be coded go before tiles that are still to be
// scanned, so that the second reading of a tensor finds it in the page cache and little waits half done.
type queue struct {
	mu        sync.Mutex
	wake      sync.Cond
	tileBytes int64
	units     []*unit
	next      int    // the unit whose first pass comes after scan
	scan      []tile // first-pass tiles of the unit before next
	code      []tile // second-pass tiles
	open      int    // units whose second pass is still to come
	err       error
}

func newQueue(us []*unit, tileBytes int64) *queue {
	q := &queue{units: us, tileBytes: tileBytes}
	q.wake.L = &q.mu
	return q
}

// take waits for a tile; ok is false when there is nothing left to do or the shard has failed.
func (q *queue) take() (t tile, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		switch {
		case q.err != nil:
			return tile{}, false
		case len(q.code) > 0:
			t, q.code = q.code[0], q.code[1:]
			return t, true
		case len(q.scan) > 0:
			t, q.scan = q.scan[0], q.scan[1:]
			return t, true
		case q.next < len(q.units):
			u := q.units[q.next]
			q.next++
			q.scan = u.first(q.tileBytes)
			if u.kind == nvfp4 || u.kind == fp8 || u.kind == fp8Wide {
				q.open++
			}
		case q.open == 0:
			return tile{}, false
		default:
			q.wake.Wait()
		}
	}
}

// settled queues the second pass of a unit; a unit that cannot be coded has none.
func (q *queue) settled(u *unit, code bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open--
	if code {
		q.code = append(q.code, u.second(q.tileBytes)...)
	}
	q.wake.Broadcast()
}

// fail stops the workers; the first error stays.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.wake.Broadcast()
}

func (q *queue) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}
