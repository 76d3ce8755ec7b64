package schedule

import (
	"math"
	"time"
)

// pace learns how long each stage takes for a batch of n rows, t(n) = a + b·n,
// and decides by it how many batches to keep in flight and how large chunks of
// prompts to make. It affects when things are computed, never what comes out.
type pace struct {
	stages   []fit
	device   []int     // of each stage, which element of turn: stages of one device take turns
	shared   []float64 // of each stage, how many routes its device serves there
	widest   float64   // the largest of shared
	inFlight int       // the most batches in flight
	fixed    bool      // that many are always used
	maxRows  int

	turn []line // by device, its stages together; scratch

	grouped, groupsOf int // the latest result of groups, and for how many rows; 0: none
}

// line is how many seconds something takes for a batch, and for each of its rows.
type line struct{ a, b float64 }

func (l line) at(n float64) float64 { return l.a + l.b*n }

func newPace(r Route, maxRows int) *pace {
	p := &pace{stages: make([]fit, len(r.Stages)), inFlight: r.InFlight, fixed: r.Fixed, maxRows: maxRows}
	index := map[string]int{}
	for _, s := range r.Stages {
		if _, known := index[s.Device]; !known {
			index[s.Device] = len(index)
		}
		p.device = append(p.device, index[s.Device])
		p.shared = append(p.shared, float64(max(1, s.Routes)))
		p.widest = max(p.widest, float64(max(1, s.Routes)))
	}
	p.turn = make([]line, len(index))
	return p
}

// observe notes how long a batch of so many rows had each stage.
func (p *pace) observe(rows int, took []time.Duration) {
	for i := range p.stages {
		p.stages[i].add(float64(rows), took[i].Seconds())
	}
	p.groupsOf = 0
}

// known says that every stage has been seen at work.
func (p *pace) known() bool {
	for i := range p.stages {
		if p.stages[i].weight < 2.9 { // three, which have begun to fade
			return false
		}
	}
	return true
}

// times returns how long a batch of n rows takes through all stages, and what the
// device that is busiest then has to do until the next batch of this route is due
// there: this batch, and one of each other route.
func (p *pace) times(n float64) (through float64, busiest line) {
	clear(p.turn)
	for i := range p.stages {
		s := &p.stages[i]
		through += s.at(n)
		at := &p.turn[p.device[i]]
		at.a, at.b = at.a+p.shared[i]*s.a, at.b+p.shared[i]*s.b
	}
	for _, at := range p.turn {
		if at.at(n) > busiest.at(n) {
			busiest = at
		}
	}
	return through, busiest
}

// batches returns how many batches should be in flight, over which the rows that
// decode are shared out, and how many rows each should have at least where prompts
// wait with so many unsent rows.
func (p *pace) batches(decoding, unsent, flights int) (groups, rows int) {
	switch {
	case unsent == 0:
		return p.groups(decoding), 0
	case !p.known():
		// Two sizes are needed to tell a from b.
		return p.inFlight, firstChunk >> (flights % 2)
	case decoding == 0:
		rows = p.chunk(unsent)
	default:
		rows = p.worth()
	}
	if p.fixed {
		return p.inFlight, rows
	}
	through, busiest := p.times(float64(rows))
	apart := busiest.at(float64(rows))
	if apart <= 0 {
		return p.inFlight, rows
	}
	// As many as keep the busiest device busy, and one on all routes together that
	// waits for it, since no two batches take the same time.
	return min(p.inFlight, int(math.Ceil(through/apart+1/p.widest-0.01))), rows
}

const (
	leastChunk = 32 // rows of a batch that takes from prompts
	firstChunk = 64 // the same, until it is known what they cost
)

// groups returns over how many batches in flight to share out so many rows that
// decode. A row's next token comes when its batch has gone through all stages, and
// when every other batch has had its turn: with G batches, that takes
// max(through(rows/G), G·apart(rows/G)), which is to be least.
func (p *pace) groups(rows int) int {
	if p.fixed || !p.known() {
		return p.inFlight
	}
	if rows > 0 && rows == p.groupsOf {
		return p.grouped
	}
	best, least := 1, 0.0
	for g := 1; g <= min(p.inFlight, max(1, rows)); g++ {
		n := min(float64(rows)/float64(g), float64(p.maxRows))
		batches := float64(rows) / n // more than g where a batch doesn't hold its share
		through, busiest := p.times(n)
		if t := max(through*batches/float64(g), batches*busiest.at(n)); g == 1 || t < 0.99*least {
			best, least = g, t
		}
	}
	p.grouped, p.groupsOf = best, rows
	return best
}

// chunk returns how large chunks of so many unsent rows of prompts should be where
// nobody waits for a next token. In chunks of n rows they take
// through(n) + (unsent/n − 1)·apart(n), which is least at n = √(unsent·a/(B − b)):
// a and b are the busiest device's, B is the b of all stages together.
func (p *pace) chunk(unsent int) int {
	_, busiest := p.times(float64(p.maxRows))
	all := 0.0
	for i := range p.stages {
		all += p.stages[i].b
	}
	n := float64(p.maxRows)
	if all > busiest.b {
		n = min(n, max(leastChunk, math.Sqrt(float64(unsent)*busiest.a/(all-busiest.b))))
	}
	return min(p.maxRows, ceil(unsent, max(1, int(float64(unsent)/n)))) // all of one size
}

// worth returns how large a batch beside rows that decode should be: no larger than
// makes a row take at most a 32nd longer than in the largest batch, because all that
// decode wait for it. Where rows are what costs, that is a small one.
func (p *pace) worth() int {
	full := float64(p.maxRows)
	_, busiest := p.times(full)
	row := busiest.at(full) / full
	if row <= 0 {
		return p.maxRows
	}
	n := busiest.a / (row*(1+1.0/32) - busiest.b)
	return min(p.maxRows, max(leastChunk, int(math.Ceil(n))))
}

// fit is a line through measurements, by least squares, in which older ones count
// less.
type fit struct {
	line
	weight, n, nn, t, nt float64 // the sums of 1, n, n², t and n·t
}

// fading is how much of its weight a measurement keeps with each that follows. It
// must be many of them: most batches are of about one size, and those of others,
// which tell a from b, are rare.
const fading = 0.998

func (f *fit) add(n, t float64) {
	f.weight = f.weight*fading + 1
	f.n = f.n*fading + n
	f.nn = f.nn*fading + n*n
	f.t = f.t*fading + t
	f.nt = f.nt*fading + n*t
	spread := f.weight*f.nn - f.n*f.n
	flat := spread <= 1e-9*f.weight*f.nn
	if !flat {
		f.b = max(0, (f.weight*f.nt-f.n*f.t)/spread)
		f.a = (f.t - f.b*f.n) / f.weight
	}
	if flat || f.a < 0 {
		// Batches of one size say nothing of the two parts: it is all taken to
		// go with the rows, or, where that has been seen before, in parts as then.
		mean, at := f.t/f.weight, f.n/f.weight
		if known := f.a + f.b*at; known > 0 && f.a >= 0 {
			f.a, f.b = f.a*mean/known, f.b*mean/known
		} else {
			f.a, f.b = 0, mean/max(1, at)
		}
	}
}
