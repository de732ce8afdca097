package write

// Buffers. A worker has one tile of source, half a tile of codes and an eighth of a tile of scales, and, when a source is
// widened to float32, one tile for that; the code that reads a finished shard again has one tile of its own.
const (
	bufferBudget = 256 << 20
	usualTile    = 4 << 20
	smallestTile = 64 << 10
)

// tileOverride, when a test sets it, is the tile size in bytes, a multiple of 32.
var tileOverride int64

// pool is all the memory that grows with the number of workers. It is made once per run.
type pool struct {
	tileBytes int64
	workers   []buffers
	spare     []byte // one tile, for one reader at a time
}

// buffers of one worker.
type buffers struct {
	src, codes, scales, wide []byte
}

// newPool makes buffers for n workers, or for as many as the budget has room for with the smallest tile; wide says
// whether some source is widened.
func newPool(n int, wide bool) *pool {
	eighths := 8 + 4 + 1 // of a tile, per worker
	if wide {
		eighths += 8
	}
	n = min(n, (bufferBudget*8/smallestTile-8)/eighths)
	size := min(int64(usualTile), bufferBudget*8/int64(n*eighths+8)&^4095)
	if tileOverride > 0 {
		size = tileOverride
	}
	p := &pool{tileBytes: size, workers: make([]buffers, n), spare: make([]byte, max(size, smallestTile))}
	for i := range p.workers {
		b := &p.workers[i]
		b.src, b.codes, b.scales = make([]byte, max(size, 4*smallestWide)), make([]byte, max(size/2, 2*smallestWide)), make([]byte, max(4, size/8))
		if wide {
			b.wide = make([]byte, max(size, 4*smallestWide))
		}
	}
	return p
}
