package pipeline

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// If stages have replicas, each batch takes a route, which leads through one replica of
// each stage: through replica number route mod k of a stage with k replicas. There are as
// many routes as the stage with the most replicas has, and every replica of a stage is on
// equally many of them. Batches on one route finish in the order in which they were sent.
// Batches on different routes may overtake each other.

// routesOf returns the number of routes through the places of runs, for which even has
// returned no error.
func routesOf(places []device.Place, runs []packer.Run) int {
	routes := 1
	for _, r := range runs {
		k := 1 + len(places[r.Device].Also)
		routes = routes / gcd(routes, k) * k
	}
	return routes
}

// gcd returns the greatest common divisor.
func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// everywhere returns one run for each place.
func everywhere(places []device.Place) []packer.Run {
	runs := make([]packer.Run, len(places))
	for i := range runs {
		runs[i].Device = i
	}
	return runs
}

// even returns an error, and the index of a place, if the routes can't be divided evenly
// among the replicas of that place.
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
			return i, fmt.Errorf("%d replicas, and %s has %d: the %d routes can't be divided evenly among %d replicas; use a number that divides %d",
				k, places[most].Name(), routes, routes, k, routes)
		}
	}
	return 0, nil
}

// met returns the numbers of those replicas of a stage that are on a route with replica j
// of the stage before or after it. The stage has n replicas, the other one has k.
func met(j, k, n, routes int) (numbers []int) {
	for i := range n {
		if stage.Replicas(k).Meets(j, stage.Replicas(n), i, routes) {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// On returns the replica of the stage that a route leads through; see Each.
func (s StagePlan) On(route int) StagePlan {
	each := s.Each()
	return each[stage.Replicas(len(each)).For(route)]
}

// connect makes the link into each replica.
func (l *Line) connect() {
	p := l.plan
	before := 1 // the number of senders: the line, and then the replicas of a stage
	for i, replicas := range l.stages {
		k, depth := len(replicas), p.config.depth(i)
		if len(met(0, before, k, p.routes)) > 1 {
			// A slow replica must not block senders that also send to other replicas:
			// its link holds all batches that may be in flight.
			depth = max(depth, p.stage.InFlight)
		}
		if i == 0 {
			l.depth = depth
		}
		links := make([]stage.Link, k)
		for j := range links {
			links[j] = newSharedLink(replicas[j].Link(depth), len(met(j, k, before, p.routes)))
			if i == 0 {
				links[j] = &entry{Link: links[j], room: l.handler.Room}
			}
		}
		l.links = append(l.links, links)
		before = k
	}
}

// run starts a goroutine for each replica of each stage and, unless the last stage
// finishes its batches itself, a goroutine that does so for each of its replicas.
func (l *Line) run() {
	ctx, stop := context.WithCancel(context.Background())
	l.stop, l.started = stop, time.Now()
	l.connect()
	for i, replicas := range l.stages {
		for j, s := range replicas {
			in, out := l.links[i][j], []stage.Link{exit{l}}
			switch {
			case i+1 < len(l.stages):
				next := l.links[i+1]
				out = make([]stage.Link, len(next))
				for _, n := range met(j, len(replicas), len(next), l.plan.routes) {
					out[n] = next[n]
				}
			case s.Async() || l.plan.finishesApart():
				end := s.Link(l.plan.config.depth(i + 1))
				out[0] = end
				l.running.Go(func() { l.finishAll(ctx, end) })
			}
			s.Observe(l.plan.config.observer, l.traffic.Empty, j)
			l.running.Go(func() { _ = s.Run(ctx, in, out...) }) // returns when the line is closed
		}
	}
}

// finishesApart reports whether a separate goroutine finishes the batches although the
// last stage could do so. That is worth it if there is a processor that no stage uses, and
// if more batches than stages are in flight, so that the last stage can compute another
// batch meanwhile.
func (p *Plan) finishesApart() bool {
	cores := map[string]bool{}
	for _, s := range p.Stages {
		for _, replica := range s.Each() {
			for _, unit := range replica.units() {
				cores[unit] = true
			}
		}
	}
	return p.stage.InFlight > p.replicas() && len(cores) < runtime.GOMAXPROCS(0)
}
