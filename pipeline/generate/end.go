package generate

import (
	"context"
	"errors"
)

// errInside is returned to a layer or an observer that waits for its own end.
var errInside = errors.New("a layer or an observer can't wait until its own engine has ended: close the engine from another goroutine")

// Shutdown makes the engine accept no more requests, which then get ErrClosed, waits until
// the accepted requests have ended, and frees what the engine holds. Requests that wait
// because the backlog is full have not been accepted. Shutdown returns nil, or the error of
// freeing.
//
// If ctx ends first, Shutdown returns ctx's error. The requests continue, and the engine
// ends after them; call Close to end them, or Shutdown to wait again. Shutdown returns an
// error at once if it is called by a layer, or by an observer on a stage's goroutine, since
// the engine can't end before they return.
func (e *Engine) Shutdown(ctx context.Context) error {
	if e.line.Inside() {
		return errInside
	}
	e.refuse()
	e.ending.Do(func() { go e.finish() }) // it ends with the last request
	select {
	case <-e.over:
		return e.failed
	default:
	}
	select {
	case <-e.over:
		return e.failed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all requests with ErrClosed and frees what the engine holds. It waits for
// layers that are computing, but not for callers or their samplers. It may be called more
// than once, and while Shutdown waits; each call returns when everything is freed. It
// returns an error at once where Shutdown does.
func (e *Engine) Close() error {
	if e.line.Inside() {
		return errInside
	}
	e.refuse()
	e.mu.Lock()
	e.closed = true
	for r := range e.live {
		e.end(r, Failed, ErrClosed)
	}
	e.unlock()
	return e.Shutdown(context.Background())
}

// refuse makes the engine accept no more requests.
func (e *Engine) refuse() {
	e.mu.Lock()
	defer e.leave()
	if e.refuses {
		return
	}
	e.refuses = true
	e.maxWait = 0 // for requests that can't come
	close(e.refusing)
	for r := e.blocked.pop(); r != nil; r = e.blocked.pop() {
		e.end(r, Failed, ErrClosed)
	}
	e.settle()
	e.step()
}

// settle closes e.idle if no request is left and none is accepted. The engine is locked.
func (e *Engine) settle() {
	if !e.refuses || len(e.live) > 0 {
		return
	}
	select {
	case <-e.idle:
	default:
		close(e.idle)
	}
}

// finish frees what the engine holds when no request is left.
func (e *Engine) finish() {
	<-e.idle
	e.mu.Lock()
	e.closed = true
	e.waits.stop()
	close(e.outgoing)
	e.unlock()
	e.sender.Wait()
	e.failed = e.line.Close()
	close(e.over)
}
