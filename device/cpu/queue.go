package cpu

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leat-dev/leat/device"
)

// Queue runs each operation when it is enqueued, on the calling goroutine and the device's
// helpers. It implements device.Queue. It may be used by only one goroutine at a time.
type Queue struct {
	device *Device
	pinned bool      // whether Begin has pinned the caller
	began  time.Time // the time of the latest Begin, if the device pins threads
	brief  bool      // whether the latest visit was shorter than worthMoving

	failed atomic.Bool // whether err is set
	mu     sync.Mutex  // guards err, as several parts of a job may fail at the same time
	err    error
}

// Device returns the *Device.
func (q *Queue) Device() device.Device { return q.device }

// worthMoving is how long a visit, the time from Begin to End, must be for its thread to be
// pinned to the device. A thread that moves to a core on which another thread runs has to
// wait for the end of that thread's time slice, which can take milliseconds: two stages
// whose threads were pinned for visits of 1 ms did half of the work that they do when the
// scheduler places them. So the thread of a shorter visit runs on any core.
const worthMoving = 20 * time.Millisecond

// Begin waits until no other queue of the device is between its Begin and End, and pins the
// calling goroutine's thread to the device's first core, which has no helper. It does not
// pin the thread if the device has all of the process's cores, if the core is offline, or
// if the queue's latest visit took less than 20 ms.
func (q *Queue) Begin() {
	q.device.visit.Lock()
	if q.device.pinned {
		q.began = time.Now()
		q.pinned = !q.brief && pin(q.device.core)
	}
}

// End unpins the thread and lets the next queue begin.
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

// Job is work that is divided into parts.
type Job interface {
	// Do does one part. worker is from 0 to Workers()-1, and differs between the calls of
	// one Parallel that run at the same time. The calls of two queues of a device may have
	// the same worker, so scratch memory for each worker must belong to a queue, not to
	// the device.
	Do(part, worker int)
}

// Workers returns the maximum number of goroutines that work on a job at the same time,
// including the caller.
func (q *Queue) Workers() int { return q.device.team.size() }

// Parallel calls j.Do once for every part from 0 to parts-1, and returns when all calls
// have returned. The caller, as worker 0, and the device's helpers claim the parts one by
// one, in order. If the helpers are busy with another queue's job, or the device is closed,
// the caller does all parts alone. Parallel may be called outside Begin and End. Do must
// not call Parallel.
//
// If a part panics, the parts not yet begun are skipped, and a *PanicError becomes the
// queue's error. If the queue has an error already, Parallel has no effect. Parallel does
// not allocate.
func (q *Queue) Parallel(parts int, j Job) {
	if parts <= 0 || q.failed.Load() {
		return
	}
	if p := q.device.team.do(parts, j); p != nil {
		q.Fail(p)
	}
}

// Fail makes err the queue's error, unless the queue already has one. It may be called from
// the parts of a job. A nil err has no effect.
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

// Failed reports whether the queue has an error, so that operations are skipped.
func (q *Queue) Failed() bool { return q.failed.Load() }

// Err returns the queue's error, or nil if it has none.
func (q *Queue) Err() error {
	if !q.failed.Load() {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// Take returns the queue's error, or nil if it has none, and clears it. It is for functions
// that return their error to the caller, such as those that pack weights.
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

// Upload copies src to dst, from byte offset on. The copy is done when it returns.
func (q *Queue) Upload(dst device.Buffer, offset int64, src []byte) {
	if mem := q.span("an upload", dst, offset, len(src)); mem != nil {
		copy(mem, src)
	}
}

// Download copies len(dst) bytes of src, from byte offset on, to dst. The copy is done when
// it returns.
func (q *Queue) Download(dst []byte, src device.Buffer, offset int64) {
	if mem := q.span("a download", src, offset, len(dst)); mem != nil {
		copy(dst, mem)
	}
}

// span returns n bytes of a buffer from offset on. It returns nil if the queue has an
// error, or if the buffer doesn't have these bytes, which makes the queue fail.
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

// After waits for e. An error of e becomes the queue's error.
func (q *Queue) After(e device.Event) {
	if err := e.Wait(context.Background()); err != nil {
		q.Fail(err)
	}
}

// NewEvent returns an *Event, for use with this queue's Record.
func (q *Queue) NewEvent() (device.Event, error) { return &Event{queue: q}, nil }

// Record moves the queue's error to e. If e is not an event of this queue, the queue fails.
func (q *Queue) Record(e device.Event) {
	own, ok := e.(*Event)
	if !ok || own.queue != q {
		q.Fail(fmt.Errorf("%s: Record was called with an event of another queue", q.device.info.Name))
		return
	}
	err := q.Take()
	own.mu.Lock()
	own.err = err
	own.mu.Unlock()
}

// Close returns the queue's error, if no Record has moved it to an event.
func (q *Queue) Close() error { return q.Take() }

// Event is an event of a Queue. It is always done, because the queue is synchronous. It
// implements device.Event.
type Event struct {
	queue *Queue
	mu    sync.Mutex
	err   error
}

// Wait returns the error of the operations before the event. It never blocks.
func (e *Event) Wait(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}
