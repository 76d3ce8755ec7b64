package schedule

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// on returns the pace of a route whose stages stand on these devices, each of which
// serves so many routes; nil: this one alone.
func on(devices []string, routes []int, inFlight int, fixed bool, maxRows int) *pace {
	r := Route{InFlight: inFlight, Fixed: fixed}
	for i, device := range devices {
		s := Stage{Device: device, Routes: 1}
		if routes != nil {
			s.Routes = routes[i]
		}
		r.Stages = append(r.Stages, s)
	}
	return newPace(r, maxRows)
}

// learn shows a pace stages that take a + b·n seconds.
func learn(devices []string, inFlight int, a, b []float64) *pace {
	p := on(devices, nil, inFlight, false, 512)
	rng := rand.New(rand.NewPCG(1, 1))
	took := make([]time.Duration, len(a))
	for range 50 {
		n := 1 + rng.IntN(64)
		for i := range a {
			took[i] = time.Duration((a[i] + b[i]*float64(n)) * 1e9)
		}
		p.observe(n, took)
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

	fixed := on(four, nil, 3, true, 512)
	assert.Equal(t, 3, fixed.groups(64), "what was asked for")
	unknown := on(four, nil, 4, false, 512)
	assert.Equal(t, 4, unknown.groups(64))
}

func TestChunksShortenTheWait(t *testing.T) {
	two := []string{"a", "b"}
	p := learn(two, 2, []float64{0.001, 0.001}, []float64{0.001, 0.001})
	assert.Equal(t, leastChunk, p.chunk(256), "where rows are what costs, many chunks fill the stages sooner")
	p = learn(two, 2, []float64{1, 1}, []float64{1e-5, 1e-5})
	assert.Equal(t, 256, p.chunk(256), "where batches are what costs, one")
	p = learn(two, 2, []float64{0.016, 0.016}, []float64{0.001, 0.001})
	assert.Equal(t, 128, p.chunk(1024), "the best is √(1024·16)")
	one := learn([]string{"a"}, 1, []float64{0.001}, []float64{0.001})
	assert.InDelta(t, 500, one.chunk(4000), 100, "a lone stage takes about all that a batch holds")
}

func TestBatchesBesideDecodingRowsAreAsLargeAsIsWorthIt(t *testing.T) {
	one := []string{"a"}
	assert.Equal(t, leastChunk, learn(one, 1, []float64{0}, []float64{0.001}).worth(), "where rows are what costs, small")
	n := learn(one, 1, []float64{0.008}, []float64{0.001}).worth()
	row := func(n int) float64 { return 0.008/float64(n) + 0.001 }
	assert.LessOrEqual(t, row(n), row(512)*33/32)
	assert.Greater(t, row(n-1), row(512)*33/32, "and no larger")
	assert.Greater(t, learn(one, 1, []float64{1}, []float64{1e-5}).worth(), 480, "where batches are what costs, full")
}

func TestAsManyBatchesAsKeepTheBusiestDeviceSo(t *testing.T) {
	four := []string{"a", "b", "c", "d"}
	even := []float64{0.001, 0.001, 0.001, 0.001}
	groups, rows := learn(four, 4, even, even).batches(8, 1000, 0)
	assert.Equal(t, 4, groups)
	assert.Equal(t, leastChunk, rows)

	slow := []float64{0.01, 0.001, 0.001, 0.001}
	groups, _ = learn(four, 4, slow, slow).batches(8, 1000, 0)
	assert.Equal(t, 3, groups, "two, and one that waits")

	unknown := on(four, nil, 4, false, 512)
	_, first := unknown.batches(0, 1000, 0)
	_, second := unknown.batches(0, 1000, 1)
	assert.NotEqual(t, first, second, "sizes must differ for anything to be learned")

	p := on(four, []int{2, 1, 1, 1}, 4, false, 512)
	for n := 1; n < 50; n++ {
		took := time.Duration(n) * time.Millisecond
		p.observe(n, []time.Duration{took, took, took, took})
	}
	through, busiest := p.times(10)
	assert.InEpsilon(t, 0.04, through, 1e-6)
	assert.InEpsilon(t, 0.02, busiest.at(10), 1e-6, "two routes take turns at the first stage")
}

func TestGroupsKnowWhatABatchHolds(t *testing.T) {
	two := []string{"a", "b"}
	p := on(two, nil, 2, false, 8)
	for n := range 50 {
		p.observe(1+n%8, []time.Duration{10 * time.Millisecond, 10 * time.Millisecond})
	}
	assert.Equal(t, 1, p.groups(8))
	assert.Equal(t, 2, p.groups(64), "eight batches a round: one stage would be idle")
	assert.Equal(t, 1, p.groups(8), "what it was asked before doesn't matter")
	for range 5000 {
		p.observe(8, []time.Duration{time.Millisecond, time.Microsecond})
		p.observe(1, []time.Duration{time.Millisecond / 8, time.Microsecond})
	}
	assert.Equal(t, 1, p.groups(64), "nor what it has learned since")
}
