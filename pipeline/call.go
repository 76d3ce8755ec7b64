package pipeline

import (
	"context"
	"sync"
)

// call is one call of Do, or one element of a Map, while its rows pass through the
// pipeline. Its caller holds a reference to it. So do the queue or the gatherer while
// there are rows to send, and every batch and every retry that holds some of its rows. A
// call without references is used again.
//
// A call ends when all its results have arrived, when one of its batches has failed and
// is not computed again, or when its caller gives up. After that the caller's memory is
// neither read nor written.
type call struct {
	done chan struct{} // receives one value when the call ends, unless the caller has given up
	mu   sync.Mutex    // guards progress; held while rows are copied
	request
	position
	progress
}

// request is the part of a call that doesn't change.
type request struct {
	pipeline *Pipeline
	rows     int     // the number of rows
	warm     bool    // the call is Warmup's: its rows are zeros, and its results are discarded
	live     int     // how many rows it has added to Pipeline.live
	stream   *stream // the Map that is told when the call ends; nil: none
	index    int     // the index of the element in the stream
}

// position is a call's place in the queue, which guards it.
type position struct {
	before, next *call
	waiting      bool
}

// progress is the part of a call that changes while it passes through the pipeline.
type progress struct {
	x, dst     []float32
	sent       int // rows that have been copied to batches; used by the gatherer only
	back       int // rows whose results have arrived
	ended      bool
	err        error
	references int
}

// run passes a call through the pipeline and releases the caller's reference.
func (p *Pipeline) run(ctx context.Context, c *call, wait bool) error {
	if err := p.enter(ctx, c, wait); err != nil {
		c.release()
		return err
	}
	return c.wait(ctx)
}

// enter queues a call. If the backlog is full, it blocks, or returns ErrBusy if wait is
// false.
func (p *Pipeline) enter(ctx context.Context, c *call, wait bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.line.Err(); err != nil && !c.warm {
		return err
	}
	select {
	case p.queue.room <- struct{}{}:
	default:
		if !wait {
			if p.queue.isClosed() {
				return ErrClosed
			}
			return ErrBusy
		}
		select {
		case p.queue.room <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.queue.closing:
			return ErrClosed
		}
	}
	c.live = c.rows
	p.live.Add(int64(c.live))
	c.retain()
	if !p.queue.push(c) {
		<-p.queue.room
		c.release()
		return ErrClosed
	}
	p.counts.calls.Add(1)
	return nil
}

// wait returns the call's error when the call has ended. If ctx ends or the pipeline is
// closed first, it gives up. It releases the caller's reference.
func (c *call) wait(ctx context.Context) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		return c.giveUp(ctx.Err())
	case <-c.pipeline.aborted:
		return c.giveUp(ErrClosed)
	}
	err := c.err
	c.release()
	return err
}

// giveUp ends the call with err, unless it has ended before, and releases the caller's
// reference. It returns the call's error.
func (c *call) giveUp(err error) error {
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

// end ends the call and wakes its caller. c.mu must be held.
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

// send copies the next n rows to a batch's input and adds a reference for the batch.
// It returns false, and does neither, if the call has ended.
func (c *call) send(input []float32, n int) bool {
	if !c.copyRows(input, c.sent, n) {
		return false
	}
	c.sent += n
	c.retain()
	return true
}

// copyRows copies n rows, beginning with row number from, to a batch's input. It returns
// false, and copies nothing, if the call has ended.
func (c *call) copyRows(input []float32, from, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	width := c.pipeline.in
	if c.warm {
		clear(input[:n*width])
	} else {
		copy(input[:n*width], c.x[from*width:])
	}
	return true
}

// hasEnded reports whether the call has ended.
func (c *call) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// receive copies the results of n rows, beginning with row number from, to the caller's
// memory, or ends the call with the error of the batch. It releases the batch's reference.
func (c *call) receive(values []float32, from, n int, err error) {
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

// retain adds a reference.
func (c *call) retain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.references++
}

// release releases a reference.
func (c *call) release() {
	c.mu.Lock()
	c.references--
	last := c.references == 0
	c.mu.Unlock()
	if last {
		c.pipeline.live.Add(-int64(c.live))
		c.pipeline.queue.recycle(c)
	}
}
