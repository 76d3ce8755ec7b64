package pipeline

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leat-dev/leat/stage"
)

// routes tracks the health of a line's routes and chooses among them. Each route has a
// circuit breaker, whose phases change as follows:
//
//	working ── as many batches in a row fail as the limit says ──→ due
//	due     ── the line's user sends a probe ──→ probing
//	probing ── the probe succeeds: the requests were to blame ──→ working
//	probing ── the probe fails: the route is to blame ──→ paused
//	paused  ── the pause ends ──→ due
//
// A route is called failing from the first probe that fails until a batch succeeds. Each
// failed probe doubles the pause. If a batch succeeds in any phase, the route works again.
//
// A route that works but has just failed is avoided while another one works: for as many
// picks as batches may be in flight, and for twice as many after each further failure.
// Otherwise a broken replica, which fails its batches at once, would always be the one
// with the fewest batches in flight, and would get most of them.
type routes struct {
	limit   int // how many batches in a row may fail; 0: any number
	rest    int // for how many picks a route is avoided after its first failure
	log     *slog.Logger
	changed func(route int) // may be nil

	works atomic.Int32             // how many routes work
	err   atomic.Pointer[allError] // the errors of all routes; nil unless all are failing

	mu     sync.Mutex
	each   []route
	probes []int // by slot: 1 + the route that the batch probes; 0: the batch is no probe
	last   int   // the route that was picked last
	timing sync.WaitGroup
	closed bool
}

type allError struct{ error }

// route is the health of one route.
type route struct {
	phase    phase
	batches  int           // in flight
	failures int           // since a batch has succeeded
	rests    int           // for how many picks the route is avoided
	failing  *FailingError // nil: the route isn't failing
	pause    time.Duration // the latest one
	timer    *time.Timer   // runs while the route is paused
}

// phase is the state of a route's circuit breaker.
type phase int

const (
	working phase = iota
	due
	probing
	paused
)

// After a failed probe, a route is paused for leastPause, and after each further one for
// twice as long as before, up to mostPause.
const (
	leastPause = time.Second
	mostPause  = time.Minute
)

// mostDoubled is how many times a route's rest is doubled at most.
const mostDoubled = 10

func newRoutes(p *Plan, log *slog.Logger, changed func(int)) *routes {
	r := &routes{
		limit:   p.config.failureLimit,
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

// sent counts a batch that is sent on a route.
func (r *routes) sent(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.each[n].batches++
}

// unsent undoes sent.
func (r *routes) unsent(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.each[n].batches--
}

// finished updates the health of a batch's route, given the batch's error or nil. It
// reports whether the health has changed.
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

// recover makes a route work again.
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

// down makes a route failing, after its probe has failed with err.
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

// names returns the attributes that name a route in the log; none if there is one route.
func (r *routes) names(n int) []any {
	if len(r.each) == 1 {
		return nil
	}
	return []any{"route", n}
}

// release ends the role of a batch as a probe. If the batch was not sent, the probe is
// due again: then release returns the route, and abandoned is true.
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

// close stops all timers. After it has returned, changed is not called any more.
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

// pick returns the route for the next batch: one that works, if there is any, or else one
// that isn't failing. Among several it prefers one that isn't avoided, or is avoided for
// the shortest time, then one with the fewest batches in flight, then the next in turn.
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

// before reports whether pick prefers route a to route b.
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

// Working reports whether a route works. It doesn't after as many batches in a row have
// failed on it as [WithFailureLimit] allows, until a batch succeeds there. A user should
// not submit batches other than probes on such a route; the line sends them if it does.
func (l *Line) Working(route int) bool {
	l.routes.mu.Lock()
	defer l.routes.mu.Unlock()
	return l.routes.each[route].phase == working
}

// RouteErr returns a [*FailingError] if a route is failing, and nil otherwise. It returns
// nil also for a route that doesn't work, as long as no probe has failed on it.
func (l *Line) RouteErr(route int) error {
	l.routes.mu.Lock()
	defer l.routes.mu.Unlock()
	if f := l.routes.each[route].failing; f != nil {
		return f
	}
	return nil
}

// Err returns nil unless all routes are failing. If they are, it returns an error that
// wraps the [*FailingError] of each.
func (l *Line) Err() error {
	if all := l.routes.err.Load(); all != nil {
		return all.error
	}
	return nil
}

// WorkingRoutes returns the number of routes that work.
func (l *Line) WorkingRoutes() int { return int(l.routes.works.Load()) }

// Pick returns the best route for a batch that may take any: the working route with the
// fewest batches in flight. After a failure on a route, Pick avoids it for a while if
// another one works. If no route works, Pick returns one that doesn't.
func (l *Line) Pick() int { return l.routes.pick() }

// Steer makes a batch take a route. It sets the batch's Route, and sets its Input to
// memory from which the first stage on that route reads without copying. Call it before
// writing rows to Input.
func (l *Line) Steer(b *stage.Batch, route int) {
	first := l.stages[0]
	b.Route, b.Input = route, first[stage.Replicas(len(first)).For(route)].Input(b.Slot)
}

// Due reports whether a route is due for a probe: a batch with one row that the layers can
// compute, which the user provides. A route becomes due when it stops working. While it
// is failing, it becomes due again after each pause; see [FailingError].
func (l *Line) Due(route int) bool {
	if l.WorkingRoutes() == l.plan.routes {
		return false
	}
	l.routes.mu.Lock()
	defer l.routes.mu.Unlock()
	return l.routes.each[route].phase == due
}

// due returns a route that is due for a probe; ok is false if there is none.
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

// Probe makes a batch that was received from Free the probe of a route, and steers it
// there. The caller then fills the batch with one row and submits it, and its outcome
// decides whether the route works. If the caller releases the batch instead, the route is
// due again. Probe returns false, and does nothing, if the route isn't due.
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
