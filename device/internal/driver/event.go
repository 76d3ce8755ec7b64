package driver

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leat-dev/leat/device"
)

// Event marks a point in a queue. It implements device.Event and device.Timed. After the
// queue's Close it is done, with the error of its latest recording.
//
// Record waits until the event's previous recording is done, so that no error is lost and
// no recording is mistaken for a later one.
type Event struct {
	queue  *Queue
	handle uintptr                     // the driver's
	status *[device.StatusWords]uint32 // pinned memory to which Record copies the queue's status

	// Set by Record, read by the queue's waiter.
	failed   error // the queue's error
	reported bool  // whether the status is copied
	explain  func([device.StatusWords]uint32) error

	mu       sync.Mutex // guards the fields below
	recorded uint64     // the number of recordings
	finished uint64     // the number of recordings that are done
	inStream bool       // whether the latest recording is in the stream, so that streams can wait for it
	closed   bool       // whether handle was destroyed
	failures []failure  // of the latest recordings, oldest first
	began    time.Time  // see Span
	ended    time.Time
	waiting  []chan struct{} // one for each goroutine in wait
	idle     []chan struct{} // free ones, for use again
}

// Wait blocks until the operations before the event's latest recording are done and returns
// their first error. If ctx ends before, it returns ctx's error. Any number of goroutines
// may wait at the same time. Wait makes no calls to the driver. It allocates only when more
// goroutines wait for the event than ever before.
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
	if i := slices.Index(e.waiting, woken); i >= 0 { // ctx ended, and finish has not sent
		e.waiting = slices.Delete(e.waiting, i, i+1)
	}
	select {
	case <-woken: // finish sent after ctx ended
	default:
	}
	e.idle = append(e.idle, woken)
	if e.finished >= n {
		return e.outcome(n)
	}
	return ctx.Err()
}

// ticket returns a channel to which finish will send once. e.mu must be held.
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

// Span returns the time during which the GPU worked on the operations enqueued between the
// queue's latest Begin and the event's Record: from the start of the first operation, when
// everything that it waits for is done, to the end of the last. Both are when the queue's
// waiter observed them, and so later by the time that waking a thread takes. Span is about
// the latest recording that is done.
func (e *Event) Span() (began, ended time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.began, e.ended
}

// Done reports whether all recordings are done.
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

// finish marks the oldest unfinished recording as done and wakes all goroutines that wait.
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
		t <- struct{}{} // never blocks: the channel has a buffer of one and gets one value
	}
	e.waiting = e.waiting[:0]
}

// failure is the error of one recording.
type failure struct {
	n   uint64
	err error
}

// mostFailures is how many errors of an event's recordings are kept. Another queue that
// waits for the event may ask for a recording's error after the event was recorded again
// several times, though hardly after that many.
const mostFailures = 64

var errForgotten = fmt.Errorf("it is no longer known whether this work failed: %d later recordings of its event did", mostFailures)

// outcome returns the error of recording n, which must be done. e.mu must be held.
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

// statusError returns the error that the kernels before the event reported in the status
// words, or nil if all words are zero.
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

// follow makes the work enqueued on the stream from now on wait for the event's latest
// recording, whose number is n. pending reports whether the recording is not done yet, so
// that its error is not known. If waits is false, the stream can't wait for the event, and
// the caller must.
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

// newEventHandle creates an event of the driver and returns its handle.
func (d *Device) newEventHandle(calls Calls) (uintptr, error) {
	handle, err := calls.EventCreate()
	return handle, d.check(err)
}
