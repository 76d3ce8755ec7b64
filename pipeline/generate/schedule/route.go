package schedule

import (
	"time"

	"github.com/leat-dev/leat/kernels"
)

// route is one way through the stages, with the sequences that are admitted to it
// and their pages.
type route struct {
	schedule *Scheduler
	number   int
	pages    *pages
	pace     *pace
	up       bool
	probe    *Sequence // goes alone, before all others
	flights  int       // batches in flight
	starved  bool      // a batch could not be filled, and nothing has changed since

	running  heap // all that are here, from the one that goes last
	leaving  int  // how many of them are leaving or ended
	writing  int  // how many of the others are past their chunks
	promised int  // pages that those here have yet to allocate for the tokens they have

	chunks  heap // with unsent rows, in order
	short   heap // the same, by how many rows
	unsent  int  // rows of all of them
	decode  list // with one token to send; a queue, so that all get their turn
	skipped list // those of them for whom the batch that is being filled had no pages
	stalled list // wait for their callers, for the longest time first

	chosen []*Sequence // for the chunks of the batch that is being filled
}

// newRoute returns a route without sequences, which is up.
func newRoute(c *Scheduler, number int, r Route) *route {
	return &route{
		schedule: c,
		number:   number,
		pages:    newPages(r.Pages),
		pace:     newPace(r, c.maxRows),
		up:       true,
		running:  heap{before: behind, place: inRunning},
		chunks:   heap{before: before, place: inChunks},
		short:    heap{before: shorter, place: inShort},
	}
}

// cacheable returns the tokens of s that may be found in the prefix cache. One at
// least is computed, because its logits are wanted; of a scored sequence all are.
func cacheable(s *Sequence) []int32 {
	if s.Scored() {
		return nil
	}
	return s.Tokens[:len(s.Tokens)-1]
}

// cached returns how many pages the prefix cache has for s, and how many of them
// are unused.
func (r *route) cached(s *Sequence) (n, unused int) { return r.pages.match(cacheable(s)) }

// admit lets a sequence in.
func (r *route) admit(s *Sequence) {
	s.state, s.route = admitted, r
	s.table = r.pages.hold(cacheable(s), s.table[:0])
	s.shared, s.alone = len(s.table), false
	s.prompt, s.sent, s.computed = len(s.Tokens), s.room(), s.room()
	r.schedule.running++
	r.schedule.reused += s.sent
	r.promised += s.missing()
	r.running.push(s)
	r.offer(s)
}

// offer brings up to date what of s may be sent in chunks.
func (r *route) offer(s *Sequence) {
	n := 0
	if s.state == admitted {
		n = s.sendable()
	}
	r.unsent += n - s.unsent
	s.unsent = n
	if n == 0 {
		r.chunks.remove(s)
		r.short.remove(s)
		return
	}
	r.starved = false
	r.chunks.push(s)
	r.short.push(s)
}

// again queues a sequence that has got its next token.
func (r *route) again(s *Sequence) {
	r.starved = false
	r.decode.push(s)
}

// leave takes an admitted sequence out of all queues, for it to end or to wait
// again. Its pages are in use until no batch works on them.
func (r *route) leave(s *Sequence, to state) {
	if !s.prefilling() {
		r.writing--
	}
	s.state = to
	s.unlink()
	r.offer(s)
	if s.flying == 0 {
		r.retire(s)
	} else {
		r.leaving++
	}
}

// retire ends a sequence's time on the route. Nobody is admitted before the caller
// has done its work.
func (r *route) retire(s *Sequence) {
	r.promised -= s.missing()
	for i := s.shared - 1; i >= 0; i-- {
		r.pages.drop(s.table[i])
	}
	for _, page := range s.table[s.shared:] {
		r.pages.release(page)
	}
	s.table, s.shared = s.table[:0], 0
	s.route, s.spoiled = nil, false
	s.prompt, s.sent, s.computed = 0, 0, 0
	r.running.remove(s)
	r.starved = false
	c := r.schedule
	c.running--
	c.blocked = false
	if s.state != ended {
		c.queue(s)
	}
}

// landed says that a batch with rows of s has come back.
func (r *route) landed(s *Sequence) {
	if s.flying--; s.flying > 0 {
		return
	}
	if s.state != admitted {
		r.leaving--
		r.retire(s)
	}
}

// back says that the rows of a part have been computed, and what became of it.
func (r *route) back(now time.Time, p *Part) {
	s := p.Seq
	p.Dropped = s.state == ended || s.spoiled
	if !p.Dropped && s.Scored() {
		s.scores += p.Outputs
	}
	// Of a part behind one that is not back yet, the beginning is unknown.
	if s.state == admitted && p.From <= s.computed {
		s.computed = p.To
		r.publish(s)
	}
	r.landed(s)
	if s.state == admitted && s.stalled() {
		s.since = now
		r.stalled.push(s)
	}
}

// publish puts a sequence's full pages into the prefix cache.
func (r *route) publish(s *Sequence) {
	for !s.alone && s.shared < len(s.table) && s.computed >= (s.shared+1)*kernels.PageTokens {
		parent := int32(none)
		if s.shared > 0 {
			parent = s.table[s.shared-1]
		}
		if !r.pages.publish(parent, s.Tokens[s.shared*kernels.PageTokens:], s.table[s.shared]) {
			s.alone = true
			return
		}
		s.shared++
		r.schedule.blocked = false // whoever waits may need fewer pages now
	}
}

// grow gets s pages for n tokens. Where there are none, and none are about to come
// back, whoever goes last is preempted, be it s itself; grow is false then, unless
// that gave a page at once.
func (r *route) grow(s *Sequence, n int) bool {
	for s.room() < n {
		if page, ok := r.pages.alloc(); ok {
			s.table = append(s.table, page)
			r.promised--
			continue
		}
		if idle := r.schedule.overdue(r); idle != nil {
			r.displace(idle)
			continue
		}
		if r.leaving > 0 {
			return false
		}
		last := r.victim()
		r.preempt(last)
		if last == s || last.flying > 0 {
			return false
		}
	}
	return true
}

// preempt makes a sequence give up its pages and wait to be admitted again. What
// was appended to it stays.
func (r *route) preempt(s *Sequence) {
	r.schedule.preempted++
	r.leave(s, leaving)
}

// displace preempts a stalled sequence, and puts it behind all that wait.
func (r *route) displace(s *Sequence) {
	r.schedule.arrive(s)
	// A heap that s is in would not be in order any more.
	r.running.push(s)
	r.preempt(s)
}

// full says whether as many batches are in flight as there should be: what is
// there to send is better sent together later.
func (r *route) full() bool {
	if r.probe != nil {
		return r.flights >= r.pace.inFlight
	}
	groups, _ := r.pace.batches(r.writing, r.unsent, r.flights)
	return r.flights >= groups
}

// rows returns how many rows could go into a batch now.
func (r *route) rows() int {
	if r.probe != nil {
		return r.probe.unsent
	}
	return r.unsent + r.decode.n
}

// enough returns how many rows make it needless to wait for more: a batch's share
// where all places are taken.
func (r *route) enough() int {
	if r.probe != nil {
		return 1
	}
	seats := ceil(r.schedule.maxSeqs, len(r.schedule.routes))
	return min(r.pace.maxRows, ceil(seats, r.pace.groups(seats)))
}
