package generate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func drawn(t *testing.T, s Sampling, logits []float32, before ...int32) int32 {
	t.Helper()
	require.NoError(t, s.Check())
	id, err := (&sampler{Sampling: s}).Sample(logits, before)
	require.NoError(t, err)
	return id
}

func TestGreedyTakesTheFirstOfTheLargest(t *testing.T) {
	nan := float32(math.NaN())
	assert.EqualValues(t, 2, drawn(t, Sampling{}, []float32{nan, 1, 3, 3, nan}))
	assert.EqualValues(t, 0, drawn(t, Sampling{}, []float32{float32(math.Inf(-1)), nan}))
	inf := float32(math.Inf(1))
	assert.EqualValues(t, 1, drawn(t, Sampling{Temperature: 1, TopK: 2}, []float32{1, inf, 3, -inf}))
	assert.EqualValues(t, 0, drawn(t, Sampling{Temperature: 1, TopK: 1}, []float32{-inf, -inf, nan}))
	_, err := new(sampler).Sample([]float32{nan, nan}, make([]int32, 7))
	assert.ErrorContains(t, err, "token 7")
}

// frequencies draws at many positions and counts.
func frequencies(t *testing.T, s Sampling, logits []float32, before ...int32) []float64 {
	const n = 20000
	counts := make([]float64, len(logits))
	own := sampler{Sampling: s}
	for i := range n {
		id, err := own.Sample(logits, append(before[:len(before):len(before)], make([]int32, i)...))
		require.NoError(t, err)
		counts[id] += 1.0 / n
	}
	return counts
}

func softmax(logits []float32, temperature float64) []float64 {
	p, sum := make([]float64, len(logits)), 0.0
	for i, l := range logits {
		p[i] = math.Exp(float64(l) / temperature)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

func near(t *testing.T, want, got []float64) {
	t.Helper()
	for i := range want {
		assert.InDelta(t, want[i], got[i], 0.015, "token %d", i)
	}
}

var some = []float32{1, 2.5, 0, 2, -1, 1.5}

func TestTemperature(t *testing.T) {
	near(t, softmax(some, 1), frequencies(t, Sampling{Temperature: 1}, some))
	near(t, softmax(some, 0.5), frequencies(t, Sampling{Temperature: 0.5, Seed: 3}, some))
	near(t, softmax(some, 2), frequencies(t, Sampling{Temperature: 2, Seed: 4}, some))
}

func TestTopK(t *testing.T) {
	p := softmax([]float32{some[1], some[3]}, 1)
	near(t, []float64{0, p[0], 0, p[1], 0, 0}, frequencies(t, Sampling{Temperature: 1, TopK: 2}, some))
}

func TestTopP(t *testing.T) {
	p := softmax(some, 1) // the first two reach 0.65 together, the first alone 0.45
	require.Less(t, p[1], 0.6)
	require.Greater(t, p[1]+p[3], 0.6)
	two := softmax([]float32{some[1], some[3]}, 1)
	near(t, []float64{0, two[0], 0, two[1], 0, 0}, frequencies(t, Sampling{Temperature: 1, TopP: 0.6}, some))
	assert.EqualValues(t, 1, drawn(t, Sampling{Temperature: 1, TopP: 0.0001}, some), "one is always left")
}

func TestMinP(t *testing.T) {
	// Relative to the first: e^0, e^-0.5, e^-1, …
	three := softmax([]float32{some[1], some[3], some[5]}, 1)
	near(t, []float64{0, three[0], 0, three[1], 0, three[2]}, frequencies(t, Sampling{Temperature: 1, MinP: 0.3}, some))
}

func TestRepeatPenalty(t *testing.T) {
	logits := []float32{2, 1.9, -1}
	assert.EqualValues(t, 0, drawn(t, Sampling{}, logits, 0))
	assert.EqualValues(t, 1, drawn(t, Sampling{RepeatPenalty: 1.5}, logits, 0, 0))
	assert.Equal(t, []float32{2, 1.9, -1}, logits, "the logits stay as they are")
	s := sampler{Sampling: Sampling{RepeatPenalty: 2}}
	assert.Equal(t, []float32{1, 1.9, -2}, s.penalize(logits, []int32{0, 2, 0, 99}))
	old := append([]int32{0}, slices.Repeat([]int32{2}, 64)...)
	assert.Equal(t, []float32{2, 1.9, -2}, s.penalize(logits, old), "only the last 64 count")
}

func TestDrawsDependOnSeedAndPosition(t *testing.T) {
	logits := make([]float32, 300)
	text := func(seed uint64) (ids []int32) {
		own := sampler{Sampling: Sampling{Temperature: 1, Seed: seed}}
		for i := range 40 {
			id, err := own.Sample(logits, make([]int32, i))
			require.NoError(t, err)
			ids = append(ids, id)
		}
		return ids
	}
	assert.Equal(t, text(1), text(1))
	assert.NotEqual(t, text(1), text(2))
	assert.Greater(t, len(slices.Compact(slices.Sorted(slices.Values(text(1))))), 20, "positions draw anew")
}

// The heap finds what sorting finds.
func TestMostLikelyAgainstSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		logits := make([]float32, 1+rng.IntN(60))
		var all []candidate
		for i := range logits {
			logits[i] = float32(rng.IntN(12)) // many equals
			all = append(all, candidate{int32(i), float64(logits[i])})
		}
		slices.SortFunc(all, likelier)
		k := 1 + rng.IntN(len(logits))
		got := mostLikely(nil, logits, k, -100)
		slices.SortFunc(got, likelier)
		assert.Equal(t, all[:k], got)
	}
}

func TestSamplingAllocatesNothing(t *testing.T) {
	logits := make([]float32, 1000)
	for i := range logits {
		logits[i] = float32(i % 17)
	}
	s := sampler{Sampling: Sampling{Temperature: 0.8, TopK: 40, TopP: 0.9, MinP: 0.01, RepeatPenalty: 1.1}}
	before := []int32{1, 2, 3}
	draw := func() { _, _ = s.Sample(logits, before) }
	draw()
	assert.Zero(t, testing.AllocsPerRun(100, draw))
}

func TestValuesAreChecked(t *testing.T) {
	for _, s := range []Sampling{
		{Temperature: -1}, {Temperature: math.NaN()}, {Temperature: math.Inf(1)},
		{TopK: -1}, {TopP: -0.1}, {TopP: 1.1}, {MinP: 2}, {RepeatPenalty: -1},
	} {
		assert.Error(t, s.Check(), "%+v", s)
	}
}
