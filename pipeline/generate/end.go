package generate

import (
	"context"
	"errors"
)

// errInside is the error of a layer or an observer that waits for its own end.
var errInside = errors.New("closing an engine from one of its own layers or observers: it ends when they have returned, and can't be waited for there")

// Shutdown accepts no more requests, which get ErrClosed, waits until those that it has
// accepted have ended, and frees all that the engine holds. Requests beyond the backlog
// have not been accepted yet. Shutdown returns nil, or what freeing failed with.
//
// If ctx ends before, Shutdown returns ctx's error. The requests go on and the engine
// ends after them; call Close to end them, or Shutdown to wait again. A layer or an
// observer at work, for which the engine's end waits, gets an error at once.
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

// Close ends all requests with ErrClosed and frees all that the engine holds. It waits
// for layers at work, but not for callers, nor for their samplers. It may be called more
// than once, and while Shutdown waits; each call returns when all is freed. A layer or an
// observer at work gets an error at once, as from Shutdown.
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

// refuse has the engine accept no more requests.
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

// settle says that no request is left, where that is so for good. The engine is
// locked.
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
