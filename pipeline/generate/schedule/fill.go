package schedule

import (
	"slices"

	"github.com/leat-dev/leat/kernels"
)

// filling is a batch that is being filled.
type filling struct {
	route   *route
	header  *kernels.Header
	batch   *Batch
	rows    int
	outputs int
}

// fill puts the next rows of a route into a batch. Rows that decode come first, an
// equal share of them a batch in flight, so that every stage has some; then chunks
// of prompts, sized so that all stages are busy and nobody's next token waits long
// for somebody's prompt.
func (r *route) fill(h *kernels.Header, b *Batch) {
	f := filling{route: r, header: h, batch: b}
	if s := r.probe; s != nil {
		if s.unsent > 0 && r.grow(s, 1) {
			f.put(s, 1)
			r.writing++
			r.offer(s)
			b.Probe, b.probe, b.Parts = true, s, b.Parts[:0]
		}
		return
	}
	maxRows, maxOutputs := r.schedule.maxRows, r.schedule.maxOutputs
	unsent := r.unsent
	groups, size := r.pace.batches(r.writing, unsent, r.flights)
	share := min(maxRows, ceil(max(1, r.writing), groups))
	// However many decode, prompts that wait get a part of the batch.
	f.decode(min(share, maxRows-min(unsent, max(1, maxRows/4)), maxOutputs))
	decoding := f.rows
	f.chunks(min(max(size-decoding, leastChunk/2), maxRows-decoding))
	// What was kept for prompts that found no pages is for others.
	f.decode(min(share-decoding, maxRows-f.rows, maxOutputs-f.outputs))
}

// decode puts up to most rows that decode into the batch.
func (f *filling) decode(most int) {
	r := f.route
	for most > 0 && r.decode.first != nil {
		s := r.decode.first
		s.unlink()
		// To get pages for s may preempt any sequence, s included, which leaves
		// the list that it is in.
		r.skipped.push(s)
		if r.grow(s, s.sent+1) {
			s.unlink()
			f.put(s, 1)
			most--
		}
	}
	for r.skipped.last != nil {
		s := r.skipped.last
		s.unlink()
		r.decode.pushFront(s)
	}
}

// chunks puts up to room rows of prompts into the batch.
func (f *filling) chunks(room int) {
	r := f.route
	r.choose(room)
	maxOutputs := r.schedule.maxOutputs
	for _, s := range r.chosen {
		n := s.granted
		s.granted = 0
		if s.Scored() {
			n = min(n, maxOutputs-f.outputs)
		}
		if s.route != r || s.state != admitted || n <= 0 || f.outputs >= maxOutputs {
			continue
		}
		if !r.grow(s, s.sent+n) {
			if s.route != r || s.state != admitted {
				continue // it was preempted
			}
			if n = min(n, s.room()-s.sent); n <= 0 {
				continue
			}
		}
		f.put(s, n)
		if !s.prefilling() {
			r.writing++
		}
	}
	for _, s := range r.chosen {
		if s.route == r && s.state == admitted {
			r.offer(s)
		}
	}
	clear(r.chosen)
	r.chosen = r.chosen[:0]
}

// choose shares out room among those with unsent rows, sets what each is granted,
// and takes them out of the heaps and into chosen, in order. Half of the room is
// for whoever comes first, half for whoever has least left: a long prompt isn't
// held up by short ones, nor they by it.
func (r *route) choose(room int) {
	if room <= 0 {
		return
	}
	half := room / 2
	left := r.grant(&r.chunks, room-half)
	r.grant(&r.short, left+half)
	for _, s := range r.chosen {
		r.chunks.remove(s)
		r.short.remove(s)
	}
	slices.SortFunc(r.chosen, order)
}

// grant shares out room in the order of a heap, and returns what is left.
func (r *route) grant(from *heap, room int) (left int) {
	for room > 0 && from.len() > 0 {
		s := from.first()
		from.remove(s)
		if s.granted == 0 {
			r.chosen = append(r.chosen, s)
		}
		n := min(room, s.unsent-s.granted)
		s.granted += n
		room -= n
	}
	return room
}

// put adds the next n rows of s to the batch.
func (f *filling) put(s *Sequence, n int) {
	outputs, from, to := s.outputs(n), s.sent, s.sent+n
	table := f.header.Table(s.table[:pagesFor(to)])
	for i := from; i < to; i++ {
		f.header.Append(s.Tokens[i], int32(i), table, i >= to-outputs)
	}
	s.sent = to
	s.flying++
	if outputs > 0 {
		s.due = !s.Scored()
		f.batch.Want = max(f.batch.Want, s.Want)
	}
	f.rows += n
	f.outputs += outputs
	f.batch.Parts = append(f.batch.Parts, Part{Seq: s, From: from, To: to, Outputs: outputs})
}
