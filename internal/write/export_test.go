package write

// SetFailpoint calls hook between any two durable steps until undo is called.
func SetFailpoint(hook func(name string)) (undo func()) {
	failpointHook = hook
	return func() { failpointHook = nil }
}

// SetTile makes workers read tiles of n bytes, a multiple of 32, until undo is called.
func SetTile(n int64) (undo func()) {
	tileOverride = n
	return func() { tileOverride = 0 }
}

// SetFreeSpace makes every disk have n bytes free until undo is called.
func SetFreeSpace(n int64) (undo func()) {
	real := freeSpace
	freeSpace = func(string) (int64, error) { return n, nil }
	return func() { freeSpace = real }
}

// PoolBytes is the memory of the buffers that a run with n workers makes, and how many workers it has.
func PoolBytes(n int, wide bool) (bytes int64, workers int, tile int64) {
	p := newPool(n, wide)
	bytes = int64(len(p.spare))
	for _, b := range p.workers {
		bytes += int64(len(b.src) + len(b.codes) + len(b.scales) + len(b.wide))
	}
	return bytes, len(p.workers), p.tileBytes
}

// JournalFile is the journal's name.
const JournalFile = journalFile
