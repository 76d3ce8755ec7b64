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

	// Set by each stage for its layers.
	Rows kernels.Rows   // the header on the stage's device
	Work kernels.Tensor // the stage's workspace: [1, floats]

	encoded []byte         // the header, encoded once
	x       kernels.Tensor // the activations, on the device of the stage that wrote them
	ready   device.Event   // x is there when it is done
	values  []float32      // x in the host's memory, from the last stage
	marks   []mark
	err     error
}

// mark is a stage's trace on a batch: the event at the end of its work.
type mark struct {
	stage *Stage
	event device.Event
	took  time.Duration // that the stage had its device
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
	b.encoded, b.x, b.ready, b.values, b.err = nil, kernels.Tensor{}, device.Done, nil, nil
	b.marks = b.marks[:0]
}

// Seal encodes the header. Call it once, after the last row is in and before
// the batch is sent.
func (b *Batch) Seal() { b.encoded = b.Header.Encode() }

// Err returns the batch's error, nil while none is known. Work that is still
// queued may yet fail: Wait tells.
func (b *Batch) Err() error { return b.err }

// Wait blocks until all stages' work on the batch is done and returns its
// error, an *Error that names the stage, or ctx's.
func (b *Batch) Wait(ctx context.Context) error {
	for _, m := range b.marks {
		err := m.event.Wait(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && b.err == nil {
			b.err = m.stage.failure("", err)
		}
	}
	return b.err
}

// Took returns how long the stage of that number, whichever of its replicas it
// was, had its device for the batch, 0 if it never came there.
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
func (b *Batch) Values() []float32 { return b.values }

// Floats hands out workspace front to back: it returns the first rows·cols
// float32s of work as a tensor, and what is left.
func Floats(work kernels.Tensor, rows, cols int) (t, rest kernels.Tensor) {
	n := rows * cols
	t, rest = work, work
	t.Rows, t.Cols = rows, cols
	rest.Off += int64(n) * 4
	rest.Cols -= n
	return t, rest
}
