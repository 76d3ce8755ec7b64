package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/leat-dev/leat/stage"
)

// gatherer is the state of the goroutine that forms a pipeline's batches from the rows of
// waiting calls. It ends when the queue is closed and empty and all batches are free.
type gatherer struct {
	*Pipeline
	call  *call       // the call whose rows are sent next; nil: the first one in the queue
	timer *time.Timer // runs while a batch waits for more rows
	late  bool        // the current batch has waited for as long as it may
}

// leastPiece is the smallest number of rows into which a call is split so that several
// stages compute parts of it at the same time. A smaller batch would take hardly less
// time than one of this size.
const leastPiece = 16

// flight is the Tag of a batch: the parts of calls that the batch holds, in the order of
// its rows. A probe holds none, because its row belongs to no call.
type flight struct{ pieces []piece }

// piece is a part of a call: n rows, the first of which is row number from.
type piece struct {
	call    *call
	from, n int
}

// gather is the gatherer's goroutine.
func (p *Pipeline) gather() {
	defer p.line.inside.Enter()()
	returned := false
	defer mustReturn(&returned, "an observer")
	g := gatherer{Pipeline: p, timer: time.NewTimer(0)}
	g.timer.Stop()
	inFlight := make([]*stage.Batch, p.line.plan.stage.InFlight)
	for {
		for g.await() {
			// More rows are queued until a batch is free.
			g.send(<-p.line.Free())
		}
		// Wait until all batches are free. Rows of those that failed may have to be
		// computed again.
		for i := range inFlight {
			inFlight[i] = <-p.line.Free()
		}
		if g.retries.empty() {
			break
		}
		for _, b := range inFlight {
			p.line.Release(b)
		}
	}
	g.timer.Stop()
	close(p.queue.drained)
	returned = true
}

// await blocks until a batch is needed for a call, for a retry, or for a probe, and then
// returns true. It returns false when the queue is closed and empty.
func (g *gatherer) await() bool {
	for {
		open := true
		if g.call == nil {
			g.call, open = g.queue.pop()
		}
		again := g.retrying()
		if g.call == nil && !again && !open {
			return false
		}
		if _, due := g.line.due(); due {
			return true
		}
		switch {
		case g.call == nil && !again:
			<-g.queue.wake
		case !again && g.refused():
		case g.line.WorkingRoutes() == 0 && g.line.Err() == nil:
			<-g.queue.wake // wait until a probe has shown whether a route works
		default:
			if g.late = g.maxWait == 0; !g.late {
				g.timer.Reset(g.maxWait)
			}
			return true
		}
	}
}

// retrying reports whether there are rows to be computed again. If the pipeline is failing
// or closed, it ends their calls instead.
func (g *gatherer) retrying() bool {
	if g.retries.empty() {
		return false
	}
	if g.line.Err() != nil || g.isAborted() {
		g.failRetries()
		return false
	}
	return true
}

// isAborted reports whether Close was called.
func (g *gatherer) isAborted() bool {
	select {
	case <-g.aborted:
		return true
	default:
		return false
	}
}

// refused ends the current call with an error, and returns true, if the pipeline is
// failing or closed.
func (g *gatherer) refused() bool {
	err := g.line.Err()
	if g.call.warm {
		err = nil
	}
	if g.isAborted() {
		err = ErrClosed
	}
	if err != nil {
		g.call.fail(err)
		g.drop()
	}
	return err != nil
}

// drop releases the current call, whose rows have all been sent or which has ended.
func (g *gatherer) drop() {
	g.call.release()
	g.call = nil
}

// send fills a batch and submits it.
func (g *gatherer) send(b *stage.Batch) {
	g.line.Begin(b)
	f, ok := b.Tag.(*flight)
	if !ok {
		f = new(flight)
		b.Tag = f
	}
	f.pieces = f.pieces[:0]
	rows := 1
	if route, due := g.line.due(); due && g.line.Probe(b, route) {
		clear(b.Input[:g.in])
	} else {
		g.line.Steer(b, g.line.Pick())
		if r, ok := g.retries.next(); ok {
			rows = g.refill(b, f, r)
		} else {
			rows = g.fill(b, f)
		}
	}
	if rows == 0 { // the calls have ended, or the route works again
		g.line.Release(b)
		return
	}
	for range rows {
		b.Header.Append(0, 0, 0, true)
	}
	g.counts.batches.Add(1)
	if err := g.line.Submit(context.Background(), b); err != nil {
		g.finished(b, err) // can't happen: the line is closed after the gatherer has ended
	}
}

// finished copies the results of a batch to the calls with rows in it, or passes them its
// error, or queues the rows to be computed again. Then it releases the batch. It is the
// line's Handler.Finished.
func (p *Pipeline) finished(b *stage.Batch, err error) {
	p.line.Begin(b)
	f := b.Tag.(*flight)
	if errors.Is(err, stage.ErrClosed) {
		err = ErrClosed
	}
	if err != nil {
		p.counts.failures.Add(1)
		if p.worthRetrying(f, err) {
			p.retries.add(f.pieces, err)
			p.line.Release(b)
			p.queue.poke()
			return
		}
	}
	values := b.Values()
	for _, s := range f.pieces {
		var own []float32
		if err == nil {
			own, values = values[:s.n*p.out], values[s.n*p.out:]
		}
		s.call.receive(own, s.from, s.n, err)
	}
	p.line.Release(b)
}

// fill copies rows of calls to the batch and returns how many it has copied. If the
// current call had rows in an earlier batch, all waiting calls go first, so that a call
// with many rows delays each other call by one batch at most.
func (g *gatherer) fill(b *stage.Batch, f *flight) (rows int) {
	if g.call != nil && g.call.sent > 0 {
		g.call = g.queue.rotate(g.call)
	}
	for limit := g.target(); rows < limit && g.more(rows > 0); {
		c := g.call
		n := c.rows - c.sent
		if room := limit - rows; n > room {
			n = min(n, max(room, leastPiece), g.maxRows-rows)
		}
		from := c.sent
		sent := c.send(b.Input[rows*g.in:], n)
		if sent {
			f.pieces = append(f.pieces, piece{c, from, n})
			rows += n
		}
		if !sent || c.sent == c.rows {
			g.drop()
		}
	}
	return rows
}

// target returns about how many rows to put into a batch. If batches may wait for more
// rows, it is as many as a batch holds. Otherwise it is the number of unfinished rows
// divided by the number of stages, so that batches of equal size keep all stages busy. If
// the first batch took all rows, their callers would all wait for it and then call again
// at the same time, and there would never be more than one batch in flight.
func (g *gatherer) target() int {
	if g.maxWait > 0 {
		return g.maxRows
	}
	live := int(g.live.Load())
	return min(g.maxRows, max(1, (live+g.parts-1)/g.parts))
}

// more reports whether there is a call with rows to send. If wait is true and the batch
// may wait for more rows, more waits for such a call.
func (g *gatherer) more(wait bool) bool {
	for g.call == nil || g.refused() {
		var open bool
		g.call, open = g.queue.pop()
		if g.call != nil {
			continue
		}
		if !wait || !open || g.late || !g.retries.empty() {
			return false
		}
		select {
		case <-g.queue.wake:
		case <-g.timer.C:
			g.late = true
		}
	}
	return true
}
