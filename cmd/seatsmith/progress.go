package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progress shows long work: a bar with rate and time left on a terminal, one plain line per event otherwise.
type progress struct {
	out   io.Writer
	quiet bool
	tty   *os.File // nil when out is not a terminal

	mu    sync.Mutex
	bars  *mpb.Progress // one per step, nil between steps
	stage string
	bar   *mpb.Bar
	begin time.Time
	last  time.Time
	total int64
}

// plainEvery is how often a long step says where it is when nobody watches a terminal.
const plainEvery = 10 * time.Second

func (a *app) progress() *progress {
	p := &progress{out: a.stderr, quiet: a.quiet}
	if f, ok := a.stderr.(*os.File); ok && !a.quiet && term.IsTerminal(int(f.Fd())) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 { // a terminal without a size cannot show a bar
			p.tty = f
		}
	}
	return p
}

// update is the callback that the long steps call with bytes done and bytes in all.
func (p *progress) update(stage string, done, total int64) {
	if p.quiet || total <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if stage != p.stage || total != p.total {
		p.finish()
		p.stage, p.total, p.begin, p.last = stage, total, now, now
		if p.tty != nil {
			p.bars = mpb.New(mpb.WithOutput(p.tty), mpb.WithWidth(48), mpb.WithRefreshRate(150*time.Millisecond))
			// One more than the total: the bar must not end by itself when the last byte is read, since syncing and
			// re-reading follow; a container whose bars have all ended swallows the lines that are written to it.
			p.bar = p.bars.AddBar(total+1,
				mpb.PrependDecorators(decor.Name(stage, decor.WC{C: decor.DindentRight | decor.DextraSpace})),
				mpb.AppendDecorators(
					decor.CountersKiloByte("% .1f / % .1f", decor.WCSyncSpace),
					decor.AverageSpeed(decor.SizeB1000(0), "% .1f", decor.WCSyncSpace),
					decor.AverageETA(decor.ET_STYLE_MMSS, decor.WCSyncSpace)))
		}
	}
	if p.bar != nil {
		p.bar.SetCurrent(done)
		return
	}
	if now.Sub(p.last) >= plainEvery && done < total {
		p.last = now
		seconds := now.Sub(p.begin).Seconds()
		rate := float64(done) / seconds
		left := "unknown"
		if rate > 0 {
			left = (time.Duration(float64(total-done)/rate*1e9) * time.Nanosecond).Round(time.Second).String()
		}
		fmt.Fprintf(p.out, "%s: %s of %s (%.0f %%), %s/s, %s left\n", stage, size(done), size(total), 100*float64(done)/float64(total), size(int64(rate)), left)
	}
}

// pause ends the bar, so that something can be printed where it stood.
func (p *progress) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
	p.stage = ""
}

// finish ends the bar of a step. The caller holds mu.
func (p *progress) finish() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bars.Wait()
		p.bar, p.bars = nil, nil
	}
}

// event prints one line: the kind, then its fields in order of name.
func (p *progress) event(kind string, fields map[string]any) {
	if p.quiet {
		return
	}
	var parts []string
	for k, v := range fields {
		if strings.HasPrefix(k, "bytes") {
			if n, ok := v.(int64); ok {
				v = humanize.Bytes(uint64(max(n, 0)))
			}
		}
		if s, ok := v.(string); ok && len(s) == 64 { // a hash: its beginning tells it apart
			v = s[:12]
		}
		parts = append(parts, fmt.Sprintf("%s=%v", k, v))
	}
	slices.Sort(parts)
	p.line(printable(kind + ": " + strings.Join(parts, " ")))
}

// line prints above the bar, or plainly.
func (p *progress) line(s string) {
	if p.quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bars != nil {
		fmt.Fprintln(p.bars, s)
		return
	}
	fmt.Fprintln(p.out, s)
}

// close ends everything; nothing is drawn afterwards.
func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
}
