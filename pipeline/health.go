package pipeline

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leat-dev/leat/stage"
)

// routes is the health of a line's routes, and the choice among them. Each route has
// a circuit breaker:
//
//	working ── as many failures in a row as the limit ──→ due for a probe
//	due     ── the line's user sends one row of its own ──→ probing
//	probing ── the probe passes: it was the requests ──→ working
//	probing ── the probe fails: it is the route ──→ paused
//	paused  ── the pause is over ──→ due
//
// A route is failing from a failed probe until a batch passes. Each failed probe
// doubles the pause. A batch that passes in any state makes the route work.
//
// Below the limit a route rests after a failure, where another one works: for as
// many batches as there are in flight, and twice as many after each further
// failure. Otherwise a replica that is broken, which fails at once, would always be
// the one with the fewest batches in flight.
type routes struct {
	limit   int // failures in a row; 0: any number
	rest    int // batches that a route rests for after its first failure
	log     *slog.Logger
	changed func(route int) // may be nil

	works atomic.Int32             // routes that work
	err   atomic.Pointer[allError] // why none works and all are failing; nil while one isn't

	mu     sync.Mutex
	each   []route
	probes []int // by slot: the route that the batch probes, from 1; 0: it is no probe
	last   int   // the route that was picked last
	timing sync.WaitGroup
	closed bool
}

type allError struct{ error }

// route is the health of one route.
type route struct {
	phase    phase
	batches  int // in flight
	failures int // since a batch passed
	rests    int // for so many batches more
	failing  *FailingError
	pause    time.Duration // the latest
	timer    *time.Timer   // runs while the route is paused
}

type phase int

const (
	working phase = iota
	due
	probing
	paused
)

// A route that fails a probe is probed again after leastPause, and after each
// further failure after twice the pause before, up to mostPause.
const (
	leastPause = time.Second
	mostPause  = time.Minute
)

// mostDoubled is how often a route's rest is doubled.
const mostDoubled = 10

func newRoutes(p *Plan, log *slog.Logger, changed func(int)) *routes {
	r := &routes{
		limit:   p.config.FailureLimit,
		rest:    p.stage.InFlight,
		log:     log,
		changed: changed,
		each:    make([]route, p.routes),
		probes:  make([]int, p.stage.InFlight),
		last:    p.routes - 1,
	}
	r.works.Store(int32(p.routes))
	return r
}

// sent counts a batch that goes by a route.
func (r *routes) sent(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.each[n].batches++
}

// unsent takes that back.
func (r *routes) unsent(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.each[n].batches--
}

// finished judges a batch's route by the batch's error, and reports whether the
// route's health has changed.
func (r *routes) finished(b *stage.Batch, err error) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := &r.each[b.Route]
	at.batches--
	probed := r.probes[b.Slot] > 0
	r.probes[b.Slot] = 0
	if err == nil {
		at.failures, at.rests = 0, 0
		if at.phase == working {
			return false
		}
		r.recover(b.Route)
		return true
	}
	at.rests = r.rest << min(at.failures, mostDoubled)
	at.failures++
	switch {
	case probed && at.phase == probing:
		r.down(b.Route, err)
		return true
	case at.phase == working && r.limit > 0 && at.failures >= r.limit:
		at.phase = due
		r.works.Add(-1)
		return true
	}
	return false
}

// recover makes a route work that did not.
func (r *routes) recover(n int) {
	at := &r.each[n]
	if at.phase == paused && at.timer.Stop() {
		r.timing.Done()
	}
	wasFailing := at.failing != nil
	at.phase, at.failing, at.pause = working, nil, 0
	r.works.Add(1)
	r.err.Store(nil)
	if wasFailing {
		r.log.Info("pipeline works again", r.names(n)...)
	}
}

// down makes a route failing whose probe failed with err.
func (r *routes) down(n int, err error) {
	at := &r.each[n]
	at.phase = paused
	at.failing = &FailingError{Batches: at.failures, Err: err}
	at.pause = min(max(leastPause, 2*at.pause), mostPause)
	var all []error
	for i := range r.each {
		if f := r.each[i].failing; f != nil {
			all = append(all, f)
		}
	}
	if len(all) == len(r.each) {
		var why error = at.failing
		if len(all) > 1 {
			why = errors.Join(all...)
		}
		r.err.Store(&allError{why})
		r.log.Error("pipeline failing", append(r.names(n), "batches", at.failures, "error", err)...)
	} else {
		r.log.Error("route failing", append(r.names(n), "batches", at.failures, "error", err)...)
	}
	if r.closed {
		return
	}
	r.timing.Add(1)
	at.timer = time.AfterFunc(at.pause, func() {
		defer r.timing.Done()
		if r.resume(n) && r.changed != nil {
			r.changed(n)
		}
	})
}

// resume ends a route's pause.
func (r *routes) resume(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.each[n].phase != paused {
		return false
	}
	r.each[n].phase = due
	return true
}

// names says which route it is, where there are several.
func (r *routes) names(n int) []any {
	if len(r.each) == 1 {
		return nil
	}
	return []any{"route", n}
}

// release forgets that a batch was to probe a route. It reports whether the probe
// is due again because the batch was never finished.
func (r *routes) release(b *stage.Batch) (n int, abandoned bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = r.probes[b.Slot] - 1
	if n < 0 {
		return 0, false
	}
	r.probes[b.Slot] = 0
	if r.each[n].phase != probing {
		return 0, false
	}
	r.each[n].phase = due
	return n, true
}

// close ends the pauses: when it returns, nothing is called any more.
func (r *routes) close() {
	r.mu.Lock()
	r.closed = true
	for i := range r.each {
		if at := &r.each[i]; at.phase == paused && at.timer.Stop() {
			r.timing.Done()
		}
	}
	r.mu.Unlock()
	r.timing.Wait()
}

// pick returns the route for the next batch: of those that work, one that does not
// rest, or rests least; of these, the one with the fewest batches in flight; of
// these, the next in turn. Where none works, it is one that isn't failing, or any.
func (r *routes) pick() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	best := -1
	for i := range r.each {
		n := (r.last + 1 + i) % len(r.each)
		if best < 0 || r.each[n].before(&r.each[best]) {
			best = n
		}
	}
	for i := range r.each {
		r.each[i].rests = max(0, r.each[i].rests-1)
	}
	r.last = best
	return best
}

func (a *route) before(b *route) bool {
	switch {
	case (a.phase == working) != (b.phase == working):
		return a.phase == working
	case (a.failing == nil) != (b.failing == nil):
		return a.failing == nil
	case a.rests != b.rests:
		return a.rests < b.rests
	}
	return a.batches < b.batches
}

// Working reports whether batches should be sent by a route. It is false from when
// the route is under suspicion, because as many batches as WithFailureLimit allows
// failed one after the other, until a batch passes there. A line does send what is
// submitted all the same.
func (l *Line) Working(route int) bool {
	l.routes.mu.Lock()
	defer l.routes.mu.Unlock()
	return l.routes.each[route].phase == working
}

// RouteErr returns why a route is failing, a *FailingError, or nil: it works, or a
// probe has yet to show whether it does.
func (l *Line) RouteErr(route int) error {
	l.routes.mu.Lock()
	defer l.routes.mu.Unlock()
	if f := l.routes.each[route].failing; f != nil {
		return f
	}
	return nil
}

// Err returns nil while some route is not failing, else an error that wraps the
// *FailingError of each.
func (l *Line) Err() error {
	if all := l.routes.err.Load(); all != nil {
		return all.error
	}
	return nil
}

// WorkingRoutes returns how many routes work.
func (l *Line) WorkingRoutes() int { return int(l.routes.works.Load()) }

// Pick returns the route that a batch should take whose rows may go by any: of those
// that work, the one with the fewest batches in flight, leaving out for a while
// those on which a batch failed. Where none works it returns one all the same.
func (l *Line) Pick() int { return l.routes.pick() }

// Steer has a batch go by a route: it sets Route, and Input to the memory of the
// first stage's replica on that route, where it is read without a copy.
func (l *Line) Steer(b *stage.Batch, route int) {
	first := l.stages[0]
	b.Route, b.Input = route, first[stage.Replicas(len(first)).For(route)].Input(b.Slot)
}

// Due reports whether a route is due for a probe: a batch with one row of the line's
// user, of which it knows that it can be computed. A route becomes due when it comes
// under suspicion, and while it is failing again and again, after a pause that grows
// from a second to a minute.
func (l *Line) Due(route int) bool {
	if l.WorkingRoutes() == l.plan.routes {
		return false
	}
	l.routes.mu.Lock()
	defer l.routes.mu.Unlock()
	return l.routes.each[route].phase == due
}

// due returns a route that is due for a probe, if there is one.
func (l *Line) due() (route int, ok bool) {
	if l.WorkingRoutes() == l.plan.routes {
		return 0, false
	}
	for route := range l.plan.routes {
		if l.Due(route) {
			return route, true
		}
	}
	return 0, false
}

// Probe makes a batch, taken from Free, the probe of a route, and steers it there.
// It is false where the route is not due for one. The caller fills the batch and
// submits it; the line judges the route by its outcome. If the batch is released
// without having been submitted, the route is due again.
func (l *Line) Probe(b *stage.Batch, route int) bool {
	r := l.routes
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.each[route].phase != due {
		return false
	}
	r.each[route].phase = probing
	r.probes[b.Slot] = route + 1
	l.Steer(b, route)
	return true
}
