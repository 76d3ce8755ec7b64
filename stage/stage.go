package stage

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// Stage is a run of layers on one device. Load makes it, Run is its goroutine,
// Close frees it.
type Stage struct {
	number  int
	device  device.Device
	layers  string
	names   []string
	runners []Runner
	queue   kernels.Queue
	buffers buffers

	busy          atomic.Int64 // nanoseconds in process
	batches, rows atomic.Int64
}

// Load puts layers on the device as stage number. before is the stage that it
// will receive from, nil for the first. last says that the results are wanted
// in the host's memory. loaded, if not nil, is called after each layer.
//
// The stage holds device memory until Close; the device stays the caller's.
func Load(ctx context.Context, number int, d device.Device, layers []Layer, before *Stage, last bool, c Config, loaded func(Layer)) (s *Stage, err error) {
	s = &Stage{number: number, device: d, layers: Describe(layers)}
	layer := ""
	defer func() {
		if r := recover(); r != nil {
			err = caught(r)
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
	return s, s.buffers.allocate(s.queue, layers, before, last, c)
}

// Run receives batches from in, works on them and sends them to out, until in
// is closed or ctx ends; then it closes out. A batch that fails carries its
// error on; it never ends Run.
func (s *Stage) Run(ctx context.Context, in, out Link) (err error) {
	var b *Batch
	returned := false
	defer func() {
		if !returned {
			// A layer ended the goroutine (runtime.Goexit, as a test's FailNow
			// does): the stage goes on in what is left of it.
			b.err = s.failure("", errEnded)
			if out.Send(ctx, b) == nil {
				_ = s.Run(ctx, in, out)
				return
			}
		}
		out.Close()
	}()
	for {
		if b, err = in.Recv(ctx); err != nil {
			break
		}
		if b.err == nil {
			b.err = s.process(ctx, b)
			s.batches.Add(1)
			s.rows.Add(int64(b.Rows.N))
		}
		if err = out.Send(ctx, b); err != nil {
			break
		}
	}
	returned = true
	if err == ErrClosed {
		return nil
	}
	return err
}

var errEnded = errors.New("a layer ended the stage's goroutine")

// process enqueues the run's work on b.
func (s *Stage) process(ctx context.Context, b *Batch) (err error) {
	layer := ""
	defer func() {
		if r := recover(); r != nil {
			err = caught(r)
		}
		if err != nil {
			err = s.failure(layer, err)
		}
	}()
	in, err := s.buffers.receive(ctx, b)
	if err != nil {
		return err
	}
	s.queue.Begin()
	defer s.queue.End()
	began := time.Now()

	// Whatever comes, the batch's slot is used again only when what was enqueued
	// is done, and what goes wrong doesn't stay in the queue for the next batch.
	event := s.buffers.events[b.Slot]
	defer func() {
		s.queue.Record(event)
		took := time.Since(began)
		b.marks = append(b.marks, mark{s, event, took})
		s.busy.Add(int64(took))
	}()

	h := b.Header
	b.Rows = kernels.Rows{Buf: s.buffers.headers[b.Slot], N: len(h.Tokens), Outputs: len(h.Outputs), Pages: len(h.Pages)}
	b.Work = s.buffers.work
	s.queue.Upload(b.Rows.Buf, 0, b.encoded)
	if s.buffers.width > 0 {
		in = s.buffers.bring(s.queue, b)
	}
	for i, r := range s.runners {
		layer = s.names[i]
		out := s.buffers.output(i, b)
		if err := r.Forward(s.queue, b, in, out); err != nil {
			return err
		}
		if err := s.queue.Err(); err != nil {
			return err
		}
		in = out
	}
	layer = ""
	b.values = s.buffers.deliver(s.queue, b.Slot, in)
	b.x, b.ready = in, event
	return nil
}

// Input is where the batch of a slot has its input, if this is the first stage
// and Config.Input isn't 0: [MaxRows, Input], in the host's memory or the
// device's own. It is valid until Close.
func (s *Stage) Input(slot int) []float32 {
	if s.buffers.brought == nil {
		return nil
	}
	return s.buffers.brought[slot]
}

func (s *Stage) failure(layer string, err error) *Error {
	return &Error{Stage: s.number, Layers: s.layers, Layer: layer, Device: s.device.Info().Name, Err: err}
}

// Close frees what the stage holds. Run must have returned.
func (s *Stage) Close() error {
	first := s.buffers.free()
	for _, r := range s.runners {
		if err := closeRunner(r); err != nil && first == nil {
			first = s.failure("", err)
		}
	}
	s.runners = nil
	if s.queue != nil {
		if err := s.queue.Close(); err != nil && first == nil {
			first = err
		}
		s.queue = nil
	}
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

// Stats is what a stage has done since it was loaded.
type Stats struct {
	Busy    time.Duration // time in which it had its device
	Batches int64
	Rows    int64
}

// Stats may be called at any time, from any goroutine.
func (s *Stage) Stats() Stats {
	return Stats{time.Duration(s.busy.Load()), s.batches.Load(), s.rows.Load()}
}
