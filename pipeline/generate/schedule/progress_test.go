package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Of two scored sequences in one place, each makes room for the other while its
// caller takes nothing. Nothing is computed again before that leads further, and
// all is computed when the callers go on, be it row by row in turns.
func TestSlowCallersDoNotMakeEachOtherStartOver(t *testing.T) {
	const length, window = 200, 64
	g, _ := one(100, 1, 32, 1)
	both := []*Sequence{scored(window, make([]int32, length)...), scored(window, make([]int32, length)...)}
	g.add(both...)
	back, total := map[*Sequence]int{}, 0
	run := func() { // until nothing goes without the callers
		for {
			route, ok, wait := g.Next(g.now, 0)
			if !ok && wait == 0 {
				return
			}
			g.now = g.now.Add(wait)
			if !ok {
				continue
			}
			b := g.fill(route)
			g.Returned(g.now, b, nil)
			for _, p := range b.Parts {
				total += p.To - p.From
				if p.Outputs == 0 {
					continue
				}
				require.Equal(t, back[p.Seq], p.To-p.Outputs, "each row comes once, in order")
				if back[p.Seq] = p.To; p.To == length {
					g.Remove(p.Seq)
				}
			}
			require.LessOrEqual(t, total, 10000, "it goes on for ever")
		}
	}
	run()
	assert.Equal(t, 2*window, total, "as many rows as may wait for their callers")
	assert.Equal(t, Counts{Up: 1, Running: 1, Waiting: 1, FreePages: 98, Pages: 100, Preempted: 1}, g.Counts())
	for taken := range length {
		for _, s := range both {
			require.Less(t, taken, back[s], "the next row is there whenever its caller asks")
			g.Taken(s, 1)
			run()
		}
	}
	assert.Equal(t, Counts{Up: 1, FreePages: 100, Pages: 100, Preempted: g.preempted}, g.Counts())
	assert.Less(t, total, 2*length*length/(window/2), "each start leads half a window further")
}

// A sequence whose token takes long keeps its place for a while, and then leaves it
// to one that waits. It comes back with its token, and goes on.
func TestASlowTokenDoesNotHoldOthersUp(t *testing.T) {
	g, _ := one(100, 1, 32, 1)
	slow, other := prompt(40, 50), prompt(3, 4)
	g.add(slow, other)
	for len(slow.Tokens) == 40 {
		b := g.fill(0)
		g.Returned(g.now, b, nil)
		if b.Parts[0].Outputs > 0 {
			break
		}
	}
	_, ok, wait := g.Next(g.now, 0)
	assert.False(t, ok)
	assert.Equal(t, grace, wait)
	g.now = g.now.Add(grace - time.Millisecond)
	_, ok, wait = g.Next(g.now, 0)
	assert.False(t, ok)
	assert.Equal(t, time.Millisecond, wait)
	assert.Equal(t, admitted, slow.state)

	require.True(t, g.Append(slow, 7))
	_, ok, _ = g.Next(g.now, 0)
	assert.True(t, ok, "it goes on")
	g.pass(0)
	g.now = g.now.Add(grace)
	_, ok, _ = g.Next(g.now, 0)
	assert.True(t, ok)
	assert.Equal(t, parked, slow.state)
	b := g.fill(0)
	assert.Contains(t, rows(b), other)
	g.land(b)
	require.Equal(t, ended, other.state)
	_, ok, wait = g.Next(g.now, 0)
	assert.False(t, ok, "it isn't computed again before its token is known")
	assert.Zero(t, wait)
	assert.Equal(t, 1, g.Counts().Waiting)

	require.True(t, g.Append(slow, 8))
	_, ok, _ = g.Next(g.now, 0)
	require.True(t, ok)
	assert.Equal(t, admitted, slow.state)
	for slow.state != ended {
		g.land(g.fill(0))
	}
	assert.Equal(t, []int32{7, 8, 42, 43}, slow.Tokens[40:44])
}

// Nobody makes room where nobody waits.
func TestAStalledSequenceAloneStays(t *testing.T) {
	g, _ := one(100, 1, 32, 1)
	s := prompt(3, 9)
	g.add(s)
	g.pass(0)
	g.now = g.now.Add(time.Hour)
	_, ok, wait := g.Next(g.now, 0)
	assert.False(t, ok)
	assert.Zero(t, wait)
	assert.Equal(t, admitted, s.state)
}

// A running sequence that needs a page gets that of one whose caller has been slow
// for long, even if that came before.
func TestAStalledSequenceGivesItsPages(t *testing.T) {
	g, _ := one(3, 8, 64, 1)
	slow, other := prompt(40, 96), prompt(24, 96)
	g.add(slow, other)
	g.pass(0)
	g.now = g.now.Add(grace)
	for token := range int32(9) {
		require.True(t, g.Append(other, token))
		_, ok, _ := g.Next(g.now, 0)
		require.True(t, ok)
		require.Equal(t, admitted, slow.state, "a page isn't full yet")
		require.Equal(t, map[*Sequence]int{other: 1}, rows(g.pass(0)))
	}
	assert.Equal(t, parked, slow.state)
	g.Remove(other)
	require.True(t, g.Append(slow, 1))
	_, ok, _ := g.Next(g.now, 0)
	assert.True(t, ok)
	assert.Equal(t, map[*Sequence]int{slow: 9}, rows(g.fill(0)), "its full page is in the prefix cache")
}

// A token that comes for a sequence that was removed is of no use.
func TestATokenThatIsNotDue(t *testing.T) {
	g, _ := one(100, 2, 32, 1)
	s := prompt(3, 5)
	g.add(s)
	assert.False(t, g.Append(s, 1), "no row of it has been computed")
	g.pass(0)
	require.True(t, g.Append(s, 1))
	assert.False(t, g.Append(s, 1))
	g.pass(0)
	require.True(t, g.Append(s, 1))
	g.pass(0)
	assert.False(t, g.Append(s, 1), "it has as many as it may have")
	g.Remove(s)
	assert.False(t, g.Append(s, 1))
	assert.Equal(t, Counts{Up: 1, FreePages: 100, Pages: 100}, g.Counts())
}
