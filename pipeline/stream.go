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

// Map passes the elements of xs through the pipeline and yields their results in the order
// of the elements. An element is one or more rows, as for [Pipeline.Do]. It must not be
// changed until its result has been yielded or the loop has ended. The results belong to
// the loop. Each loop over the returned iterator reads xs from the beginning.
//
// Map reads elements ahead of the loop, as many rows as [WithAhead] says, so that the
// memory of a slow loop is bounded. If an element fails, its error is yielded in place of
// its result, and the loop continues. If ctx ends or the pipeline is closed, ctx's error
// or ErrClosed is yielded last.
//
// Map reads xs on a goroutine of its own, which has ended when the loop ends. There is
// one exception: if xs blocks, the loop ends after waiting for a second, and the goroutine
// ends when xs yields or returns. An xs that may block for long should return when its
// own context ends, which the caller cancels after the loop. If xs panics or calls
// runtime.Goexit, so does the loop.
func (p *Pipeline) Map(ctx context.Context, xs iter.Seq[[]float32]) iter.Seq2[[]float32, error] {
	return p.MapErr(ctx, withoutErrors(xs))
}

// MapErr is Map for an xs that may fail. An error from xs is yielded in place of the
// element's result, and the loop continues with the next element.
func (p *Pipeline) MapErr(ctx context.Context, xs iter.Seq2[[]float32, error]) iter.Seq2[[]float32, error] {
	return func(yield func([]float32, error) bool) {
		p.stream(ctx, xs, true, func(r Result, err error) bool { return yield(r.Y, err) })
	}
}

// MapUnordered is Map, except that it yields each result as soon as it is computed,
// together with its element.
func (p *Pipeline) MapUnordered(ctx context.Context, xs iter.Seq[[]float32]) iter.Seq2[Result, error] {
	return p.MapUnorderedErr(ctx, withoutErrors(xs))
}

// MapUnorderedErr is MapUnordered for an xs that may fail; see [Pipeline.MapErr].
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
	Index int       // the element's index in the stream, from 0
	X     []float32 // the element; nil if the stream yielded an error in its place
	Y     []float32 // the result; nil if the element failed
}

// stream is one loop over a Map. It holds a call for each element that has been read and
// whose result has not been yielded.
type stream struct {
	pipeline *Pipeline
	ordered  bool
	ahead    *semaphore.Weighted // rows that may still be read ahead
	wake     chan struct{}       // holds one value after a change that the loop may wait for
	ended    chan struct{}       // closed when the reading goroutine ends
	how      how                 // how xs has ended, set before ended is closed

	mu    sync.Mutex
	live  map[*call]struct{} // calls whose results have not been yielded
	ready []*call            // if ordered, these calls in their order; otherwise those of them that have ended
	read  bool               // xs has ended
	cut   bool               // reading has stopped because ctx ended
	left  bool               // the loop has ended
	alone bool               // the loop has ended without waiting for xs any longer
}

// how says how xs has ended.
type how struct {
	returned bool
	panicked any
}

// patience is how long a loop that has ended waits for an xs that blocks.
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

// next returns the next call whose result is to be yielded, after waiting for its end. It
// returns nil after the last call.
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

// yielded releases a call whose result is about to be yielded.
func (s *stream) yielded(c *call) {
	s.ahead.Release(s.weight(c.rows))
	s.mu.Lock()
	delete(s.live, c)
	s.mu.Unlock()
	c.release()
}

// weight returns how many rows an element counts as, of those that may be read ahead. An
// element with more rows than that counts as all of them, one without rows as one row.
func (s *stream) weight(rows int) int64 { return int64(min(max(1, rows), s.pipeline.ahead)) }

// readAll reads the elements on a goroutine of its own. If xs panics or calls
// runtime.Goexit, the loop does the same. If the loop no longer waits for xs, a panic of xs
// ends the program.
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

// add queues an element and reports whether to continue reading.
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
	defer c.release() // the loop has a reference of its own
	c.index = index
	if !s.ordered {
		c.stream = s
	}
	if !s.hold(c) {
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

// hold adds a call, with a reference, to those of the loop. It returns false if the loop
// has ended.
func (s *stream) hold(c *call) bool {
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

// finished makes the loop yield the result of a call that has ended.
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

// leave ends the loop. After it has returned, no element is read and no result is written,
// and xs has ended unless it blocks.
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

// wait waits until the reading goroutine has ended. It returns false if xs blocks for
// longer than patience.
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
