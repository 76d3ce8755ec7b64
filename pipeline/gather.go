package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/leat-dev/leat/stage"
)

// gatherer is the goroutine of a pipeline that forms batches from the rows of
// waiting calls. It ends when the queue is closed and all batches are back.
type gatherer struct {
	*Pipeline
	call  *call       // the call whose rows come next; nil: the queue's first
	timer *time.Timer // runs while a batch may wait for more rows
	late  bool        // the batch has waited as long as it may
}

// leastPiece is the fewest rows into which a call is cut so that stages work on
// several of its pieces at the same time. A smaller batch takes hardly less time.
const leastPiece = 16

// flight is the Tag of a batch: the pieces of calls that the batch contains, in the
// order of its rows. A probe has none, since its row is the gatherer's own.
type flight struct{ pieces []piece }

// piece is n rows of a call, from row number from on.
type piece struct {
	call    *call
	from, n int
}

// gather is what the gatherer does from beginning to end.
func (p *Pipeline) gather() {
	defer p.line.inside.Enter()()
	returned := false
	defer mustReturn(&returned, "an observer")
	g := gatherer{Pipeline: p, timer: time.NewTimer(0)}
	g.timer.Stop()
	inFlight := make([]*stage.Batch, p.line.plan.stage.InFlight)
	for {
		for g.await() {
			// Rows gather in the queue until a batch is free.
			g.send(<-p.line.Free())
		}
		// All batches come back. Those that failed may leave rows to be tried again.
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

// await returns true when a batch is needed: for a call, for a retry, or to probe a
// route. It returns false when the queue is closed and empty.
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
			<-g.queue.wake // the outcome of a probe, which says whether to go on
		default:
			if g.late = g.maxWait == 0; !g.late {
				g.timer.Reset(g.maxWait)
			}
			return true
		}
	}
}

// retrying reports whether there are rows to be tried again. It ends the calls of
// those that have no chance.
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

func (g *gatherer) isAborted() bool {
	select {
	case <-g.aborted:
		return true
	default:
		return false
	}
}

// refused fails the call and returns true if the call has no chance.
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

// drop gives up the call at hand, all of whose rows were sent, or which has ended.
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
	if rows == 0 { // the callers have given up, or the route works again
		g.line.Release(b)
		return
	}
	for range rows {
		b.Header.Append(0, 0, 0, true)
	}
	g.counts.batches.Add(1)
	if err := g.line.Submit(context.Background(), b); err != nil {
		g.finished(b, err) // never: the line is closed after the gatherer's end
	}
}

// finished hands the outcome of a batch to the calls that have rows in it, or queues
// these rows to be tried again, and releases the batch. It is the line's handler for
// batches that were submitted.
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

// fill copies rows of calls to the batch and returns how many it has copied. A call
// with rows in the batch before lets all those go first that wait, so that a call of
// many rows delays each other one by one batch.
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

// target returns about how many rows a batch gets. If batches may wait for rows, it
// is as many as a batch holds; else the rows there are, divided by the number of
// stages, so that batches of equal size keep all stages at work. If the first batch
// took all rows, those that wait for its results would come back all at once, and
// one stage after the other would have the only batch.
func (g *gatherer) target() int {
	if g.maxWait > 0 {
		return g.maxRows
	}
	live := int(g.live.Load())
	return min(g.maxRows, max(1, (live+g.parts-1)/g.parts))
}

// more reports whether there is a call with rows to send. If wait is set and the
// batch may wait, more waits for one.
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
