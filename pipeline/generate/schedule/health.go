package schedule

import (
	"math"
	"slices"
)

// Failed says that a batch has failed, or could not be sent. Its sequences are
// computed again on another route where there is one that is up and on which they
// have not failed. The others are removed and returned; the slice is valid until
// the next call of Failed or Down.
func (c *Scheduler) Failed(b *Batch) (removed []*Sequence) {
	r := c.routes[b.Route]
	r.flights--
	c.removed = c.removed[:0]
	if b.probe != nil {
		r.endProbe(b.probe)
	}
	for _, p := range b.Parts {
		r.spoil(p.Seq)
		r.landed(p.Seq)
	}
	return c.removed
}

// Down takes a route out of use: nobody is admitted there until Up, and a probe of
// it is cancelled. Its sequences go elsewhere or are removed and returned, as by
// Failed. Sequences that wait stay, even if no route is up.
func (c *Scheduler) Down(route int) (removed []*Sequence) {
	r := c.routes[route]
	r.up = false
	r.cancelProbe()
	c.blocked = false // whoever waits may now have to take a route that it avoided
	c.removed = c.removed[:0]
	here := slices.Clone(r.running.items)
	slices.SortFunc(here, order)
	for _, s := range here {
		r.spoil(s)
	}
	return c.removed
}

// Up puts a route into use, and cancels a probe of it.
func (c *Scheduler) Up(route int) {
	r := c.routes[route]
	r.up = true
	r.cancelProbe()
	c.blocked = false
}

// Probe makes the next batch of a route, be it up or down, a single row that
// belongs to no sequence. Nothing else is sent there until that batch has come
// back, or the probe was cancelled.
func (c *Scheduler) Probe(route int) {
	r := c.routes[route]
	if r.probe == nil {
		r.probe = &Sequence{Tokens: []int32{0}, Most: 1, Priority: math.MaxInt, Want: All, Window: 1}
		r.admit(r.probe)
	}
}

// spoil has a sequence on a route leave it because it has failed there: for
// another route, or for good.
func (r *route) spoil(s *Sequence) {
	c := r.schedule
	switch {
	case s.state == ended || s.spoiled:
	case c.untried(s, r):
		c.moved++
		if !slices.Contains(s.avoid, r) {
			s.avoid = append(s.avoid, r)
		}
		if s.flying > 0 {
			s.spoiled, s.due = true, false // what still comes back isn't to be used
		}
		if s.state == admitted {
			r.leave(s, leaving)
		}
	default:
		c.Remove(s)
		c.removed = append(c.removed, s)
	}
}

// endProbe is for a probe whose batch has come back.
func (r *route) endProbe(s *Sequence) {
	if r.probe == s {
		r.cancelProbe()
	}
	r.landed(s)
}

// cancelProbe lets the route go on without its probe, which may be in flight.
func (r *route) cancelProbe() {
	if r.probe != nil {
		r.schedule.Remove(r.probe)
		r.probe = nil
		r.starved = false
	}
}
