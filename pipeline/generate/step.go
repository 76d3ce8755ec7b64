package generate

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/leat-dev/leat/pipeline/generate/schedule"
	"github.com/leat-dev/leat/stage"
)

// flight is what the engine notes of a batch: the scheduler's record of it, and what
// its results have led to.
type flight struct {
	schedule.Batch
	outcomes []outcome       // one for each row of results
	took     []time.Duration // by stage
}

// step fills batches and sends them, while the scheduler has rows for them and the
// pipeline has room. The engine is locked.
func (e *Engine) step() {
	e.unblock()
	for idle := 0; !e.closed && !e.sending && idle < 2*len(e.failing); {
		if len(e.line.Free()) == 0 {
			return
		}
		route, ok, wait := e.schedule.Next(time.Now(), e.maxWait)
		if !ok {
			e.waits.start(wait, e.proceed)
			return
		}
		b := <-e.line.Free() // only the engine takes any, and it is locked
		if e.fill(b, route) == 0 {
			e.line.Release(b) // those who could go wait for pages
			idle++
			continue
		}
		idle = 0
		e.submit(b)
	}
}

// fill puts a route's next rows into a batch.
func (e *Engine) fill(b *stage.Batch, route int) (rows int) {
	e.line.Begin(b)
	f, ok := b.Tag.(*flight)
	if !ok {
		f = &flight{took: make([]time.Duration, len(e.plan.Stages))}
		b.Tag = f
	}
	if rows = e.schedule.Fill(route, b.Header, &f.Batch); rows == 0 {
		return 0
	}
	if !f.Probe || !e.line.Probe(b, route) {
		e.line.Steer(b, route)
	}
	switch {
	case f.Want == schedule.All:
		b.Want = stage.Want{Values: true, Best: f.greedy()}
	case f.Want > schedule.Best:
		b.Want = stage.Want{Top: int(f.Want)}
	default:
		b.Want = stage.Want{Best: true}
	}
	e.measures.sent(f)
	return rows
}

// greedy reports whether the most likely token is all that is wanted of some rows.
func (f *flight) greedy() bool {
	return slices.ContainsFunc(f.Parts, func(p schedule.Part) bool { return p.Outputs > 0 && p.Seq.Want == schedule.Best })
}

// submit sends a batch. Where the link into the pipeline is full the sender waits in
// its place, and until it has sent the batch no other is filled.
func (e *Engine) submit(b *stage.Batch) {
	sent, err := e.line.TrySubmit(b)
	switch {
	case err != nil:
		e.lost(b, err)
	case !sent:
		e.sending = true
		e.outgoing <- b // has room: nothing else is being sent
	}
}

// send is the sender, a goroutine of the engine that ends with Close.
func (e *Engine) send() {
	for b := range e.outgoing {
		err := e.line.Submit(context.Background(), b)
		e.sent(b, err)
	}
}

// sent deals with a batch that the sender has sent, or could not send.
func (e *Engine) sent(b *stage.Batch, err error) {
	e.mu.Lock()
	defer e.leave()
	e.sending = false
	if err != nil {
		e.lost(b, err)
	}
	e.step()
}

// lost deals with a batch that could not be sent. The engine is locked.
func (e *Engine) lost(b *stage.Batch, err error) {
	f := b.Tag.(*flight)
	for _, s := range e.schedule.Failed(&f.Batch) {
		e.end(s.Owner.(*request), Failed, err)
	}
	e.line.Release(b)
}

// unblock lets requests into the scheduler that wait because the backlog is full. The
// engine is locked.
func (e *Engine) unblock() {
	for e.blocked.n > 0 && e.schedule.Waiting() < e.plan.config.backlog {
		e.admit(e.blocked.pop())
	}
}

// proceed is step for whoever has not locked the engine.
func (e *Engine) proceed() {
	e.mu.Lock()
	defer e.leave()
	e.step()
}

// leave unlocks the engine at the end of a function that may have called step, as a
// deferred call. Step tells observers of batches. If one of them panics, on whatever
// goroutine, nobody knows what the engine's state is worth: so the program ends, also
// where the goroutine is that of a caller who recovers panics, as net/http does.
func (e *Engine) leave() {
	if value := recover(); value != nil {
		crash(value)
	}
	e.unlock()
}

// crash ends the program with a panic that nobody can recover.
func crash(value any) {
	trace := debug.Stack()
	go panic(fmt.Sprintf("generate: %v\n\n%s", value, trace))
	select {}
}

// unlock unlocks the engine, and then wakes the callers that have something to take.
// They are woken last, because to wake a goroutine takes longer than all else that is
// done for a token, and the stages wait for the batch and not for the callers.
func (e *Engine) unlock() {
	e.measures.present.set(e.schedule.Counts(), e.blocked.n)
	wakes := e.wakes
	if len(wakes) == 0 {
		e.mu.Unlock()
		return
	}
	e.wakes, e.spare = e.spare, nil
	e.mu.Unlock()
	for i, r := range wakes {
		r.outbox.wake()
		wakes[i] = nil
	}
	e.mu.Lock()
	e.spare = wakes[:0]
	e.mu.Unlock()
}

// wait is a timer that is started again while it runs only if it would fire earlier.
type wait struct {
	timer *time.Timer
	until time.Time
}

// start has f called after d. It does nothing where d is 0.
func (w *wait) start(d time.Duration, f func()) {
	at := time.Now().Add(d)
	switch {
	case d <= 0 || !w.until.IsZero() && !at.Before(w.until) && time.Now().Before(w.until):
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(d, f)
	default:
		w.timer.Reset(d)
	}
	w.until = at
}

func (w *wait) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// changed tells the scheduler that the health of a route has changed. Sequences are not
// sent by a route that does not work, and while no route works no request is taken.
func (e *Engine) changed(route int) {
	e.mu.Lock()
	defer e.leave()
	err := e.line.RouteErr(route)
	switch {
	case err != nil && !e.failing[route]:
		e.failing[route] = true
		for _, s := range e.schedule.Down(route) {
			e.end(s.Owner.(*request), Failed, err)
		}
	case err == nil && e.failing[route]:
		e.failing[route] = false
		e.schedule.Up(route)
	}
	if e.line.Due(route) {
		e.schedule.Probe(route)
	}
	if err := e.line.Err(); err != nil {
		for r := range e.live {
			e.end(r, Failed, err)
		}
	}
	e.step()
}
