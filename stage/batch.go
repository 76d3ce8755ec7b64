package stage

import (
	"context"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// Batch is one micro-batch on its way through the stages: rows of many
// requests, so that one read of a stage's weights serves them all. Whoever has
// received it from a link owns it, until it is sent on.
//
// A batch has a slot, a number below Config.InFlight, and every stage keeps a
// set of buffers a slot. A slot is used again only when the batch before has
// left the last stage and Wait has returned; then no stage works on its buffers
// any more, for each stage's work waits for that of the stage before.
type Batch struct {
	Slot   int
	Number uint64          // among the batches that were sent, from 1; 0 before
	Begun  time.Time       // since when it is filled, or its results are taken, where an observer wants to know
	Header *kernels.Header // what the rows are; filled before the batch is sent
	Tag    any             // whatever the sender wants to find again; Reset keeps it

	// Route is the one that all its rows take where stages have replicas: of a stage
	// with k of them, number Route mod k. The sender chooses it, below
	// Position.Routes, before the batch is sent; Reset sets it to 0.
	Route int

	// Input is where the rows go that the first layer reads, Config.Input
	// numbers a row of the header, one after the other. It has room for MaxRows
	// rows; Reset keeps it and what is in it. Nil where Config.Input is 0.
	Input []float32

	// Best says that of each row that comes out of the last stage only the column
	// of the largest value is wanted: see Chosen. The sender sets it before the
	// batch is sent; Reset clears it.
	Best bool

	rows kernels.Rows // the header on the device of the stage that has the batch

	encoded []byte         // the header, encoded once
	x       kernels.Tensor // the activations, on the device of the stage that wrote them
	ready   device.Event   // x is there when it is done
	values  []float32      // x in the host's memory, from the last stage
	chosen  []int32        // instead, of x's rows
	marks   []mark
	open    []Work // what stages did that an observer hasn't been told yet
	err     error
}

// mark is a stage's trace on a batch: the event at the end of its work.
type mark struct {
	stage *Stage
	event device.Event
	took  time.Duration // that the stage had its device, or the device worked
	open  int           // its Work's place among the batch's open ones, from 1; 0: it isn't open
}

// NewBatch returns a batch for slot that fits c. Its Input is the caller's to
// set, to that of the first stage.
func NewBatch(slot int, c Config) *Batch {
	b := &Batch{Slot: slot, Header: kernels.NewHeader(c.MaxRows, c.MaxTables)}
	b.Reset()
	return b
}

// Reset makes the batch ready to be filled again. It keeps Slot, Tag and Input.
func (b *Batch) Reset() {
	b.Header.Reset()
	b.Route = 0
	b.Number = 0
	b.Best = false
	b.encoded, b.x, b.ready, b.values, b.chosen, b.err = nil, kernels.Tensor{}, device.Done, nil, nil, nil
	b.marks, b.open = b.marks[:0], b.open[:0]
}

// Seal encodes the header. Call it once, after the last row is in and before
// the batch is sent.
func (b *Batch) Seal() { b.encoded = b.Header.Encode() }

// Err returns the batch's error, nil while none is known. Work that is still
// queued may yet fail: Wait tells.
func (b *Batch) Err() error { return b.err }

// Wait blocks until all stages' work on the batch is done and returns its
// error, an *Error that names the stage, or ctx's. Where devices work by themselves,
// their observer and their Stats are told meanwhile.
func (b *Batch) Wait(ctx context.Context) error {
	for i := range b.marks {
		m := &b.marks[i]
		err := m.event.Wait(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			err = m.stage.failure("", err)
			if b.blames(m.stage) {
				b.err = err
			}
		}
		if m.open > 0 {
			var after time.Time // when the stage before was done
			if m.open > 1 {
				after = b.open[m.open-2].Ended()
			}
			m.stage.meter.settle(m, &b.open[m.open-1], after, err)
			m.open = 0
		}
	}
	return b.err
}

// blames says that an error of that stage's device explains the batch's failure: an
// error of a stage behind it may come of what the device handed on.
func (b *Batch) blames(s *Stage) bool {
	if b.err == nil {
		return true
	}
	at, ok := b.err.(*Error)
	return ok && at.Stage > s.number
}

// Took returns how long the stage of that number, whichever of its replicas it
// was, had its device for the batch, 0 if it never came there. Of a device that
// works by itself it is known after Wait.
func (b *Batch) Took(stage int) time.Duration {
	for _, m := range b.marks {
		if m.stage.number == stage {
			return m.took
		}
	}
	return 0
}

// Values returns the last stage's result in the host's memory, a row after the
// other. It is there after Wait, and valid until the slot is used again.
// Nil where there is Chosen.
func (b *Batch) Values() []float32 { return b.values }

// Chosen returns, of a batch that was sent with Best, the column of the largest
// value in each row of the last stage's result: of equals the first, -1 where none
// is a number. Nil where the host reads the result in place: Values has it then. It
// is there after Wait, and valid until the slot is used again.
func (b *Batch) Chosen() []int32 { return b.chosen }
