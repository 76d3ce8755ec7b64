package pipeline

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// Where stages have replicas, a batch goes by a route: one replica a stage, of a
// stage with k of them number route mod k. There are as many routes as the stage
// with the most replicas has; of each other stage, every replica serves equally
// many. Batches of one route come out in order, and batches of different routes
// pass each other.

// routesOf is how many routes lead through the places of runs, where even has
// passed them.
func routesOf(places []device.Place, runs []packer.Run) int {
	routes := 1
	for _, r := range runs {
		k := 1 + len(places[r.Device].Also)
		routes = routes / gcd(routes, k) * k
	}
	return routes
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// everywhere is a run at each place.
func everywhere(places []device.Place) []packer.Run {
	runs := make([]packer.Run, len(places))
	for i := range runs {
		runs[i].Device = i
	}
	return runs
}

// even says whether the replicas of the places can share the routes evenly, and if
// not which place is in the way.
func even(places []device.Place) (uneven int, err error) {
	most := 0
	for i, at := range places {
		if len(at.Also) > len(places[most].Also) {
			most = i
		}
	}
	routes := 1 + len(places[most].Also)
	for i, at := range places {
		if k := 1 + len(at.Also); routes%k != 0 {
			return i, fmt.Errorf("%d replicas, and %s has %d: a request goes by one of %d routes, which %d can't share evenly; give it a number that divides %d",
				k, places[most].Name(), routes, routes, k, routes)
		}
	}
	return 0, nil
}

// met returns the numbers of those of a stage's n replicas that share a route with
// replica j of the stage before or after, which has k.
func met(j, k, n, routes int) (numbers []int) {
	for route := j; route < routes; route += k {
		if !slices.Contains(numbers, route%n) {
			numbers = append(numbers, route%n)
		}
	}
	return numbers
}

// connect makes a link into each replica.
func (l *Line) connect() {
	p := l.plan
	before := 1 // who sends: the line, then each stage's replicas
	for i, replicas := range l.stages {
		k, depth := len(replicas), p.config.depth(i)
		if len(met(0, before, k, p.routes)) > 1 {
			// A replica that is slow, or hangs, must not keep those who send to it
			// from the others: whatever is in flight has room before it.
			depth = max(depth, p.stage.InFlight)
		}
		if i == 0 {
			l.depth = depth
		}
		links := make([]stage.Link, k)
		for j := range links {
			links[j] = stage.Shared(stage.NewLink(depth), len(met(j, k, before, p.routes)))
		}
		l.links = append(l.links, links)
		before = k
	}
}

// run starts a goroutine a replica, and for each of the last stage's one that
// waits for what comes out of it.
func (l *Line) run() {
	ctx, stop := context.WithCancel(context.Background())
	l.stop, l.started = stop, time.Now()
	l.connect()
	var ends sync.WaitGroup
	for i, replicas := range l.stages {
		for j, s := range replicas {
			in, out := l.links[i][j], []stage.Link(nil)
			if i+1 < len(l.stages) {
				next := l.links[i+1]
				out = make([]stage.Link, len(next))
				for _, n := range met(j, len(replicas), len(next), l.plan.routes) {
					out[n] = next[n]
				}
			} else {
				end := stage.NewLink(l.plan.config.depth(i + 1))
				out = []stage.Link{end}
				ends.Add(1)
				l.running.Go(func() {
					defer ends.Done()
					l.finish(ctx, end)
				})
			}
			s.Observe(l.plan.config.Observer, l.traffic, j)
			l.running.Go(func() { _ = s.Run(ctx, in, out...) }) // it ends by Close or by stop
		}
	}
	l.running.Go(func() {
		ends.Wait()
		close(l.done)
	})
}

// finish waits for the batches that come out of a replica of the last stage.
func (l *Line) finish(ctx context.Context, end stage.Link) {
	for {
		b, err := end.Recv(ctx)
		if err != nil {
			return
		}
		if err := b.Wait(ctx); err != nil { // the batch carries it
			l.log.Warn("batch failed", "rows", len(b.Header.Tokens), "error", err)
		}
		l.traffic.Leave()
		l.done <- b // has room for all batches there are
	}
}
