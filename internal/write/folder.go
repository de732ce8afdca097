package write

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"seatsmith/internal/atomicfile"
)

// partial is the unfinished folder, locked.
type partial struct {
	out  string // the final name
	path string // out + ".partial"
	made bool   // by this run
	fd   int    // the folder's own descriptor; the lock lives on it
}

// openPartial makes the unfinished folder of out, or opens the one that is there, and locks it. It fails with
// fs.ErrExist when out is there, and with ErrBusy when another run holds the folder.
func openPartial(out string) (*partial, error) {
	p := &partial{out: out, path: out + ".partial", fd: -1}
	for range 100 {
		if err := p.outFree(); err != nil {
			return nil, err
		}
		switch err := os.Mkdir(p.path, 0o755); {
		case err == nil:
			p.made = true
		case errors.Is(err, fs.ErrExist):
			p.made = false
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("the folder %s, in which the output is to appear, does not exist: make it first (%w)", filepath.Dir(out), err)
		default:
			return nil, fmt.Errorf("making the unfinished folder: %w (choose an output in a folder that you may write to)", err)
		}
		ours, err := p.lock()
		if err != nil {
			return nil, err
		}
		if !ours { // it was published or removed between opening and locking
			continue
		}
		if err := p.outFree(); err != nil { // published by another run between looking and locking
			if p.made {
				p.remove()
			}
			p.close()
			return nil, err
		}
		if err := atomicfile.SyncDir(filepath.Dir(out)); err != nil {
			p.close()
			return nil, err
		}
		failpoint("partial-made")
		return p, nil
	}
	return nil, fmt.Errorf("%w: %s keeps changing hands", ErrBusy, p.path)
}

// outFree refuses a final name that is taken, by a link to nowhere too.
func (p *partial) outFree() error {
	switch _, err := os.Lstat(p.out); {
	case err == nil:
		return fmt.Errorf("the output %s is already there: choose another name or remove it; nothing is ever overwritten (%w)", p.out, fs.ErrExist)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return fmt.Errorf("looking at the output: %w", err)
	}
}

// lock opens the folder and locks its descriptor; ours is false when the path no longer is what was locked.
func (p *partial) lock() (ours bool, err error) {
	fd, err := unix.Open(p.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP):
		return false, fmt.Errorf("%s is not a folder, and the unfinished output needs that name: move it away", p.path)
	case err != nil:
		return false, fmt.Errorf("opening the unfinished folder %s: %w", p.path, err)
	}
	for {
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, fmt.Errorf("%w: %s is locked by it; wait for it or stop it", ErrBusy, p.path)
		}
		return false, fmt.Errorf("locking the unfinished folder %s: %w", p.path, err)
	}
	var held, there unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &held), unix.Lstat(p.path, &there)); err != nil || held.Ino != there.Ino || held.Dev != there.Dev {
		unix.Close(fd)
		return false, nil
	}
	p.fd = fd
	return true, nil
}

// close gives the lock back.
func (p *partial) close() {
	if p.fd >= 0 {
		unix.Close(p.fd)
		p.fd = -1
	}
}

// remove deletes the folder with what this program put into it. Its failure is not worth a word: the folder is empty
// of finished work, and the next run takes it over.
func (p *partial) remove() { _ = os.RemoveAll(p.path) }

// sync makes the folder's entries durable.
func (p *partial) sync() error { return atomicfile.SyncDir(p.path) }

// publish gives the folder its final name.
func (p *partial) publish() error {
	err := atomicfile.PublishDir(p.path, p.out)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("the output %s appeared while it was being written; nothing is ever overwritten: move it away and run the same command again (%w)", p.out, err)
	}
	if err != nil {
		return fmt.Errorf("publishing %s: %w", p.out, err)
	}
	return nil
}
