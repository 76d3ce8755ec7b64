package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

func TestLongPromptsAreCutSoThatEveryStageHasSome(t *testing.T) {
	g, _ := one(100, 8, 512, 3)
	s := prompt(800, 810)
	g.add(s)
	b := g.fill(0)
	assert.Equal(t, []Part{{Seq: s, From: 0, To: firstChunk}}, b.Parts)
	route, ok, _ := g.Next(g.now, 0)
	assert.True(t, ok, "the next chunk may follow at once")
	assert.Equal(t, []Part{{Seq: s, From: firstChunk, To: firstChunk + firstChunk/2}}, g.fill(route).Parts)

	g, r := one(100, 8, 512, 1)
	dear(r)
	g.add(prompt(400, 410), prompt(300, 310))
	g.fill(0)
	assert.Len(t, g.header.Tokens, 512, "a lone stage takes all that a batch holds")
}

// A small batch and many that decode don't keep a new prompt waiting for ever.
func TestPromptsAreNotStarved(t *testing.T) {
	for _, maxRows := range []int{1, 2, 8} {
		g, r := one(1000, 64, maxRows, 1)
		for range 20 {
			g.add(prompt(1, 1000))
		}
		newcomer := prompt(30, 31)
		for i := range 200 {
			g.land(g.fill(0))
			if i == 50 {
				g.add(newcomer)
			}
		}
		require.Positive(t, r.decode.n)
		assert.Equal(t, ended, newcomer.state, "batches of %d", maxRows)
	}
}

func TestPromptsDontStallThoseThatDecode(t *testing.T) {
	g, _ := one(100, 8, 512, 1)
	first, second := prompt(4, 50), prompt(900, 901)
	g.add(first)
	b := g.fill(0)
	assert.Equal(t, map[*Sequence]int{first: 4}, rows(b))
	g.land(b)
	g.add(second)
	assert.Equal(t, map[*Sequence]int{first: 1, second: firstChunk - 1}, rows(g.fill(0)))
}

// Whoever came first has half of the room, and short prompts get through beside.
func TestALongPromptDoesntStarveShortOnes(t *testing.T) {
	g, r := one(1000, 8, 256, 1)
	dear(r)
	long := prompt(20000, 20001)
	g.add(long)
	g.fill(0)
	short := []*Sequence{prompt(20, 30), prompt(30, 40), prompt(25, 30)}
	g.add(short...)
	got := rows(g.fill(0))
	for _, s := range short {
		assert.Equal(t, len(s.Tokens), got[s])
	}
	assert.GreaterOrEqual(t, got[long], 128)
}

func TestDecodingRowsAreSharedOutOverBatches(t *testing.T) {
	g, r := one(100, 64, 512, 3)
	for range 9 {
		g.add(prompt(1, 30))
	}
	for r.chunks.len() > 0 {
		g.land(g.fill(0))
	}
	require.Equal(t, 9, r.decode.n)
	for range 3 {
		assert.Len(t, g.fill(0).Parts, 3)
	}
	assert.Empty(t, g.fill(0).Parts)
}

func TestAdmissionIsInOrder(t *testing.T) {
	g, r := one(4, 8, 64, 1)
	big, bigger, small, urgent := prompt(60, 64), prompt(90, 100), prompt(10, 20), prompt(80, 90)
	urgent.Priority = 1
	g.add(big)
	b := g.fill(0)
	g.add(bigger, small)
	assert.Equal(t, []*Sequence{bigger, small}, members(&g.waiting), "who came first goes first, even where another would fit")
	g.add(urgent)
	assert.Equal(t, []*Sequence{urgent, bigger, small}, members(&g.waiting))
	g.Remove(big)
	g.admitNow()
	assert.Equal(t, waiting, urgent.state, "pages are in use until the batch is back")
	g.land(b)
	assert.True(t, b.Parts[0].Dropped)
	assert.Equal(t, []*Sequence{urgent}, members(&r.running))
	for _, s := range []*Sequence{urgent, bigger, small} {
		g.Remove(s)
		g.Remove(s)
	}
	assert.Equal(t, Counts{Up: 1, FreePages: 4, Pages: 4}, g.Counts())
}

// Whoever waits is admitted as soon as it can be: when the one before it is gone,
// when it goes before that one, and when pages with its beginning have been computed by another.
func TestAdmissionIsTriedAgain(t *testing.T) {
	g, _ := one(4, 8, 64, 1)
	begin := blocks(1)
	first, big, small := text(70, append(slices.Clone(begin), 1)...), prompt(90, 100), text(90, append(slices.Clone(begin), make([]int32, 33)...)...)
	g.add(first, big, small)
	require.Equal(t, waiting, small.state)
	g.Remove(big)
	g.admitNow()
	assert.Equal(t, waiting, small.state, "it needs three pages, there are two")
	g.land(g.fill(0))
	assert.Equal(t, admitted, small.state, "the first of them is there now")

	g, _ = one(4, 8, 64, 1)
	first, big, small = prompt(60, 64), prompt(90, 100), prompt(40, 50)
	g.add(first, big, small)
	require.Equal(t, waiting, small.state)
	urgent := prompt(10, 20)
	urgent.Priority = 1
	g.add(urgent)
	assert.Equal(t, admitted, urgent.state, "it goes before those who find no room")
	g.Remove(urgent)
	g.admitNow()
	require.Equal(t, waiting, small.state)
	g.Remove(big)
	g.admitNow()
	assert.Equal(t, admitted, small.state)
}

// When pages run out, whoever came last is preempted, and goes on when there is
// room.
func TestTheYoungestIsPreempted(t *testing.T) {
	g, _ := one(4, 8, 64, 1)
	old, young := prompt(40, 128), prompt(40, 128)
	g.add(old, young)
	for old.state != ended {
		b := g.fill(0)
		require.NotEmpty(t, b.Parts)
		require.NotEmpty(t, old.table, "the older one never is")
		g.land(b)
	}
	assert.Positive(t, g.Counts().Preempted)
	assert.Greater(t, len(young.Tokens), 40, "what was appended stays")
	for young.state != ended {
		b := g.fill(0)
		require.NotEmpty(t, b.Parts)
		g.land(b)
	}
	assert.Len(t, young.Tokens, 127)
	assert.Equal(t, 4, g.Counts().FreePages)
}

func TestCommonBeginningsAreComputedOnce(t *testing.T) {
	g, r := one(100, 8, 512, 1)
	dear(r)
	begin := blocks(7, 8, 9)
	g.add(text(100, append(slices.Clone(begin), 1, 2, 3)...))
	g.land(g.fill(0))
	second, same := text(100, append(slices.Clone(begin), 4, 5)...), text(100, slices.Clone(begin)...)
	all := scored(64, slices.Clone(begin)...)
	g.add(second, same, all)
	got := rows(g.fill(0))
	assert.Equal(t, 2, got[second])
	assert.Equal(t, kernels.PageTokens, got[same], "of the last page something must be computed")
	assert.Positive(t, got[all])
	assert.Equal(t, second.table[:3], append(slices.Clone(same.table[:2]), second.table[2]))
	assert.NotEqual(t, second.table[0], all.table[0], "who wants all output rows computes all")
	assert.Equal(t, 96+64, g.Counts().Reused)
}

// Pages that a failed chunk has written, or one after it, are shared with nobody.
func TestFailedPagesAreNotShared(t *testing.T) {
	g, r := one(100, 8, 64, 2)
	s := prompt(128, 140)
	g.add(s)
	first, second := g.fill(0), g.fill(0)
	assert.Equal(t, []*Sequence{s}, g.Failed(first))
	g.land(second)
	assert.True(t, second.Parts[0].Dropped)
	assert.Len(t, r.pages.free, 100)
}

// A sequence goes where its beginning is, else where there is most room.
func TestTheRouteWithTheBeginningIsChosen(t *testing.T) {
	g := setup(2, 20, 8, 512, 1)
	begin := blocks(7, 8)
	send := func(tokens ...int32) *route {
		s := text(len(tokens)+30, tokens...)
		g.add(s)
		return s.route
	}
	a, b := g.routes[0], g.routes[1]
	assert.Same(t, a, send(append(slices.Clone(begin), 1)...))
	g.land(g.fill(0))
	assert.Same(t, b, send(blocks(1, 2, 3)...), "more room")
	g.land(g.fill(1))
	for range 2 {
		require.NotNil(t, send(blocks(4, 5)...))
	}
	assert.Same(t, a, send(append(slices.Clone(begin), 2)...), "its beginning is there")
}

func TestRoutesTakeTurns(t *testing.T) {
	g := setup(2, 20, 8, 512, 1)
	for range 4 {
		g.add(prompt(10, 20))
	}
	seen := map[int]int{}
	for range 6 {
		route, ok, _ := g.Next(g.now, 0)
		require.True(t, ok)
		seen[route]++
		b := g.fill(route)
		require.Len(t, b.Parts, 2)
		g.land(b)
	}
	assert.Equal(t, map[int]int{0: 3, 1: 3}, seen)
	g.fill(0)
	g.fill(1)
	g.add(prompt(10, 20), prompt(10, 20))
	_, ok, wait := g.Next(g.now, 0)
	assert.False(t, ok, "as many batches are in flight as should be")
	assert.Zero(t, wait)
}

// A batch of less than its share waits for more rows, once and not for longer than
// it may.
func TestABatchIsHeldBack(t *testing.T) {
	g, _ := one(20, 4, 512, 1)
	g.add(prompt(1, 20))
	_, ok, wait := g.Next(g.now, time.Second)
	assert.False(t, ok)
	assert.Equal(t, time.Second, wait)
	g.now = g.now.Add(400 * time.Millisecond)
	_, ok, wait = g.Next(g.now, time.Second)
	assert.False(t, ok)
	assert.Equal(t, 600*time.Millisecond, wait)
	_, ok, _ = g.Next(g.now, 0)
	assert.True(t, ok)
	g.now = g.now.Add(600 * time.Millisecond)
	_, ok, _ = g.Next(g.now, time.Second)
	require.True(t, ok)

	g.land(g.fill(0))
	_, ok, wait = g.Next(g.now, time.Second)
	assert.False(t, ok)
	assert.Equal(t, time.Second, wait, "the next one waits anew")
	g.add(prompt(3, 20))
	_, ok, _ = g.Next(g.now, time.Second)
	assert.True(t, ok, "there are enough rows")
}

// A batch asks for what the most demanding of its output rows need.
func TestABatchWantsTheMost(t *testing.T) {
	g, _ := one(100, 8, 512, 2)
	few, many, chunk := prompt(5, 20), prompt(5, 20), prompt(200, 210)
	many.Want, chunk.Want = Largest(40), All
	g.add(few)
	assert.Equal(t, Best, g.fill(0).Want)
	g.add(many, chunk)
	b := g.fill(0)
	assert.Contains(t, rows(b), chunk)
	assert.Equal(t, Largest(40), b.Want, "a chunk without output rows asks for nothing")
	g.add(scored(64, 1, 2, 3))
	assert.Equal(t, All, g.fill(0).Want)
}

func TestWhatCannotRunIsRefused(t *testing.T) {
	g, _ := one(2, 8, 512, 1)
	assert.ErrorContains(t, g.Add(text(5)), "0 tokens")
	assert.ErrorContains(t, g.Add(text(1, 1, 2)), "2 tokens that may have 1")
	assert.ErrorContains(t, g.Add(text(65, 1)), "65 tokens: the pages of a route hold 64")
	s := text(64, 1)
	require.NoError(t, g.Add(s))
	assert.ErrorContains(t, g.Add(s), "twice")
	g.Remove(s)
	assert.ErrorContains(t, g.Add(s), "twice")
}
