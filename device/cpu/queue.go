package cpu

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leat-dev/leat/device"
)

// Queue runs what is enqueued on the spot, on the calling goroutine and the
// device's workers. It implements device.Queue, and belongs to one goroutine at
// a time.
type Queue struct {
	device *Device
	pinned bool // by Begin
	began  time.Time
	brief  bool // the last visit was too short to be worth moving for

	failed atomic.Bool
	mu     sync.Mutex // guards err: parts of a job may fail at once
	err    error
}

// Device returns the *Device.
func (q *Queue) Device() device.Device { return q.device }

// worthMoving is how long a visit must be for its thread to be moved onto the
// device. Who moves to a core where another thread runs waits for that one's
// time to be up, which can take milliseconds: two stages that were moved for
// visits of a millisecond got half of the work done that they do where the
// scheduler puts them. So shorter visits take one core, but not always theirs.
const worthMoving = 20 * time.Millisecond

// Begin waits until no other queue of the device is between its Begin and End,
// and moves the calling goroutine's thread onto the device's first core, where
// no helper is. A device of all the process's cores leaves the thread where it
// is; so does one whose core went offline meanwhile, and a queue whose last
// visit took less than that.
func (q *Queue) Begin() {
	q.device.visit.Lock()
	if q.device.pinned {
		q.began = time.Now()
		q.pinned = !q.brief && pin(q.device.core)
	}
}

// End frees the thread and lets the next queue in.
func (q *Queue) End() {
	if q.device.pinned {
		q.brief = time.Since(q.began) < worthMoving
	}
	if q.pinned {
		q.pinned = false
		unpin()
	}
	q.device.visit.Unlock()
}

// Job is work that is cut into parts.
type Job interface {
	// Do does one part. No two calls of a Parallel running at the same time
	// have the same worker, a number from 0 to Workers()-1. Other queues' calls
	// may, so memory kept for each worker belongs to a queue, not to the device.
	Do(part, worker int)
}

// Workers returns how many goroutines may work on a job at once, the caller
// included.
func (q *Queue) Workers() int { return q.device.team.size() }

// Parallel calls j.Do once for every part from 0 to parts-1, and returns when
// all calls have. The caller, as worker 0, and the device's workers claim parts
// one by one, in order. Where the workers are busy with another queue's job, or
// the device is closed, the caller does all parts alone. It works outside Begin
// and End as well. A job's part must not call Parallel.
//
// A part that panics makes the others not yet begun be skipped, and its
// *PanicError is the queue's error. On a queue that failed, Parallel does
// nothing. It allocates nothing.
func (q *Queue) Parallel(parts int, j Job) {
	if parts <= 0 || q.failed.Load() {
		return
	}
	if p := q.device.team.do(parts, j); p != nil {
		q.Fail(p)
	}
}

// Fail makes err the queue's error, unless it has one. It may be called from
// the parts of a job.
func (q *Queue) Fail(err error) {
	if err == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
		q.failed.Store(true)
	}
}

// Failed says that the queue has an error, so that operations are skipped.
func (q *Queue) Failed() bool { return q.failed.Load() }

// Err returns the queue's error so far, nil if there is none.
func (q *Queue) Err() error {
	if !q.failed.Load() {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// Take returns the queue's error, nil if there is none, and clears it: for work
// like packing weights, which reports its error at once.
func (q *Queue) Take() error {
	if !q.failed.Load() {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.err
	q.err = nil
	q.failed.Store(false)
	return err
}

// Upload copies src to dst at offset.
func (q *Queue) Upload(dst device.Buffer, offset int64, src []byte) {
	if mem := q.span("an upload", dst, offset, len(src)); mem != nil {
		copy(mem, src)
	}
}

// Download copies len(dst) bytes of src from offset to dst.
func (q *Queue) Download(dst []byte, src device.Buffer, offset int64) {
	if mem := q.span("a download", src, offset, len(dst)); mem != nil {
		copy(dst, mem)
	}
}

// span returns n bytes of a buffer, nil if the queue failed before or because
// they aren't there.
func (q *Queue) span(what string, b device.Buffer, offset int64, n int) []byte {
	if q.failed.Load() {
		return nil
	}
	mem := b.Bytes()
	switch {
	case mem == nil:
		q.Fail(fmt.Errorf("%s: %s of %d bytes: the buffer was freed, or is not in the host's memory", q.device.info.Name, what, n))
	case offset < 0 || offset > int64(len(mem)) || int64(n) > int64(len(mem))-offset:
		q.Fail(fmt.Errorf("%s: %s of %d bytes at offset %d of a buffer of %d", q.device.info.Name, what, n, offset, len(mem)))
	default:
		return mem[offset : offset+int64(n)]
	}
	return nil
}

// After waits for e; its error becomes the queue's.
func (q *Queue) After(e device.Event) {
	if err := e.Wait(context.Background()); err != nil {
		q.Fail(err)
	}
}

// NewEvent returns an *Event that is done.
func (q *Queue) NewEvent() (device.Event, error) { return &Event{queue: q}, nil }

// Record hands the queue's error over to e. An event of another queue is a
// mistake, which becomes this queue's error.
func (q *Queue) Record(e device.Event) {
	own, ok := e.(*Event)
	if !ok || own.queue != q {
		q.Fail(fmt.Errorf("%s: an event recorded on a queue that didn't make it", q.device.info.Name))
		return
	}
	err := q.Take()
	own.mu.Lock()
	own.err = err
	own.mu.Unlock()
}

// Close returns the error that no Record handed over.
func (q *Queue) Close() error { return q.Take() }

// Event is always done, since its queue does everything on the spot. It
// implements device.Event.
type Event struct {
	queue *Queue
	mu    sync.Mutex
	err   error
}

// Wait returns the error of the work before the event. It never blocks.
func (e *Event) Wait(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}
