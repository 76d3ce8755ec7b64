package pipeline

import "sync"

// queue is the calls that wait for their turn, first come, first served. A caller
// that gives up takes its call out, so that a queue full of the dead is empty.
type queue struct {
	places  chan struct{} // holds one a waiting call
	wake    chan struct{} // holds one: there is something for the gatherer
	closing chan struct{} // closed: nothing more is taken
	drained chan struct{} // closed by the gatherer when it has ended

	mu          sync.Mutex
	first, last *call
	spare       *call // ended calls, for use again: a list by next
	closed      bool
}

func newQueue(places int) queue {
	return queue{
		places:  make(chan struct{}, places),
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		drained: make(chan struct{}),
	}
}

// push queues a call that has a place, and counts the queue among those that hold
// it; false if the queue is closed.
func (q *queue) push(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	c.waiting, c.before, c.next = true, q.last, nil
	if q.last == nil {
		q.first = c
		q.poke()
	} else {
		q.last.next = c
	}
	q.last = c
	return true
}

// pop takes the first call out. It returns nil where none waits; open says that
// there may be one later.
func (q *queue) pop() (c *call, open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c = q.first; c != nil {
		q.unlink(c)
	}
	return c, !q.closed
}

// remove takes a call out, if it still waits.
func (q *queue) remove(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !c.waiting {
		return false
	}
	q.unlink(c)
	return true
}

func (q *queue) unlink(c *call) {
	if c.before == nil {
		q.first = c.next
	} else {
		c.before.next = c.next
	}
	if c.next == nil {
		q.last = c.before
	} else {
		c.next.before = c.before
	}
	c.waiting, c.before, c.next = false, nil, nil
	<-q.places
}

// poke has the gatherer look.
func (q *queue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// close has the queue take nothing more; false if it was closed before.
func (q *queue) close() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.closed = true
	close(q.closing)
	q.poke()
	return true
}

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// take returns a call that is nobody's, which the caller holds.
func (q *queue) take() *call {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.spare
	if c == nil {
		c = &call{done: make(chan struct{}, 1)}
	} else {
		q.spare = c.next
	}
	c.next, c.holders = nil, 1
	return c
}

// put takes back a call that nobody holds any more.
func (q *queue) put(c *call) {
	c.request, c.place, c.progress = request{}, place{}, progress{}
	q.mu.Lock()
	defer q.mu.Unlock()
	c.next, q.spare = q.spare, c
}
