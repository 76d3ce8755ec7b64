package generate

import (
	"slices"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/stage"
)

// scheduler decides who runs next, and nothing else: which sequences are
// admitted, which of their rows the next batch takes, and who yields its pages
// when they run out. It belongs to the engine's goroutine.
//
// A sequence is admitted when there are pages for its tokens, gets more page by
// page, and, where there are none, those who came last yield: they give up their
// pages, wait, and are computed again later. What was drawn for them stays.
type scheduler struct {
	pages   *pages
	pace    *pace
	maxSeqs int
	maxRows int // a batch
	maxOut  int // outputs a batch

	waiting []*sequence // not admitted; in their order
	prefill []*sequence // admitted, with tokens left to send in chunks; in their order
	decode  []*sequence // one token to send; a queue, so that all get their turn
	running []*sequence // all that are admitted
	turn    []*sequence // scratch
	writing int         // of these, past their chunks
	arrived uint64
	yields  int // how often sequences yielded
	reused  int // tokens that were not computed, because their pages were shared
}

// part is the rows of one sequence in a batch: whose they are, how many tokens
// of it have been sent with them, and how many of them want logits.
type part struct {
	seq     *sequence
	to      int
	outputs int
}

// flight is what a batch carries: its sequences, in the order of its rows.
type flight struct{ parts []part }

// arrive queues a new sequence.
func (c *scheduler) arrive(s *sequence) {
	s.arrival = c.arrived
	c.arrived++
	c.queue(s)
	c.admit()
}

func (c *scheduler) queue(s *sequence) {
	i, _ := slices.BinarySearchFunc(c.waiting, s, func(a, b *sequence) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	c.waiting = slices.Insert(c.waiting, i, s)
}

// admit lets waiting sequences in, in order, while there are pages for their
// tokens.
func (c *scheduler) admit() {
	for len(c.waiting) > 0 && len(c.running) < c.maxSeqs {
		s := c.waiting[0]
		if !s.scored {
			// One token at least is computed: its logits are wanted.
			s.path = c.pages.find(s.tokens[:len(s.tokens)-1])
		}
		if len(c.running) > 0 && pagesFor(len(s.tokens))-len(s.path) > c.pages.available()-c.promised() {
			c.release(s)
			return
		}
		for _, b := range s.path {
			s.table = append(s.table, b.page)
		}
		s.fill, s.sent = len(s.tokens), len(s.path)*kernels.PageTokens
		s.computed = s.sent
		c.reused += s.sent
		c.waiting = slices.Delete(c.waiting, 0, 1)
		c.running = append(c.running, s)
		i, _ := slices.BinarySearchFunc(c.prefill, s, func(a, b *sequence) int {
			if a.before(b) {
				return -1
			}
			return 1
		})
		c.prefill = slices.Insert(c.prefill, i, s)
	}
}

// promised is how many pages those that run have yet to take for the tokens that
// they have.
func (c *scheduler) promised() (pages int) {
	for _, s := range c.running {
		pages += max(0, pagesFor(len(s.tokens))-len(s.table))
	}
	return pages
}

// release gives up a sequence's pages.
func (c *scheduler) release(s *sequence) {
	for _, b := range slices.Backward(s.path) {
		c.pages.leave(b)
	}
	for _, page := range s.own {
		c.pages.give(page)
	}
	s.path, s.own, s.table = s.path[:0], s.own[:0], s.table[:0]
	s.unshared = false
}

// leave takes a sequence out of every queue. Its pages go back when no batch
// works on them any more, see landed.
func (c *scheduler) leave(s *sequence) {
	s.ended = true
	c.waiting = remove(c.waiting, s)
	if !slices.Contains(c.running, s) {
		return
	}
	c.unqueue(s)
	if s.flying == 0 {
		c.retire(s)
	}
}

// unqueue takes an admitted sequence out of the queues for batches.
func (c *scheduler) unqueue(s *sequence) {
	if !s.prefilling() && !s.yielding {
		c.writing--
	}
	c.prefill, c.decode = remove(c.prefill, s), remove(c.decode, s)
}

// retire ends a sequence's time among those that run: it has ended, or yields.
func (c *scheduler) retire(s *sequence) {
	c.release(s)
	c.running = remove(c.running, s)
	if !s.ended {
		s.yielding, s.sent, s.computed = false, 0, 0
		c.queue(s)
	}
	c.admit()
}

// done says that s is computed up to to.
func (c *scheduler) done(s *sequence, to int) {
	if !s.ended { // else a chunk before may have failed
		s.computed = to
		c.share(s)
	}
}

// landed says that a batch with rows of s has come back.
func (c *scheduler) landed(s *sequence) {
	s.flying--
	if s.flying == 0 && (s.ended || s.yielding) {
		c.retire(s)
	}
}

// share puts a sequence's full pages where others find them.
func (c *scheduler) share(s *sequence) {
	for !s.unshared && len(s.own) > 0 && s.computed >= (len(s.path)+1)*kernels.PageTokens {
		var parent *block
		if n := len(s.path); n > 0 {
			parent = s.path[n-1]
		}
		b := c.pages.share(parent, s.tokens[len(s.path)*kernels.PageTokens:], s.own[0])
		if b == nil {
			s.unshared = true
			return
		}
		s.path, s.own = append(s.path, b), slices.Delete(s.own, 0, 1)
	}
}

// again queues a sequence that has got its next token.
func (c *scheduler) again(s *sequence) {
	if !s.yielding {
		c.decode = append(c.decode, s)
	}
}

// grow gets s pages for n tokens. Where there are none, and none are about to
// come back, whoever goes last yields, be it s itself; grow is false then, unless
// that gave a page at once.
func (c *scheduler) grow(s *sequence, n int) bool {
	for s.room() < n {
		if page, ok := c.pages.take(); ok {
			s.own, s.table = append(s.own, page), append(s.table, page)
			continue
		}
		last := s
		for _, other := range c.running {
			if other.ended || other.yielding {
				return false // its pages come back when it has landed
			}
			if last.before(other) {
				last = other
			}
		}
		c.yield(last)
		if last == s || last.flying > 0 {
			return false
		}
	}
	return true
}

// yield makes a sequence give up its pages.
func (c *scheduler) yield(s *sequence) {
	c.yields++
	c.unqueue(s)
	s.yielding = true
	if s.flying == 0 {
		c.release(s)
		c.running = remove(c.running, s)
		s.yielding, s.sent, s.computed = false, 0, 0
		c.queue(s) // it isn't admitted before others have made room
	}
}

// ready says how many rows could go into a batch now, and how many would be
// enough not to wait for more: a batch's share where all places are taken.
func (c *scheduler) ready() (rows, enough int) {
	return c.unsent() + len(c.decode), min(c.maxRows, share(c.maxSeqs, c.pace.groups(c.maxSeqs)))
}

// unsent is how many rows wait in chunks.
func (c *scheduler) unsent() (rows int) {
	for _, s := range c.prefill {
		rows += s.pending()
	}
	return rows
}

// share is n divided by the batches in flight, rounded up.
func share(n, inFlight int) int { return (n + inFlight - 1) / inFlight }

// fill puts the next rows into b and returns how many. Rows that decode come
// first, an equal share of them a batch in flight, so that every stage has some;
// then chunks, sized so that all stages are busy and nobody's next token waits
// long for somebody's prompt.
func (c *scheduler) fill(b *stage.Batch, f *flight) (rows int) {
	f.parts = f.parts[:0]
	unsent := c.unsent()
	// However many decode, prompts that wait get a part of the batch.
	kept := min(unsent, max(1, c.maxRows/4))
	decodes := min(len(c.decode), c.maxRows-kept, c.maxOut, share(max(1, c.writing), c.pace.groups(c.writing)))
	outputs := 0
	// To grow one may make others yield, which leave the queues.
	c.turn = append(c.turn[:0], c.decode...)
	for _, s := range c.turn {
		if outputs == decodes {
			break
		}
		if slices.Contains(c.decode, s) && c.grow(s, s.sent+1) {
			c.decode = remove(c.decode, s)
			outputs += c.put(b, f, s, 1)
		}
	}
	rows = len(b.Header.Tokens)
	room := min(c.maxRows-rows, c.pace.chunk(unsent, c.writing))
	// Half of the room is for whoever came first, half is shared out: a long
	// prompt isn't held up by short ones, nor they by it.
	first := room - room/2
	each := max(leastChunk/4, room/2/max(1, len(c.prefill)))
	c.turn = append(c.turn[:0], c.prefill...)
	for _, s := range c.turn {
		n := min(room, s.pending(), first+each)
		first = max(0, first-n)
		if s.scored {
			n = min(n, c.maxOut-outputs)
		}
		if n <= 0 || outputs >= c.maxOut || !slices.Contains(c.prefill, s) {
			continue
		}
		if !c.grow(s, s.sent+n) {
			if !slices.Contains(c.prefill, s) {
				continue // it yielded
			}
			n = min(n, s.room()-s.sent)
		}
		if n <= 0 {
			continue
		}
		outputs += c.put(b, f, s, n)
		room -= n
		if !s.prefilling() {
			c.writing++
			c.prefill = remove(c.prefill, s)
		}
	}
	return len(b.Header.Tokens)
}

// leastChunk is how many rows of a prompt are worth a batch of their own.
const leastChunk = 64

// put adds the next n rows of s to b and returns how many want output.
func (c *scheduler) put(b *stage.Batch, f *flight, s *sequence, n int) int {
	table := b.Header.Table(s.table[:pagesFor(s.sent+n)])
	outputs := 0
	for i := s.sent; i < s.sent+n; i++ {
		wanted := s.wants(i)
		if wanted {
			outputs++
		}
		b.Header.Append(s.tokens[i], int32(i), table, wanted)
	}
	s.sent += n
	s.flying++
	f.parts = append(f.parts, part{s, s.sent, outputs})
	return outputs
}

// remove returns list without s, in order, in the same memory.
func remove(list []*sequence, s *sequence) []*sequence {
	return slices.DeleteFunc(list, func(x *sequence) bool { return x == s })
}
