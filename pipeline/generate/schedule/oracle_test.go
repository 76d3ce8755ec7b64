package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// oracle checks a scheduler from outside, by what its batches would do to the keys
// and values of a model, and from inside, by counting all anew.
type oracle struct {
	*rig
	t      *testing.T
	memory [][][kernels.PageTokens]uint64 // by route and page: what each position holds
	known  map[*Sequence]*shadow
}

// shadow is what an oracle knows of a sequence.
type shadow struct {
	flying int  // batches that it is in
	due    bool // it waits for its token, or its output row is in flight
	sent   int  // tokens sent, since the latest start
	scores int  // output rows that came back
	failed bool // a batch of it failed, and later ones are on their way
	ended  bool
}

func newOracle(t *testing.T, g *rig) *oracle {
	o := &oracle{rig: g, t: t, known: map[*Sequence]*shadow{}}
	for _, r := range g.routes {
		o.memory = append(o.memory, make([][kernels.PageTokens]uint64, len(r.pages.blocks)))
	}
	return o
}

// holds is what a position's keys and values depend on: its token and all before.
func holds(before uint64, token int32) uint64 {
	return (before ^ uint64(uint32(token)+1)) * 0x100000001b3
}

// filled checks a batch that has been filled, and does what it does.
func (o *oracle) filled(b *Batch) {
	t, h, row := o.t, o.header, 0
	require.LessOrEqual(t, len(h.Tokens), o.maxRows)
	require.LessOrEqual(t, len(h.Outputs), o.maxOutputs)
	outputs, want := h.Outputs, Want(0)
	for _, p := range b.Parts {
		s, k := p.Seq, o.known[p.Seq]
		require.Contains(t, []state{admitted, leaving}, s.state, "it may have been preempted for one behind it in the batch")
		require.Equal(t, b.Route, s.route.number)
		require.Less(t, p.From, p.To)
		if p.From != k.sent {
			require.Zero(t, k.flying, "it starts again when all has come back")
		}
		if !s.Scored() {
			require.False(t, k.due, "its next token is being chosen")
		}
		memory := o.memory[b.Route]
		at := func(i int) *uint64 {
			page := h.Pages[int(h.Tables[row])+i/kernels.PageTokens]
			return &memory[page][i%kernels.PageTokens]
		}
		var hash uint64
		for i := range p.From {
			hash = holds(hash, s.Tokens[i])
			if *at(i) != hash {
				require.Failf(t, "computed over what is not there", "position %d of %d", i, p.From)
			}
		}
		for i := p.From; i < p.To; i++ {
			if h.Tokens[row] != s.Tokens[i] || h.Positions[row] != int32(i) {
				require.Failf(t, "another token", "%d at position %d, not %d at %d", h.Tokens[row], h.Positions[row], s.Tokens[i], i)
			}
			hash = holds(hash, s.Tokens[i])
			*at(i) = hash
			wanted := i == len(s.Tokens)-1
			if s.Scored() {
				wanted = i >= s.scores
			}
			if wanted != (i >= p.To-p.Outputs) || wanted != (len(outputs) > 0 && outputs[0] == int32(row)) {
				require.Failf(t, "wrong output row", "position %d of %d to %d with %d", i, p.From, p.To, p.Outputs)
			}
			if wanted {
				outputs = outputs[1:]
				want = max(want, s.Want)
			}
			row++
		}
		k.flying++
		k.sent = p.To
		k.due = k.due || p.Outputs > 0
		if s.Scored() {
			require.LessOrEqual(t, p.To-s.taken, s.Window)
		}
	}
	if b.Probe {
		require.Empty(t, b.Parts)
		require.Len(t, h.Tokens, 1)
		return
	}
	require.Equal(t, len(h.Tokens), row)
	require.Empty(t, outputs)
	require.Equal(t, want, b.Want)
}

// returning is called before a batch is reported as back. What it has written is
// wrong if it failed, and of a sequence of which an earlier batch has failed.
func (o *oracle) returning(b *Batch, failed bool) {
	for _, p := range b.Parts {
		k := o.known[p.Seq]
		k.failed = k.failed || failed
		if k.failed && p.Seq.route != nil {
			for i := p.From; i < p.To && i/kernels.PageTokens < len(p.Seq.table); i++ {
				o.memory[b.Route][p.Seq.table[i/kernels.PageTokens]][i%kernels.PageTokens] = 0
			}
		}
		if k.flying--; k.flying == 0 {
			k.failed = false
		}
	}
}

// check counts anew what the scheduler keeps count of.
func (o *oracle) check() {
	t, total := o.t, 0
	for n, r := range o.routes {
		unsent, writing, left, promised, decoding := 0, 0, 0, 0, 0
		users, own := map[int32]int32{}, map[int32]bool{}
		for _, s := range r.running.items {
			total++
			require.Same(t, r, s.route)
			promised += pagesFor(len(s.Tokens)) - len(s.table)
			for i, page := range s.table {
				if i < s.shared {
					users[page]++
				} else {
					if own[page] {
						require.Failf(t, "a page in two tables", "page %d", page)
					}
					own[page] = true
				}
			}
			if s.state != admitted {
				left++
				require.Positive(t, s.flying)
				continue
			}
			unsent += s.sendable()
			if sends := s.sendable() > 0; r.chunks.has(s) != sends || r.short.has(s) != sends || s.stalled() != (s.list == &r.stalled) {
				require.Failf(t, "in the wrong queue", "%+v", *s)
			}
			if !s.prefilling() {
				writing++
			}
			if s.list == &r.decode {
				decoding++
				require.Equal(t, len(s.Tokens)-1, s.sent)
			}
		}
		require.Equal(t, []int{unsent, writing, left, promised, decoding}, []int{r.unsent, r.writing, r.leaving, r.promised, r.decode.n})
		for page, k := range users {
			require.Equal(t, k, r.pages.blocks[page].users)
			require.False(t, own[page])
		}
		for _, page := range r.pages.free {
			if own[page] || users[page] > 0 {
				require.Failf(t, "a page that is in use is free", "page %d of route %d", page, n)
			}
		}
		require.Equal(t, len(r.pages.blocks), r.pages.available()+len(users)+len(own), "each page is somewhere")
	}
	require.Equal(t, total, o.running)
	probes := 0
	for _, r := range o.routes {
		if r.probe != nil {
			probes++
		}
	}
	require.LessOrEqual(t, total, o.maxSeqs+probes+len(o.routes))
}
