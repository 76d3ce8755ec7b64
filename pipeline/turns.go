package pipeline

import (
	"sync"

	"github.com/leat-dev/leat/stage"
)

// turns shares a Pipeline's batches out among the routes. Its layers keep nothing
// between batches, so any will do: a batch takes the one with the fewest batches
// under way, which is whichever replica is free.
//
// A replica that is broken fails at once, and would be the freest of all. So a
// route rests after a failure, for twice as many batches after each further one,
// until a batch passes there. It is never left out for good, nor where all rest.
type turns struct {
	mu     sync.Mutex
	routes []turn
	last   int
	rest   int // batches that a route rests for after its first failure
}

type turn struct {
	batches int // under way
	failed  int // one after the other
	rests   int // for so many batches more
}

// mostDoubled is how often a route's rest is doubled.
const mostDoubled = 10

func newTurns(routes, slots int) turns {
	return turns{routes: make([]turn, routes), last: routes - 1, rest: slots}
}

// take returns the route for the next batch. Of equals it is the next in turn.
func (t *turns) take() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	best := -1
	for i := range t.routes {
		route := (t.last + 1 + i) % len(t.routes)
		if best < 0 || t.routes[route].before(&t.routes[best]) {
			best = route
		}
	}
	for i := range t.routes {
		t.routes[i].rests = max(0, t.routes[i].rests-1)
	}
	t.routes[best].batches++
	t.last = best
	return best
}

func (t *turn) before(o *turn) bool {
	if t.rests != o.rests {
		return t.rests < o.rests
	}
	return t.batches < o.batches
}

// back says that a batch is back from a route, or never went.
func (t *turns) back(route int, went bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.routes[route]
	r.batches--
	switch {
	case !went:
	case err == nil:
		r.failed, r.rests = 0, 0
	default:
		r.rests = t.rest << min(r.failed, mostDoubled)
		r.failed++
	}
}

// steer sends a batch by a route, and gives it the input that is the first
// replica's own there.
func (l *Line) steer(b *stage.Batch, route int) {
	first := l.stages[0]
	b.Route, b.Input = route, first[route%len(first)].Input(b.Slot)
}
