package schedule

import (
	"slices"
	"time"

	"github.com/leat-dev/leat/kernels"
)

// rig is a scheduler with a clock, and what its owner needs to drive it.
type rig struct {
	*Scheduler
	now    time.Time
	header *kernels.Header // of the latest batch
}

const grace = 100 * time.Millisecond

// setup returns a rig of so many equal routes, of one stage a batch in flight.
func setup(routes, pages, maxSeqs, maxRows, inFlight int) *rig {
	c := Config{MaxRows: maxRows, MaxOutputs: min(maxRows, maxSeqs), MaxSeqs: maxSeqs, Grace: grace}
	for range routes {
		r := Route{Pages: pages, InFlight: inFlight}
		for i := range inFlight {
			r.Stages = append(r.Stages, Stage{Device: string(rune('a' + i)), Routes: 1})
		}
		c.Routes = append(c.Routes, r)
	}
	return &rig{Scheduler: New(c), now: time.Unix(1, 0), header: kernels.NewHeader(maxRows, 1<<10)}
}

// one returns a rig of one route, and that route.
func one(pages, maxSeqs, maxRows, inFlight int) (*rig, *route) {
	g := setup(1, pages, maxSeqs, maxRows, inFlight)
	return g, g.routes[0]
}

// dear has a route know that batches are what costs, so that it fills them.
func dear(r *route) {
	took := make([]time.Duration, len(r.pace.stages))
	for n := range 10 {
		for i := range took {
			took[i] = time.Second + time.Duration(n)*time.Microsecond
		}
		r.pace.observe(1+n, took)
	}
}

// prompt is a sequence of n tokens that no other shares, that may grow to most.
func prompt(n, most int) *Sequence {
	unlike++
	return text(most, append([]int32{unlike}, make([]int32, n-1)...)...)
}

var unlike int32 = 1000

// text is a sequence of those tokens.
func text(most int, tokens ...int32) *Sequence {
	return &Sequence{Tokens: tokens, Most: most, Want: Best}
}

// scored is a sequence of which an output row of each token is wanted.
func scored(window int, tokens ...int32) *Sequence {
	return &Sequence{Tokens: tokens, Most: len(tokens), Want: All, Window: window}
}

// blocks is tokens for n pages, each page of one token.
func blocks(tokens ...int32) (all []int32) {
	for _, t := range tokens {
		all = append(all, slices.Repeat([]int32{t}, kernels.PageTokens)...)
	}
	return all
}

// add queues sequences and has them admitted if there is room.
func (g *rig) add(all ...*Sequence) {
	for _, s := range all {
		if err := g.Add(s); err != nil {
			panic(err)
		}
		g.admitNow()
	}
}

func (g *rig) admitNow() {
	g.Scheduler.now = g.now
	g.admit()
}

// fill fills a batch of a route, in flight from then on if it has rows.
func (g *rig) fill(route int) *Batch {
	b := new(Batch)
	g.header.Reset()
	g.Fill(route, g.header, b)
	return b
}

// rows returns how many rows of whom a batch has.
func rows(b *Batch) map[*Sequence]int {
	got := map[*Sequence]int{}
	for _, p := range b.Parts {
		got[p.Seq] = p.To - p.From
	}
	return got
}

// land brings a batch back, and does at once what its sequences' callers do: each
// that wants a token gets one, until it has as many as it may have; the output
// rows of scored ones are taken.
func (g *rig) land(b *Batch) {
	g.Returned(g.now, b, nil)
	for _, p := range b.Parts {
		s := p.Seq
		switch {
		case p.Outputs == 0 || p.Dropped:
		case s.Scored():
			g.Taken(s, p.Outputs)
			if p.To == len(s.Tokens) {
				g.Remove(s)
			}
		case len(s.Tokens)+1 >= s.Most:
			g.Remove(s)
		default:
			g.Append(s, int32(len(s.Tokens)))
		}
	}
	g.admitNow()
}

// members returns the sequences of a heap in the order in which they come out.
func members(h *heap) []*Sequence {
	all := slices.Clone(h.items)
	slices.SortFunc(all, func(a, b *Sequence) int {
		if h.before(a, b) {
			return -1
		}
		return 1
	})
	return all
}

// pass fills a batch and brings it back; its callers do nothing yet.
func (g *rig) pass(route int) *Batch {
	b := g.fill(route)
	g.Returned(g.now, b, nil)
	return b
}
