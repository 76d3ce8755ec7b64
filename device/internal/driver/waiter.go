package driver

import (
	"context"
	"sync"
	"time"
)

// waiter finishes a queue's events when the GPU reaches them. The driver's waiting calls
// can't be interrupted, so one goroutine for each queue makes them, locked to a thread, and
// all other goroutines wait for that goroutine.
type waiter struct {
	queue *Queue
	visit *visit
	ended chan struct{} // closed when the goroutine has returned

	mu     sync.Mutex // guards the fields below
	more   sync.Cond  // signalled when a step is added or the waiter is closed
	steps  []step     // a ring buffer of count steps from index first on
	first  int
	count  int
	closed bool

	marks []uintptr // the queue's marks that are not in use
}

// step is a task for a queue's waiter. The steps are in the queue's order.
type step struct {
	kind  stepKind
	event *Event
	n     uint64  // follow and trail: the number of the event's recording
	mark  uintptr // start: the driver's event
	timed bool    // finish and drain: whether there was a start step since the queue's Begin
}

type stepKind uint8

const (
	start  stepKind = iota // wait until the GPU starts the first operation since Begin
	follow                 // the next event depends on another queue's event and on its error
	trail                  // the next event depends on another queue's event, but not on its error
	finish                 // wait for an event in the stream, and finish it
	drain                  // wait for the whole stream, and finish an event that is not in it
)

func newWaiter(q *Queue) (*waiter, error) {
	w := &waiter{queue: q, visit: q.device.visit(), ended: make(chan struct{})}
	w.more.L = &w.mu
	entered := make(chan error)
	go w.run(entered)
	if err := <-entered; err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// push adds a step. It doesn't block.
func (w *waiter) push(s step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count == len(w.steps) {
		steps := make([]step, max(16, 2*w.count))
		for i := range w.count {
			steps[i] = w.steps[(w.first+i)%len(w.steps)]
		}
		w.steps, w.first = steps, 0
	}
	w.steps[(w.first+w.count)%len(w.steps)] = s
	w.count++
	w.more.Signal()
}

// next waits for the next step. It returns false if the waiter is closed and no steps are
// left.
func (w *waiter) next() (step, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.count == 0 {
		if w.closed {
			return step{}, false
		}
		w.more.Wait()
	}
	s := w.steps[w.first]
	w.steps[w.first] = step{}
	w.first = (w.first + 1) % len(w.steps)
	w.count--
	return s, true
}

// close waits until the goroutine has done the remaining steps and returned.
func (w *waiter) close() {
	w.mu.Lock()
	w.closed = true
	w.more.Signal()
	w.mu.Unlock()
	<-w.ended
}

// run is the body of the waiter's goroutine. It sends the result of entering its visit.
func (w *waiter) run(entered chan<- error) {
	defer close(w.ended)
	defer w.visit.leave()
	entered <- w.visit.enter()
	d := w.queue.device
	var began time.Time
	var before []step // the follow and trail steps for the next event
	for {
		s, ok := w.next()
		if !ok {
			return
		}
		var err error
		switch s.kind {
		case start:
			// Ignore an error: the event that follows fails as well.
			_ = d.check(w.visit.calls.EventSynchronize(s.mark))
			began = time.Now()
			w.putMark(s.mark)
			continue
		case follow, trail:
			before = append(before, s)
			continue
		case finish:
			if err = d.check(w.visit.calls.EventSynchronize(s.event.handle)); err != nil {
				_ = w.drain() // the work may still run, and uses memory that the event's waiters will free
			}
		case drain:
			err = w.drain()
		}
		ended := time.Now()
		if !s.timed {
			began = ended
		}
		err = w.outcome(s.event, before, err)
		clear(before)
		before = before[:0]
		s.event.finish(err, began, ended)
	}
}

// drain waits for all work in the stream. If that fails, it is unknown when the GPU will
// have finished with its memory, so drain marks the GPU as lost.
func (w *waiter) drain() error {
	d := w.queue.device
	if err := d.Lost(); err != nil {
		return err
	}
	err := d.check(w.visit.calls.StreamSynchronize(w.queue.stream))
	d.lose(err)
	return err
}

// outcome returns the first error of an event's work, in the order in which the errors
// arose: those of the events that it depends on, then what kernels reported, then the
// queue's error, after which operations were skipped, and then the error of the wait.
func (w *waiter) outcome(e *Event, before []step, waited error) error {
	var first error
	for _, s := range before {
		// This wait is short: the GPU has passed that event or will never reach it, and
		// the waiter of the event's queue is about to finish it.
		if err := s.event.wait(context.Background(), s.n); first == nil && s.kind == follow {
			first = err
		}
	}
	if first == nil && waited == nil {
		first = e.statusError(w.queue.device.name)
	}
	if first == nil {
		first = e.failed
	}
	if first == nil {
		first = waited
	}
	return first
}

// takeMark returns a mark that is not in use, or 0 if there is none.
func (w *waiter) takeMark() uintptr {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.marks) - 1
	if last < 0 {
		return 0
	}
	mark := w.marks[last]
	w.marks = w.marks[:last]
	return mark
}

// putMark makes a mark available to takeMark.
func (w *waiter) putMark(mark uintptr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marks = append(w.marks, mark)
}
