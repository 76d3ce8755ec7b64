package generate

import (
	"errors"
	"slices"

	"github.com/leat-dev/leat/stage"
)

// scheduler decides who runs next, and nothing else: which sequences are
// admitted, on which route, and which of their rows the next batch takes. It
// belongs to the engine's goroutine.
//
// A sequence is admitted when there are pages for its tokens, gets more page by
// page, and, where there are none, those who came last yield: they give up their
// pages, wait, and are computed again later. What was drawn for them stays.
type scheduler struct {
	lanes   []*lane
	maxSeqs int

	waiting []*sequence // not admitted; in their order
	running int         // admitted and not ended, on all lanes
	arrived uint64
	turn    int // the lane that the last batch was for
	yields  int // how often sequences yielded
	reused  int // tokens that were not computed, because their pages were shared
	moved   int // sequences that went to another lane because theirs failed
}

func newScheduler(lanes []*lane, maxSeqs int) *scheduler {
	c := &scheduler{lanes: lanes, maxSeqs: maxSeqs}
	for i, l := range lanes {
		l.schedule, l.route = c, i
	}
	return c
}

// arrive queues a new sequence.
func (c *scheduler) arrive(s *sequence) {
	s.arrival = c.arrived
	c.arrived++
	c.queue(s)
	c.admit()
}

func (c *scheduler) queue(s *sequence) { c.waiting = insert(c.waiting, s) }

// admit lets waiting sequences in, in order, while a lane has pages for their
// tokens.
func (c *scheduler) admit() {
	for len(c.waiting) > 0 {
		s := c.waiting[0]
		var l *lane
		if c.running < c.maxSeqs {
			l = c.choose(s)
		}
		if l == nil {
			if c.displace() {
				continue
			}
			return
		}
		c.waiting = slices.Delete(c.waiting, 0, 1)
		c.running++
		l.admit(s)
	}
}

// displace makes a sequence yield whose caller doesn't take the logits that are
// there, and puts it behind all others. It is false where there is none.
func (c *scheduler) displace() bool {
	for _, l := range c.lanes {
		if s := l.stalled(); s != nil {
			l.displace(s)
			return true
		}
	}
	return false
}

// choose returns the lane that a sequence should run on, nil if it has to wait:
// the one that has most of its beginning already; among equals, the one with most
// pages to spare.
func (c *scheduler) choose(s *sequence) (best *lane) {
	shared, spare := 0, 0
	for _, l := range c.lanes {
		if l.down != nil || slices.Contains(s.avoid, l) && c.untried(s, nil) {
			continue
		}
		n, unused := l.known(s)
		free := l.pages.available() - unused - l.promised()
		if len(l.running) > 0 && pagesFor(len(s.tokens))-n > free {
			continue
		}
		if best == nil || n > shared || n == shared && free > spare {
			best, shared, spare = l, n, free
		}
	}
	return best
}

// up is how many lanes work.
func (c *scheduler) up() (n int) {
	for _, l := range c.lanes {
		if l.down == nil {
			n++
		}
	}
	return n
}

// untried says whether there is a lane beside one on which s hasn't failed.
func (c *scheduler) untried(s *sequence, beside *lane) bool {
	return slices.ContainsFunc(c.lanes, func(l *lane) bool {
		return l != beside && l.down == nil && !slices.Contains(s.avoid, l)
	})
}

// failed is why no lane works any more, nil while one does.
func (c *scheduler) failed() error {
	var errs []error
	for _, l := range c.lanes {
		if l.down == nil {
			return nil
		}
		errs = append(errs, l.down)
	}
	return errors.Join(errs...)
}

// leave takes a sequence out of every queue. Its pages go back when no batch
// works on them any more, see lane.landed.
func (c *scheduler) leave(s *sequence) {
	s.ended = true
	c.waiting = remove(c.waiting, s)
	if s.lane != nil {
		s.lane.leave(s)
	}
}

// next returns the lane that the next batch is for, nil if none has rows to send
// and a batch to spare. patient says that a lane may be passed over until it has
// enough rows.
func (c *scheduler) next(patient bool) (l *lane, waits bool) {
	c.admit() // one may have yielded since, and have left room for another
	for i := range c.lanes {
		at := (c.turn + 1 + i) % len(c.lanes)
		l := c.lanes[at]
		rows, enough := l.ready()
		switch {
		case rows == 0 || l.full():
		case patient && rows < enough:
			waits = true
		default:
			c.turn = at
			return l, false
		}
	}
	return nil, waits
}

// part is the rows of one sequence in a batch: whose they are, how many tokens
// of it have been sent with them, and how many of them want logits.
type part struct {
	seq     *sequence
	to      int
	outputs int
}

// flight is what a batch carries: its sequences, in the order of its rows.
type flight struct {
	lane  *lane
	parts []part
}

// fill puts a lane's next rows into b and returns how many.
func (f *flight) fill(l *lane, b *stage.Batch) int {
	f.lane, f.parts = l, f.parts[:0]
	b.Route, b.Want.Best = l.route, true
	return l.fill(b, f)
}

// insert puts s into its place in a list that is in order.
func insert(list []*sequence, s *sequence) []*sequence {
	i, _ := slices.BinarySearchFunc(list, s, func(a, b *sequence) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	return slices.Insert(list, i, s)
}

// remove returns list without s, in order, in the same memory.
func remove(list []*sequence, s *sequence) []*sequence {
	return slices.DeleteFunc(list, func(x *sequence) bool { return x == s })
}
