package pipeline

import (
	"context"
	"time"

	"github.com/leat-dev/leat/stage"
)

// gatherer forms batches from the rows of waiting calls. It is a goroutine of the
// pipeline, which ends when the queue is closed and all batches are back.
type gatherer struct {
	*Pipeline
	call  *call       // whose rows come next, nil: the queue's first
	timer *time.Timer // runs while a batch may wait for rows
	late  bool        // it has waited long enough
}

// leastPiece is the fewest rows that a call is cut into so that stages work on
// its parts at the same time. A smaller batch takes hardly less time.
const leastPiece = 16

// flight is what a batch carries: the calls whose rows it has, in order.
type flight struct {
	parts []part // none in a probe, whose row is the gatherer's own
}

// part is n rows of a call, from number from on.
type part struct {
	call    *call
	from, n int
}

func (p *Pipeline) gather() {
	g := gatherer{Pipeline: p, timer: time.NewTimer(0)}
	g.timer.Stop()
	for g.await() {
		// Rows gather in the queue until a batch is free. All come back.
		g.send(<-p.line.Free())
	}
	g.timer.Stop()
	for range p.line.plan.stage.InFlight {
		<-p.line.Free()
	}
	close(p.queue.drained)
}

// await returns when a batch is wanted: for a call, or to probe a route. It returns
// false when the queue is closed and empty.
func (g *gatherer) await() bool {
	for {
		open := true
		if g.call == nil {
			g.call, open = g.queue.pop()
		}
		if g.call == nil && !open {
			return false
		}
		if _, due := g.line.due(); due {
			return true
		}
		switch {
		case g.call == nil:
			<-g.queue.wake
		case g.refused():
		case g.line.WorkingRoutes() == 0 && g.line.Err() == nil:
			<-g.queue.wake // a probe is on its way, by which it is known whether to go on
		default:
			if g.late = g.maxWait == 0; !g.late {
				g.timer.Reset(g.maxWait)
			}
			return true
		}
	}
}

// refused drops the call where it has no chance.
func (g *gatherer) refused() bool {
	err := g.line.Err()
	if g.call.warm {
		err = nil
	}
	select {
	case <-g.aborted:
		err = ErrClosed
	default:
	}
	if err != nil {
		g.call.fail(err)
		g.drop()
	}
	return err != nil
}

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
	f.parts = f.parts[:0]
	rows := 1
	if route, due := g.line.due(); due && g.line.Probe(b, route) {
		clear(b.Input[:g.in])
	} else if rows = 0; g.call != nil {
		g.line.Steer(b, g.line.Pick())
		rows = g.fill(b, f)
	}
	if rows == 0 { // whoever it was for has left, or the route works again
		g.line.Release(b)
		return
	}
	for range rows {
		b.Header.Append(0, 0, 0, true)
	}
	g.counts.batches.Add(1)
	if err := g.line.Submit(context.Background(), b); err != nil {
		g.land(b, err) // the line is closed only after the gatherer's end
	}
}

// land gives what came of a batch to the calls that had rows in it, and releases
// it. For batches that were submitted it is the line's handler.
func (p *Pipeline) land(b *stage.Batch, err error) {
	p.line.Begin(b)
	f := b.Tag.(*flight)
	if err != nil {
		p.counts.failures.Add(1)
	}
	values := b.Values()
	for _, s := range f.parts {
		var own []float32
		if err == nil {
			own, values = values[:s.n*p.out], values[s.n*p.out:]
		}
		s.call.land(own, s.from, s.n, err)
	}
	p.line.Release(b)
}

// fill copies rows of calls to the batch, and returns how many.
func (g *gatherer) fill(b *stage.Batch, f *flight) (rows int) {
	for limit := g.share(); rows < limit && g.more(rows > 0); {
		c := g.call
		n := c.rows - c.sent
		if room := limit - rows; n > room {
			n = min(n, max(room, leastPiece), g.maxRows-rows)
		}
		from := c.sent
		sent := c.send(b.Input[rows*g.in:], n)
		if sent {
			f.parts = append(f.parts, part{c, from, n})
			rows += n
		}
		if !sent || c.sent == c.rows {
			g.drop()
		}
	}
	return rows
}

// share is about how many rows a batch takes: all that it has room for, where it
// may wait for them, else its share of the rows that there are. As many batches
// as there are stages and replicas, of equal size, keep them all at work; were the first to
// take all, those who wait for it would come back all at once, and so on.
func (g *gatherer) share() int {
	if g.maxWait > 0 {
		return g.maxRows
	}
	live := int(g.live.Load())
	return min(g.maxRows, max(1, (live+g.parts-1)/g.parts))
}

// more says whether there is a call with rows to send. It waits for one if the
// batch has rows and may wait.
func (g *gatherer) more(wait bool) bool {
	for g.call == nil || g.refused() {
		var open bool
		g.call, open = g.queue.pop()
		if g.call != nil {
			continue
		}
		if !wait || !open || g.late {
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
