package write

import "sync"

// reporter passes progress and events on, one call at a time. A nil callback is skipped.
type reporter struct {
	mu       sync.Mutex
	progress func(stage string, done, total int64)
	event    func(kind string, fields map[string]any)
	done     int64 // source bytes
	total    int64
}

// add counts n more bytes of source.
func (r *reporter) add(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += n
	if r.progress != nil {
		r.progress("write", r.done, r.total)
	}
}

// stage reports the progress of something that does not read the source.
func (r *reporter) stage(name string, done, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.progress != nil {
		r.progress(name, done, total)
	}
}

func (r *reporter) emit(kind string, fields map[string]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.event != nil {
		r.event(kind, fields)
	}
}
