package generate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/stage"
)

func newScheduler(pages, maxSeqs, maxRows, inFlight int) *scheduler {
	devices := []string{"a", "b", "c", "d"}[:inFlight]
	return &scheduler{
		pages:   newPages(pages),
		pace:    newPace(devices, inFlight, false, maxRows),
		maxSeqs: maxSeqs,
		maxRows: maxRows,
		maxOut:  min(maxRows, maxSeqs),
	}
}

// prompt is a sequence of n tokens that no other shares, that may grow to most.
func prompt(n, most int) *sequence {
	unlike++
	return &sequence{tokens: append([]int32{unlike}, make([]int32, n-1)...), prompt: n, most: most}
}

var unlike int32

// rows fills a batch and returns whose rows it has, with how many.
func rows(c *scheduler, b *stage.Batch) (got map[*sequence]int, f *flight) {
	f = new(flight)
	b.Reset()
	before := map[*sequence]int{}
	for _, s := range slices.Concat(c.prefill, c.decode) {
		before[s] = s.sent
	}
	c.fill(b, f)
	got = map[*sequence]int{}
	for _, p := range f.parts {
		got[p.seq] = p.to - before[p.seq]
	}
	return got, f
}

// land does what the engine does with a batch that comes back: each sequence
// that wanted a token gets one.
func land(c *scheduler, f *flight) {
	for _, p := range f.parts {
		s := p.seq
		c.done(s, p.to)
		if p.outputs > 0 && !s.ended {
			switch {
			case s.scored:
				if s.scores += p.outputs; s.scores == s.prompt {
					c.leave(s)
				}
			case len(s.tokens)+1 >= s.most:
				c.leave(s)
			default:
				s.tokens = append(s.tokens, int32(len(s.tokens)))
				c.again(s)
			}
		}
		c.landed(s)
	}
	c.admit()
}

func batch(rows int) *stage.Batch {
	return stage.NewBatch(0, stage.Config{MaxRows: rows, MaxOutputs: rows, MaxTables: 1 << 10})
}

func TestLongPromptsAreCutSoThatEveryStageHasSome(t *testing.T) {
	c := newScheduler(100, 8, 512, 3)
	s := prompt(800, 810)
	c.arrive(s)
	got, _ := rows(c, batch(512))
	assert.Equal(t, map[*sequence]int{s: 100}, got)
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
		newcomer := prompt(30, 31)
		b := batch(maxRows)
		for i := range 200 {
			_, f := rows(c, b)
			land(c, f)
			if i == 50 {
				c.arrive(newcomer)
			}
		}
		require.NotEmpty(t, c.decode)
		assert.True(t, newcomer.ended, "batches of %d", maxRows)
	}
}

func TestPromptsDontStallThoseThatDecode(t *testing.T) {
	c := newScheduler(100, 8, 512, 1)
	first, second := prompt(4, 50), prompt(900, 901)
	c.arrive(first)
	got, f := rows(c, batch(512))
	assert.Equal(t, map[*sequence]int{first: 4}, got)
	land(c, f)
	c.arrive(second)
	got, _ = rows(c, batch(512))
	assert.Equal(t, map[*sequence]int{first: 1, second: prefillBeside}, got)
}

// Whoever came first has half of the room, and short prompts get through beside.
func TestALongPromptDoesntStarveShortOnes(t *testing.T) {
	c := newScheduler(1000, 8, 256, 1)
	long := prompt(20000, 20001)
	c.arrive(long)
	rows(c, batch(256))
	short := []*sequence{prompt(20, 30), prompt(30, 40), prompt(25, 30)}
	for _, s := range short {
		c.arrive(s)
	}
	got, _ := rows(c, batch(256))
	for _, s := range short {
		assert.Equal(t, s.prompt, got[s])
	}
	assert.GreaterOrEqual(t, got[long], 128)
}

func TestDecodingRowsAreSharedOutOverBatches(t *testing.T) {
	c := newScheduler(100, 64, 512, 3)
	for range 9 {
		c.arrive(prompt(1, 30))
	}
	for len(c.prefill) > 0 {
		_, f := rows(c, batch(512))
		land(c, f)
	}
	require.Len(t, c.decode, 9)
	for range 3 {
		got, _ := rows(c, batch(512))
		assert.Len(t, got, 3)
	}
	got, _ := rows(c, batch(512))
	assert.Empty(t, got)
}

func TestAdmissionIsInOrder(t *testing.T) {
	c := newScheduler(4, 8, 64, 1)
	big, bigger, small, urgent := prompt(60, 64), prompt(90, 100), prompt(10, 20), prompt(80, 90)
	urgent.priority = 1
	c.arrive(big)
	_, f := rows(c, batch(64))
	c.arrive(bigger)
	c.arrive(small)
	assert.Equal(t, []*sequence{bigger, small}, c.waiting, "who came first goes first, even where another would fit")
	c.arrive(urgent)
	assert.Equal(t, []*sequence{urgent, bigger, small}, c.waiting)
	c.leave(big)
	assert.NotContains(t, c.running, urgent, "pages are in use until the batch is back")
	c.landed(f.parts[0].seq)
	assert.Equal(t, []*sequence{urgent}, c.running)
	for _, s := range []*sequence{urgent, bigger, small} {
		c.leave(s)
	}
	assert.Equal(t, 4, c.pages.available())
	assert.Empty(t, c.running)
}

// When pages run out, whoever came last yields, and goes on when there is room.
func TestTheYoungestYields(t *testing.T) {
	c := newScheduler(4, 8, 64, 1)
	old, young := prompt(40, 128), prompt(40, 128)
	c.arrive(old)
	c.arrive(young)
	b := batch(64)
	for !old.ended {
		_, f := rows(c, b)
		require.NotEmpty(t, f.parts)
		require.False(t, len(old.table) == 0, "the older one never yields")
		land(c, f)
	}
	assert.Positive(t, c.yields)
	assert.Greater(t, len(young.tokens), 40, "what was drawn stays")
	for !young.ended {
		_, f := rows(c, b)
		require.NotEmpty(t, f.parts)
		land(c, f)
	}
	assert.Len(t, young.tokens, 127)
	assert.Equal(t, 4, c.pages.available())
}

func TestCommonBeginningsAreComputedOnce(t *testing.T) {
	c := newScheduler(100, 8, 512, 1)
	begin := text(7, 8, 9)
	first := &sequence{tokens: append(slices.Clone(begin), 1, 2, 3), prompt: 99, most: 100}
	c.arrive(first)
	_, f := rows(c, batch(512))
	land(c, f)
	second := &sequence{tokens: append(slices.Clone(begin), 4, 5), prompt: 98, most: 100}
	same := &sequence{tokens: slices.Clone(begin), prompt: 96, most: 100}
	scored := &sequence{tokens: slices.Clone(begin), prompt: 96, most: 96, scored: true}
	for _, s := range []*sequence{second, same, scored} {
		c.arrive(s)
	}
	got, _ := rows(c, batch(512))
	assert.Equal(t, 2, got[second])
	assert.Equal(t, kernels.PageTokens, got[same], "of the last page something must be computed")
	assert.Positive(t, got[scored])
	assert.Equal(t, second.table[:3], append(slices.Clone(same.table[:2]), second.table[2]))
	assert.NotEqual(t, second.table[0], scored.table[0], "who wants all logits computes all")
	assert.Equal(t, 96+64, c.reused)
}

// Pages that a failed chunk has written, or one after it, are shared with nobody.
func TestFailedPagesAreNotShared(t *testing.T) {
	c := newScheduler(100, 8, 64, 2)
	s := prompt(128, 140)
	c.arrive(s)
	_, first := rows(c, batch(64))
	_, second := rows(c, batch(64))
	c.leave(s) // as the engine does when the first chunk fails
	c.landed(first.parts[0].seq)
	land(c, second)
	assert.Empty(t, c.pages.root.children)
	assert.Len(t, c.pages.free, 100)
}

// Random arrivals, results, ends and batches: every row goes out in order,
// bounds hold, nobody waits for ever, and at the end all pages and places are
// back.
func TestSchedulerInvariants(t *testing.T) {
	for seed := range uint64(300) {
		playScheduler(t, rand.New(rand.NewPCG(seed, 1)))
	}
}

func FuzzScheduler(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { playScheduler(t, rand.New(rand.NewPCG(a, b))) })
}

func playScheduler(t *testing.T, rng *rand.Rand) {
	maxRows, maxSeqs, pages := 1+rng.IntN(40), 1+rng.IntN(10), 4+rng.IntN(12)
	c := newScheduler(pages, maxSeqs, maxRows, 1+rng.IntN(4))
	b := batch(maxRows)
	var flights []*flight
	var all []*sequence
	step := func() {
		got, f := rows(c, b)
		n := 0
		for s, rows := range got {
			require.False(t, s.ended)
			require.Positive(t, rows)
			require.GreaterOrEqual(t, s.room(), s.sent)
			n += rows
		}
		require.LessOrEqual(t, n, maxRows)
		require.LessOrEqual(t, len(b.Header.Outputs), c.maxOut)
		require.Equal(t, n, len(b.Header.Tokens))
		if n > 0 {
			flights = append(flights, f)
		} else if len(flights) == 0 {
			ready, _ := c.ready()
			require.Zero(t, ready, "nothing flies and nothing goes")
			require.Empty(t, c.running)
			require.Empty(t, c.waiting)
		}
	}
	back := func() {
		if len(flights) > 0 {
			f := flights[0]
			flights = flights[1:]
			if rng.IntN(20) == 0 { // it failed
				for _, p := range f.parts {
					if !p.seq.ended {
						c.leave(p.seq)
					}
					c.landed(p.seq)
				}
				c.admit()
				return
			}
			land(c, f)
		}
		for _, s := range all {
			s.taken.Store(int64(s.scores))
		}
	}
	for range 300 {
		switch rng.IntN(4) {
		case 0:
			s := prompt(1+rng.IntN(90), 0)
			if rng.IntN(2) == 0 {
				s.tokens[0] = 0 // many begin alike
			}
			s.most = min(len(s.tokens)+1+rng.IntN(60), pages*kernels.PageTokens)
			s.priority = rng.IntN(2)
			s.scored = rng.IntN(4) == 0
			if len(s.tokens) < s.most {
				all = append(all, s)
				c.arrive(s)
			}
		case 1:
			if len(all) > 0 && rng.IntN(4) == 0 {
				if s := all[rng.IntN(len(all))]; !s.ended {
					c.leave(s)
				}
			}
		case 2:
			back()
		default:
			step()
		}
		require.LessOrEqual(t, len(c.running), maxSeqs)
		writing := 0
		for _, s := range c.running {
			if !s.prefilling() && !s.yielding && !s.ended {
				writing++
			}
		}
		require.Equal(t, writing, c.writing)
	}
	for range 1 << 16 { // all come to their ends
		if !slices.ContainsFunc(all, func(s *sequence) bool { return !s.ended }) {
			break
		}
		step()
		back()
	}
	for len(flights) > 0 {
		back()
	}
	for i, s := range all {
		require.True(t, s.ended, "sequence %d of %d", i, len(all))
	}
	require.Empty(t, c.running)
	require.Zero(t, c.writing)
	require.Equal(t, pages, c.pages.available(), "each page is back")
	for {
		page, ok := c.pages.take()
		if !ok {
			break
		}
		_ = page
		pages--
	}
	require.Zero(t, pages)
}
