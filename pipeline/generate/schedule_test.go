package generate

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/stage"
)

// rig is a scheduler of one lane.
func rig(pages, maxSeqs, maxRows, inFlight int) (*scheduler, *lane) {
	c := newScheduler([]*lane{testLane(pages, maxSeqs, maxRows, inFlight)}, maxSeqs)
	return c, c.lanes[0]
}

func testLane(pages, maxSeqs, maxRows, inFlight int) *lane {
	devices := []string{"a", "b", "c", "d"}[:inFlight]
	return &lane{
		pages:   newPages(pages),
		pace:    newPace(devices, nil, inFlight, false, maxRows),
		maxRows: maxRows,
		maxOut:  min(maxRows, maxSeqs),
	}
}

// dear has the lane know that batches are what costs, so that it fills them.
func dear(l *lane) {
	for n := range 10 {
		for i := range l.pace.stages {
			l.pace.observe(i, 1+n, time.Second+time.Duration(n)*time.Microsecond)
		}
	}
}

// prompt is a sequence of n tokens that no other shares, that may grow to most.
func prompt(n, most int) *sequence {
	unlike++
	return &sequence{tokens: append([]int32{unlike}, make([]int32, n-1)...), prompt: n, most: most}
}

var unlike int32

// rows fills a batch and returns whose rows it has, with how many.
func rows(l *lane, b *stage.Batch) (got map[*sequence]int, f *flight) {
	f = new(flight)
	b.Reset()
	before := map[*sequence]int{}
	for _, s := range slices.Concat(l.prefill, l.decode) {
		before[s] = s.sent
	}
	f.fill(l, b)
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
		f.lane.done(s, p.to)
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
				f.lane.again(s)
			}
		}
		f.lane.landed(s)
	}
	c.admit()
}

func batch(rows int) *stage.Batch {
	return stage.NewBatch(0, stage.Config{MaxRows: rows, MaxOutputs: rows, MaxTables: 1 << 10})
}

func TestLongPromptsAreCutSoThatEveryStageHasSome(t *testing.T) {
	c, l := rig(100, 8, 512, 3)
	s := prompt(800, 810)
	c.arrive(s)
	got, _ := rows(l, batch(512))
	assert.Equal(t, map[*sequence]int{s: firstChunk}, got)
	assert.True(t, s.prefilling(), "the next chunk may follow at once")

	c, l = rig(100, 8, 512, 1)
	dear(l)
	c.arrive(prompt(400, 410))
	c.arrive(prompt(300, 310))
	b := batch(512)
	rows(l, b)
	assert.Len(t, b.Header.Tokens, 512, "a lone stage takes all that a batch holds")
}

// A small batch and many that decode don't keep a new prompt waiting for ever.
func TestPromptsAreNotStarved(t *testing.T) {
	for _, maxRows := range []int{1, 2, 8} {
		c, l := rig(1000, 64, maxRows, 1)
		for range 20 {
			c.arrive(prompt(1, 1000))
		}
		newcomer := prompt(30, 31)
		b := batch(maxRows)
		for i := range 200 {
			_, f := rows(l, b)
			land(c, f)
			if i == 50 {
				c.arrive(newcomer)
			}
		}
		require.NotEmpty(t, l.decode)
		assert.True(t, newcomer.ended, "batches of %d", maxRows)
	}
}

func TestPromptsDontStallThoseThatDecode(t *testing.T) {
	c, l := rig(100, 8, 512, 1)
	first, second := prompt(4, 50), prompt(900, 901)
	c.arrive(first)
	got, f := rows(l, batch(512))
	assert.Equal(t, map[*sequence]int{first: 4}, got)
	land(c, f)
	c.arrive(second)
	got, _ = rows(l, batch(512))
	assert.Equal(t, map[*sequence]int{first: 1, second: firstChunk - 1}, got)
}

// Whoever came first has half of the room, and short prompts get through beside.
func TestALongPromptDoesntStarveShortOnes(t *testing.T) {
	c, l := rig(1000, 8, 256, 1)
	dear(l)
	long := prompt(20000, 20001)
	c.arrive(long)
	rows(l, batch(256))
	short := []*sequence{prompt(20, 30), prompt(30, 40), prompt(25, 30)}
	for _, s := range short {
		c.arrive(s)
	}
	got, _ := rows(l, batch(256))
	for _, s := range short {
		assert.Equal(t, s.prompt, got[s])
	}
	assert.GreaterOrEqual(t, got[long], 128)
}

func TestDecodingRowsAreSharedOutOverBatches(t *testing.T) {
	c, l := rig(100, 64, 512, 3)
	for range 9 {
		c.arrive(prompt(1, 30))
	}
	for len(l.prefill) > 0 {
		_, f := rows(l, batch(512))
		land(c, f)
	}
	require.Len(t, l.decode, 9)
	for range 3 {
		got, _ := rows(l, batch(512))
		assert.Len(t, got, 3)
	}
	got, _ := rows(l, batch(512))
	assert.Empty(t, got)
}

func TestAdmissionIsInOrder(t *testing.T) {
	c, l := rig(4, 8, 64, 1)
	big, bigger, small, urgent := prompt(60, 64), prompt(90, 100), prompt(10, 20), prompt(80, 90)
	urgent.priority = 1
	c.arrive(big)
	_, f := rows(l, batch(64))
	c.arrive(bigger)
	c.arrive(small)
	assert.Equal(t, []*sequence{bigger, small}, c.waiting, "who came first goes first, even where another would fit")
	c.arrive(urgent)
	assert.Equal(t, []*sequence{urgent, bigger, small}, c.waiting)
	c.leave(big)
	assert.NotContains(t, l.running, urgent, "pages are in use until the batch is back")
	l.landed(f.parts[0].seq)
	c.admit()
	assert.Equal(t, []*sequence{urgent}, l.running)
	for _, s := range []*sequence{urgent, bigger, small} {
		c.leave(s)
	}
	assert.Equal(t, 4, l.pages.available())
	assert.Empty(t, l.running)
}

// When pages run out, whoever came last yields, and goes on when there is room.
func TestTheYoungestYields(t *testing.T) {
	c, l := rig(4, 8, 64, 1)
	old, young := prompt(40, 128), prompt(40, 128)
	c.arrive(old)
	c.arrive(young)
	b := batch(64)
	for !old.ended {
		_, f := rows(l, b)
		require.NotEmpty(t, f.parts)
		require.False(t, len(old.table) == 0, "the older one never yields")
		land(c, f)
	}
	assert.Positive(t, c.yields)
	assert.Greater(t, len(young.tokens), 40, "what was drawn stays")
	for !young.ended {
		_, f := rows(l, b)
		require.NotEmpty(t, f.parts)
		land(c, f)
	}
	assert.Len(t, young.tokens, 127)
	assert.Equal(t, 4, l.pages.available())
}

func TestCommonBeginningsAreComputedOnce(t *testing.T) {
	c, l := rig(100, 8, 512, 1)
	dear(l)
	begin := text(7, 8, 9)
	first := &sequence{tokens: append(slices.Clone(begin), 1, 2, 3), prompt: 99, most: 100}
	c.arrive(first)
	_, f := rows(l, batch(512))
	land(c, f)
	second := &sequence{tokens: append(slices.Clone(begin), 4, 5), prompt: 98, most: 100}
	same := &sequence{tokens: slices.Clone(begin), prompt: 96, most: 100}
	scored := &sequence{tokens: slices.Clone(begin), prompt: 96, most: 96, scored: true}
	for _, s := range []*sequence{second, same, scored} {
		c.arrive(s)
	}
	got, _ := rows(l, batch(512))
	assert.Equal(t, 2, got[second])
	assert.Equal(t, kernels.PageTokens, got[same], "of the last page something must be computed")
	assert.Positive(t, got[scored])
	assert.Equal(t, second.table[:3], append(slices.Clone(same.table[:2]), second.table[2]))
	assert.NotEqual(t, second.table[0], scored.table[0], "who wants all logits computes all")
	assert.Equal(t, 96+64, c.reused)
}

// Pages that a failed chunk has written, or one after it, are shared with nobody.
func TestFailedPagesAreNotShared(t *testing.T) {
	c, l := rig(100, 8, 64, 2)
	s := prompt(128, 140)
	c.arrive(s)
	_, first := rows(l, batch(64))
	_, second := rows(l, batch(64))
	c.leave(s) // as the engine does when the first chunk fails
	l.landed(first.parts[0].seq)
	land(c, second)
	assert.Empty(t, l.pages.root.children)
	assert.Len(t, l.pages.free, 100)
}

// A sequence goes where its beginning is, else where there is most room, and
// never to a lane that is down.
func TestLanes(t *testing.T) {
	a, b := testLane(20, 8, 512, 1), testLane(20, 8, 512, 1)
	c := newScheduler([]*lane{a, b}, 8)
	begin := text(7, 8)
	send := func(tokens []int32) *sequence {
		s := &sequence{tokens: tokens, prompt: len(tokens), most: len(tokens) + 30}
		c.arrive(s)
		return s
	}
	first := send(append(slices.Clone(begin), 1))
	assert.Same(t, a, first.lane)
	_, f := rows(a, batch(512))
	land(c, f)
	other := send(text(1, 2, 3))
	assert.Same(t, b, other.lane, "more room")
	_, f = rows(b, batch(512))
	land(c, f)
	for range 2 {
		require.NotNil(t, send(text(4, 5)).lane)
	}
	assert.Same(t, a, send(append(slices.Clone(begin), 2)).lane, "its beginning is there")

	a.down = errors.New("gone")
	assert.Same(t, b, send(append(slices.Clone(begin), 3)).lane)
	assert.NoError(t, c.failed())
	b.down = errors.New("gone too")
	assert.ErrorContains(t, c.failed(), "gone too")
	assert.Nil(t, send(text(9)).lane)
}

// Lanes take turns.
func TestLanesTakeTurns(t *testing.T) {
	a, b := testLane(20, 8, 512, 1), testLane(20, 8, 512, 1)
	c := newScheduler([]*lane{a, b}, 8)
	for range 4 {
		c.arrive(prompt(10, 20))
	}
	require.Len(t, a.running, 2)
	require.Len(t, b.running, 2)
	seen := map[*lane]int{}
	for range 6 {
		l, _ := c.next(false)
		require.NotNil(t, l)
		seen[l]++
		_, f := rows(l, batch(1))
		land(c, f)
	}
	assert.Equal(t, map[*lane]int{a: 3, b: 3}, seen)
	a.flights, b.flights = 1, 1
	l, waits := c.next(false)
	assert.Nil(t, l, "as many batches fly as may")
	assert.False(t, waits)
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
	c, l := rig(pages, maxSeqs, maxRows, 1+rng.IntN(4))
	b := batch(maxRows)
	var flights []*flight
	var all []*sequence
	step := func() {
		got, f := rows(l, b)
		n := 0
		for s, rows := range got {
			require.False(t, s.ended)
			require.Positive(t, rows)
			require.GreaterOrEqual(t, s.room(), s.sent)
			n += rows
		}
		require.LessOrEqual(t, n, maxRows)
		require.LessOrEqual(t, len(b.Header.Outputs), l.maxOut)
		require.Equal(t, n, len(b.Header.Tokens))
		if n > 0 {
			flights = append(flights, f)
		} else if at, _ := c.next(false); at == nil && len(flights) == 0 {
			ready, _ := l.ready()
			require.Zero(t, ready, "nothing flies and nothing goes")
			require.Empty(t, l.running)
			require.Zero(t, c.running)
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
					l.landed(p.seq)
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
		require.LessOrEqual(t, len(l.running), maxSeqs)
		writing := 0
		for _, s := range l.running {
			if !s.prefilling() && !s.yielding && !s.ended {
				writing++
			}
		}
		require.Equal(t, writing, l.writing)
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
	require.Empty(t, l.running)
	require.Zero(t, c.running)
	require.Zero(t, l.writing)
	require.Equal(t, pages, l.pages.available(), "each page is back")
	for {
		page, ok := l.pages.take()
		if !ok {
			break
		}
		_ = page
		pages--
	}
	require.Zero(t, pages)
}
