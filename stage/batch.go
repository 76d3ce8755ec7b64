package stage

import (
	"context"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// Batch is a micro-batch in flight: the message that is passed from stage to stage, the
// results, and notes of its sender and of the stages in this process. The goroutine that
// has received a batch from a link owns it until it sends the batch.
//
// Every stage has a set of buffers for each slot. A batch may be reset and sent again only
// after it has left the last stage and its Wait has returned. By then no stage uses the
// slot's buffers any more, because the work of each stage waits for that of the stage
// before.
type Batch struct {
	Message
	Result

	Slot  int       // from 0 to Config.InFlight-1; all batches in flight have different ones
	Begun time.Time // when the sender began to fill it, or to handle its results; zero if there is no observer
	Tag   any       // for the sender's own use; Reset keeps it

	ready device.Event // completes when the activations have been computed
	marks []mark       // one for each stage of this process that the batch has passed
	open  []Work       // work for which the observers have not been called yet
}

// mark is a stage's note on a batch: the event at the end of the stage's work, and where
// to count how long that took.
type mark struct {
	meter *meter
	event device.Event
	took  time.Duration // the time in which the layers ran
	open  int           // 1 + the index of the stage's Work in Batch.open; 0: it is not there
}

// NewBatch returns an empty batch for a slot, with the sizes that c gives. Its Input is
// nil: if the first stage reads one, the sender sets it, preferably to what [Stage.Input]
// returns.
func NewBatch(slot int, c Config) *Batch {
	b := &Batch{Slot: slot, Message: Message{Header: kernels.NewHeader(c.MaxRows, c.MaxTables), width: c.Input}}
	b.Reset()
	return b
}

// Reset empties the batch, so that it can be filled again. It keeps Slot, Tag and Input.
func (b *Batch) Reset() {
	b.reset()
	b.Result = Result{}
	b.ready = device.Done
	b.marks, b.open = b.marks[:0], b.open[:0]
}

// Err returns the batch's error, an *Error, or nil if none is known so far. Operations that
// a device has yet to perform may still fail; Wait returns their errors.
func (b *Batch) Err() error {
	if b.Failure == nil {
		return nil
	}
	return b.Failure
}

// Wait blocks until the devices of all stages have finished the batch. It returns the
// batch's error, an *Error that names the stage, or ctx's error if ctx ends first. For
// asynchronous devices, Wait calls the stages' observers and updates their Stats.
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
				b.Failure = failure // it may be the cause of a later stage's error
			}
			err = failure
		}
		if m.open > 0 {
			var after time.Time // when the stage before ended
			if m.open > 1 {
				after = b.open[m.open-2].Ended()
			}
			m.meter.settle(m, &b.open[m.open-1], after, err)
			m.open = 0
		}
	}
	return b.Err()
}

// Took returns how long the layers of the stage with that number ran for the batch, on
// whichever replica; 0 if the batch has not been computed there. For an asynchronous device
// it is known only after Wait.
func (b *Batch) Took(stage int) time.Duration {
	for _, m := range b.marks {
		if m.meter.number == stage {
			return m.took
		}
	}
	return 0
}

// before returns the failure of the last stage but one that the batch has passed, if its
// device has failed.
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
