package driver

import (
	"context"
	"sync"
	"time"
)

// waiter ends a queue's events as the GPU comes to them. The driver's calls that wait
// can't be interrupted, so one goroutine a queue makes them, on a thread of its own,
// and all others wait for it.
type waiter struct {
	queue *Queue
	visit *visit
	ended chan struct{} // closed when the goroutine has returned

	mu     sync.Mutex // guards what follows
	more   sync.Cond
	steps  []step // a ring
	first  int
	count  int
	closed bool

	marks []uintptr // those of the queue's that are not in use
}

// step is one thing that a queue's waiter has to do. They come in the queue's order.
type step struct {
	kind  stepKind
	event *Event
	n     uint64  // of follow and trail: which of the event's recordings
	mark  uintptr // of start
	timed bool    // of finish and drain: a start came before
}

type stepKind uint8

const (
	start  stepKind = iota // the GPU comes to a visit's first operation
	follow                 // what comes depends on another queue's event
	trail                  // the same, but for that event's error
	finish                 // an event's work is done
	drain                  // the same, where the event itself isn't in the stream
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

// push adds a step.
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

// next waits for a step. It returns false when the waiter is closed and nothing is
// left to do.
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

// close lets the goroutine do what is left, and waits until it has returned.
func (w *waiter) close() {
	w.mu.Lock()
	w.closed = true
	w.more.Signal()
	w.mu.Unlock()
	<-w.ended
}

func (w *waiter) run(entered chan<- error) {
	defer close(w.ended)
	defer w.visit.leave()
	entered <- w.visit.enter()
	d := w.queue.device
	var began time.Time
	var before []step // what the next event depends on
	for {
		s, ok := w.next()
		if !ok {
			return
		}
		var err error
		switch s.kind {
		case start:
			// If it fails, so does the event that follows.
			_ = d.check(w.visit.calls.EventSynchronize(s.mark))
			began = time.Now()
			w.putMark(s.mark)
			continue
		case follow, trail:
			before = append(before, s)
			continue
		case finish:
			if err = d.check(w.visit.calls.EventSynchronize(s.event.handle)); err != nil {
				_ = w.drain() // the wait failed, not the work, whose memory must stay until it is done
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

// drain waits for all that is in the stream. If not even that can be waited for, nobody
// can say when the GPU is done with its memory, so it counts as lost.
func (w *waiter) drain() error {
	d := w.queue.device
	if err := d.Lost(); err != nil {
		return err
	}
	err := d.check(w.visit.calls.StreamSynchronize(w.queue.stream))
	d.lose(err)
	return err
}

// outcome is the first error of an event's work: what it depends on came first, then
// what kernels reported, then what ended the queue's part on the host, since all that
// came later was skipped.
func (w *waiter) outcome(e *Event, before []step, waited error) error {
	var first error
	for _, s := range before {
		// The GPU is past it, or will never come to it: its own queue's waiter is
		// about to tell which.
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

// takeMark returns an event of the driver that isn't in use, 0 if there is none.
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

func (w *waiter) putMark(mark uintptr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marks = append(w.marks, mark)
}
