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
	for i := range n {
		if stage.Replicas(k).Meets(j, stage.Replicas(n), i, routes) {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// On returns the replica of the stage that a route leads through, as a stage by
// itself.
func (s StagePlan) On(route int) StagePlan {
	each := s.Each()
	return each[stage.Replicas(len(each)).For(route)]
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
			links[j] = stage.Shared(replicas[j].Link(depth), len(met(j, k, before, p.routes)))
			if i == 0 {
				links[j] = &entry{Link: links[j], room: l.handler.Room}
			}
		}
		l.links = append(l.links, links)
		before = k
	}
}

// run starts a goroutine for each replica of each stage, and where the last stage does
// not finish its batches another one that does.
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
			s.Observe(l.plan.config.Observer, l.traffic, j)
			l.running.Go(func() { _ = s.Run(ctx, in, out...) }) // it ends by Close or by stop
		}
	}
}

// finishesApart reports whether batches are finished by a goroutine of its own though
// the last stage could do it: it takes the work from the last stage where a processor is
// left for it that no stage uses, and where there are more batches in flight than
// stages, so that the stage has another one to work on meanwhile.
func (p *Plan) finishesApart() bool {
	cores := map[string]bool{}
	for _, s := range p.Stages {
		for _, replica := range s.Each() {
			for _, unit := range replica.units() {
				cores[unit] = true
			}
		}
	}
	return p.stage.InFlight > p.standing() && len(cores) < runtime.GOMAXPROCS(0)
}
