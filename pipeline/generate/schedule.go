package generate

import "github.com/leat-dev/leat/stage"

// scheduler decides who runs next, and nothing else: which sequences are
// admitted, and which of their rows the next batch takes. It belongs to the
// engine's goroutine.
type scheduler struct {
	pages    *pages
	maxSeqs  int
	maxRows  int // a batch
	maxOut   int // outputs a batch
	inFlight int

	waiting []*sequence // not admitted: no pages yet
	prefill []*sequence // admitted, with prompt left to send; first come, first served
	decode  []*sequence // one token to send; a queue, so that all get their turn
	running int         // admitted and not ended
	writing int         // of these, past their prompt
}

// prefillBeside is how many prompt rows a batch takes at most beside rows that
// decode: more would make everybody's next token wait for somebody's prompt.
const prefillBeside = 64

// leastChunk is how many prompt rows are worth a batch of their own.
const leastChunk = 64

// chunks is in how many parts the waiting prompts are cut. While the first part
// is on its way to the last stage, and the last part on its way from the first,
// some stages stand idle: the more parts, the shorter that is.
func (c *scheduler) chunks() int { return max(1, 4*(c.inFlight-1)) }

// part is the rows of one sequence in a batch: whose they are, and how many of
// them want logits.
type part struct {
	seq     *sequence
	outputs int
}

// flight is what a batch carries: its sequences, in the order of its rows.
type flight struct{ parts []part }

// arrive queues a new sequence.
func (c *scheduler) arrive(s *sequence) {
	c.waiting = append(c.waiting, s)
	c.admit()
}

// admit gives waiting sequences their pages, in order, while there are some.
func (c *scheduler) admit() {
	for len(c.waiting) > 0 && c.running < c.maxSeqs {
		s := c.waiting[0]
		if s.pages = c.pages.take(pagesFor(s.most)); s.pages == nil {
			return
		}
		c.waiting = remove(c.waiting, s)
		c.prefill = append(c.prefill, s)
		c.running++
	}
}

// leave takes a sequence out of every queue. Its pages go back when no batch
// works on them any more, see landed.
func (c *scheduler) leave(s *sequence) {
	s.ended = true
	before := len(c.waiting)
	c.waiting = remove(c.waiting, s)
	if len(c.waiting) < before {
		return
	}
	if s.sent >= s.prompt {
		c.writing--
	}
	c.prefill, c.decode = remove(c.prefill, s), remove(c.decode, s)
	if s.flying == 0 {
		c.retire(s)
	}
}

func (c *scheduler) retire(s *sequence) {
	c.pages.give(s.pages)
	s.pages = nil
	c.running--
	c.admit()
}

// landed says that a batch with rows of s has come back.
func (c *scheduler) landed(s *sequence) {
	if s.flying--; s.flying == 0 && s.ended {
		c.retire(s)
	}
}

// again queues a sequence that has got its next token.
func (c *scheduler) again(s *sequence) { c.decode = append(c.decode, s) }

// ready says how many rows could go into a batch now, and how many would be
// enough not to wait for more: a batch's share where all places are taken.
func (c *scheduler) ready() (rows, enough int) {
	for _, s := range c.prefill {
		rows += s.pending()
	}
	return rows + len(c.decode), min(c.maxRows, share(c.maxSeqs, c.inFlight))
}

// share is n divided by the batches in flight, rounded up.
func share(n, inFlight int) int { return (n + inFlight - 1) / inFlight }

// fill puts the next rows into b. Rows that decode come first, an equal share
// of them a batch in flight, so that every stage has some; then prompts, in
// chunks that keep all stages busy too.
func (c *scheduler) fill(b *stage.Batch, f *flight) {
	f.parts = f.parts[:0]
	outputs, rows := 0, 0
	for _, s := range c.prefill {
		rows += s.pending()
	}
	// However many decode, prompts that wait get a part of the batch.
	kept := min(rows, max(1, c.maxRows/4))
	decodes := min(len(c.decode), c.maxRows-kept, c.maxOut, share(max(1, c.writing), c.inFlight))
	for _, s := range c.decode[:decodes] {
		outputs += c.put(b, f, s, 1)
	}
	c.decode = append(c.decode[:0], c.decode[decodes:]...)

	room := min(c.maxRows-decodes, max(leastChunk, share(rows, c.chunks())))
	if c.writing > 0 {
		room = min(room, prefillBeside)
	}
	waiting := c.prefill[:0]
	for _, s := range c.prefill {
		if n := min(room, s.pending()); n > 0 && outputs < c.maxOut {
			if s.scored {
				n = min(n, c.maxOut-outputs)
			}
			outputs += c.put(b, f, s, n)
			room -= n
		}
		if s.prefilling() {
			waiting = append(waiting, s)
		} else {
			c.writing++
		}
	}
	clear(c.prefill[len(waiting):])
	c.prefill = waiting
}

// put adds the next n rows of s to b and returns how many want output.
func (c *scheduler) put(b *stage.Batch, f *flight, s *sequence, n int) int {
	table := b.Header.Table(s.pages[:pagesFor(s.sent+n)])
	outputs := 0
	for i := s.sent; i < s.sent+n; i++ {
		wanted := s.scored || i == len(s.tokens)-1
		if wanted {
			outputs++
		}
		b.Header.Append(s.tokens[i], int32(i), table, wanted)
	}
	s.sent += n
	s.flying++
	f.parts = append(f.parts, part{s, outputs})
	return outputs
}

// remove returns list without s, in order, in the same memory.
func remove(list []*sequence, s *sequence) []*sequence {
	kept := list[:0]
	for _, x := range list {
		if x != s {
			kept = append(kept, x)
		}
	}
	clear(list[len(kept):])
	return kept
}
