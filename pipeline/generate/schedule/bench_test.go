package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// cycle is a scheduler in the steady state: as many sequences decode as fill its
// batches in flight. Sequences that have come to their ends are replaced.
type cycle struct {
	*Scheduler
	header   *kernels.Header
	inFlight []*Batch // the oldest first
	free     []*Batch
	now      time.Time
	took     []time.Duration
	most     int
}

// decoding returns a cycle of so many sequences that decode in batches of rows,
// each for most tokens.
func decoding(tb testing.TB, seqs, rows, most int) *cycle {
	groups := seqs / rows
	r := Route{Pages: 2 * seqs * pagesFor(most), InFlight: groups, Fixed: true}
	for i := range groups {
		r.Stages = append(r.Stages, Stage{Device: fmt.Sprint(i), Routes: 1})
	}
	c := &cycle{
		Scheduler: New(Config{Routes: []Route{r}, MaxRows: 512, MaxOutputs: 512, MaxSeqs: seqs, Grace: time.Second}),
		header:    kernels.NewHeader(512, seqs*pagesFor(most)),
		now:       time.Unix(1, 0),
		took:      make([]time.Duration, groups),
		most:      most,
	}
	for i := range c.took {
		c.took[i] = time.Millisecond
		c.free = append(c.free, new(Batch))
	}
	for range seqs {
		require.NoError(tb, c.Add(c.another()))
	}
	for c.routes[0].writing < seqs || len(c.inFlight) < groups {
		c.round()
	}
	return c
}

func (c *cycle) another() *Sequence {
	s := prompt(1, c.most)
	s.Tokens = append(make([]int32, 0, c.most), s.Tokens...)
	return s
}

// round fills a batch and, if all are in flight, has the oldest come back.
func (c *cycle) round() (rows int) {
	c.now = c.now.Add(time.Millisecond)
	if route, ok, _ := c.Next(c.now, 0); ok {
		last := len(c.free) - 1
		c.header.Reset()
		if rows = c.Fill(route, c.header, c.free[last]); rows > 0 {
			c.inFlight, c.free = append(c.inFlight, c.free[last]), c.free[:last]
			return rows
		}
	}
	b := c.inFlight[0]
	c.inFlight = slices.Delete(c.inFlight, 0, 1)
	c.free = append(c.free, b)
	c.Returned(c.now, b, c.took)
	for i := range b.Parts {
		switch p := &b.Parts[i]; {
		case p.Outputs == 0:
		case len(p.Seq.Tokens) == c.most:
			c.Remove(p.Seq)
			if err := c.Add(c.another()); err != nil {
				panic(err)
			}
		default:
			c.Append(p.Seq, 1)
		}
	}
	return 0
}

// BenchmarkBatch is the scheduler's own part of a batch of rows that decode:
// choosing the route, filling, taking the batch back, and appending the tokens.
func BenchmarkBatch(b *testing.B) {
	for _, size := range []struct{ seqs, rows int }{{1, 1}, {8, 8}, {64, 64}, {512, 512}, {512, 64}, {1024, 64}} {
		for _, most := range []int{128, 4096} {
			b.Run(fmt.Sprintf("rows=%d/batches=%d/tokens=%d", size.rows, size.seqs/size.rows, most), func(b *testing.B) {
				c := decoding(b, size.seqs, size.rows, most)
				b.ReportAllocs()
				for b.Loop() {
					for c.round() == 0 {
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size.rows), "ns/row")
			})
		}
	}
}

// BenchmarkWaiting adds a sequence to many that wait and removes one of them.
func BenchmarkWaiting(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g, _ := one(10, 1, 64, 1)
			all := make([]*Sequence, n)
			tokens := []int32{1}
			more := func(i int) {
				all[i] = &Sequence{Tokens: tokens, Most: 2, Priority: i % 3}
				_ = g.Add(all[i])
			}
			for i := range all {
				more(i)
			}
			g.admitNow()
			at := 0
			for b.Loop() {
				at = (at + 7919) % n
				g.Remove(all[at])
				more(at)
				g.Next(g.now, 0)
			}
		})
	}
}

// Batches of rows that decode allocate nothing.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	c := decoding(t, 64, 16, 2048)
	rounds := 0
	allocations := testing.AllocsPerRun(1000, func() {
		if c.round() > 0 {
			rounds++
		}
	})
	assert.Zero(t, allocations)
	assert.Greater(t, rounds, 400)
}

// To add and remove many that wait is linear in all. The time that this takes in
// other ways, by removal from a slice, is minutes.
func TestManyWait(t *testing.T) {
	g, _ := one(100, 4, 64, 1)
	all := make([]*Sequence, 300_000)
	for i := range all {
		all[i] = prompt(1, 10)
		require.NoError(t, g.Add(all[i]))
	}
	g.admitNow()
	require.Len(t, g.fill(0).Parts, 4)
	began := time.Now()
	for _, s := range all {
		g.Remove(s)
	}
	assert.Less(t, time.Since(began), 20*time.Second)
	assert.Equal(t, 4, g.Counts().Running, "one batch is in flight")
	assert.Zero(t, g.Counts().Waiting)
}
