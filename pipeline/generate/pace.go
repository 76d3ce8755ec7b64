package generate

import "time"

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
	turn     []float64 // a device: seconds of its stages together; scratch
}

func newPace(devices []string, inFlight int, fixed bool, maxRows int) *pace {
	p := &pace{stages: make([]fit, len(devices)), inFlight: inFlight, fixed: fixed, maxRows: maxRows}
	index := map[string]int{}
	for _, name := range devices {
		if _, known := index[name]; !known {
			index[name] = len(index)
		}
		p.device = append(p.device, index[name])
	}
	p.turn = make([]float64, len(index))
	return p
}

// observe takes note of how long a stage took for a batch.
func (p *pace) observe(stage, rows int, took time.Duration) {
	p.stages[stage].add(float64(rows), took.Seconds())
}

// known says that every stage has been seen at work.
func (p *pace) known() bool {
	for i := range p.stages {
		if p.stages[i].weight < 3 {
			return false
		}
	}
	return true
}

// times returns how long a batch of n rows takes through all stages, and how
// long the busiest device works on it, which is how often a batch can follow
// another.
func (p *pace) times(n float64) (through, apart float64) {
	clear(p.turn)
	for i := range p.stages {
		t := p.stages[i].at(n)
		through += t
		p.turn[p.device[i]] += t
	}
	for _, t := range p.turn {
		apart = max(apart, t)
	}
	return through, apart
}

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
		through, apart := p.times(float64(rows) / float64(g))
		if t := max(through, float64(g)*apart); g == 1 || t < 0.99*least {
			best, least = g, t
		}
	}
	return best
}

// prefillBeside is how many prompt rows a batch takes at most beside rows that
// decode, until it is known what they cost.
const prefillBeside = 64

// chunk returns how many rows of prompts a batch should take, of unsent that
// wait, where decoding rows wait for their next tokens too.
func (p *pace) chunk(unsent, decoding int) int {
	if decoding > 0 {
		return p.beside(unsent, decoding)
	}
	if !p.known() {
		// The first and the last chunk leave stages idle: the more chunks, the
		// shorter that is.
		return max(leastChunk, share(unsent, max(1, 4*(p.inFlight-1))))
	}
	// K chunks take through(unsent/K), and then apart(unsent/K) each.
	best, least := p.maxRows, 0.0
	for k := max(1, share(unsent, p.maxRows)); k <= 64; k++ {
		n := share(unsent, k)
		through, apart := p.times(float64(n))
		t := through + float64(k-1)*apart
		if least == 0 || t < least {
			best, least = n, t
		}
		if n <= leastChunk/4 {
			break
		}
	}
	return best
}

// beside returns a chunk that makes a batch take no more than twice as long as
// it would with its decoding rows alone.
func (p *pace) beside(unsent, decoding int) int {
	if !p.known() {
		return prefillBeside
	}
	rows := float64(share(decoding, p.groups(decoding)))
	alone, _ := p.times(rows)
	n := leastChunk / 4
	for n*2 <= p.maxRows {
		if t, _ := p.times(rows + float64(n*2)); t > 2*alone {
			break
		}
		n *= 2
	}
	return min(n, max(1, unsent))
}

// fit is a straight line through what was seen, by least squares, in which what
// was seen long ago counts little.
type fit struct {
	weight, n, nn, t, nt float64
	a, b                 float64
}

// fading is how much of its weight a measurement keeps with each that follows.
const fading = 0.98

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
