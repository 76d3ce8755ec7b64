package stage

import (
	"context"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// Batch is a micro-batch in flight: the message that travels, the result that
// comes of it, and what its sender and the stages of this process note about it
// meanwhile. It holds rows of many requests, so that one read of a stage's weights
// serves them all. Whoever received it from a link owns it until it is sent on.
//
// Every stage keeps a set of buffers for each slot. A slot may be used again only
// after the batch has left the last stage and Wait has returned: then no stage
// works on those buffers any more, because each stage's work waits for that of the
// stage before.
type Batch struct {
	Message
	Result

	Slot  int       // below Config.InFlight; no other batch in flight has it
	Begun time.Time // when filling it, or reading its results, began; zero if no observer wants to know
	Tag   any       // for the sender, to find again what belongs to the batch; Reset keeps it

	ready device.Event // the activations are there when it is done
	marks []mark       // one for each stage that the batch has passed in this process
	open  []Work       // what stages did that an observer has not been told yet
}

// mark is what a stage leaves on a batch: the event at the end of its work, and
// where to report how long that took.
type mark struct {
	meter *meter
	event device.Event
	took  time.Duration // that the stage had its device, or that the device worked
	open  int           // the place of the stage's Work in Batch.open, from 1; 0 if it is not there
}

// NewBatch returns an empty batch for a slot, with room for as many rows as c
// allows. Its Input is nil: where the first stage reads one, the sender sets it,
// best to what Stage.Input returns.
func NewBatch(slot int, c Config) *Batch {
	b := &Batch{Slot: slot, Message: Message{Header: kernels.NewHeader(c.MaxRows, c.MaxTables), width: c.Input}}
	b.Reset()
	return b
}

// Reset makes the batch ready to be filled again. It keeps Slot, Tag and Input.
func (b *Batch) Reset() {
	b.reset()
	b.Result = Result{}
	b.ready = device.Done
	b.marks, b.open = b.marks[:0], b.open[:0]
}

// Err returns the batch's error, an *Error, or nil while none is known. Work that
// is still queued on a device may fail later; Wait tells.
func (b *Batch) Err() error {
	if b.Failure == nil {
		return nil
	}
	return b.Failure
}

// Wait blocks until the work of all stages on the batch is done. It returns the
// batch's error, an *Error that names the stage, or ctx's error if ctx ends first.
// Where devices work by themselves, Wait reports their work to the stages'
// observers and Stats.
func (b *Batch) Wait(ctx context.Context) error {
	for i := range b.marks {
		m := &b.marks[i]
		err := m.event.Wait(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failure := m.meter.failure("", err)
			if b.Failure == nil || b.Failure.Stage > failure.Stage {
				b.Failure = failure // the error of a later stage may come of this one
			}
			err = failure
		}
		if m.open > 0 {
			var after time.Time // when the stage before was done
			if m.open > 1 {
				after = b.open[m.open-2].Ended()
			}
			m.meter.settle(m, &b.open[m.open-1], after, err)
			m.open = 0
		}
	}
	return b.Err()
}

// Took returns how long the stage of that number had its device for the batch,
// whichever of the stage's replicas it was; 0 if the batch never came there. Where
// the device works by itself it is known only after Wait.
func (b *Batch) Took(stage int) time.Duration {
	for _, m := range b.marks {
		if m.meter.number == stage {
			return m.took
		}
	}
	return 0
}

// before returns the failure of the stage before the latest mark's, if its device
// failed.
func (b *Batch) before(ctx context.Context) *Error {
	if len(b.marks) < 2 {
		return nil
	}
	m := b.marks[len(b.marks)-2]
	if err := m.event.Wait(ctx); err != nil && ctx.Err() == nil {
		return m.meter.failure("", err)
	}
	return nil
}
