package write

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"seatsmith/internal/safetensors"
)

// production is one shard on its way: filled by the workers, then finished.
type production struct {
	*run
	sh     *shard
	index  int
	tmp    string
	writer *safetensors.Writer
	units  []*unit
	queue  *queue

	flusher *flusher

	mu      sync.Mutex
	pieces  map[string][]piece // by output tensor, in any order
	natives map[string]float32
}

// piece is a stretch of an output tensor as it was meant to be: where, how long, and a checksum of the bytes in memory.
// The checksum is keyed per process and 64 bits wide. It need only catch a disk or a memory that errs, and it costs
// next to nothing; what others rely on is the BLAKE3 of the whole file.
type piece struct {
	off, n int64
	sum    uint64
}

var pieceSeed = maphash.MakeSeed()

// writeShards produces every shard that is not there yet. While the workers fill one, the one before is synced, read
// again and journalled.
func (r *run) writeShards(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	var finishing chan error
	wait := func() error {
		if finishing == nil {
			return nil
		}
		err := <-finishing
		finishing = nil
		return err
	}
	for i := range r.shards {
		if r.done[i] != nil {
			continue
		}
		p, err := r.produce(ctx, i)
		if ferr := wait(); ferr != nil { // the earlier shard's error came first
			if err == nil {
				p.discard()
			}
			return ferr
		}
		if err != nil {
			return err
		}
		result := make(chan error, 1)
		finishing = result
		go func() {
			err := p.finish(ctx)
			if err != nil {
				cancel(err)
			}
			result <- err
		}()
	}
	return wait()
}

// produce creates a shard under its temporary name and fills it.
func (r *run) produce(ctx context.Context, index int) (*production, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	sh := &r.shards[index]
	p := &production{
		run: r, sh: sh, index: index,
		tmp:     filepath.Join(r.dir.path, sh.file+".tmp"),
		units:   units(sh, r.pool.tileBytes),
		pieces:  make(map[string][]piece, len(sh.layout.Tensors)),
		natives: map[string]float32{},
	}
	p.queue = newQueue(p.units, r.pool.tileBytes)
	var err error
	if p.writer, err = safetensors.Create(p.tmp, sh.layout); err != nil {
		return nil, fmt.Errorf("creating shard %s: %w", sh.file, errors.Join(err, removeIfThere(p.tmp)))
	}
	failpoint("shard-created:" + sh.file)
	p.flusher = newFlusher(p.tmp)
	defer p.flusher.close()
	if err := p.putInputs(); err != nil {
		return nil, errors.Join(err, p.writer.Abort())
	}
	stop := context.AfterFunc(ctx, func() { p.queue.fail(context.Cause(ctx)) })
	defer stop()
	var wg sync.WaitGroup
	for i := range r.pool.workers {
		b := &r.pool.workers[i]
		wg.Go(func() {
			for {
				t, ok := p.queue.take()
				if !ok {
					return
				}
				if err := p.do(&t, b); err != nil {
					p.queue.fail(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := p.verdict(); err != nil {
		return nil, errors.Join(err, p.writer.Abort())
	}
	failpoint("shard-written:" + sh.file)
	return p, nil
}

// verdict says what stopped the workers, or what was found in a source that they went through to the end.
func (p *production) verdict() error {
	err := p.queue.failure()
	if changed := p.src.unchanged(p.sh); changed != nil {
		if err != nil {
			return fmt.Errorf("%w (%w)", changed, err)
		}
		return changed
	}
	if err != nil {
		return err
	}
	if bad := p.uncodable(); len(bad) > 0 {
		return &Refusal{Findings: bad}
	}
	return nil
}

// put writes p at byte off of an output tensor, and remembers what was meant to be there. Safe for the workers.
func (p *production) put(name string, b []byte, off int64) error {
	if len(b) == 0 {
		return nil
	}
	pc := piece{off: off, n: int64(len(b)), sum: maphash.Bytes(pieceSeed, b)}
	p.mu.Lock()
	p.pieces[name] = append(p.pieces[name], pc)
	p.mu.Unlock()
	if err := p.writer.WriteAt(name, b, off); err != nil {
		return fmt.Errorf("writing tensor %s of shard %s: %w", name, p.sh.file, err)
	}
	p.flusher.wrote(pc.n)
	return nil
}

// native records a module's global scale in the arithmetic's own form.
func (p *production) native(module string, g float32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.natives[module] = g
}

// finish makes a filled shard durable, reads it again, gives it its name and journals it.
func (p *production) finish(ctx context.Context) error {
	line, err := p.settleFile(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("finishing shard %s: %w", p.sh.file, err), removeIfThere(p.tmp))
	}
	if err := p.journal.append(line); err != nil {
		return err
	}
	failpoint("shard-journalled:" + p.sh.file)
	p.done[p.index] = line
	p.report.emit("shard-done", map[string]any{
		"file": p.sh.file, "bytes": line.Bytes, "blake3": line.BLAKE3, "shard": p.index + 1, "shards": len(p.shards),
	})
	return nil
}

// settleFile is finish up to the journal.
func (p *production) settleFile(ctx context.Context) (*shardLine, error) {
	if err := p.writer.Close(); err != nil {
		return nil, err
	}
	failpoint("shard-synced:" + p.sh.file)
	h, err := p.reread(ctx)
	if err != nil {
		return nil, err
	}
	failpoint("shard-checked:" + p.sh.file)
	if err := os.Rename(p.tmp, filepath.Join(p.dir.path, p.sh.file)); err != nil {
		return nil, err
	}
	failpoint("shard-renamed:" + p.sh.file)
	if err := p.dir.sync(); err != nil {
		return nil, err
	}
	failpoint("shard-durable:" + p.sh.file)
	return &shardLine{
		File: p.sh.file, FileHash: h, Native: maps.Clone(p.natives), Findings: p.observations(), Casts: p.casts(), Sources: p.src.of(p.sh),
	}, nil
}

// discard gives a filled shard up.
func (p *production) discard() { _ = p.writer.Abort() }

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
