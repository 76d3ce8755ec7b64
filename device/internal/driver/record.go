package driver

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/leat-dev/leat/device"
)

// statusBytes is how large the words are that kernels report to.
const statusBytes = device.StatusWords * 4

// Record hands the queue's error and what kernels reported over to e. An event of
// another queue is a mistake, which becomes this queue's error.
func (q *Queue) Record(e device.Event) {
	own, ok := e.(*Event)
	if !ok || own.queue != q {
		q.Fail(fmt.Errorf("%s: an event recorded on a queue that didn't make it", q.device.name))
		return
	}
	if !q.inside || q.closed {
		q.ready("Record")
		return
	}
	_ = own.Wait(context.Background()) // for an earlier recording
	q.Fail(q.device.Lost())

	// Also on a queue that failed, even on a GPU that seems to be lost: what was
	// enqueued before may still run, and the event is done when it has.
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
	there := q.visit.current // else the driver can't be asked on this thread
	if q.wrote && there {
		reported = keep(q.visit.calls.CopyToHost(unsafe.Pointer(own.status), q.status, statusBytes, q.stream)) &&
			keep(q.visit.calls.Zero(q.status, statusBytes, q.stream))
		q.wrote = !reported
	}
	s := step{kind: finish, event: own, timed: q.marked}
	inStream := there && keep(q.visit.calls.EventRecord(own.handle, q.stream))
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

// mark notes, at a visit's first operation, when the GPU comes to it.
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

// NewEvent returns an *Event that is done.
func (q *Queue) NewEvent() (device.Event, error) {
	if q.closed {
		return nil, fmt.Errorf("%s: an event of a closed queue", q.device.name)
	}
	e, err := q.newEvent()
	if err != nil {
		return nil, fmt.Errorf("an event: %w", err)
	}
	return e, nil
}

func (q *Queue) newEvent() (*Event, error) {
	d := q.device
	if len(q.slots) == 0 {
		const batch = 64 // a page of memory in place holds more than one status
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
