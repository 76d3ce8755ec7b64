package generate

import (
	"math"
	"slices"
	"time"
)

// pace learns how long each stage takes for a batch of n rows, t(n) = a + b·n,
// and chooses by it how many batches to share the rows out over, and how large
// chunks of prompts to make. It affects when things are computed, never what
// comes out.
type pace struct {
	stages   []fit
	device   []int // of each stage: stages of one device take turns
	inFlight int   // batches that there are
	fixed    bool  // that many are to be used
	maxRows  int
	shared   []float64 // of each stage: how many routes its device serves there
	turn     []seconds // a device: its stages together; scratch
}

// seconds is how long something takes for a batch, and for each of its rows.
type seconds struct{ a, b float64 }

func (s seconds) at(n float64) float64 { return s.a + s.b*n }

// newPace begins to learn about the stages of a route, which stand on these
// devices. Each of them serves so many routes in all; nil: this one alone.
func newPace(devices []string, shared []int, inFlight int, fixed bool, maxRows int) *pace {
	p := &pace{stages: make([]fit, len(devices)), inFlight: inFlight, fixed: fixed, maxRows: maxRows}
	index := map[string]int{}
	for i, name := range devices {
		if _, known := index[name]; !known {
			index[name] = len(index)
		}
		p.device = append(p.device, index[name])
		routes := 1
		if shared != nil {
			routes = shared[i]
		}
		p.shared = append(p.shared, float64(routes))
	}
	p.turn = make([]seconds, len(index))
	return p
}

// observe takes note of how long a stage took for a batch.
func (p *pace) observe(stage, rows int, took time.Duration) {
	p.stages[stage].add(float64(rows), took.Seconds())
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

// times returns how long a batch of n rows takes through all stages, and how
// long the busiest device works until the next batch of this route is due there:
// on this batch, and on one of each other route.
func (p *pace) times(n float64) (through, apart float64) {
	through, at := p.busiest(n)
	return through, at.at(n)
}

// busiest returns how long a batch of n rows takes through all stages, and what
// the device has to do that is busiest then.
func (p *pace) busiest(n float64) (through float64, most seconds) {
	clear(p.turn)
	for i := range p.stages {
		s := &p.stages[i]
		through += s.at(n)
		at := &p.turn[p.device[i]]
		at.a, at.b = at.a+p.shared[i]*s.a, at.b+p.shared[i]*s.b
	}
	for _, at := range p.turn {
		if at.at(n) > most.at(n) {
			most = at
		}
	}
	return through, most
}

// batches returns how many batches are to be in flight, over which the rows that
// decode are shared out, and how many rows each is to have at least where prompts
// wait.
func (p *pace) batches(decoding, unsent, flights int) (groups, rows int) {
	switch {
	case unsent == 0:
		return p.groups(decoding), 0
	case !p.known():
		// Of two sizes, to tell a from b.
		return p.inFlight, firstChunk >> (flights % 2)
	case decoding == 0:
		rows = p.chunk(unsent)
	default:
		rows = p.worth()
	}
	if p.fixed {
		return p.inFlight, rows
	}
	through, apart := p.times(float64(rows))
	if apart <= 0 {
		return p.inFlight, rows
	}
	// As many as keep the busiest device so, and one on all routes together that
	// waits for it, since no two batches take the same time.
	return min(p.inFlight, int(math.Ceil(through/apart+1/slices.Max(p.shared)-0.01))), rows
}

const (
	leastChunk = 32 // rows of a batch that takes from prompts
	firstChunk = 64 // the same, until it is known what they cost
)

// groups returns over how many batches in flight to share out so many rows that
// decode. A row's next token comes when its batch has gone through all stages,
// and when every other batch has had its turn: with G batches,
// max(through(rows/G), G·apart(rows/G)), which is to be least.
func (p *pace) groups(rows int) int {
	if p.fixed || !p.known() {
		return p.inFlight
	}
	best, least := 1, 0.0
	for g := 1; g <= min(p.inFlight, max(1, rows)); g++ {
		n := min(float64(rows)/float64(g), float64(p.maxRows))
		batches := float64(rows) / n // more than g where a batch doesn't hold its share
		through, apart := p.times(n)
		if t := max(through*batches/float64(g), batches*apart); g == 1 || t < 0.99*least {
			best, least = g, t
		}
	}
	return best
}

// chunk returns how large chunks of unsent rows of prompts should be where nobody
// waits for a next token. In chunks of n rows they take
// through(n) + (unsent/n − 1)·apart(n), which is least at n = √(unsent·a/(B − b)):
// a and b are the busiest device's, B is the b of all stages together.
func (p *pace) chunk(unsent int) int {
	_, at := p.busiest(float64(p.maxRows))
	all := 0.0
	for i := range p.stages {
		all += p.stages[i].b
	}
	n := float64(p.maxRows)
	if all > at.b {
		n = min(n, max(leastChunk, math.Sqrt(float64(unsent)*at.a/(all-at.b))))
	}
	return min(p.maxRows, share(unsent, max(1, int(float64(unsent)/n)))) // all of one size
}

// worth returns how large a batch beside decoding rows should be: no larger than
// makes a row take at most a 32nd longer than in the largest batch, for all that
// decode wait for it. Where rows are what costs, that is a small one.
func (p *pace) worth() int {
	full := float64(p.maxRows)
	_, at := p.busiest(full)
	row := at.at(full) / full
	if row <= 0 {
		return p.maxRows
	}
	n := at.a / (row*(1+1.0/32) - at.b)
	return min(p.maxRows, max(leastChunk, int(math.Ceil(n))))
}

// fit is a straight line through what was seen, by least squares, in which what
// was seen long ago counts little.
type fit struct {
	weight, n, nn, t, nt float64
	a, b                 float64
}

// fading is how much of its weight a measurement keeps with each that follows. It
// must be many of them: most batches are of about one size, and those of others,
// which tell a from b, are rare.
const fading = 0.998

func (f *fit) add(n, t float64) {
	for _, sum := range []struct {
		of *float64
		x  float64
	}{{&f.weight, 1}, {&f.n, n}, {&f.nn, n * n}, {&f.t, t}, {&f.nt, n * t}} {
		*sum.of = *sum.of*fading + sum.x
	}
	spread := f.weight*f.nn - f.n*f.n
	if spread > 1e-9*f.weight*f.nn {
		f.b = max(0, (f.weight*f.nt-f.n*f.t)/spread)
		f.a = (f.t - f.b*f.n) / f.weight
	}
	if spread <= 1e-9*f.weight*f.nn || f.a < 0 {
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

// at is how long n rows take.
func (f *fit) at(n float64) float64 { return f.a + f.b*n }
