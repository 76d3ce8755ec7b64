package main

import (
	"math"
	"strconv"

	"github.com/leat-dev/leat/pipeline"
)

// timeline is what the stages of a full pipeline do during one round: the time that
// one batch takes through all of them. It is computed from the stages' expected times.
type timeline struct {
	rows    []timelineRow // one a replica, in forward order
	batches int           // that have numbers, from 0
	waiting int           // more that are in flight
}

// timelineRow is one replica of a stage.
type timelineRow struct {
	stage, replica int
	stays          []stay  // in order
	busy           float64 // share of the time between two batches, in the long run
}

// stay is the work of a stage on one batch, in shares of the round from its beginning:
// what began before it, or ends after it, is cut off.
type stay struct {
	batch    int
	from, to float64
}

// mostFollowed is how many stages, and routes, a timeline has at most: of more it
// couldn't be read.
const mostFollowed = 64

// newTimeline follows batches through stages until the pipeline is full, and returns the
// round of one of them, whose number is 0. So many batches are in flight on each route.
// It has no rows if the stages take no time, or are too many.
func newTimeline(stages []pipeline.StagePlan, inFlight, routes int) timeline {
	if len(stages) > mostFollowed || routes > mostFollowed {
		return timeline{}
	}
	// More than twice as many as there are stages only wait.
	followed := max(1, min(inFlight, 2*len(stages)))
	f := follow(stages, followed*routes, routes)
	first, last := f.ways[f.shown][0].from, f.ways[f.shown][len(stages)-1].to
	all := last - first
	if !(all > 0) || math.IsInf(all, 1) {
		return timeline{}
	}
	t := timeline{batches: f.inFlight, waiting: (inFlight - followed) * routes}
	interval := (first - f.ways[f.shown-routes][0].from) / float64(routes)
	for s := range stages {
		each := stages[s].Each()
		for r := range each {
			row := timelineRow{stage: s, replica: r}
			for b := r; b < len(f.ways); b += len(each) {
				v := f.ways[b][s]
				from, to := max(0, (v.from-first)/all), min(1, (v.to-first)/all)
				if number := (b - f.shown) % f.inFlight; from < to {
					row.stays = append(row.stays, stay{(number + f.inFlight) % f.inFlight, from, to})
				}
			}
			if interval > 0 {
				row.busy = min(1, each[r].Seconds/float64(len(each))/interval)
			}
			t.rows = append(t.rows, row)
		}
	}
	return t
}

// following is batches on their ways through stages.
type following struct {
	inFlight int
	shown    int      // the batch whose round is shown: the pipeline is full by then
	ways     [][]work // of each batch, by stage
}

// work is when a stage works on a batch, in seconds.
type work struct{ from, to float64 }

// follow lets batches go through stages, so many at once.
func follow(stages []pipeline.StagePlan, inFlight, routes int) following {
	f := following{inFlight: inFlight, shown: (2*inFlight/routes + len(stages)) * routes}
	f.ways = make([][]work, f.shown+inFlight+routes)
	units := make([][][]string, len(stages)) // by stage and route
	for s := range stages {
		for route := range routes {
			units[s] = append(units[s], unitsOf(stages[s].On(route)))
		}
	}
	free := map[string]float64{} // when a core, or a GPU, has nothing more to do
	oldest := 0                  // batch that isn't through
	for oldest < len(f.ways) {
		// The next to begin is the batch that can begin first; of equals the oldest.
		next, begin := -1, math.Inf(1)
		for b := oldest; b < min(len(f.ways), oldest+inFlight); b++ {
			ready, ok := f.ready(b, len(stages), routes)
			if !ok {
				continue
			}
			for _, unit := range units[len(f.ways[b])][b%routes] {
				ready = max(ready, free[unit])
			}
			if next < 0 || ready < begin {
				next, begin = b, ready
			}
		}
		s, route := len(f.ways[next]), next%routes
		end := begin + stages[s].On(route).Seconds
		f.ways[next] = append(f.ways[next], work{begin, end})
		for _, unit := range units[s][route] {
			free[unit] = end
		}
		for oldest < len(f.ways) && len(f.ways[oldest]) == len(stages) {
			oldest++
		}
	}
	return f
}

// ready returns when a batch is where its next stage can take it; false: it has been
// through all of them, or the batch before it on its route isn't there yet.
func (f *following) ready(batch, stages, routes int) (seconds float64, ok bool) {
	s := len(f.ways[batch])
	if s == stages {
		return 0, false
	}
	if s > 0 {
		seconds = f.ways[batch][s-1].to
	} else if batch >= f.inFlight {
		seconds = f.ways[batch-f.inFlight][stages-1].to
	}
	if before := batch - routes; before >= 0 { // batches of a route stay in order
		if len(f.ways[before]) <= s {
			return 0, false
		}
		seconds = max(seconds, f.ways[before][s].to)
	}
	return seconds, true
}

// unitsOf returns what works for a stage: cores, or a GPU.
func unitsOf(s pipeline.StagePlan) []string {
	if len(s.Device.Cores) == 0 {
		return []string{s.Device.Name}
	}
	units := make([]string, len(s.Device.Cores))
	for i, core := range s.Device.Cores {
		units[i] = strconv.Itoa(core)
	}
	return units
}
