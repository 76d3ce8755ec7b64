package schedule

import (
	"cmp"
	"slices"
)

// order compares sequences: by priority, then by arrival. In this order they are
// admitted and their chunks are sent; from its end they are preempted.
func order(a, b *Sequence) int {
	if a.Priority != b.Priority {
		return cmp.Compare(b.Priority, a.Priority)
	}
	return cmp.Compare(a.arrival, b.arrival)
}

// before says whether a goes before b.
func before(a, b *Sequence) bool { return order(a, b) < 0 }

// behind is the same order from its end.
func behind(a, b *Sequence) bool { return before(b, a) }

// shorter is the order by what is left to send.
func shorter(a, b *Sequence) bool {
	if a.unsent != b.unsent {
		return a.unsent < b.unsent
	}
	return before(a, b)
}

// place returns the route that a sequence should be admitted to, nil if it has to
// wait: the one whose prefix cache has most of it; among equals, the one with most
// pages to spare.
func (c *Scheduler) place(s *Sequence) (best *route) {
	if c.running >= c.maxSeqs {
		return nil
	}
	choosy := len(s.avoid) > 0 && c.untried(s, nil)
	cached, spare := 0, 0
	for _, r := range c.routes {
		if !r.up || choosy && slices.Contains(s.avoid, r) {
			continue
		}
		n, unused := r.cached(s)
		free := r.pages.available() - unused - r.promised
		if r.running.len() > 0 && pagesFor(len(s.Tokens))-n > free {
			continue
		}
		if best == nil || n > cached || n == cached && free > spare {
			best, cached, spare = r, n, free
		}
	}
	return best
}

// untried says whether a route is up, beside one, on which s has not failed.
func (c *Scheduler) untried(s *Sequence, beside *route) bool {
	for _, r := range c.routes {
		if r != beside && r.up && !slices.Contains(s.avoid, r) {
			return true
		}
	}
	return false
}

// overdue returns the sequence of r that has been stalled for the longest time, if
// that is longer than others have to bear; nil if there is none.
func (c *Scheduler) overdue(r *route) *Sequence {
	if s := r.stalled.first; s != nil && c.now.Sub(s.since) >= c.grace {
		return s
	}
	return nil
}

// victim returns who is to be preempted when r has no pages left: whoever goes
// last. Those before it go on, so that there is always one who gets to its end.
func (r *route) victim() *Sequence { return r.running.first() }
