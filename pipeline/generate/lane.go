package generate

import (
	"math"
	"slices"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/stage"
)

// lane is one route through the stages, one replica of each, with the pages that
// sequences have on it. A sequence stays on its lane while it runs, and a batch
// holds rows of one lane.
type lane struct {
	schedule *scheduler
	route    int
	pages    *pages
	pace     *pace
	maxRows  int // a batch
	maxOut   int // outputs a batch

	prefill []*sequence // with tokens left to send in chunks; in their order
	decode  []*sequence // one token to send; a queue, so that all get their turn
	running []*sequence // all that were admitted and haven't ended
	writing int         // of these, past their chunks
	flights int         // batches

	probe *sequence // runs alone, to see whether it is the lane or the requests
	down  error     // why the lane takes nothing now

	scratch []*sequence
}

// known is how many pages of a sequence's beginning are there already, and how
// many of them nobody uses.
func (l *lane) known(s *sequence) (n, unused int) {
	if s.scored {
		return 0, 0 // all of its tokens are to be computed
	}
	return l.pages.reach(s.tokens[:len(s.tokens)-1])
}

// promised is how many pages those that run have yet to take for the tokens that
// they have.
func (l *lane) promised() (pages int) {
	for _, s := range l.running {
		pages += max(0, pagesFor(len(s.tokens))-len(s.table))
	}
	return pages
}

// admit lets a sequence in.
func (l *lane) admit(s *sequence) {
	if !s.scored {
		// One token at least is computed: its logits are wanted.
		s.path = l.pages.find(s.tokens[:len(s.tokens)-1])
	}
	for _, b := range s.path {
		s.table = append(s.table, b.page)
	}
	s.lane = l
	s.fill, s.sent = len(s.tokens), len(s.path)*kernels.PageTokens
	s.computed = s.sent
	l.schedule.reused += s.sent
	l.running = append(l.running, s)
	l.prefill = insert(l.prefill, s)
}

// leave takes an admitted sequence, which has ended, out of the queues.
func (l *lane) leave(s *sequence) {
	l.unqueue(s)
	if s.flying == 0 {
		l.retire(s)
	}
}

func (l *lane) unqueue(s *sequence) {
	if !s.prefilling() && !s.yielding {
		l.writing--
	}
	l.prefill, l.decode = remove(l.prefill, s), remove(l.decode, s)
}

// retire ends a sequence's time on the lane, and where it only yields queues it
// again. Nobody is admitted before who called has done its work.
func (l *lane) retire(s *sequence) {
	for _, b := range slices.Backward(s.path) {
		l.pages.leave(b)
	}
	for _, page := range s.own {
		l.pages.give(page)
	}
	s.path, s.own, s.table = s.path[:0], s.own[:0], s.table[:0]
	s.unshared, s.yielding, s.spoiled, s.lane, s.sent, s.computed = false, false, false, nil, 0, 0
	l.running = remove(l.running, s)
	l.schedule.running--
	if !s.ended {
		l.schedule.queue(s)
	}
}

// done says that s is computed up to to.
func (l *lane) done(s *sequence, to int) {
	if !s.ended && !s.yielding { // else a chunk before may have failed
		s.computed = to
		l.share(s)
	}
}

// landed says that a batch with rows of s has come back.
func (l *lane) landed(s *sequence) {
	s.flying--
	if s.flying == 0 && (s.ended || s.yielding) {
		l.retire(s)
	}
}

// share puts a sequence's full pages where others find them.
func (l *lane) share(s *sequence) {
	for !s.unshared && len(s.own) > 0 && s.computed >= (len(s.path)+1)*kernels.PageTokens {
		var parent *block
		if n := len(s.path); n > 0 {
			parent = s.path[n-1]
		}
		b := l.pages.share(parent, s.tokens[len(s.path)*kernels.PageTokens:], s.own[0])
		if b == nil {
			s.unshared = true
			return
		}
		s.path, s.own = append(s.path, b), slices.Delete(s.own, 0, 1)
	}
}

// again queues a sequence that has got its next token.
func (l *lane) again(s *sequence) {
	if !s.yielding {
		l.decode = append(l.decode, s)
	}
}

// grow gets s pages for n tokens. Where there are none, and none are about to
// come back, whoever goes last yields, be it s itself; grow is false then, unless
// that gave a page at once.
func (l *lane) grow(s *sequence, n int) bool {
	for s.room() < n {
		if page, ok := l.pages.take(); ok {
			s.own, s.table = append(s.own, page), append(s.table, page)
			continue
		}
		if idle := l.stalled(); idle != nil && idle != s {
			l.displace(idle)
			continue
		}
		last := s
		for _, other := range l.running {
			if other.ended || other.yielding {
				return false // its pages come back when it has landed
			}
			if last.before(other) {
				last = other
			}
		}
		l.schedule.yields++
		l.yield(last)
		if last == s || last.flying > 0 {
			return false
		}
	}
	return true
}

// stalled is a sequence that waits for its caller to take logits, if there is one.
func (l *lane) stalled() *sequence {
	for _, s := range l.running {
		if s.scored && s.flying == 0 && s.prefilling() && s.pending() <= 0 && !s.ended {
			return s
		}
	}
	return nil
}

// displace makes a stalled sequence yield, and go behind all that wait.
func (l *lane) displace(s *sequence) {
	s.arrival = l.schedule.arrived
	l.schedule.arrived++
	l.schedule.yields++
	l.yield(s)
}

// yield makes a sequence give up its pages and wait to be admitted again.
func (l *lane) yield(s *sequence) {
	l.unqueue(s)
	s.yielding = true
	if s.flying == 0 {
		l.retire(s)
	}
}

// try sends a row of nobody's down the lane, alone.
func (l *lane) try() {
	l.probe = &sequence{tokens: []int32{0}, prompt: 1, most: 1, scored: true, priority: math.MaxInt, outbox: outbox{signal: make(chan struct{}, 1)}}
	l.schedule.running++
	l.admit(l.probe)
}

// ready says how many rows could go into a batch now, and how many would be
// enough not to wait for more: a batch's share where all places are taken.
func (l *lane) ready() (rows, enough int) {
	if l.probe != nil {
		return l.probe.pending(), 1
	}
	seats := share(l.schedule.maxSeqs, len(l.schedule.lanes))
	return l.unsent() + len(l.decode), min(l.maxRows, share(seats, l.pace.groups(seats)))
}

// full says that as many batches are in flight as there are to be: what waits is
// better sent together later.
func (l *lane) full() bool {
	if l.probe != nil {
		return l.flights >= l.pace.inFlight
	}
	groups, _ := l.pace.batches(l.writing, l.unsent(), l.flights)
	return l.flights >= groups
}

// unsent is how many rows wait in chunks.
func (l *lane) unsent() (rows int) {
	for _, s := range l.prefill {
		rows += s.pending()
	}
	return rows
}

// share is n divided by parts, rounded up.
func share(n, parts int) int { return (n + parts - 1) / parts }

// fill puts the next rows into b and returns how many. Rows that decode come
// first, an equal share of them a batch in flight, so that every stage has some;
// then chunks, sized so that all stages are busy and nobody's next token waits
// long for somebody's prompt.
func (l *lane) fill(b *stage.Batch, f *flight) int {
	if s := l.probe; s != nil {
		if l.grow(s, 1) {
			l.put(b, f, s, 1)
			l.prefill, l.writing = remove(l.prefill, s), l.writing+1
		}
		return len(b.Header.Tokens)
	}
	unsent := l.unsent()
	groups, size := l.pace.batches(l.writing, unsent, l.flights)
	decoding := min(l.maxRows, share(max(1, l.writing), groups))
	// However many decode, prompts that wait get a part of the batch.
	outputs := l.fillDecoding(b, f, min(decoding, l.maxRows-min(unsent, max(1, l.maxRows/4))))
	rows := len(b.Header.Tokens)
	l.grant(min(max(size-rows, leastChunk/2), l.maxRows-rows))
	l.scratch = append(l.scratch[:0], l.prefill...)
	for _, s := range l.scratch {
		n := s.granted
		if s.scored {
			n = min(n, l.maxOut-outputs)
		}
		if n <= 0 || outputs >= l.maxOut || !slices.Contains(l.prefill, s) {
			continue
		}
		if !l.grow(s, s.sent+n) {
			if !slices.Contains(l.prefill, s) {
				continue // it yielded
			}
			if n = min(n, s.room()-s.sent); n <= 0 {
				continue
			}
		}
		outputs += l.put(b, f, s, n)
		if !s.prefilling() {
			l.writing++
			l.prefill = remove(l.prefill, s)
		}
	}
	// What was kept for prompts that found no pages is for others.
	l.fillDecoding(b, f, min(decoding-rows, l.maxRows-len(b.Header.Tokens), l.maxOut-outputs))
	return len(b.Header.Tokens)
}

// grant shares out room among those with tokens left to send in chunks. Half of it
// is for whoever came first, half for whoever has least left: a long prompt isn't
// held up by short ones, nor they by it.
func (l *lane) grant(room int) {
	for _, s := range l.prefill {
		s.granted = 0
	}
	give := func(to []*sequence, room int) (left int) {
		for _, s := range to {
			n := max(0, min(room, s.pending()-s.granted))
			s.granted += n
			room -= n
		}
		return room
	}
	left := give(l.prefill, room-room/2) + room/2
	l.scratch = append(l.scratch[:0], l.prefill...)
	slices.SortStableFunc(l.scratch, func(a, b *sequence) int { return a.pending() - b.pending() })
	give(l.scratch, left)
}

// fillDecoding puts up to most rows that decode into b and returns how many.
func (l *lane) fillDecoding(b *stage.Batch, f *flight, most int) (outputs int) {
	most = min(most, l.maxOut)
	// To grow one may make others yield, which leave the queues.
	l.scratch = append(l.scratch[:0], l.decode...)
	for _, s := range l.scratch {
		if outputs >= most {
			break
		}
		if slices.Contains(l.decode, s) && l.grow(s, s.sent+1) {
			l.decode = remove(l.decode, s)
			outputs += l.put(b, f, s, 1)
		}
	}
	return outputs
}

// put adds the next n rows of s to b and returns how many want output.
func (l *lane) put(b *stage.Batch, f *flight, s *sequence, n int) int {
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
	b.Want.Best = b.Want.Best && (s.greedy || outputs == 0)
	f.parts = append(f.parts, part{s, s.sent, outputs})
	return outputs
}
