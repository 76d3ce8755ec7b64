package pipeline

import "sync"

// queue holds the calls that wait for their turn, in the order in which they came. A
// caller that gives up removes its call, so that abandoned calls occupy no room.
type queue struct {
	room    chan struct{} // holds one value for each waiting call
	wake    chan struct{} // holds one value while there may be something for the gatherer to do
	closing chan struct{} // closed when the queue accepts no more calls
	drained chan struct{} // closed by the gatherer when it has ended

	mu          sync.Mutex
	first, last *call
	spare       *call // calls to be used again, linked by next
	closed      bool
}

func newQueue(room int) queue {
	return queue{
		room:    make(chan struct{}, room),
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		drained: make(chan struct{}),
	}
}

// push appends a call for which the caller has sent to room; the caller's reference
// becomes the queue's. It returns false, and does nothing, if the queue is closed.
func (q *queue) push(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if q.first == nil {
		q.poke()
	}
	q.link(c)
	return true
}

// pop removes the first call and returns it with the queue's reference, or nil if
// the queue is empty. open reports whether calls may still come.
func (q *queue) pop() (c *call, open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c = q.first; c != nil {
		q.unlink(c)
		<-q.room
	}
	return c, !q.closed
}

// rotate appends c, which was popped before, and pops the first call in its place; it
// returns c itself if the queue is empty. c gets the room of the call that leaves, so
// that rotate never waits for room.
func (q *queue) rotate(c *call) *call {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.first
	if first == nil {
		return c
	}
	q.unlink(first)
	q.link(c)
	return first
}

// remove removes a call, whose reference is then the caller's. It returns false if
// the call isn't in the queue.
func (q *queue) remove(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !c.waiting {
		return false
	}
	q.unlink(c)
	<-q.room
	return true
}

func (q *queue) link(c *call) {
	c.waiting, c.before, c.next = true, q.last, nil
	if q.last == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last = c
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
}

// poke wakes the gatherer.
func (q *queue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// close makes the queue accept no more calls. It returns false if the queue was
// closed before.
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

// unused returns a call that nobody else refers to, with one reference.
func (q *queue) unused() *call {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.spare
	if c == nil {
		c = &call{done: make(chan struct{}, 1)}
	} else {
		q.spare = c.next
	}
	c.next, c.references = nil, 1
	return c
}

// recycle takes back a call without references.
func (q *queue) recycle(c *call) {
	c.request, c.position, c.progress = request{}, position{}, progress{}
	q.mu.Lock()
	defer q.mu.Unlock()
	c.next, q.spare = q.spare, c
}
