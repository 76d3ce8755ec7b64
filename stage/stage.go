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

// Stage is a run of layers that have been loaded on one device. If a stage of the pipeline
// has replicas, each of them is a Stage. [Load] makes a Stage, Run computes batches until
// its link is closed, and Close frees what the stage holds.
type Stage struct {
	replicas Replicas
	routes   int
	pages    int // the pages of one route
	device   device.Device
	names    []string // the layers' names
	runners  []Runner
	queue    kernels.Queue
	buffers  buffers
	meter    meter
	pass     Pass // the argument of Forward for the current batch
	aborted  atomic.Bool
	inside   goroutine.Set // the goroutines that run layers
}

// Load loads layers on a device, as the stage at the given position. c.Pages is the number
// of pages of one route. loaded, if not nil, is called after each layer has been loaded.
//
// The stage holds memory on the device until Close. The device itself still belongs to the
// caller, who closes it after the stage.
func Load(ctx context.Context, at Position, d device.Device, layers []Layer, c Config, loaded func(Layer)) (s *Stage, err error) {
	s = &Stage{replicas: max(1, at.Replicas), routes: max(1, at.Routes), pages: c.Pages, device: d}
	s.meter.identity = identity{number: at.Number, layers: Describe(layers), device: d.Info().Name}
	c = c.Serving(s.routes / int(s.replicas))
	layer, loading := "", true // loading is false once Load returns normally
	defer func() {
		if r := recover(); r != nil {
			err = caught(r)
		}
		if err == nil && loading {
			err = errEnded // the goroutine ends, so that nobody sees the error
		}
		if err != nil {
			err = s.failure(layer, fmt.Errorf("loading: %w", err))
			_ = s.Close() // the first error says more
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

// Run receives batches from in, computes them, and sends them to out. It returns nil when
// in is closed, and otherwise the error of a link, such as ctx's error when ctx ends. Then
// it closes the links in out. A batch that fails is sent with its error, and Run continues
// with the next one.
//
// out has a link to each replica of the next stage, by its number; links to replicas that
// are on no route with this one may be nil. For the last stage, out is one link, which gets
// all batches.
//
// Run computes on a goroutine of its own. If a layer ends that goroutine with
// runtime.Goexit, as FailNow of a test does, the batch fails and Run starts another
// goroutine. A panic of a link or an observer is not recovered.
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

// worker is the state that a stage's goroutine leaves to the next one if a layer ends it.
type worker struct {
	stage    *Stage
	in       Link
	out      []Link
	batch    *Batch // the current batch
	layers   bool   // layers are computing it
	returned bool   // run has returned normally, with
	err      error
}

// run computes batches until a link returns an error, or until a layer ends the goroutine.
func (w *worker) run(ctx context.Context) {
	defer w.check()
	s := w.stage
	if w.layers { // a layer has ended the previous goroutine
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
			// The host needs activations that a GPU may still be computing. That
			// time counts as waiting for a batch. receive finds an error.
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

// send sends the current batch to the next stage.
func (w *worker) send(ctx context.Context) error {
	err := w.out[Replicas(len(w.out)).For(w.batch.Route)].Send(ctx, w.batch)
	if err == nil {
		w.stage.meter.sent()
	}
	return err
}

// check panics if something other than a layer ends the goroutine: then a link or an
// observer has called runtime.Goexit, which can't be reported as the error of a batch.
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

// process computes the stage's layers for b and adds a mark to b. If the device is
// asynchronous, it only enqueues the operations.
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

	// Record the event even after an error, so that the batch's slot is not used again
	// before the operations in the queue are complete, and so that their errors don't
	// stay in the queue for the next batch.
	defer func() {
		s.queue.Record(event)
		work.Compute = s.meter.lap()
	}()
	if err != nil {
		return nil // the deferred function returns the failure
	}

	h := b.Header
	rows := kernels.Rows{
		Buf: s.buffers.headers[b.Slot], N: len(h.Tokens), Outputs: len(h.Outputs), Pages: len(h.Pages),
		Base: s.replicas.rank(b.Route) * s.pages,
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

// fits returns an error if a batch asks for something impossible. It may come from another
// process.
func (s *Stage) fits(b *Batch) error {
	switch {
	case b.Route < 0 || b.Route >= s.routes:
		return fmt.Errorf("a batch for route %d of %d", b.Route, s.routes)
	case b.Want.Top < 0:
		return fmt.Errorf("a batch wants the %d largest values", b.Want.Top)
	}
	return nil
}

// Input returns memory for the Message.Input of the batch with that slot: Config.MaxRows
// rows. A batch may have its Input in other memory, which is then copied. Input returns nil
// if the stage doesn't read activations from the host's memory. The memory is valid until
// Close.
func (s *Stage) Input(slot int) []float32 {
	if s.buffers.brought == nil {
		return nil
	}
	return s.buffers.brought[slot]
}

func (s *Stage) failure(layer string, err error) *Error { return s.meter.failure(layer, err) }

// Async reports whether the stage's device is asynchronous. Then the stage sends batches
// to the next one while the device may still be computing them.
func (s *Stage) Async() bool { return s.meter.timed }

// Close waits until the device has performed all operations, and frees what the stage
// holds. Run must have returned.
func (s *Stage) Close() error {
	var first error
	if s.queue != nil { // before the memory that its operations use
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

// Abort makes all batches that the stage has not begun to compute fail, with an error that
// wraps ErrClosed. It doesn't block, and may be called from any goroutine.
func (s *Stage) Abort() { s.aborted.Store(true) }

// Inside reports whether the calling goroutine is one on which the stage runs its layers
// and calls its observer. Such a goroutine can't wait for the stage to end.
func (s *Stage) Inside() bool { return s.inside.Current() }

// closeRunner closes a runner on another goroutine, and returns an error if Close panics or
// calls runtime.Goexit.
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
