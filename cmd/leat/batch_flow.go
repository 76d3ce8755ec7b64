package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/leat-dev/leat/cmd/leat/internal/journal"
)

// flow processes the lines of an input, many at once, and writes their results in the
// order of the input, each as soon as those before it have been written. Lines between
// the reader and the writer are in the window, which is bounded, so that neither a long
// file nor a slow line makes memory grow. A line leaves the window when its result has
// been written.
type flow struct {
	window  int                                // most lines in it
	prepare func(inputLine) (*task, error)     // called for one line at a time; an error ends all
	work    func(ctx context.Context, t *task) // called for many at once; not for a task that has its result
	ended   func(lines int) error              // is told how many lines the input had; may be nil
	journal *journal.Journal                   // keeps what can't be written yet; may be nil
	show    *bar                               // nil: nothing is shown

	mostScored int64 // bytes of log-probabilities in the window

	tally tally
	lines *semaphore.Weighted // of the window
	bytes *semaphore.Weighted // of the lines in it

	scored *semaphore.Weighted // bytes of the log-probabilities in the window

	// What has happened, for run to see when all is done.
	untaken, unfinished bool  // ctx ended before the input did, and before a line taken did
	broken              error // of the input

	awaited atomic.Int64 // the number of the line that is to be written next
}

// mostBytes is how much input may be in the window.
const mostBytes = 4 * longestLine

// run returns when all lines are written; when ctx has ended, with its error,
// and the results of all lines before the first unfinished one are written; or
// when w can't be written. An input that breaks off is an error after its lines
// have been written.
func (f *flow) run(ctx context.Context, in io.Reader, w io.Writer) error {
	f.lines, f.bytes = semaphore.NewWeighted(int64(f.window)), semaphore.NewWeighted(mostBytes)
	f.scored = semaphore.NewWeighted(f.mostScored)
	f.tally.began = time.Now()
	defer func() { f.tally.took = time.Since(f.tally.began) }()
	g, inner := errgroup.WithContext(ctx)
	queue := make(chan *task, f.window)
	g.Go(func() error {
		defer close(queue)
		return f.take(inner, g, scan(inner, in), queue)
	})
	g.Go(func() error { return f.write(inner, queue, w) })
	if err := g.Wait(); err != nil {
		return err
	}
	if f.untaken || f.unfinished {
		return ctx.Err()
	}
	return f.broken
}

// take brings lines into the window, in order, and has each worked on.
func (f *flow) take(ctx context.Context, g *errgroup.Group, lines <-chan inputLine, queue chan<- *task) error {
	f.untaken = true
	number := 0
	for {
		if f.lines.Acquire(ctx, 1) != nil {
			return nil
		}
		var l inputLine
		select {
		case l = <-lines:
		case <-ctx.Done():
			return nil
		}
		if l.broken != nil {
			if f.untaken = false; l.broken != io.EOF {
				f.broken = l.broken
			} else if f.ended != nil {
				return f.ended(number)
			}
			return nil
		}
		number = l.number
		size := int64(len(l.text))
		if f.bytes.Acquire(ctx, size) != nil {
			return nil
		}
		t, err := f.prepare(l)
		if err != nil {
			return err
		}
		if t.scored = min(t.scored, f.mostScored); f.scored.Acquire(ctx, t.scored) != nil {
			return nil
		}
		t.size, t.end, t.digest, t.done = size, l.end, l.digest, make(chan struct{})
		t.count = func() { f.tally.made.Add(1) }
		queue <- t // has room for the window
		if t.err != nil || t.kept {
			close(t.done)
			continue
		}
		g.Go(func() error {
			defer close(t.done)
			f.work(ctx, t)
			return f.keep(ctx, t)
		})
	}
}

// keep puts the result of a line into the journal if lines before it aren't finished.
func (f *flow) keep(ctx context.Context, t *task) error {
	t.unfinished = ctx.Err() != nil && errors.Is(t.err, context.Canceled)
	if t.unfinished || f.journal == nil || int64(t.number) == f.awaited.Load() {
		return nil
	}
	if err := t.render(); err != nil {
		return err
	}
	return f.journal.Keep(t.number, t.digest, t.line)
}

// write writes the results in order.
func (f *flow) write(ctx context.Context, queue <-chan *task, to io.Writer) error {
	var ticks <-chan time.Time
	if f.show != nil {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		defer f.show.clear()
		ticks = ticker.C
	}
	w := bufio.NewWriterSize(to, 1<<16)
	var last *task // that was written
	flush := func() error {
		if err := w.Flush(); err != nil || f.journal == nil || last == nil {
			return err
		}
		number, digest := last.number, last.digest
		last = nil
		return f.journal.Written(number, digest)
	}
	draw := func() {
		if f.show != nil {
			f.show.say(f.tally.picture(f.show.filled))
		}
	}
	for {
		t, open, err := await(queue, flush, ticks, draw)
		if err != nil {
			return err
		}
		if !open {
			return flush()
		}
		if !f.unfinished {
			f.awaited.Store(int64(t.number))
		}
		if _, _, err := await(t.done, flush, ticks, draw); err != nil {
			return err
		}
		f.unfinished = f.unfinished || t.unfinished
		if !f.unfinished { // nothing is written after a line that was
			if err := t.render(); err != nil {
				return err
			}
			if len(t.line) > w.Available() { // so that every write is of whole lines
				if err := flush(); err != nil {
					return err
				}
			}
			if _, err := w.Write(t.line); err != nil {
				return err
			}
			f.tally.add(t)
			t.line = nil
			last = t
			draw()
		}
		f.bytes.Release(t.size)
		f.scored.Release(t.scored)
		f.lines.Release(1)
	}
}

// next returns the number of the first line that isn't written, once run has returned.
func (f *flow) next() int {
	if f.unfinished {
		return int(f.awaited.Load())
	}
	return f.tally.last + 1
}

// await receives from c. Before it blocks it calls idle, and while it blocks
// draw at every tick.
func await[T any](c <-chan T, idle func() error, ticks <-chan time.Time, draw func()) (v T, open bool, err error) {
	select {
	case v, open = <-c:
		return v, open, nil
	default:
	}
	if err := idle(); err != nil {
		return v, false, err
	}
	for {
		select {
		case v, open = <-c:
			return v, open, nil
		case <-ticks:
			draw()
		}
	}
}
