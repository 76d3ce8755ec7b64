package stage

import (
	"context"
	"errors"
	"fmt"
	"runtime/trace"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// Stage is a run of layers on one device: all that a pipeline has of that run, or
// one of several replicas. Load makes it, Run is its goroutine, Close frees it.
type Stage struct {
	number  int
	shares  int // replicas that there are of it
	pages   int // of one route
	device  device.Device
	layers  string
	names   []string
	runners []Runner
	queue   kernels.Queue
	buffers buffers
	meter   meter
	pass    Pass // of the batch at hand
}

// Position is where a stage stands in a pipeline.
//
// Where stages have replicas, a batch goes by a route, which is one replica a
// stage: of a stage with k of them number Route mod k. So each of them serves
// Routes/k routes, and keeps the pages of these one after another.
type Position struct {
	Number   int  // of the stage, from 0
	Last     bool // results are wanted in the host's memory
	Replicas int  // of the stage; 0 is 1
	Routes   int  // of the pipeline, a multiple of Replicas; 0 is 1

	// Before are the replicas of the stage before, by their numbers. Those that
	// share no route with this one may be nil. None for the first stage.
	Before []*Stage
}

// Load puts layers on the device as the stage of that position. c.Pages are those
// of one route. loaded, if not nil, is called after each layer.
//
// The stage holds device memory until Close; the device stays the caller's.
func Load(ctx context.Context, at Position, d device.Device, layers []Layer, c Config, loaded func(Layer)) (s *Stage, err error) {
	s = &Stage{number: at.Number, shares: max(1, at.Replicas), pages: c.Pages, device: d, layers: Describe(layers)}
	c = c.Serving(at.Routes / s.shares)
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
// share no route with this one may be nil. What comes out of the last stage goes
// to its one link.
func (s *Stage) Run(ctx context.Context, in Link, out ...Link) (err error) {
	var b *Batch
	returned := false
	s.meter.start()
	defer func() {
		if !returned {
			// A layer ended the goroutine (runtime.Goexit, as a test's FailNow
			// does): the stage goes on in what is left of it.
			b.err = s.failure("", errEnded)
			s.meter.worked(b, b.err)
			if out[b.Route%len(out)].Send(ctx, b) == nil {
				_ = s.Run(ctx, in, out...)
				return
			}
		}
		for _, o := range out {
			if o != nil {
				o.Close()
			}
		}
	}()
	for {
		if b, err = in.Recv(ctx); err != nil {
			break
		}
		if len(b.open) > 0 && !s.meter.timed && b.err == nil {
			// What a GPU still works on isn't there for the host: until then the
			// stage has no batch. An error is found when it is received.
			_ = b.ready.Wait(ctx)
		}
		s.meter.received(b)
		if b.err == nil {
			b.err = s.process(ctx, b)
			s.meter.worked(b, b.err)
		}
		if err = out[b.Route%len(out)].Send(ctx, b); err != nil {
			break
		}
		s.meter.sent()
	}
	returned = true
	if err == ErrClosed {
		return nil
	}
	return err
}

var errEnded = errors.New("a layer ended the stage's goroutine")

// process enqueues the run's work on b, and leaves its mark there. It doesn't wait
// for a device that works by itself.
func (s *Stage) process(ctx context.Context, b *Batch) (err error) {
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, s.layers).End()
	}
	layer, before := "", (*Error)(nil)
	defer func() {
		if r := recover(); r != nil {
			err = caught(r)
		}
		switch {
		case before != nil:
			err = before
		case err != nil:
			err = s.failure(layer, err)
		}
	}()
	event := s.buffers.events[b.Slot]
	b.marks = append(b.marks, mark{stage: s, event: event})
	work := &s.meter.work
	in, err := s.buffers.receive(ctx, b)
	work.Transfer = s.meter.lap()
	if err != nil {
		before = b.before(ctx)
	}
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
		return err
	}

	h := b.Header
	b.rows = kernels.Rows{Buf: s.buffers.headers[b.Slot], N: len(h.Tokens), Outputs: len(h.Outputs), Pages: len(h.Pages), Base: b.Route / s.shares * s.pages}
	s.pass.Header, s.pass.Rows, s.pass.Slot = h, b.rows, b.Slot
	s.queue.Upload(b.rows.Buf, 0, s.buffers.seal(b))
	if s.buffers.width > 0 {
		if in, err = s.buffers.bring(s.queue, b); err != nil {
			return err
		}
	}
	for i, r := range s.runners {
		layer = s.names[i]
		out := s.buffers.output(i, b)
		if err := r.Forward(&s.pass, in, out); err != nil {
			return err
		}
		if err := s.queue.Err(); err != nil {
			return err
		}
		in = out
	}
	layer = ""
	s.buffers.deliver(s.queue, b, in)
	b.x, b.ready = in, event
	return nil
}

// before is the failure of the stage before the latest mark's, if its device failed.
func (b *Batch) before(ctx context.Context) *Error {
	if len(b.marks) < 2 {
		return nil
	}
	m := b.marks[len(b.marks)-2]
	if err := m.event.Wait(ctx); err != nil && ctx.Err() == nil {
		return m.stage.failure("", err)
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

func (s *Stage) failure(layer string, err error) *Error {
	return &Error{Stage: s.number, Layers: s.layers, Layer: layer, Device: s.device.Info().Name, Err: err}
}

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
		if err := closeRunner(r); err != nil && first == nil {
			first = s.failure("", err)
		}
	}
	s.runners = nil
	return first
}

// closeRunner closes a runner, and takes a panic for its error.
func closeRunner(r Runner) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = caught(value)
		}
	}()
	return r.Close()
}
