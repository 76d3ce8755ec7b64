package generate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/stage"
)

func newScheduler(pages, maxSeqs, maxRows, inFlight int) *scheduler {
	return &scheduler{pages: newPages(pages), maxSeqs: maxSeqs, maxRows: maxRows, maxOut: min(maxRows, maxSeqs), inFlight: inFlight}
}

func prompt(n, most int) *sequence {
	return &sequence{tokens: make([]int32, n), prompt: n, most: most}
}

// rows fills a batch and returns whose rows it has, with how many.
func rows(c *scheduler, b *stage.Batch) map[*sequence]int {
	f := new(flight)
	b.Reset()
	b.Tag = f
	before := map[*sequence]int{}
	for _, s := range slices.Concat(c.prefill, c.decode) {
		before[s] = s.sent
	}
	c.fill(b, f)
	got := map[*sequence]int{}
	for _, p := range f.parts {
		got[p.seq] = p.seq.sent - before[p.seq]
	}
	return got
}

func batch(rows int) *stage.Batch {
	return stage.NewBatch(0, stage.Config{MaxRows: rows, MaxOutputs: rows, MaxTables: 1 << 10})
}

func TestLongPromptsAreCutSoThatEveryStageHasSome(t *testing.T) {
	c := newScheduler(100, 8, 512, 3)
	s := prompt(800, 810)
	c.arrive(s)
	assert.Equal(t, map[*sequence]int{s: 100}, rows(c, batch(512)))
	assert.True(t, s.prefilling(), "the next chunk may follow at once")

	c = newScheduler(100, 8, 512, 1)
	c.arrive(prompt(400, 410))
	c.arrive(prompt(300, 310))
	b := batch(512)
	rows(c, b)
	assert.Len(t, b.Header.Tokens, 512, "a lone stage takes all that a batch holds")
}

// A small batch and many that decode don't keep a new prompt waiting for ever.
func TestPromptsAreNotStarved(t *testing.T) {
	for _, maxRows := range []int{1, 2, 8} {
		c := newScheduler(1000, 64, maxRows, 1)
		for range 20 {
			c.arrive(prompt(1, 1000))
		}
		newcomer := prompt(30, 40)
		b := batch(maxRows)
		for i := range 200 {
			for s := range rows(c, b) {
				c.landed(s)
				if s.sent == len(s.tokens) && len(s.tokens) < s.most {
					s.tokens = append(s.tokens, 0)
					c.again(s)
				}
			}
			if i == 50 {
				c.arrive(newcomer)
			}
		}
		require.NotEmpty(t, c.decode)
		assert.False(t, newcomer.prefilling(), "batches of %d", maxRows)
	}
}

func TestPromptsDontStallThoseThatDecode(t *testing.T) {
	c := newScheduler(100, 8, 512, 1)
	first, second := prompt(4, 50), prompt(900, 901)
	c.arrive(first)
	assert.Equal(t, map[*sequence]int{first: 4}, rows(c, batch(512)))
	c.landed(first)
	first.tokens = append(first.tokens, 0)
	c.again(first)
	c.arrive(second)
	assert.Equal(t, map[*sequence]int{first: 1, second: prefillBeside}, rows(c, batch(512)))
}

func TestDecodingRowsAreSharedOutOverBatches(t *testing.T) {
	c := newScheduler(100, 64, 512, 3)
	for range 9 {
		c.arrive(prompt(1, 30))
	}
	for range 2 {
		for s := range rows(c, batch(512)) {
			c.landed(s)
			s.tokens = append(s.tokens, 0)
			c.again(s)
		}
	}
	require.Len(t, c.decode, 9)
	for range 3 {
		assert.Len(t, rows(c, batch(512)), 3)
	}
	assert.Empty(t, rows(c, batch(512)))
}

func TestAdmissionIsInOrderAndByPages(t *testing.T) {
	c := newScheduler(4, 8, 64, 1)
	big, bigger, small := prompt(10, 64), prompt(10, 100), prompt(10, 20)
	c.arrive(big)
	c.arrive(bigger)
	c.arrive(small)
	assert.Equal(t, []*sequence{big}, c.prefill)
	assert.Equal(t, []*sequence{bigger, small}, c.waiting, "who came first goes first, even where another would fit")
	c.leave(big)
	assert.Equal(t, []*sequence{bigger}, c.prefill)
	c.leave(bigger)
	c.leave(small)
	assert.Len(t, c.pages.free, 4)
	assert.Zero(t, c.running)
}

// Random arrivals, results, ends and batches: every row goes out once and in
// order, bounds hold, and at the end all pages and places are back.
func TestSchedulerInvariants(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		maxRows, maxSeqs, pages := 1+rng.IntN(40), 1+rng.IntN(10), 4+rng.IntN(20)
		c := newScheduler(pages, maxSeqs, maxRows, 1+rng.IntN(4))
		b := batch(maxRows)
		var flights []map[*sequence]int
		var all []*sequence
		next := map[*sequence]int{}
		for range 400 {
			switch rng.IntN(4) {
			case 0:
				s := prompt(1+rng.IntN(60), 0)
				s.most = len(s.tokens) + rng.IntN(60)
				s.scored = rng.IntN(4) == 0
				if pagesFor(s.most) <= pages {
					all = append(all, s)
					c.arrive(s)
				}
			case 1:
				if len(all) > 0 {
					if s := all[rng.IntN(len(all))]; !s.ended && rng.IntN(4) == 0 {
						c.leave(s)
					}
				}
			case 2:
				if len(flights) == 0 {
					continue
				}
				for s := range flights[0] {
					if !s.ended && s.sent == len(s.tokens) && !s.prefilling() {
						if s.scored || len(s.tokens) >= s.most {
							c.leave(s)
						} else {
							s.tokens = append(s.tokens, 0)
							c.again(s)
						}
					}
					c.landed(s)
				}
				flights = flights[1:]
			default:
				got := rows(c, b)
				n := 0
				for s, rows := range got {
					assert.False(t, s.ended)
					assert.Equal(t, next[s]+rows, s.sent)
					next[s] = s.sent
					n += rows
				}
				require.LessOrEqual(t, n, maxRows)
				require.LessOrEqual(t, len(b.Header.Outputs), c.maxOut)
				require.Equal(t, n, len(b.Header.Tokens))
				if n > 0 {
					flights = append(flights, got)
				} else {
					ready, _ := c.ready()
					require.Zero(t, ready, "a batch is empty only if nothing is ready")
				}
			}
			require.LessOrEqual(t, c.running, maxSeqs)
		}
		for _, s := range all {
			if !s.ended {
				c.leave(s)
			}
		}
		for _, f := range flights {
			for s := range f {
				c.landed(s)
			}
		}
		require.Zero(t, c.running)
		require.Zero(t, c.writing)
		slices.Sort(c.pages.free)
		for i, p := range c.pages.free {
			require.EqualValues(t, i, p, "each page is back once")
		}
		require.Len(t, c.pages.free, pages)
	}
}
