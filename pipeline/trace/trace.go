// Package trace draws a pipeline at work: it writes what a pipeline tells its
// observer as a Chrome trace, a JSON file that https://ui.perfetto.dev and
// chrome://tracing open.
//
// From top to bottom there is a lane for the forming of batches, one for each
// stage, and one for what is done with results. A batch is a slice in each, and
// arrows lead from one to the next. Gaps in a stage's lane are what a pipeline
// should not have.
//
// A slice of a stage is from when it took a batch until it was done. Of a device
// that works by itself, as a GPU does, it is what the device did: the stage took the
// batch earlier, while the device worked on others.
package trace

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// Trace is a pipeline.Observer that writes a trace. It keeps no more than a few
// thousand events in memory: what comes faster than it can be written is dropped,
// and the end of the trace says how much that was.
type Trace struct {
	began   time.Time
	events  chan event
	dropped atomic.Int64
	closing chan struct{} // closed: what is in events is the last
	ended   chan struct{} // closed: all is written, or failed
	failed  error
}

// event is what a trace is told, to be written later.
type event struct {
	kind                    kind
	stage, replica          int
	device, layers          string
	batch                   uint64
	rows, outputs           int
	at                      time.Duration // since the trace began
	transfer, turn, compute time.Duration
	err                     error
}

func (e *event) took() time.Duration { return e.transfer + e.turn + e.compute }

// kind says what an event tells of.
type kind int

const (
	filled kind = iota
	worked
	emptied
)

const (
	mostEvents = 1 << 13         // that wait to be written
	flushBytes = 1 << 16         // that wait for the writer
	flushTime  = 1 * time.Second // at most
)

// New begins a trace. w is written to by a goroutine of the trace's own, until
// Close.
func New(w io.Writer) *Trace {
	t := &Trace{
		began:   time.Now(),
		events:  make(chan event, mostEvents),
		closing: make(chan struct{}),
		ended:   make(chan struct{}),
	}
	go t.write(w)
	return t
}

// Filled implements pipeline.Observer.
func (t *Trace) Filled(h pipeline.Handling) { t.add(t.handled(filled, h)) }

// Emptied implements pipeline.Observer.
func (t *Trace) Emptied(h pipeline.Handling) { t.add(t.handled(emptied, h)) }

// Worked implements pipeline.Observer.
func (t *Trace) Worked(w stage.Work) {
	e := event{
		kind: worked, stage: w.Stage, replica: w.Replica, device: w.Device, layers: w.Layers,
		batch: w.Batch, rows: w.Rows, err: w.Err,
		at: w.Received.Sub(t.began), transfer: w.Transfer, turn: w.Turn, compute: w.Compute,
	}
	if !w.Began.IsZero() {
		e.at, e.transfer, e.turn = w.Began.Sub(t.began), 0, 0
	}
	t.add(e)
}

func (t *Trace) handled(k kind, h pipeline.Handling) event {
	return event{
		kind: k, batch: h.Batch, rows: h.Rows, outputs: h.Outputs, err: h.Err,
		at: h.Began.Sub(t.began), compute: h.Ended.Sub(h.Began),
	}
}

// add never waits: a pipeline isn't to be held up by who watches it.
func (t *Trace) add(e event) {
	select {
	case t.events <- e:
	default:
		t.dropped.Add(1)
	}
}

// Close writes the end of the trace and returns what went wrong in writing. The
// writer isn't closed. Call it once, when the pipeline is closed: what the trace
// is told later is lost.
func (t *Trace) Close() error {
	close(t.closing)
	<-t.ended
	return t.failed
}

// write is the trace's goroutine.
func (t *Trace) write(w io.Writer) {
	defer close(t.ended)
	tick := time.NewTicker(flushTime)
	defer tick.Stop()
	f := newFormat()
	flush := func() {
		if t.failed == nil {
			if _, err := w.Write(f.text); err != nil {
				t.failed = fmt.Errorf("writing the trace: %w", err)
			}
		}
		f.text = f.text[:0]
	}
	for {
		select {
		case e := <-t.events:
			f.event(&e)
			if len(f.text) >= flushBytes {
				flush()
			}
		case <-tick.C:
			flush()
		case <-t.closing:
			for range len(t.events) {
				e := <-t.events
				f.event(&e)
			}
			f.end(time.Since(t.began), t.dropped.Load())
			flush()
			return
		}
	}
}
