package pipeline

import (
	"errors"
	"slices"
	"sync"

	"github.com/leat-dev/leat/stage"
)

// A batch with rows of several calls that fails is tried again in halves, so that
// only those calls fail whose rows make it fail: of n calls' rows each half has
// about n/2, and a call whose rows fail alone gets the error. So the rows of a call
// are tried again at most log2(n) times, rounded up, and fewer than 2n batches come
// of one.

// retry is a part of a batch that failed, to be tried again.
type retry struct {
	pieces []piece
	err    error // of that batch
}

// retries holds the parts of failed batches until the gatherer sends them again.
// They go before rows that have not been sent, so that there are never more of them
// than the batches in flight can hold.
type retries struct {
	mu    sync.Mutex
	queue []retry
}

// add queues both halves of a batch that failed with err. The references of the
// batch become the queue's.
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

// worthRetrying reports whether a batch that failed with err is tried again. It
// removes from the flight the pieces of calls that have ended meanwhile.
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

// failRetries ends the calls of all retries, each with the error of its batch.
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

// refill copies the rows of a retry to a batch and returns how many there are.
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
