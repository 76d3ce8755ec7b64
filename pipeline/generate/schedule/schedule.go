// Package schedule decides whose rows the next micro-batch carries: which
// sequences are admitted, on which route, in which pages their keys and values
// lie, and who is preempted when pages run out.
//
// A [Scheduler] is a data structure and nothing else. It starts no goroutine,
// holds no lock and reads no clock: its owner calls it from one goroutine at a
// time (or under a lock) and passes the time in. It knows nothing of models,
// samplers, devices and callers.
//
// A sequence is admitted when a route has pages for its tokens. Those of its prompt
// are sent in chunks, several of which may be in flight; from then on it decodes,
// one row at a time. It gets more pages one by one and, where there are none, those
// who came last are preempted: they give up their pages, wait, and are computed
// again later. Full pages stay in a prefix cache.
//
// # Another policy
//
// What is decided and how it is done are kept apart. In policy.go are the order of
// sequences (order), the choice of a route (place), and who has to give up pages
// (overdue, victim); in fill.go is how a batch is shared out between those that
// decode and prompts (fill, choose); in pace.go are the number of batches in flight
// and the size of chunks. To schedule otherwise, change these functions. The rest
// keeps the books: queue.go, pages.go, and route.go, where a sequence's states
// change.
package schedule

import (
	"fmt"
	"time"

	"github.com/leat-dev/leat/kernels"
)

// Scheduler holds the sequences that were added and have not been removed.
type Scheduler struct {
	routes     []*route
	maxRows    int
	maxOutputs int
	maxSeqs    int
	grace      time.Duration
	capacity   int // tokens that the pages of any route hold

	waiting heap // to be admitted, in order
	parked  int  // sequences that wait for their callers first
	running int  // admitted ones, on all routes
	arrived uint64
	blocked bool // the first that waits found no room, and nothing has changed since

	now  time.Time // as of the latest call of Next or Returned
	held time.Time // since when a batch is held back for more rows; zero: none is
	turn int       // the route that the latest batch was for

	preempted, reused, moved int
	removed                  []*Sequence // by the latest Failed or Down
}

// New returns a scheduler without sequences, all of whose routes are up.
func New(config Config) *Scheduler {
	c := &Scheduler{
		maxRows:    config.MaxRows,
		maxOutputs: config.MaxOutputs,
		maxSeqs:    config.MaxSeqs,
		grace:      config.Grace,
		waiting:    heap{before: before, place: inWaiting},
	}
	for i, r := range config.Routes {
		c.routes = append(c.routes, newRoute(c, i, r))
		if tokens := r.Pages * kernels.PageTokens; i == 0 || tokens < c.capacity {
			c.capacity = tokens
		}
	}
	return c
}

// Add queues a new sequence. It is an error if the sequence has no token, or more
// than Most, or if a route's pages don't hold Most tokens. Add takes O(log n) for n
// waiting sequences.
func (c *Scheduler) Add(s *Sequence) error {
	switch n := len(s.Tokens); {
	case s.state != fresh:
		return fmt.Errorf("a sequence of %d tokens was added twice", n)
	case n == 0 || n > s.Most:
		return fmt.Errorf("a sequence of %d tokens that may have %d: it needs one, and as many as it may have at most", n, s.Most)
	case s.Most > c.capacity:
		return fmt.Errorf("a sequence of up to %d tokens: the pages of a route hold %d", s.Most, c.capacity)
	}
	c.arrive(s)
	c.queue(s)
	return nil
}

// arrive makes s the last of its priority.
func (c *Scheduler) arrive(s *Sequence) {
	s.arrival = c.arrived
	c.arrived++
}

// queue has a sequence wait until it is admitted.
func (c *Scheduler) queue(s *Sequence) {
	if !s.ready() {
		s.state = parked
		c.parked++
		return
	}
	s.state = waiting
	c.waiting.push(s)
	if c.waiting.first() == s {
		c.blocked = false
	}
}

// unpark queues a parked sequence whose caller has acted.
func (c *Scheduler) unpark(s *Sequence) {
	if s.state == parked && s.ready() {
		c.parked--
		c.queue(s)
	}
}

// Remove takes a sequence out, in whatever state it is. Its pages are free once
// no batch in flight works on them. It takes O(log n), and does nothing to a
// sequence that is not, or no longer, in the scheduler.
func (c *Scheduler) Remove(s *Sequence) {
	switch s.state {
	case waiting:
		c.waiting.remove(s)
		c.blocked = false // it may have been the first
		s.state = ended
	case parked:
		c.parked--
		s.state = ended
	case admitted:
		s.route.leave(s, ended)
	case leaving:
		s.state = ended
	}
}

// Append adds the token that was chosen by a sequence's output row, however long
// ago that row came back, and returns true. Where the sequence ends with its token
// it is removed instead. Append does nothing and returns false if no token is due:
// the sequence was removed, or its row is computed again on another route; the
// token must not be used then. It also does nothing if there are Most tokens.
func (c *Scheduler) Append(s *Sequence, token int32) bool {
	if !s.due || s.state == ended || len(s.Tokens) >= s.Most {
		return false
	}
	s.due = false
	before := s.missing()
	s.Tokens = append(s.Tokens, token)
	switch s.state {
	case admitted:
		s.unlink() // it may have been stalled
		s.route.promised += s.missing() - before
		s.route.again(s)
	case leaving:
		s.route.promised += s.missing() - before
	case parked:
		c.unpark(s)
	}
	return true
}

// Taken says that the caller of a scored sequence has taken n more of its output
// rows.
func (c *Scheduler) Taken(s *Sequence, n int) {
	s.taken += n
	switch s.state {
	case admitted:
		s.route.offer(s)
		if s.unsent > 0 {
			s.unlink() // it may have been stalled
		}
	case parked:
		c.unpark(s)
	}
}

// Next admits the sequences that there is room for, and returns the route that the
// next batch should be filled for; ok is false if there is none now. A batch of
// few rows is held back for up to patience while more may come.
//
// If ok is false and wait is positive, Next should be called again when that time
// has passed, or when the scheduler has been changed before. Otherwise only a
// change can lead to another batch. The time must not go back from call to call.
func (c *Scheduler) Next(now time.Time, patience time.Duration) (route int, ok bool, wait time.Duration) {
	c.now = now
	wait = c.admit()
	patient := patience > 0 && (c.held.IsZero() || now.Sub(c.held) < patience)
	holds := false
	for i := range c.routes {
		at := (c.turn + 1 + i) % len(c.routes)
		r := c.routes[at]
		switch rows := r.rows(); {
		case rows == 0 || r.starved || r.full():
		case patient && rows < r.enough():
			holds = true
		default:
			return at, true, 0
		}
	}
	if !holds {
		c.held = time.Time{}
		return 0, false, wait
	}
	if c.held.IsZero() {
		c.held = now
	}
	if w := c.held.Add(patience).Sub(now); wait == 0 || w < wait {
		wait = w
	}
	return 0, false, wait
}

// admit lets waiting sequences in, in order, while there is room. Where there is
// none, overdue ones make room. It returns how long it takes until one is overdue
// that now stands in the way, 0 if there is none.
func (c *Scheduler) admit() (wait time.Duration) {
	for c.waiting.len() > 0 {
		if s := c.waiting.first(); !c.blocked {
			if r := c.place(s); r != nil {
				c.waiting.remove(s)
				r.admit(s)
				continue
			}
			c.blocked = true
		}
		var idle *Sequence // stalled for the longest time
		for _, r := range c.routes {
			if s := r.stalled.first; s != nil && (idle == nil || s.since.Before(idle.since)) {
				idle = s
			}
		}
		if idle == nil {
			return 0
		}
		if c.overdue(idle.route) != idle {
			return idle.since.Add(c.grace).Sub(c.now)
		}
		idle.route.displace(idle)
	}
	return 0
}

// Fill puts the rows of the next batch of a route into an empty header, records
// them in b and returns how many they are. The batch is in flight then, until
// Returned or Failed is called with it. If there are no rows, because those who
// could go wait for pages, the batch is not in flight.
func (c *Scheduler) Fill(route int, h *kernels.Header, b *Batch) (rows int) {
	r := c.routes[route]
	clear(b.Parts)
	*b = Batch{Route: route, Parts: b.Parts[:0]}
	c.turn = route
	r.starved = true // unless the attempt changes something
	r.fill(h, b)
	b.rows = len(h.Tokens)
	if b.rows > 0 {
		r.starved = false
		r.flights++
		c.held = time.Time{}
	}
	return b.rows
}

// Returned says that a batch has come out of the last stage without an error, and
// how long it had each stage (nil: this is not known). Batches of a route return in
// the order in which they were filled. Returned marks the parts whose output rows
// must not be used. Every other sequence with output rows is the caller's to
// continue, by Append or Remove; a scored one by Taken and, after its last row,
// Remove.
func (c *Scheduler) Returned(now time.Time, b *Batch, took []time.Duration) {
	c.now = now
	r := c.routes[b.Route]
	r.flights--
	if took != nil {
		r.pace.observe(b.rows, took)
	}
	if b.probe != nil {
		r.endProbe(b.probe)
	}
	for i := range b.Parts {
		r.back(now, &b.Parts[i])
	}
}

// Counts is what a scheduler holds, and what it has done so far.
type Counts struct {
	Up        int // routes that are up
	Running   int // sequences that are admitted
	Waiting   int // sequences that wait to be admitted
	FreePages int // pages that no sequence uses; some hold beginnings that may be used again
	Pages     int // in all
	Preempted int // how often a sequence gave up its pages to others, to be computed again
	Reused    int // tokens that were not computed, because their pages were in the prefix cache
	Moved     int // how often a sequence left a route that had failed it, for another
}

// Counts returns the present counts. It takes O(routes).
func (c *Scheduler) Counts() Counts {
	n := Counts{
		Running:   c.running,
		Waiting:   c.Waiting(),
		Preempted: c.preempted,
		Reused:    c.reused,
		Moved:     c.moved,
	}
	for _, r := range c.routes {
		if r.up {
			n.Up++
		}
		n.FreePages += r.pages.available()
		n.Pages += len(r.pages.blocks)
	}
	return n
}

// Waiting returns how many sequences wait to be admitted.
func (c *Scheduler) Waiting() int { return c.waiting.len() + c.parked }
