package pipeline

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Map takes a stream of elements through the pipeline and yields their results
// in order. An element is rows as for Do; its result is a slice that is the
// loop's. It may not be changed until its result, or the loop's end, has come.
//
// xs is read ahead of the loop, as far as WithAhead says, on a goroutine of its
// own that ends before the loop does: an xs that blocks should end with ctx. An
// error of xs is yielded in its place, and so is an element's own error; both are
// followed by what xs yields next. The end of ctx, or of the pipeline (ErrClosed),
// is yielded as the last thing. Leaving the loop early leaves nothing behind.
func (p *Pipeline) Map(ctx context.Context, xs iter.Seq2[[]float32, error]) iter.Seq2[[]float32, error] {
	return func(yield func([]float32, error) bool) {
		p.stream(ctx, xs, true, func(r Result, err error) bool { return yield(r.Y, err) })
	}
}

// MapUnordered is Map that yields results as they finish, each with its element.
func (p *Pipeline) MapUnordered(ctx context.Context, xs iter.Seq2[[]float32, error]) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) { p.stream(ctx, xs, false, yield) }
}

// Result is what came of one element of a stream.
type Result struct {
	Index int // of the element, from 0
	X     []float32
	Y     []float32 // nil with an error
}

// stream is one loop of Map: the calls of its elements, from when they are read
// to when they are yielded.
type stream struct {
	pipeline *Pipeline
	ordered  bool
	ahead    *semaphore.Weighted // rows
	wake     chan struct{}       // holds one: look again
	ended    chan struct{}       // closed when the reading has ended
	how      how

	mu    sync.Mutex
	live  map[*call]struct{} // calls not yielded
	ready []*call            // those in the order in which they are
	read  bool               // all
	left  bool               // the loop has ended
	cut   bool               // not to xs's end: ctx ended
}

// how the reading ended.
type how struct {
	returned bool
	panicked any
}

func (p *Pipeline) stream(ctx context.Context, xs iter.Seq2[[]float32, error], ordered bool, yield func(Result, error) bool) {
	s := &stream{
		pipeline: p,
		ordered:  ordered,
		ahead:    semaphore.NewWeighted(int64(p.ahead)),
		wake:     make(chan struct{}, 1),
		ended:    make(chan struct{}),
		live:     map[*call]struct{}{},
	}
	reading, stop := context.WithCancel(ctx)
	go s.readAll(reading, xs)
	defer s.leave(stop)
	for {
		c, err := s.next(ctx)
		if err != nil {
			yield(Result{}, err)
			return
		}
		if c == nil {
			return
		}
		r, err := Result{Index: c.index, X: c.x, Y: c.dst}, c.err
		if err != nil {
			r.Y = nil
		}
		s.yielded(c)
		if !yield(r, err) {
			return
		}
	}
}

// next returns the next call to yield, which has ended; nil after the last one.
func (s *stream) next(ctx context.Context) (*call, error) {
	for {
		s.mu.Lock()
		var c *call
		if len(s.ready) > 0 {
			c, s.ready = s.ready[0], s.ready[1:]
		}
		all, cut := s.read && len(s.live) == 0, s.cut
		s.mu.Unlock()
		if cut && all {
			return nil, ctx.Err()
		}
		if all {
			return nil, nil
		}
		var done chan struct{}
		wake := s.wake
		if c != nil {
			done, wake = c.done, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.pipeline.aborted:
			return nil, ErrClosed
		case <-done:
			return c, nil
		case <-wake:
		}
	}
}

// yielded gives up a call that has ended.
func (s *stream) yielded(c *call) {
	s.ahead.Release(s.weight(c.rows))
	s.mu.Lock()
	delete(s.live, c)
	s.mu.Unlock()
	c.release()
}

// weight is what an element counts of the rows ahead.
func (s *stream) weight(rows int) int64 { return int64(min(max(1, rows), s.pipeline.ahead)) }

// readAll is the goroutine that reads the elements. How xs ends it, by a panic or
// by runtime.Goexit too, goes on in the loop.
func (s *stream) readAll(ctx context.Context, xs iter.Seq2[[]float32, error]) {
	defer close(s.ended)
	defer func() {
		if !s.how.returned {
			s.how.panicked = recover()
		}
		s.mu.Lock()
		s.read = true
		s.mu.Unlock()
		s.poke()
	}()
	index := 0
	for x, err := range xs {
		if !s.add(ctx, x, index, err) {
			break
		}
		index++
	}
	s.how.returned = true
}

// add sends an element on its way, and says whether to read on.
func (s *stream) add(ctx context.Context, x []float32, index int, err error) bool {
	p, rows := s.pipeline, 0
	if err == nil {
		rows, err = p.rows(x)
	}
	if s.ahead.Acquire(ctx, s.weight(rows)) != nil {
		s.mu.Lock()
		s.cut = true
		s.mu.Unlock()
		return false
	}
	c := p.call(make([]float32, rows*p.out), x, rows)
	defer c.release() // the loop holds it too, and may leave meanwhile
	c.index = index
	if !s.ordered {
		c.stream = s
	}
	if !s.take(c) {
		return false
	}
	defer s.poke()
	if err == nil && rows > 0 {
		if err = p.enter(ctx, c, true); err == nil {
			return true
		}
	}
	c.fail(err) // or ends it well, where it has no rows
	return !errors.Is(err, ErrClosed) && ctx.Err() == nil
}

// take makes a call one of the loop's, which then holds it; false if that has
// ended.
func (s *stream) take(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return false
	}
	c.retain()
	s.live[c] = struct{}{}
	if s.ordered {
		s.ready = append(s.ready, c)
	}
	return true
}

// finished says that a call has ended, whose turn it then is.
func (s *stream) finished(c *call) {
	s.mu.Lock()
	s.ready = append(s.ready, c)
	s.mu.Unlock()
	s.poke()
}

func (s *stream) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// leave ends the loop: no call's memory is touched afterwards, and the reading
// has ended.
func (s *stream) leave(stop context.CancelFunc) {
	stop()
	s.mu.Lock()
	s.left = true
	live := s.live
	s.live = nil
	s.mu.Unlock()
	for c := range live {
		c.giveUp(nil)
	}
	<-s.ended
	if s.how.panicked != nil {
		panic(s.how.panicked)
	}
	if !s.how.returned {
		runtime.Goexit()
	}
}
