package schedule

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A sequence whose batch has failed is computed again on another route, and ends
// when it has failed on all.
func TestFailedSequencesMove(t *testing.T) {
	g := setup(2, 20, 8, 512, 2)
	s := prompt(100, 110)
	g.add(s)
	first, second := g.fill(0), g.fill(0)
	require.Len(t, second.Parts, 1)
	assert.Empty(t, g.Failed(first))
	assert.Equal(t, leaving, s.state, "its second chunk is in flight")
	g.land(second)
	assert.True(t, second.Parts[0].Dropped)
	require.Same(t, g.routes[1], s.route)
	assert.Len(t, g.routes[0].pages.free, 20, "what it has written there isn't kept")
	assert.Equal(t, 1, g.Counts().Moved)
	for len(s.Tokens) == 100 {
		g.land(g.fill(1))
	}
	assert.Equal(t, []*Sequence{s}, g.Failed(g.fill(1)), "there is no route left")
	assert.Equal(t, Counts{Up: 2, FreePages: 40, Pages: 40, Moved: 1, Reused: g.reused}, g.Counts())
}

// A route that is down gives its sequences to the others, those whose token is
// being chosen as well, and gets none until it is up.
func TestDownAndUp(t *testing.T) {
	g := setup(2, 20, 8, 512, 2)
	sampled, flying := prompt(10, 20), prompt(10, 20)
	g.add(sampled)
	g.pass(0)
	flying.Tokens = append(flying.Tokens, blocks(1, 2, 3)...)
	flying.Most = len(flying.Tokens) + 10
	other := prompt(400, 410)
	g.add(other, flying) // other on route 1
	require.Same(t, g.routes[0], flying.route)
	b := g.fill(0)
	require.NotEmpty(t, b.Parts)
	assert.Empty(t, g.Down(0))
	assert.Equal(t, 1, g.Counts().Up)
	assert.Equal(t, parked, sampled.state, "its token is still of use")
	assert.Equal(t, leaving, flying.state)
	require.True(t, g.Append(sampled, 5))
	g.land(b)
	assert.True(t, b.Parts[0].Dropped)
	assert.Same(t, g.routes[1], sampled.route)
	assert.Same(t, g.routes[1], flying.route)

	late := prompt(10, 20)
	g.add(late)
	assert.Same(t, g.routes[1], late.route)
	assert.ElementsMatch(t, []*Sequence{sampled, flying, other, late}, g.Down(1))
	assert.Equal(t, Counts{FreePages: 40, Pages: 40, Moved: 2}, g.Counts())
	patient := prompt(10, 20)
	g.add(patient)
	assert.Equal(t, waiting, patient.state)
	g.Up(1)
	g.admitNow()
	assert.Same(t, g.routes[1], patient.route)
}

// A sequence does without a route that has failed it only while there is another.
func TestAnAvoidedRouteIsTheLastResort(t *testing.T) {
	g := setup(2, 4, 8, 512, 2)
	s, other := prompt(60, 70), prompt(100, 128)
	g.add(s, other)
	require.Same(t, g.routes[1], other.route)
	require.NotEmpty(t, g.fill(1).Parts)
	assert.Empty(t, g.Failed(g.fill(0)))
	g.admitNow()
	assert.Equal(t, waiting, s.state, "there is no room elsewhere")
	assert.Empty(t, g.Down(1))
	g.admitNow()
	assert.Same(t, g.routes[0], s.route)
	assert.Equal(t, []*Sequence{s}, g.Failed(g.fill(0)), "there is no other")
}

// A probe is a batch of one row, which goes alone.
func TestProbe(t *testing.T) {
	g, r := one(20, 8, 512, 2)
	s := prompt(300, 310)
	g.add(s)
	before := g.fill(0)
	g.Probe(0)
	g.Probe(0) // the same one
	b := g.fill(0)
	assert.True(t, b.Probe)
	assert.Equal(t, All, b.Want)
	assert.Empty(t, b.Parts)
	assert.Equal(t, []int32{0}, g.header.Tokens)
	assert.Equal(t, []int32{0}, g.header.Outputs, "it goes through the last layer, too")
	g.land(before)
	_, ok, _ := g.Next(g.now, 0)
	assert.False(t, ok, "nothing else goes before it is back")
	g.land(b)
	_, ok, _ = g.Next(g.now, 0)
	assert.True(t, ok)
	assert.Equal(t, 1, g.Counts().Running)
	assert.Nil(t, r.probe)

	g.Probe(0)
	b = g.fill(0)
	require.True(t, b.Probe)
	assert.Empty(t, g.Failed(b), "whether the route goes down is decided elsewhere")
	assert.Equal(t, []*Sequence{s}, g.Down(0))
	_, ok, _ = g.Next(g.now, 0)
	assert.False(t, ok)
	g.Probe(0)
	route, ok, _ := g.Next(g.now, 0)
	require.True(t, ok, "a route that is down is probed")
	b = g.fill(route)
	g.Up(0)
	g.add(prompt(3, 5))
	_, ok, _ = g.Next(g.now, 0)
	assert.True(t, ok, "the route doesn't wait for a probe that was cancelled")
	g.land(b)
	g.Probe(0)
	g.Up(0)
	assert.False(t, g.fill(0).Probe)
	assert.Equal(t, 19, g.Counts().FreePages)
}

// A probe finds a page where all are in use.
func TestProbePreempts(t *testing.T) {
	g, _ := one(2, 8, 512, 2)
	s := prompt(60, 64)
	g.add(s)
	b := g.fill(0)
	g.Probe(0)
	assert.Empty(t, g.fill(0).Parts)
	_, ok, _ := g.Next(g.now, 0)
	assert.False(t, ok, "until s has come back")
	g.pass(0)
	g.land(b)
	route, ok, _ := g.Next(g.now, 0)
	require.True(t, ok)
	assert.True(t, g.fill(route).Probe)
}
