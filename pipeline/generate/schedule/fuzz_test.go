package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// Whatever arrives, ends, comes back, fails and is slow: every row goes out in
// order over keys and values that are there, each output row comes back once,
// bounds hold, nobody waits for ever, and at the end all pages and places are back.
func TestSchedulerInvariants(t *testing.T) {
	plays := uint64(100)
	if testing.Short() {
		plays = 25
	}
	for seed := range plays {
		play(t, rand.New(rand.NewPCG(seed, 1)))
	}
}

func FuzzScheduler(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { play(t, rand.New(rand.NewPCG(a, b))) })
}

// game is a random run of a scheduler and its callers.
type game struct {
	*oracle
	rng      *rand.Rand
	all      []*Sequence
	inFlight [][]*Batch // by route, in order
	due      []*Sequence
	took     []time.Duration
	pages    int
}

func play(t *testing.T, rng *rand.Rand) {
	routes, stages, pages := 1+rng.IntN(3), 1+rng.IntN(4), 4+rng.IntN(12)
	g := &game{
		oracle:   newOracle(t, setup(routes, pages, 1+rng.IntN(10), 1+rng.IntN(40), stages)),
		rng:      rng,
		inFlight: make([][]*Batch, routes),
		took:     make([]time.Duration, stages),
		pages:    pages,
	}
	for range 400 {
		switch rng.IntN(16) {
		case 0, 1, 2:
			g.arrive()
		case 3:
			if rng.IntN(4) == 0 && len(g.all) > 0 {
				g.end(g.all[rng.IntN(len(g.all))])
			}
		case 4:
			g.now = g.now.Add(time.Duration(rng.Int64N(int64(grace))))
		case 5:
			g.health()
		case 6, 7, 8:
			g.back(rng.IntN(20) == 0)
		case 9, 10:
			g.token()
		case 11:
			g.take(rng.IntN(30))
		default:
			g.step()
		}
		g.check()
	}
	g.drain()
}

func (g *game) arrive() {
	tokens := make([]int32, 1+g.rng.IntN(90))
	if g.rng.IntN(2) == 0 {
		tokens[0] = g.rng.Int32N(100) // the others begin alike
	}
	s := text(min(len(tokens)+1+g.rng.IntN(60), g.pages*kernels.PageTokens), tokens...)
	if s.Priority = g.rng.IntN(2); g.rng.IntN(4) == 0 {
		s.Window, s.Want = 1+g.rng.IntN(50), All
	}
	if g.Add(s) == nil {
		g.all = append(g.all, s)
		g.known[s] = new(shadow)
	}
}

func (g *game) end(s *Sequence) {
	g.Remove(s)
	g.known[s].ended = true
}

// health has routes fail and recover, but not the last one.
func (g *game) health() {
	route := g.rng.IntN(len(g.routes))
	switch up := g.Counts().Up; {
	case g.rng.IntN(3) == 0:
		g.Probe(route)
	case !g.routes[route].up:
		g.Up(route)
	case up > 1 && g.rng.IntN(4) == 0:
		for _, s := range g.Down(route) {
			g.known[s].ended = true
		}
		g.dropped()
	}
}

// dropped forgets what was due of sequences that start again elsewhere.
func (g *game) dropped() {
	for s, k := range g.known {
		k.due = k.due && s.due
	}
}

func (g *game) step() {
	route, ok, _ := g.Next(g.now, time.Duration(g.rng.IntN(2))*time.Millisecond)
	if !ok {
		return
	}
	if b := g.fill(route); len(g.header.Tokens) > 0 {
		g.filled(b)
		g.inFlight[route] = append(g.inFlight[route], b)
	}
}

// back brings a batch back, the first of any route.
func (g *game) back(fails bool) {
	route := g.rng.IntN(len(g.routes))
	for range g.routes {
		if len(g.inFlight[route]) > 0 {
			break
		}
		route = (route + 1) % len(g.routes)
	}
	if len(g.inFlight[route]) == 0 {
		return
	}
	b := g.inFlight[route][0]
	g.inFlight[route] = g.inFlight[route][1:]
	g.returning(b, fails)
	if fails {
		for _, s := range g.Failed(b) {
			g.known[s].ended = true
		}
		g.dropped()
		return
	}
	for i := range g.took {
		g.took[i] = time.Duration(1000 + 100*len(b.Parts) + g.rng.IntN(500))
	}
	g.Returned(g.now, b, g.took)
	for _, p := range b.Parts {
		s, k := p.Seq, g.known[p.Seq]
		switch {
		case k.ended:
			require.True(g.t, p.Dropped)
		case p.Dropped || p.Outputs == 0:
		case s.Scored():
			require.Equal(g.t, k.scores, p.To-p.Outputs, "output rows come in order, each once")
			if k.scores = p.To; k.scores == len(s.Tokens) {
				g.end(s)
			}
		default:
			require.Equal(g.t, len(s.Tokens), p.To)
			g.due = append(g.due, s)
		}
	}
}

// token has one caller choose its token.
func (g *game) token() {
	if len(g.due) == 0 {
		return
	}
	i := g.rng.IntN(len(g.due))
	s := g.due[i]
	g.due = slices.Delete(g.due, i, i+1)
	if len(s.Tokens) == s.Most || g.rng.IntN(20) == 0 {
		g.end(s)
		return
	}
	require.Equal(g.t, !g.known[s].ended, g.Append(s, g.rng.Int32N(2)))
	g.known[s].due = false
}

// take has the callers of scored sequences take up to so many output rows each.
func (g *game) take(most int) {
	for _, s := range g.all {
		if n := min(most, g.known[s].scores-s.taken); n > 0 {
			g.Taken(s, n)
		}
	}
}

// drain has all come to their ends.
func (g *game) drain() {
	for route := range g.routes {
		g.Up(route)
	}
	live := func(s *Sequence) bool { return !g.known[s].ended }
	for round := 0; slices.ContainsFunc(g.all, live); round++ {
		require.Less(g.t, round, 50_000, "somebody waits for ever")
		g.step()
		g.back(false)
		g.token()
		g.take(1 << 20)
		g.now = g.now.Add(grace / 10)
		g.check()
	}
	for slices.ContainsFunc(g.inFlight, func(all []*Batch) bool { return len(all) > 0 }) {
		g.back(false)
	}
	for _, r := range g.routes {
		r.cancelProbe()
		for n := range g.pages {
			_, ok := r.pages.alloc()
			require.True(g.t, ok, "page %d", n)
		}
	}
	counts := g.Counts()
	require.Zero(g.t, counts.Running)
	require.Zero(g.t, counts.Waiting)
	require.Zero(g.t, counts.FreePages)
}
