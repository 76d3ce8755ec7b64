package driver

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/leat-dev/leat/device"
)

// Queue is a stream of a GPU. It implements device.Launcher. It may be used by only one
// goroutine at a time. Its operations are asynchronous, with two exceptions: an Upload from
// memory that is not pinned returns when the driver has copied the bytes, and a Download to
// such memory returns when the copy is done.
type Queue struct {
	device  *Device
	stream  uintptr
	status  uintptr // the address on the GPU of device.StatusWords words
	visit   *visit
	inside  bool  // whether the queue is between Begin and End
	marked  bool  // whether an operation was enqueued since Begin, with its mark
	err     error // the queue's error, known so far
	dirty   bool  // whether something was enqueued, or failed, since the last Record
	untimed bool  // whether no marks are recorded, so that events have no Span
	wrote   bool  // whether a kernel was launched since the status was last copied

	waiter  *waiter
	explain func([device.StatusWords]uint32) error
	closing *Event // recorded by Close
	events  []*Event
	marks   []uintptr                    // the driver's events for the times at which visits began
	slots   [][device.StatusWords]uint32 // status memory for events to be made
	pinned  [][]byte                     // the memory that the slots are in
	closed  bool

	host unsafe.Pointer // host memory of the current call, kept on the heap by this pointer
}

// NewQueue returns a *Queue.
func (d *Device) NewQueue() (device.Queue, error) {
	q, err := d.newQueue()
	if err != nil {
		return nil, fmt.Errorf("making a queue: %w", err)
	}
	return q, nil
}

// NewCopyQueue returns a *Queue to be used only for copies. Its events have no Span.
func (d *Device) NewCopyQueue() (device.Queue, error) {
	q, err := d.newCopyQueue()
	if err != nil {
		return nil, fmt.Errorf("making a queue for copies: %w", err)
	}
	return q, nil
}

func (d *Device) newCopyQueue() (*Queue, error) {
	q, err := d.newQueue()
	if err == nil {
		q.untimed = true
	}
	return q, err
}

func (d *Device) newQueue() (*Queue, error) {
	if err := d.use("a queue"); err != nil {
		return nil, err
	}
	q := &Queue{device: d, visit: d.visit()}
	err := func() (err error) {
		if q.stream, err = d.newStream(); err != nil {
			return err
		}
		if q.status, err = d.alloc(statusBytes); err != nil {
			return err
		}
		if q.closing, err = q.newEvent(); err != nil {
			return err
		}
		q.waiter, err = newWaiter(q)
		return err
	}()
	if err != nil {
		_ = q.free() // the first error tells more
		return nil, err
	}
	return q, nil
}

// Device returns the *Device.
func (q *Queue) Device() device.Device { return q.device }

// Begin locks the goroutine to its thread and makes the GPU's context the thread's current
// one. It doesn't wait for other queues of the GPU, which schedules their work itself.
func (q *Queue) Begin() {
	q.inside, q.marked = true, false
	q.Fail(q.visit.enter())
}

// End undoes Begin.
func (q *Queue) End() {
	q.inside = false
	q.visit.leave()
}

// Fail makes err the queue's error, unless the queue already has one. A nil err has no
// effect.
func (q *Queue) Fail(err error) {
	if err != nil && q.err == nil {
		q.err, q.dirty = err, true
	}
}

// Failed reports whether the queue is known to have an error, or the GPU is lost.
func (q *Queue) Failed() bool { return q.err != nil || q.device.lost.Load() != nil }

// Err returns the queue's error, if it is known already, or that of a lost GPU.
func (q *Queue) Err() error {
	if q.err != nil {
		return q.err
	}
	return q.device.Lost()
}

// Status returns the address on the GPU of the words in which kernels report errors.
func (q *Queue) Status() uint64 { return uint64(q.status) }

// Explain sets the function that makes an error from status words. It is called on the
// queue's goroutine that waits for events.
func (q *Queue) Explain(explain func(status [device.StatusWords]uint32) error) { q.explain = explain }

// ready reports whether an operation may be enqueued. If not, the queue has an error; what
// names the operation in it.
func (q *Queue) ready(what string) bool {
	if q.err != nil {
		return false
	}
	switch {
	case q.closed:
		q.Fail(fmt.Errorf("%s: %s on a closed queue", q.device.name, what))
	case !q.inside:
		q.Fail(fmt.Errorf("%s: %s outside Begin and End", q.device.name, what))
	}
	q.Fail(q.device.Lost())
	return q.err == nil
}

// did handles the result of a call that enqueues something: an error becomes the queue's. It
// reports whether the call succeeded.
func (q *Queue) did(failed *Error) bool {
	q.dirty = true
	if failed == nil {
		return true
	}
	q.Fail(q.device.check(failed))
	return false
}

// didWithPeer is like did for a call in which another GPU takes part. An error doesn't mark
// this GPU as lost, since it may be the other's. If this GPU is lost, its next call says so.
func (q *Queue) didWithPeer(failed *Error) {
	q.dirty = true
	if failed != nil {
		q.Fail(q.device.named(failed))
	}
}

// Upload enqueues a copy of src to dst, from byte offset on.
func (q *Queue) Upload(dst device.Buffer, offset int64, src []byte) {
	address, ok := q.span("an upload", dst, offset, len(src))
	if !ok || len(src) == 0 {
		return
	}
	q.mark()
	q.host = unsafe.Pointer(unsafe.SliceData(src)) // so that src isn't on a stack, which may move
	q.did(q.visit.calls.CopyToGPU(address, q.host, len(src), q.stream))
	q.host = nil
}

// Download enqueues a copy of len(dst) bytes of src, from byte offset on, to dst.
func (q *Queue) Download(dst []byte, src device.Buffer, offset int64) {
	address, ok := q.span("a download", src, offset, len(dst))
	if !ok || len(dst) == 0 {
		return
	}
	q.mark()
	q.host = unsafe.Pointer(unsafe.SliceData(dst))
	q.did(q.visit.calls.CopyToHost(q.host, address, len(dst), q.stream))
	q.host = nil
}

// span returns the address of n bytes of a buffer from offset on. It returns false if the
// queue has an error, or if the buffer doesn't have these bytes, which makes the queue fail.
func (q *Queue) span(what string, b device.Buffer, offset int64, n int) (uintptr, bool) {
	if !q.ready(what) {
		return 0, false
	}
	own, ok := b.(*Buffer)
	name := q.device.name
	switch {
	case !ok || !own.device.same(q.device.gpu):
		q.Fail(fmt.Errorf("%s: %s of %d bytes: the buffer isn't this GPU's", name, what, n))
	case own.Address() == 0:
		q.Fail(fmt.Errorf("%s: %s of %d bytes: the buffer was freed", name, what, n))
	case offset < 0 || offset > own.size || int64(n) > own.size-offset:
		q.Fail(fmt.Errorf("%s: %s of %d bytes at offset %d of a buffer of %d", name, what, n, offset, own.size))
	default:
		return uintptr(own.Address()) + uintptr(offset), true
	}
	return 0, false
}

// After makes the operations enqueued from now on wait for e, whose error becomes that of
// this queue's next event. If e is an *Event, the GPU waits for it, and After returns at
// once. Otherwise the host waits.
func (q *Queue) After(e device.Event) {
	own, ok := e.(*Event)
	if !q.ready("After") {
		if ok { // operations are skipped, but the next event must still not be done before e
			q.waiter.push(step{kind: trail, event: own, n: own.latest()})
		}
		return
	}
	q.dirty = true
	if !ok {
		q.Fail(e.Wait(context.Background()))
		return
	}
	n, pending, waits, err := own.follow(q.visit.calls, q.stream)
	switch {
	case err != nil:
		q.Fail(err)
	case !waits:
		// The fault may be the other GPU's, so don't mark this one as lost.
		q.Fail(own.wait(context.Background(), n))
	case pending:
		q.waiter.push(step{kind: follow, event: own, n: n})
	}
}

// Close waits for the operations enqueued, ends the queue's goroutine, and releases the
// stream. It returns the error of the operations since the last Record. Further calls have
// no effect.
func (q *Queue) Close() error {
	if q.closed {
		return nil
	}
	told := !q.dirty // the last Record has reported any error
	q.Begin()
	q.Record(q.closing)
	q.End()
	q.closed = true
	err := q.closing.Wait(context.Background())
	if told {
		err = nil
	}
	q.waiter.close()
	if e := q.free(); err == nil {
		err = e
	}
	return err
}

// free releases the queue's resources, none of which may be in use. Errors are ignored if the
// GPU is lost.
func (q *Queue) free() error {
	d := q.device
	var first error
	keep := func(err error) {
		if first == nil && d.lost.Load() == nil {
			first = err
		}
	}
	func() {
		v := d.visit()
		defer v.leave()
		keep(v.enter())
		give := func(free func(uintptr) *Error, handle uintptr) {
			if handle != 0 {
				keep(d.check(free(handle)))
			}
		}
		for _, e := range q.events {
			e.mu.Lock()
			e.closed = true
			e.mu.Unlock()
			give(v.calls.EventDestroy, e.handle)
		}
		for _, mark := range q.marks {
			give(v.calls.EventDestroy, mark)
		}
		give(v.calls.StreamDestroy, q.stream)
		give(v.calls.MemFree, q.status)
	}()
	for _, mem := range q.pinned {
		keep(d.unpin(mem))
	}
	keep(d.drop())
	return first
}
