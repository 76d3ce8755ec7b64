package stage

import (
	"context"
	"errors"
	"fmt"
	"runtime/trace"
	"sync/atomic"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/goroutine"
	"github.com/leat-dev/leat/kernels"
)

// Stage is a run of layers on one device: all that a pipeline has of that run, or
// one of several replicas of it. Load makes a Stage, Run works on batches until its
// link is closed, and Close frees what the stage holds.
type Stage struct {
	replicas Replicas
	routes   int
	pages    int // of one route
	device   device.Device
	names    []string // of the layers
	runners  []Runner
	queue    kernels.Queue
	buffers  buffers
	meter    meter
	pass     Pass // of the batch at hand
	aborted  atomic.Bool
	inside   goroutine.Set // those that run layers
}

// Load puts layers on the device as the stage of that position. c.Pages are those
// of one route. loaded, if not nil, is called after each layer.
//
// The stage holds device memory until Close; the device stays the caller's.
func Load(ctx context.Context, at Position, d device.Device, layers []Layer, c Config, loaded func(Layer)) (s *Stage, err error) {
	s = &Stage{replicas: max(1, at.Replicas), routes: max(1, at.Routes), pages: c.Pages, device: d}
	s.meter.identity = identity{number: at.Number, layers: Describe(layers), device: d.Info().Name}
	c = c.Serving(s.routes / int(s.replicas))
	layer, loading := "", true // until it has returned, one way or another
	defer func() {
		if r := recover(); r != nil {
			err = caught(r)
		}
		if err == nil && loading {
			err = errEnded // nobody gets it: the goroutine ends
		}
		if err != nil {
			err = s.failure(layer, fmt.Errorf("loading: %w", err))
			_ = s.Close() // the first error tells more
			s = nil
		}
	}()
	backend, err := kernels.For(d.Info().Kind)
	if err != nil {
		return s, err
	}
	if s.queue, err = backend.NewQueue(d); err != nil {
		return s, err
	}
	for _, l := range layers {
		layer = l.Name()
		if err := ctx.Err(); err != nil {
			return s, err
		}
		r, err := l.Load(ctx, s.queue, c)
		if err != nil {
			return s, err
		}
		s.names = append(s.names, layer)
		s.runners = append(s.runners, r)
		if loaded != nil {
			loaded(l)
		}
	}
	layer = ""
	err = s.buffers.allocate(s.queue, layers, at, c)
	s.pass = Pass{Queue: s.queue, Work: s.buffers.work}
	if err == nil && c.InFlight > 0 {
		_, s.meter.timed = s.buffers.events[0].(device.Timed)
	}
	loading = false
	return s, err
}

// Run receives batches from in, works on them and sends them on, until in is
// closed or ctx ends; then it closes the links that it sent to. A batch that fails
// carries its error on; it never ends Run.
//
// out has a link to each replica of the next stage, by their numbers; those that
// share no route with this one may be nil. The batches that come out of the last
// stage go to its one link.
//
// The work is done on a goroutine of Run's own. Where a layer ends it, by
// runtime.Goexit as a test's FailNow does, the batch fails and Run starts another.
// A panic of a link or an observer is not recovered.
func (s *Stage) Run(ctx context.Context, in Link, out ...Link) error {
	defer func() {
		for _, o := range out {
			if o != nil {
				o.Close()
			}
		}
	}()
	s.meter.start()
	w := worker{stage: s, in: in, out: out}
	for !w.returned {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer s.inside.Enter()()
			w.run(ctx)
		}()
		<-ended
	}
	if w.err == ErrClosed {
		return nil
	}
	return w.err
}

// worker is what the goroutines of a stage, of which there is one at a time, leave
// to each other.
type worker struct {
	stage    *Stage
	in       Link
	out      []Link
	batch    *Batch // at hand
	layers   bool   // the layers work on it
	returned bool   // the stage has come to its end
	err      error  // of that
}

// run works on batches until there are none, or until a layer ends the goroutine.
func (w *worker) run(ctx context.Context) {
	defer w.check()
	s := w.stage
	if w.layers { // they ended the goroutine before this one
		w.layers = false
		w.batch.Failure = s.failure("", errEnded)
		s.meter.worked(w.batch)
		if w.err = w.send(ctx); w.err != nil {
			w.returned = true
			return
		}
	}
	for w.err == nil {
		var b *Batch
		if b, w.err = w.in.Recv(ctx); w.err != nil {
			break
		}
		w.batch = b
		if len(b.open) > 0 && !s.meter.timed && b.Failure == nil {
			// What a GPU still works on isn't there for the host: until then the
			// stage has no batch. An error is found when it is received.
			_ = b.ready.Wait(ctx)
		}
		s.meter.received(b)
		if b.Failure == nil && s.aborted.Load() {
			b.Failure = s.failure("", ErrClosed)
		}
		if b.Failure == nil {
			w.layers = true
			b.Failure = s.process(ctx, b)
			w.layers = false
			s.meter.worked(b)
		}
		w.err = w.send(ctx)
	}
	w.returned = true
}

func (w *worker) send(ctx context.Context) error {
	err := w.out[Replicas(len(w.out)).For(w.batch.Route)].Send(ctx, w.batch)
	if err == nil {
		w.stage.meter.sent()
	}
	return err
}

// check sees to it that the goroutine's end outside the layers isn't taken for
// theirs: there it is a mistake of a link or an observer, for which no batch can
// answer.
func (w *worker) check() {
	if w.returned || w.layers {
		return
	}
	if value := recover(); value != nil {
		panic(value)
	}
	panic("stage: a link or an observer called runtime.Goexit")
}

var errEnded = errors.New("a layer ended the stage's goroutine")

// process enqueues the run's work on b, and leaves its mark there. It doesn't wait
// for a device that works by itself.
func (s *Stage) process(ctx context.Context, b *Batch) (failure *Error) {
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, s.meter.layers).End()
	}
	layer := ""
	var before *Error
	var err error
	defer func() {
		if r := recover(); r != nil {
			err = caught(r)
		}
		switch {
		case before != nil:
			failure = before
		case err != nil:
			failure = s.failure(layer, err)
		}
	}()
	event := s.buffers.events[b.Slot]
	b.marks = append(b.marks, mark{meter: &s.meter, event: event})
	work := &s.meter.work
	var in kernels.Tensor
	if err = s.fits(b); err == nil {
		if in, err = s.buffers.receive(ctx, b); err != nil {
			before = b.before(ctx)
		}
	}
	work.Transfer = s.meter.lap()
	s.queue.Begin()
	defer s.queue.End()
	work.Turn = s.meter.lap()

	// Whatever comes, the batch's slot is used again only when what was enqueued
	// is done, and what goes wrong doesn't stay in the queue for the next batch.
	defer func() {
		s.queue.Record(event)
		work.Compute = s.meter.lap()
	}()
	if err != nil {
		return nil // the deferred function says what
	}

	h := b.Header
	rows := kernels.Rows{
		Buf: s.buffers.headers[b.Slot], N: len(h.Tokens), Outputs: len(h.Outputs), Pages: len(h.Pages),
		Base: s.replicas.Rank(b.Route) * s.pages,
	}
	s.pass.Header, s.pass.Rows, s.pass.Slot = h, rows, b.Slot
	if s.buffers.width > 0 && in.Buf == nil {
		if in, err = s.buffers.bring(s.queue, b); err != nil {
			return nil
		}
	}
	if err = s.buffers.describe(s.queue, b); err != nil {
		return nil
	}
	for i, r := range s.runners {
		layer = s.names[i]
		out := s.buffers.output(i, b)
		if err = r.Forward(&s.pass, in, out); err != nil {
			return nil
		}
		if err = s.queue.Err(); err != nil {
			return nil
		}
		in = out
	}
	layer = ""
	err = s.buffers.deliver(s.queue, b, in)
	b.x, b.ready = in, event
	return nil
}

// fits says what is wrong with what a batch asks for, if anything: its sender may be
// another process.
func (s *Stage) fits(b *Batch) error {
	switch {
	case b.Route < 0 || b.Route >= s.routes:
		return fmt.Errorf("a batch for route %d of %d", b.Route, s.routes)
	case b.Want.Top < 0:
		return fmt.Errorf("a batch wants the %d largest values", b.Want.Top)
	}
	return nil
}

// Input is where the batch of a slot may have its input, if this is the first
// stage and Config.Input isn't 0: [MaxRows, Input], in the host's memory or the
// device's own. From elsewhere it is copied. It is valid until Close.
func (s *Stage) Input(slot int) []float32 {
	if s.buffers.brought == nil {
		return nil
	}
	return s.buffers.brought[slot]
}

func (s *Stage) failure(layer string, err error) *Error { return s.meter.failure(layer, err) }

// Async reports whether the stage's device works by itself: its batches are sent on
// while the device may still work on them.
func (s *Stage) Async() bool { return s.meter.timed }

// Close waits for what the device still works on and frees what the stage holds.
// Run must have returned.
func (s *Stage) Close() error {
	var first error
	if s.queue != nil { // before the memory that it works on
		first = s.queue.Close()
		s.queue = nil
	}
	if err := s.buffers.free(); first == nil {
		first = err
	}
	for _, r := range s.runners {
		if err := s.closeRunner(r); err != nil && first == nil {
			first = s.failure("", err)
		}
	}
	s.runners = nil
	return first
}

// Abort makes all batches that the stage has yet to work on fail with an error that
// wraps ErrClosed. It doesn't wait, and may be called from any goroutine.
func (s *Stage) Abort() { s.aborted.Store(true) }

// Inside reports whether the calling goroutine is one on which the stage runs its
// layers, and calls its observer: one that would wait for itself if it waited for the
// stage's end.
func (s *Stage) Inside() bool { return s.inside.Current() }

// closeRunner closes a runner, on a goroutine of its own. If that panics or calls
// runtime.Goexit, closeRunner returns an error.
func (s *Stage) closeRunner(r Runner) error {
	err := errClosing
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer s.inside.Enter()()
		defer func() {
			if value := recover(); value != nil {
				err = caught(value)
			}
		}()
		err = r.Close()
	}()
	<-ended
	return err
}

var errClosing = errors.New("a layer ended the goroutine that closed it")
