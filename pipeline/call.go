package pipeline

import (
	"context"
	"sync"
)

// call is one caller's rows on their way. It is held by its caller, by the queue
// or the gatherer while rows are to be sent, and by each batch that has some of
// its rows; when nobody holds it any more it is used again.
//
// Its end is the moment from which the caller's memory isn't touched: all rows
// are back, or one batch failed, or the caller left.
type call struct {
	done chan struct{} // holds one: it has ended, but not by the caller's leaving
	mu   sync.Mutex    // guards progress; held while rows are copied
	request
	place
	progress
}

// request is what a call is for. It doesn't change.
type request struct {
	pipeline *Pipeline
	rows     int     // in all
	warm     bool    // rows of zeros, and nobody wants the result
	live     int     // rows that count among the pipeline's
	stream   *stream // told of the end too, if not nil
	index    int     // of the stream's element
}

// place is where a call stands in the queue, which guards it.
type place struct {
	before, next *call
	waiting      bool
}

// progress is what has become of a call.
type progress struct {
	x, dst  []float32
	sent    int // rows that batches have
	back    int // rows
	ended   bool
	err     error
	holders int
}

// run takes a call through the pipeline and gives it up.
func (p *Pipeline) run(ctx context.Context, c *call, wait bool) error {
	if err := p.enter(ctx, c, wait); err != nil {
		c.release()
		return err
	}
	return c.wait(ctx)
}

// enter puts a call into the queue: when there is a place, or only if there is
// one now.
func (p *Pipeline) enter(ctx context.Context, c *call, wait bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.line.Err(); err != nil && !c.warm {
		return err
	}
	select {
	case p.queue.places <- struct{}{}:
	default:
		if !wait {
			if p.queue.isClosed() {
				return ErrClosed
			}
			return ErrBusy
		}
		select {
		case p.queue.places <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.queue.closing:
			return ErrClosed
		}
	}
	c.live = c.rows
	p.live.Add(int64(c.live))
	c.hold()
	if !p.queue.push(c) {
		<-p.queue.places
		c.release()
		return ErrClosed
	}
	p.counts.calls.Add(1)
	return nil
}

// wait returns the call's error when it has ended, or leaves it, and gives it up.
func (c *call) wait(ctx context.Context) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		return c.leave(ctx.Err())
	case <-c.pipeline.aborted:
		return c.leave(ErrClosed)
	}
	err := c.err
	c.release()
	return err
}

// leave ends the call by its caller, with err unless it has ended before, and
// gives it up.
func (c *call) leave(err error) error {
	c.mu.Lock()
	if c.ended {
		err = c.err
		<-c.done
	}
	c.ended = true
	c.x, c.dst = nil, nil
	c.mu.Unlock()
	if c.pipeline.queue.remove(c) {
		c.release()
	}
	c.release()
	return err
}

// end ends the call and tells its caller. The call is locked.
func (c *call) end(err error) {
	if c.ended {
		return
	}
	c.ended, c.err = true, err
	c.done <- struct{}{}
	if c.stream != nil {
		c.stream.finished(c)
	}
}

// fail ends the call with err.
func (c *call) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(err)
}

// send copies the next n rows to a batch's input, and has the batch hold the
// call; false if it has ended.
func (c *call) send(input []float32, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	width := c.pipeline.in
	if c.warm {
		clear(input[:n*width])
	} else {
		copy(input[:n*width], c.x[c.sent*width:])
	}
	c.sent += n
	c.holders++
	return true
}

// land copies the result of n rows, from number from on, to the caller, or ends
// the call with the batch's error. The batch no longer holds it.
func (c *call) land(values []float32, from, n int, err error) {
	c.mu.Lock()
	switch c.back += n; {
	case c.ended:
	case err != nil:
		c.end(err)
	default:
		if !c.warm {
			copy(c.dst[from*c.pipeline.out:], values)
		}
		if c.back == c.rows {
			c.end(nil)
		}
	}
	c.mu.Unlock()
	c.release()
}

func (c *call) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holders++
}

// release says that somebody no longer holds the call.
func (c *call) release() {
	c.mu.Lock()
	c.holders--
	last := c.holders == 0
	c.mu.Unlock()
	if last {
		c.pipeline.live.Add(-int64(c.live))
		c.pipeline.queue.put(c)
	}
}
