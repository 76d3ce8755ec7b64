package generate

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// learn shows a pace stages that take a + b·n seconds.
func learn(devices []string, inFlight int, a, b []float64) *pace {
	p := newPace(devices, inFlight, false, 512)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		n := 1 + rng.IntN(64)
		for i := range a {
			p.observe(i, n, time.Duration((a[i]+b[i]*float64(n))*1e9))
		}
	}
	return p
}

func TestFitFindsTheLine(t *testing.T) {
	var f fit
	for n := range 100 {
		f.add(float64(n), 0.003+0.0002*float64(n))
	}
	assert.InEpsilon(t, 0.003, f.a, 1e-6)
	assert.InEpsilon(t, 0.0002, f.b, 1e-6)

	var flat fit
	for range 10 {
		flat.add(8, 0.004) // always the same size
	}
	assert.InEpsilon(t, 0.004, flat.at(8), 1e-6)
	assert.GreaterOrEqual(t, flat.a, 0.0)
	assert.GreaterOrEqual(t, flat.b, 0.0)
}

func TestGroupsAreAsManyAsKeepAllBusy(t *testing.T) {
	equal := []float64{0.01, 0.01, 0.01, 0.01}
	four := []string{"a", "b", "c", "d"}
	p := learn(four, 4, equal, equal)
	assert.Equal(t, 4, p.groups(64), "equal stages: one batch each")

	p = learn(four, 4, []float64{0.001, 0.001, 0.001, 0.001}, []float64{0.01, 0.001, 0.001, 0.001})
	assert.Equal(t, 2, p.groups(64), "one slow stage: it is never idle with two")

	p = learn(four, 4, []float64{0.03, 0.001, 0.001, 0.001}, []float64{0, 0, 0, 0})
	assert.Equal(t, 1, p.groups(64), "where a batch costs what it costs, two are twice as dear")

	p = learn([]string{"a", "a", "a", "a"}, 4, equal, []float64{0, 0, 0, 0})
	assert.Equal(t, 1, p.groups(64), "stages of one device take turns: to divide the rows only costs")

	assert.Equal(t, 1, learn(four, 4, equal, equal).groups(1), "a row alone is a batch alone")

	fixed := newPace(four, 3, true, 512)
	assert.Equal(t, 3, fixed.groups(64), "what was asked for")
	unknown := newPace(four, 4, false, 512)
	assert.Equal(t, 4, unknown.groups(64))
}

func TestChunksShortenTheWait(t *testing.T) {
	two := []string{"a", "b"}
	p := learn(two, 2, []float64{0.001, 0.001}, []float64{0.001, 0.001})
	n := p.chunk(256, 0)
	assert.Less(t, n, 128, "where rows are what costs, many chunks fill the stages sooner")
	p = learn(two, 2, []float64{1, 1}, []float64{1e-5, 1e-5})
	assert.Equal(t, 256, p.chunk(256, 0), "where batches are what costs, one")
	one := learn([]string{"a"}, 1, []float64{0.001}, []float64{0.001})
	assert.Equal(t, 500, one.chunk(4000, 0), "a lone stage takes about all that a batch holds")
}

func TestChunksBesideDecodingAtMostDoubleTheirTime(t *testing.T) {
	p := learn([]string{"a"}, 1, []float64{0.032}, []float64{0.001})
	assert.Equal(t, 32, p.chunk(4000, 8), "0.040 s alone, 0.072 with 32 more, 0.104 with 64")
	assert.Equal(t, 5, p.chunk(5, 8))
	p = learn([]string{"a"}, 1, []float64{0}, []float64{0.001})
	assert.Equal(t, leastChunk/4, p.chunk(4000, 1), "a prompt isn't starved either")
}
