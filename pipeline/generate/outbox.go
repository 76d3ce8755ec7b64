package generate

import (
	"context"
	"sync"
	"time"
)

// step is what a caller is handed: a token, or the logits of one, or the request to
// draw the next token with its own sampler.
type step struct {
	Token
	logits []float32
	ask    bool
}

// outbox hands a request's steps to its caller. The engine never waits for the caller:
// once mostSteps of a request wait there, the engine does not continue the request until
// its caller has taken them.
type outbox struct {
	mu     sync.Mutex
	steps  []step
	err    error
	closed bool
	signal chan struct{} // holds one: something changed
}

func newOutbox() outbox { return outbox{signal: make(chan struct{}, 1)} }

// full reports whether as many steps wait as may.
func (o *outbox) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.steps) >= mostSteps
}

// put adds a step, and returns the time at which the step was made: now, unless it says
// so itself. Whoever puts calls wake afterwards.
func (o *outbox) put(t step) time.Time {
	if t.At.IsZero() {
		t.At = time.Now()
	}
	o.mu.Lock()
	o.steps = append(o.steps, t)
	o.mu.Unlock()
	return t.At
}

// close ends the outbox; err is the request's, if it failed. Whoever closes it calls
// wake afterwards.
func (o *outbox) close(err error) {
	o.mu.Lock()
	o.err, o.closed = err, true
	o.mu.Unlock()
}

// wake wakes the caller, if it waits.
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
		clear(o.steps)
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
