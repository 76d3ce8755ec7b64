package pipeline

import "sync"

// queue holds the waiting calls, in the order in which they were made. A caller that gives
// up removes its call, so that the call doesn't count against the backlog any more.
type queue struct {
	room    chan struct{} // holds one value for each waiting call
	wake    chan struct{} // holds one value while the gatherer may have something to do
	closing chan struct{} // closed when the queue accepts no more calls
	drained chan struct{} // closed by the gatherer when it has ended

	mu          sync.Mutex
	first, last *call
	spare       *call // a list of calls that may be used again, linked by next
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

// push appends a call, for which its caller has sent a value to room, and with it a
// reference to the call. It returns false, and does nothing, if the queue is closed.
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

// pop removes the first call and returns it, with the queue's reference; nil if the queue
// is empty. open reports whether further calls may be pushed.
func (q *queue) pop() (c *call, open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c = q.first; c != nil {
		q.unlink(c)
		<-q.room
	}
	return c, !q.closed
}

// rotate pops the first call and appends c, which was popped before. If the queue is empty
// it returns c. The value that the popped call had in room then counts for c, so that
// rotate doesn't have to wait for room.
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

// remove removes a call, and the queue's reference to it becomes the caller's. It returns
// false if the call isn't in the queue.
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

// unused returns a call that is not in use, with one reference.
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

// recycle keeps a call without references to be used again.
func (q *queue) recycle(c *call) {
	c.request, c.position, c.progress = request{}, position{}, progress{}
	q.mu.Lock()
	defer q.mu.Unlock()
	c.next, q.spare = q.spare, c
}
