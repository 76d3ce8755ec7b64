package driver

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/leat-dev/leat/device"
)

// Queue is a stream of a GPU. It implements device.Launcher, and belongs to one
// goroutine at a time. Its operations return when they are enqueued; an Upload from
// memory that isn't pinned also waits until the driver has taken the bytes, and a
// Download to such memory until they are there.
type Queue struct {
	device  *Device
	stream  uintptr
	status  uintptr // device.StatusWords words of the GPU
	visit   *visit
	inside  bool // between Begin and End
	marked  bool // the visit's first operation has been enqueued
	err     error
	dirty   bool // something was enqueued, or failed, since the last Record
	untimed bool // nobody asks for the Span of its events
	wrote   bool // a kernel was launched since the status was last handed over

	waiter  *waiter
	explain func([device.StatusWords]uint32) error
	closing *Event // recorded by Close
	events  []*Event
	marks   []uintptr                    // the driver's events that say when a visit began
	slots   [][device.StatusWords]uint32 // for the events to come
	pinned  [][]byte                     // where they are
	closed  bool

	host unsafe.Pointer // host memory of the call under way, so that it stays
}

// NewQueue returns a *Queue.
func (d *Device) NewQueue() (device.Queue, error) {
	q, err := d.newQueue()
	if err != nil {
		return nil, fmt.Errorf("a queue: %w", err)
	}
	return q, nil
}

// NewCopyQueue returns a *Queue for copies alone, whose events tell no Span.
func (d *Device) NewCopyQueue() (device.Queue, error) {
	q, err := d.newCopyQueue()
	if err != nil {
		return nil, fmt.Errorf("a queue for copies: %w", err)
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

// Begin locks the goroutine to its thread, and makes the GPU's context that thread's.
// Queues of one GPU don't wait for each other: the GPU shares itself out.
func (q *Queue) Begin() {
	q.inside, q.marked = true, false
	q.Fail(q.visit.enter())
}

// End undoes Begin.
func (q *Queue) End() {
	q.inside = false
	q.visit.leave()
}

// Fail makes err the queue's error, unless it has one.
func (q *Queue) Fail(err error) {
	if err != nil && q.err == nil {
		q.err, q.dirty = err, true
	}
}

// Failed says that the queue has an error that is known already, be it that the GPU
// is lost.
func (q *Queue) Failed() bool { return q.err != nil || q.device.lost.Load() != nil }

// Err returns the queue's error so far, where it is known already.
func (q *Queue) Err() error {
	if q.err != nil {
		return q.err
	}
	return q.device.Lost()
}

// Status returns the address of the words that kernels report to.
func (q *Queue) Status() uint64 { return uint64(q.status) }

// Explain sets what turns a report into an error. It is called by the queue's own
// goroutine that waits for events.
func (q *Queue) Explain(explain func(status [device.StatusWords]uint32) error) { q.explain = explain }

// ready says whether an operation may be enqueued.
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

// did takes the outcome of a call that enqueued something, and says whether it is good.
func (q *Queue) did(failed *Error) bool {
	q.dirty = true
	if failed == nil {
		return true
	}
	q.Fail(q.device.check(failed))
	return false
}

// shared is did for what another GPU has a part in. If it fails the other one may be at
// fault, so this one isn't lost yet: the next call that is its own tells.
func (q *Queue) shared(failed *Error) {
	q.dirty = true
	if failed != nil {
		q.Fail(q.device.named(failed))
	}
}

// Upload copies src to dst at offset.
func (q *Queue) Upload(dst device.Buffer, offset int64, src []byte) {
	address, ok := q.span("an upload", dst, offset, len(src))
	if !ok || len(src) == 0 {
		return
	}
	q.mark()
	q.host = unsafe.Pointer(unsafe.SliceData(src)) // so it isn't on a stack, which may move
	q.did(q.visit.calls.CopyToGPU(address, q.host, len(src), q.stream))
	q.host = nil
}

// Download copies len(dst) bytes of src from offset to dst.
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

// span returns the address of n bytes of a buffer, false if the queue failed before
// or because they aren't there.
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

// After makes what is enqueued from now on run after e. For an event of this package
// the GPU waits, and the host goes on; e's error becomes that of the next event
// recorded here. For any other the host waits.
func (q *Queue) After(e device.Event) {
	own, ok := e.(*Event)
	if !q.ready("After") {
		if ok { // what comes is skipped, but its event still isn't done before e
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
		// It may be the other GPU that is at fault, so this one isn't lost.
		q.Fail(own.wait(context.Background(), n))
	case pending:
		q.waiter.push(step{kind: follow, event: own, n: n})
	}
}

// Close waits for what was enqueued, ends the queue's goroutine and frees the queue.
// It returns the error that no Record handed over. A second Close does nothing.
func (q *Queue) Close() error {
	if q.closed {
		return nil
	}
	told := !q.dirty // whoever had to know of an error does
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

// free gives back what the queue has. Nothing of it is in use any more.
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
