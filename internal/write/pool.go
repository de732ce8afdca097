package write

// Buffers. A worker has one tile of source, half a tile of codes and an eighth of a tile of scales; the code that
// reads a finished shard again has one tile of its own.
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
	src, codes, scales []byte
}

// newPool makes buffers for n workers, or for as many as the budget has room for with the smallest tile.
func newPool(n int) *pool {
	const eighths = 8 + 4 + 1 // of a tile, per worker
	n = min(n, int((bufferBudget*8/smallestTile-8)/eighths))
	size := min(int64(usualTile), bufferBudget*8/int64(n*eighths+8)&^4095)
	if tileOverride > 0 {
		size = tileOverride
	}
	p := &pool{tileBytes: size, workers: make([]buffers, n), spare: make([]byte, max(size, smallestTile))}
	for i := range p.workers {
		p.workers[i] = buffers{src: make([]byte, size), codes: make([]byte, size/2), scales: make([]byte, max(4, size/8))}
	}
	return p
}
