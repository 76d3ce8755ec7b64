package driver

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/leat-dev/leat/device"
)

// statusBytes is the size in bytes of the status words.
const statusBytes = device.StatusWords * 4

// Record moves the queue's error and the kernels' status to e. If e is not an event of this
// queue, the queue fails.
func (q *Queue) Record(e device.Event) {
	own, ok := e.(*Event)
	if !ok || own.queue != q {
		q.Fail(fmt.Errorf("%s: Record was called with an event of another queue", q.device.name))
		return
	}
	if !q.inside || q.closed {
		q.ready("Record")
		return
	}
	_ = own.Wait(context.Background()) // for its previous recording
	q.Fail(q.device.Lost())

	// Record even if the queue has an error or the GPU seems to be lost: operations
	// enqueued before may still run, and the event must not be done before they are.
	d := q.device
	failed, reported := q.err, false
	keep := func(e *Error) bool {
		err := d.check(e)
		if failed == nil {
			failed = err
		}
		return err == nil
	}
	if q.err == nil {
		q.mark()
	}
	callable := q.visit.current // otherwise this thread has no context for the calls
	if q.wrote && callable {
		reported = keep(q.visit.calls.CopyToHost(unsafe.Pointer(own.status), q.status, statusBytes, q.stream)) &&
			keep(q.visit.calls.Zero(q.status, statusBytes, q.stream))
		q.wrote = !reported
	}
	s := step{kind: finish, event: own, timed: q.marked}
	inStream := callable && keep(q.visit.calls.EventRecord(own.handle, q.stream))
	if !inStream {
		s.kind = drain
	}
	if failed == nil {
		failed = q.err
	}
	own.arm(failed, reported, inStream, q.explain)
	q.err, q.dirty = nil, false
	q.waiter.push(s)
}

// mark records, before the first operation since Begin, an event of the driver that tells
// the waiter when the GPU starts on that operation.
func (q *Queue) mark() {
	if q.marked || q.untimed {
		return
	}
	mark := q.waiter.takeMark()
	if mark == 0 {
		var err error
		if mark, err = q.device.newEventHandle(q.visit.calls); err != nil {
			q.Fail(err)
			return
		}
		q.marks = append(q.marks, mark)
	}
	if q.marked = q.did(q.visit.calls.EventRecord(mark, q.stream)); !q.marked {
		q.waiter.putMark(mark)
		return
	}
	q.waiter.push(step{kind: start, mark: mark})
}

// NewEvent returns an *Event, for use with this queue's Record.
func (q *Queue) NewEvent() (device.Event, error) {
	if q.closed {
		return nil, fmt.Errorf("%s: making an event of a closed queue", q.device.name)
	}
	e, err := q.newEvent()
	if err != nil {
		return nil, fmt.Errorf("making an event: %w", err)
	}
	return e, nil
}

func (q *Queue) newEvent() (*Event, error) {
	d := q.device
	if len(q.slots) == 0 {
		const batch = 64 // allocate for several events at once, as pinned memory is in whole pages
		mem, err := d.pin(batch * statusBytes)
		if err != nil {
			return nil, err
		}
		q.pinned = append(q.pinned, mem)
		q.slots = unsafe.Slice((*[device.StatusWords]uint32)(unsafe.Pointer(unsafe.SliceData(mem))), batch)
	}
	v := d.visit()
	defer v.leave()
	if err := v.enter(); err != nil {
		return nil, err
	}
	handle, err := d.newEventHandle(v.calls)
	if err != nil {
		return nil, err
	}
	e := &Event{queue: q, handle: handle, status: &q.slots[0]}
	q.slots = q.slots[1:]
	q.events = append(q.events, e)
	return e, nil
}
