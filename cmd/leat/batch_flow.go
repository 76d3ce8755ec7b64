package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// flow carries lines from a reader to a writer: many are worked on at once, and
// their results are written in the order of the input, each as soon as those
// before it are. Between the two is a window, so that neither a long file nor a
// slow line makes memory grow: a line leaves it when its result is written.
type flow struct {
	window  int                                // most lines in it
	prepare func(inputLine) *task              // called for one line at a time
	work    func(ctx context.Context, t *task) // called for many at once; not for a task that has an error
	show    *bar                               // nil: nothing is shown

	tally tally
	lines *semaphore.Weighted // of the window
	bytes *semaphore.Weighted // of the lines in it

	// What has happened, for run to see when all is done.
	untaken, unfinished bool  // ctx ended before the input did, and before a line taken did
	broken              error // of the input
}

// mostBytes is how much input may be in the window.
const mostBytes = 4 * longestLine

// run returns when all lines are written; when ctx has ended, with its error,
// and the results of all lines before the first unfinished one are written; or
// when w can't be written. An input that breaks off is an error after its lines
// have been written.
func (f *flow) run(ctx context.Context, in io.Reader, w io.Writer) error {
	f.lines, f.bytes = semaphore.NewWeighted(int64(f.window)), semaphore.NewWeighted(mostBytes)
	f.tally.began = time.Now()
	defer func() { f.tally.took = time.Since(f.tally.began) }()
	g, inner := errgroup.WithContext(ctx)
	queue := make(chan *task, f.window)
	g.Go(func() error {
		defer close(queue)
		f.take(inner, g, scan(inner, in), queue)
		return nil
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
func (f *flow) take(ctx context.Context, g *errgroup.Group, lines <-chan inputLine, queue chan<- *task) {
	f.untaken = true
	for {
		if f.lines.Acquire(ctx, 1) != nil {
			return
		}
		var l inputLine
		select {
		case l = <-lines:
		case <-ctx.Done():
			return
		}
		if l.broken != nil {
			if f.untaken = false; l.broken != io.EOF {
				f.broken = l.broken
			}
			return
		}
		size := int64(len(l.text))
		if f.bytes.Acquire(ctx, size) != nil {
			return
		}
		t := f.prepare(l)
		t.size, t.end, t.done = size, l.end, make(chan struct{})
		t.count = func() { f.tally.made.Add(1) }
		queue <- t // has room for the window
		if t.err != nil {
			close(t.done)
			continue
		}
		g.Go(func() error {
			defer close(t.done)
			f.work(ctx, t)
			return nil
		})
	}
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
	draw := func() {
		if f.show != nil {
			f.show.say(f.tally.picture())
		}
	}
	var line bytes.Buffer
	for {
		t, open, err := await(queue, w.Flush, ticks, draw)
		if err != nil {
			return err
		}
		if !open {
			return w.Flush()
		}
		if _, _, err := await(t.done, w.Flush, ticks, draw); err != nil {
			return err
		}
		if ctx.Err() != nil && errors.Is(t.err, context.Canceled) {
			f.unfinished = true
		}
		if !f.unfinished { // nothing is written after a line that was
			line.Reset()
			if err := t.appendTo(&line); err != nil {
				return err
			}
			if line.Len() > w.Available() { // so that every write is of whole lines
				if err := w.Flush(); err != nil {
					return err
				}
			}
			if _, err := w.Write(line.Bytes()); err != nil {
				return err
			}
			f.tally.add(t)
			draw()
		}
		f.bytes.Release(t.size)
		f.lines.Release(1)
	}
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
