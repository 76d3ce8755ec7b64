package generate

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// sequence is a request on its way. All but its outbox and the cancelled mark
// belongs to the engine's goroutine.
type sequence struct {
	tokens    []int32 // the prompt and what was added
	prompt    int     // how many of them are the prompt's
	most      int     // how many there may be
	sent      int     // how many have been put into batches
	flying    int     // in how many batches it is
	pages     []int32 // of positions 0, 32, 64, …
	sampler   sampler
	writer    writer
	scored    bool         // no tokens are added: the caller wants the logits of each
	scores    int          // how many logits have been handed over
	taken     atomic.Int64 // how many of them its caller has taken
	ended     bool
	ignoreEnd bool

	cancelled atomic.Bool
	outbox    outbox
}

// mostScores is how many rows of logits may wait for a sequence's caller: they
// are large.
const mostScores = 64

// pending is how many tokens wait to be put into batches.
func (s *sequence) pending() int {
	n := len(s.tokens) - s.sent
	if s.scored {
		n = min(n, mostScores-(s.sent-int(s.taken.Load())))
	}
	return n
}

// prefilling says that the prompt isn't all sent, so that more rows than one
// may be.
func (s *sequence) prefilling() bool { return s.sent < s.prompt }

// step is what a caller is handed: a token, or the logits of one.
type step struct {
	Token
	logits []float32
}

// outbox hands a sequence's steps to its caller. The engine never waits for the
// caller: the outbox takes as many steps as a sequence may have.
type outbox struct {
	mu     sync.Mutex
	steps  []step
	err    error
	closed bool
	signal chan struct{} // holds one: something changed
}

func (o *outbox) put(t step) {
	t.At = time.Now()
	o.mu.Lock()
	o.steps = append(o.steps, t)
	o.mu.Unlock()
	o.wake()
}

// close ends the outbox; err is the request's, if it failed.
func (o *outbox) close(err error) {
	o.mu.Lock()
	o.err, o.closed = err, true
	o.mu.Unlock()
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.signal <- struct{}{}:
	default:
	}
}

// take appends the steps that wait to into. It blocks until there is one, the
// outbox is closed (more is false then, once it is empty), or ctx ends.
func (o *outbox) take(ctx context.Context, into []step) (steps []step, more bool, err error) {
	for {
		o.mu.Lock()
		into = append(into, o.steps...)
		o.steps = o.steps[:0]
		closed, err := o.closed, o.err
		o.mu.Unlock()
		if len(into) > 0 || closed {
			return into, !closed, err
		}
		select {
		case <-o.signal:
		case <-ctx.Done():
			return into, false, ctx.Err()
		}
	}
}
