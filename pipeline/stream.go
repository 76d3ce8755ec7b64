package pipeline

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Map passes the elements of xs through the pipeline and yields their results in
// order. An element is rows as for Do, and may not be changed until its result has been
// yielded or the loop has ended. The loop owns the results. Ranging over Map again
// reads xs again.
//
// Elements are read ahead of the loop, as many rows as WithAhead says, so that a loop
// that is slow holds a bounded number of rows. The error of an element is yielded in
// the place of its result, and further results follow. When ctx ends, or the pipeline
// is closed, ctx's error or ErrClosed is yielded as the last element.
//
// A goroutine of Map's own reads xs, and has ended when the loop ends. However, if the
// loop ends while xs blocks, Map waits no longer than a second for it; the goroutine
// then ends when xs returns or yields, which has no effect. An xs that may block for
// long should return when a context ends that the caller cancels after the loop. If xs
// panics or calls runtime.Goexit, so does the loop.
func (p *Pipeline) Map(ctx context.Context, xs iter.Seq[[]float32]) iter.Seq2[[]float32, error] {
	return p.MapErr(ctx, withoutErrors(xs))
}

// MapErr is Map for a source that may fail: an error that xs yields is yielded in the
// place of the element's result, and what xs yields next follows.
func (p *Pipeline) MapErr(ctx context.Context, xs iter.Seq2[[]float32, error]) iter.Seq2[[]float32, error] {
	return func(yield func([]float32, error) bool) {
		p.stream(ctx, xs, true, func(r Result, err error) bool { return yield(r.Y, err) })
	}
}

// MapUnordered is Map that yields results in the order in which they are ready, each
// with its element.
func (p *Pipeline) MapUnordered(ctx context.Context, xs iter.Seq[[]float32]) iter.Seq2[Result, error] {
	return p.MapUnorderedErr(ctx, withoutErrors(xs))
}

// MapUnorderedErr is MapUnordered for a source that may fail, as MapErr is Map.
func (p *Pipeline) MapUnorderedErr(ctx context.Context, xs iter.Seq2[[]float32, error]) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) { p.stream(ctx, xs, false, yield) }
}

func withoutErrors(xs iter.Seq[[]float32]) iter.Seq2[[]float32, error] {
	return func(yield func([]float32, error) bool) {
		for x := range xs {
			if !yield(x, nil) {
				return
			}
		}
	}
}

// Result is the result of one element of a stream.
type Result struct {
	Index int       // of the element, from 0
	X     []float32 // the element; nil if the source yielded an error
	Y     []float32 // its result; nil with an error
}

// stream is one loop over a Map: the calls of its elements, from when they are read to
// when their results are yielded.
type stream struct {
	pipeline *Pipeline
	ordered  bool
	ahead    *semaphore.Weighted // rows that may still be read ahead
	wake     chan struct{}       // holds one value when the loop should look again
	ended    chan struct{}       // closed when the reading goroutine ends
	how      how                 // it ended

	mu    sync.Mutex
	live  map[*call]struct{} // calls whose results have not been yielded
	ready []*call            // ordered: the same in their order; else those that have ended
	read  bool               // xs has ended
	cut   bool               // before its end, because ctx ended
	left  bool               // the loop has ended
	alone bool               // and doesn't wait for xs any more
}

// how says how xs ended.
type how struct {
	returned bool
	panicked any
}

// patience is how long a loop that ends waits for a source that blocks.
const patience = time.Second

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

// next waits for the next call to yield and returns it when it has ended. It returns
// nil after the last one.
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

// yielded drops a call whose result is about to be yielded.
func (s *stream) yielded(c *call) {
	s.ahead.Release(s.weight(c.rows))
	s.mu.Lock()
	delete(s.live, c)
	s.mu.Unlock()
	c.release()
}

// weight returns what an element counts of the rows ahead. One of more rows than may
// be read ahead goes alone, and one without rows counts as one.
func (s *stream) weight(rows int) int64 { return int64(min(max(1, rows), s.pipeline.ahead)) }

// readAll reads the elements, on a goroutine of its own. If xs panics, or calls
// runtime.Goexit, the loop does the same; if the loop has ended already, the panic ends
// the program as any other.
func (s *stream) readAll(ctx context.Context, xs iter.Seq2[[]float32, error]) {
	defer close(s.ended)
	defer func() {
		if !s.how.returned {
			s.how.panicked = recover()
		}
		s.mu.Lock()
		s.read = true
		alone := s.alone
		s.mu.Unlock()
		if alone && s.how.panicked != nil {
			panic(s.how.panicked)
		}
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

// add queues an element and reports whether to read on.
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
	c.fail(err) // with nil if it has no rows
	return !errors.Is(err, ErrClosed) && ctx.Err() == nil
}

// take adds a call, with a reference, to those of the loop. It returns false if the loop
// has ended.
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

// finished notes that a call has ended whose result may be yielded now.
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

// leave ends the loop. Afterwards the memory of no call is touched, and xs has ended
// unless it blocks.
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
	if !s.wait() {
		return
	}
	if s.how.panicked != nil {
		panic(s.how.panicked)
	}
	if !s.how.returned {
		runtime.Goexit()
	}
}

// wait waits for the reading goroutine. It returns false if xs blocks.
func (s *stream) wait() bool {
	select {
	case <-s.ended:
		return true
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.ended:
		return true
	case <-timer.C:
	}
	s.mu.Lock()
	s.alone = !s.read
	alone := s.alone
	s.mu.Unlock()
	if !alone {
		<-s.ended
	}
	return !alone
}
