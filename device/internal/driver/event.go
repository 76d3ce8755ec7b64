package driver

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leat-dev/leat/device"
)

// Event is a point in a queue. It implements device.Event and device.Timed. It lives
// as long as its queue: after the queue's Close it is done, with its last error.
//
// It may be recorded again once it is done. Record waits for that where it must, so
// that no error is lost and no earlier recording is taken for a later one.
type Event struct {
	queue  *Queue
	handle uintptr
	status *[device.StatusWords]uint32 // pinned, where the queue's status goes

	// Set by Record, read by the queue's waiter.
	failed   error // the queue's own
	reported bool  // the status comes
	explain  func([device.StatusWords]uint32) error

	mu       sync.Mutex // guards what follows
	recorded uint64     // how often it was recorded
	finished uint64     // how many of these are done
	inStream bool       // the last recording is in the stream, so that other streams can wait for it
	closed   bool       // there is no handle any more
	failures []failure  // of the latest recordings, oldest first
	began    time.Time
	ended    time.Time
	waiting  []chan struct{}
	idle     []chan struct{} // as many as have ever waited at once
}

// Wait blocks until the work before the event's latest recording is done and returns
// the first error of that work, or ctx's error if that comes first. Any number of
// goroutines may wait at once. It asks nothing of the driver, and allocates nothing
// once it has waited.
func (e *Event) Wait(ctx context.Context) error {
	return e.wait(ctx, e.latest())
}

// latest returns the number of the latest recording.
func (e *Event) latest() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.recorded
}

// wait waits for recording n.
func (e *Event) wait(ctx context.Context, n uint64) error {
	e.mu.Lock()
	if e.finished >= n {
		defer e.mu.Unlock()
		return e.outcome(n)
	}
	woken := e.ticket()
	e.mu.Unlock()
	select {
	case <-woken:
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.waiting, woken); i >= 0 { // not woken
		e.waiting = slices.Delete(e.waiting, i, i+1)
	}
	select {
	case <-woken: // after ctx ended
	default:
	}
	e.idle = append(e.idle, woken)
	if e.finished >= n {
		return e.outcome(n)
	}
	return ctx.Err()
}

// ticket adds one who waits. The lock is held.
func (e *Event) ticket() chan struct{} {
	var t chan struct{}
	if last := len(e.idle) - 1; last >= 0 {
		t, e.idle = e.idle[last], e.idle[:last]
	} else {
		t = make(chan struct{}, 1)
	}
	e.waiting = append(e.waiting, t)
	return t
}

// Span returns from when until when the GPU worked on what was enqueued between the
// queue's latest Begin and the event's Record, as the queue's waiter saw it: from the
// start of the first operation, after whatever that had to wait for, to the end of
// the last. Both are a wake-up late. It is of the last recording that is done.
func (e *Event) Span() (began, ended time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.began, e.ended
}

// Done says that no recording is under way.
func (e *Event) Done() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.finished == e.recorded
}

// arm begins a recording.
func (e *Event) arm(failed error, reported, inStream bool, explain func([device.StatusWords]uint32) error) {
	e.failed, e.reported, e.explain = failed, reported, explain
	e.mu.Lock()
	defer e.mu.Unlock()
	e.recorded++
	e.inStream = inStream
}

// finish ends a recording and wakes all who wait.
func (e *Event) finish(err error, began, ended time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.finished++
	if err != nil {
		if len(e.failures) == mostFailures {
			e.failures = append(e.failures[:0], e.failures[1:]...)
		}
		e.failures = append(e.failures, failure{e.finished, err})
	}
	e.began, e.ended = began, ended
	for _, t := range e.waiting {
		t <- struct{}{} // there is room: a ticket is woken once
	}
	e.waiting = e.waiting[:0]
}

// failure is the error of one recording.
type failure struct {
	n   uint64
	err error
}

// mostFailures is how many are kept. Who follows an event may ask for its error only
// when it has been recorded again, be it several times, but not so late.
const mostFailures = 64

var errForgotten = fmt.Errorf("nobody knows any more whether this work failed: %d later recordings of its event did", mostFailures)

// outcome returns the error of recording n, which is done. The lock is held.
func (e *Event) outcome(n uint64) error {
	for _, f := range slices.Backward(e.failures) {
		if f.n == n {
			return f.err
		}
	}
	if len(e.failures) == mostFailures && n < e.failures[0].n {
		return errForgotten
	}
	return nil
}

// statusError is what the kernels reported before the event.
func (e *Event) statusError(device string) error {
	if !e.reported || *e.status == [len(e.status)]uint32{} {
		return nil
	}
	if e.explain != nil {
		if err := e.explain(*e.status); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: a kernel reported %v", device, *e.status)
}

// follow makes what is enqueued on the stream from now on run after the event. It
// returns which recording that is, and whether it isn't done yet: then its error
// comes later. Where the stream can't wait, and waits is false, the caller must.
func (e *Event) follow(calls Calls, stream uintptr) (n uint64, pending, waits bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.finished == e.recorded && (e.outcome(e.recorded) != nil || e.recorded == 0 || e.closed):
		return e.recorded, false, true, e.outcome(e.recorded)
	case !e.inStream:
		return e.recorded, true, false, nil
	}
	waits = calls.StreamWait(stream, e.handle) == nil
	return e.recorded, e.finished < e.recorded, waits, nil
}

// newEventHandle creates an event of the driver.
func (d *Device) newEventHandle(calls Calls) (uintptr, error) {
	handle, err := calls.EventCreate()
	return handle, d.check(err)
}
