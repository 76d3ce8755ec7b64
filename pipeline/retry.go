package pipeline

import (
	"errors"
	"slices"
	"sync"

	"github.com/leat-dev/leat/stage"
)

// If a batch with rows of several calls fails, each half of it is computed again, so that
// only those calls fail whose rows make it fail. Each half holds the rows of about half of
// the calls. A call whose rows fail in a batch of their own gets the error. So for a batch
// with rows of n calls, the rows of one call are computed again at most log2(n) times,
// rounded up, in fewer than 2n further batches.

// retry is a part of a batch that failed, to be computed again.
type retry struct {
	pieces []piece
	err    error // the error of that batch
}

// retries holds the parts of failed batches until the gatherer sends them. They are sent
// before other rows, so that they are never more than the batches in flight can hold.
type retries struct {
	mu    sync.Mutex
	queue []retry
}

// add queues both halves of a batch that failed with err. The batch's references to its
// calls become those of the retries.
func (r *retries) add(pieces []piece, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	half := len(pieces) / 2
	r.queue = append(r.queue, retry{slices.Clone(pieces[:half]), err}, retry{slices.Clone(pieces[half:]), err})
}

// next removes the first retry. It returns false if there is none.
func (r *retries) next() (retry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return retry{}, false
	}
	first := r.queue[0]
	if r.queue = r.queue[1:]; len(r.queue) == 0 {
		r.queue = nil
	}
	return first, true
}

func (r *retries) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue) == 0
}

// worthRetrying reports whether the rows of a batch that failed with err are computed
// again. It removes the pieces of calls that have ended meanwhile from the flight.
func (p *Pipeline) worthRetrying(f *flight, err error) bool {
	if !p.isolate || !errors.As(err, new(*stage.Error)) || errors.Is(err, ErrClosed) {
		return false
	}
	f.pieces = slices.DeleteFunc(f.pieces, func(s piece) bool {
		ended := s.call.hasEnded()
		if ended {
			s.call.receive(nil, s.from, s.n, err)
		}
		return ended
	})
	return len(f.pieces) > 1
}

// failRetries ends the calls of all retries with the errors of their batches.
func (g *gatherer) failRetries() {
	for {
		r, ok := g.retries.next()
		if !ok {
			return
		}
		for _, s := range r.pieces {
			s.call.receive(nil, s.from, s.n, r.err)
		}
	}
}

// refill copies the rows of a retry to a batch and returns how many it has copied.
func (g *gatherer) refill(b *stage.Batch, f *flight, r retry) (rows int) {
	for _, s := range r.pieces {
		if !s.call.copyRows(b.Input[rows*g.in:], s.from, s.n) {
			s.call.receive(nil, s.from, s.n, r.err)
			continue
		}
		f.pieces = append(f.pieces, s)
		rows += s.n
	}
	if rows > 0 {
		g.counts.retries.Add(1)
	}
	return rows
}
