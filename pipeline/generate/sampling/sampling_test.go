package sampling

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/panel"
)

func chooser(t testing.TB, p Params) *Chooser {
	t.Helper()
	c, err := NewChooser(p)
	require.NoError(t, err)
	return c
}

func drawn(t *testing.T, p Params, logits []float32, before ...int32) int32 {
	t.Helper()
	id, err := chooser(t, p).Choose(logits, before)
	require.NoError(t, err)
	return id
}

func TestGreedyTakesTheFirstOfTheLargest(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	assert.EqualValues(t, 2, drawn(t, Params{}, []float32{nan, 1, 3, 3, nan}))
	assert.EqualValues(t, 0, drawn(t, Params{}, []float32{-inf, nan}))
	assert.EqualValues(t, 1, drawn(t, Params{Temperature: 1, TopK: 2}, []float32{1, inf, 3, -inf}))
	assert.EqualValues(t, 0, drawn(t, Params{Temperature: 1, TopK: 1}, []float32{-inf, -inf, nan}))
	for _, p := range []Params{{}, {Temperature: 1}, {Temperature: 1, TopK: 3}} {
		_, err := chooser(t, p).Choose([]float32{nan, nan}, make([]int32, 7))
		assert.ErrorContains(t, err, "token 7")
		_, err = chooser(t, p).Choose(nil, make([]int32, 7))
		assert.ErrorContains(t, err, "token 7")
	}
}

// frequencies draws at many positions and counts.
func frequencies(t *testing.T, p Params, logits []float32) []float64 {
	const n = 20000
	counts, c, before := make([]float64, len(logits)), chooser(t, p), make([]int32, n)
	for i := range n {
		id, err := c.Choose(logits, before[:i])
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
	near(t, softmax(some, 1), frequencies(t, Params{Temperature: 1}, some))
	near(t, softmax(some, 0.5), frequencies(t, Params{Temperature: 0.5, Seed: 3}, some))
	near(t, softmax(some, 2), frequencies(t, Params{Temperature: 2, Seed: 4}, some))
	near(t, softmax(some, 2), frequencies(t, Params{Temperature: 2, Seed: 4, TopK: 6}, some))
	near(t, []float64{0, 1, 0, 0, 0, 0}, frequencies(t, Params{Temperature: 1e-320}, some))
}

// A row with a head, and a draw that is most often behind it.
func TestTemperatureOfALongRow(t *testing.T) {
	skipLongRows(t)
	logits := make([]float32, 40000)
	for i := range logits {
		logits[i] = float32(i % 4)
	}
	of, counts := softmax(logits[:4], 1), make([]float64, 4)
	for id, n := range frequencies(t, Params{Temperature: 1}, logits) {
		counts[id%4] += n
	}
	near(t, of, counts)
}

func TestTopK(t *testing.T) {
	p := softmax([]float32{some[1], some[3]}, 1)
	near(t, []float64{0, p[0], 0, p[1], 0, 0}, frequencies(t, Params{Temperature: 1, TopK: 2}, some))
}

func TestTopP(t *testing.T) {
	p := softmax(some, 1) // the first two reach 0.65 together, the first alone 0.45
	require.Less(t, p[1], 0.6)
	require.Greater(t, p[1]+p[3], 0.6)
	two := softmax([]float32{some[1], some[3]}, 1)
	near(t, []float64{0, two[0], 0, two[1], 0, 0}, frequencies(t, Params{Temperature: 1, TopP: 0.6}, some))
	near(t, []float64{0, 1, 0, 0, 0, 0}, frequencies(t, Params{Temperature: 1, TopP: 0.0001}, some))
	near(t, []float64{0, 1, 0, 0, 0, 0}, frequencies(t, Params{Temperature: 100, TopP: TopPZero}, some))
}

func TestMinP(t *testing.T) {
	// Relative to the first: e^0, e^-0.5, e^-1, …
	three := softmax([]float32{some[1], some[3], some[5]}, 1)
	near(t, []float64{0, three[0], 0, three[1], 0, three[2]}, frequencies(t, Params{Temperature: 1, MinP: 0.3}, some))
}

func TestRepeatPenalty(t *testing.T) {
	logits := []float32{2, 1.9, -1}
	assert.EqualValues(t, 0, drawn(t, Params{}, logits, 0))
	assert.EqualValues(t, 1, drawn(t, Params{RepeatPenalty: 1.5}, logits, 0, 0))
	assert.Equal(t, []float32{2, 1.9, -1}, logits, "the logits stay as they are")

	var c changes
	c.reset(&Params{RepeatPenalty: 2})
	changed := func(tokens ...int32) (row, few []float32) {
		row, few = slices.Clone(logits), []float32{-1, 2, 1.9}
		c.row(row, tokens)
		c.some([]int32{2, 0, 1}, few, tokens)
		return row, few
	}
	row, few := changed(0, 2, 0, 99, -1)
	assert.Equal(t, []float32{1, 1.9, -2}, row)
	assert.Equal(t, []float32{-2, 1, 1.9}, few)
	row, few = changed(append([]int32{0}, slices.Repeat([]int32{2}, 64)...)...)
	assert.Equal(t, []float32{2, 1.9, -2}, row, "only the last 64 count")
	assert.Equal(t, []float32{-2, 2, 1.9}, few)
}

func TestBiases(t *testing.T) {
	inf := float32(math.Inf(1))
	assert.EqualValues(t, 4, drawn(t, Params{Bias: map[int32]float32{4: 100, 1: -2, 99: 1e30}}, some))
	assert.EqualValues(t, 3, drawn(t, Params{Bias: map[int32]float32{1: -inf}}, some))
	// As large as a float32 may be: these once were an index out of range.
	for _, add := range []float32{1 << 32, 1e10, 1e38} {
		assert.EqualValues(t, 5, drawn(t, Params{Bias: map[int32]float32{5: add}, Temperature: 1, TopK: 3}, some))
		large := slices.Clone(some)
		large[4] = add
		assert.EqualValues(t, 4, drawn(t, Params{Temperature: 1, TopK: 3}, large))
	}
	assert.EqualValues(t, 2, drawn(t, Params{RepeatPenalty: 1e-10, Temperature: 1, TopK: 3}, []float32{1, 2, 3}, 2, 1))

	none := map[int32]float32{}
	for id := range some {
		none[int32(id)] = -inf
	}
	for _, p := range []Params{{Bias: none}, {Bias: none, Temperature: 1}, {Bias: none, Temperature: 1, TopK: 3, MinP: 0.1}} {
		_, err := chooser(t, p).Choose(some, make([]int32, 7))
		assert.ErrorContains(t, err, "no token for position 7")
	}
}

func TestDrawsDependOnSeedAndPosition(t *testing.T) {
	logits := make([]float32, 300)
	text := func(seed uint64) (ids []int32) {
		c := chooser(t, Params{Temperature: 1, Seed: seed})
		for i := range 40 {
			id, err := c.Choose(logits, make([]int32, i))
			require.NoError(t, err)
			ids = append(ids, id)
		}
		return ids
	}
	assert.Equal(t, text(1), text(1))
	assert.NotEqual(t, text(1), text(2))
	assert.Greater(t, len(slices.Compact(slices.Sorted(slices.Values(text(1))))), 20, "positions draw anew")
}

func TestKeep(t *testing.T) {
	long := make([]int32, 1000)
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		p      Params
		tokens int
		k      int
		ok     bool
	}{
		{Params{}, 5, 1, true},
		{Params{RepeatPenalty: 1.1}, 5, 6, true},
		{Params{RepeatPenalty: 1.1, TopK: 500}, 500, 65, true}, // the most likely token alone
		{Params{Temperature: 1}, 5, 0, false},
		{Params{Temperature: 1, TopK: 40}, 500, 40, true},
		{Params{Temperature: 1, TopK: 256}, 500, 256, true},
		{Params{Temperature: 1, TopK: 257}, 500, 0, false},
		{Params{Temperature: 1, TopK: math.MaxInt32}, 500, 0, false},
		{Params{Temperature: 1, TopK: 40, RepeatPenalty: 1.1}, 500, 104, true},
		{Params{Temperature: 1, TopK: 200, RepeatPenalty: 1.1}, 500, 0, false},
		{Params{Temperature: 1, TopK: 40, RepeatPenalty: 0.9}, 500, 0, false},
		{Params{Temperature: 1, TopK: 40, Bias: map[int32]float32{1: -1, 2: -inf, 3: 0}}, 500, 42, true},
		{Params{Temperature: 1, TopK: 40, Bias: map[int32]float32{1: -1, 2: 0.1}}, 500, 0, false},
	} {
		k, ok := chooser(t, c.p).Keep(long[:c.tokens])
		assert.Equal(t, c.ok, ok, "%+v", c)
		assert.Equal(t, c.k, k, "%+v", c)
		always, ok := chooser(t, c.p).KeepAlways()
		if c.tokens >= penalized {
			assert.Equal(t, c.ok, ok, "%+v", c)
			assert.Equal(t, c.k, always, "%+v", c)
		} else if ok {
			assert.GreaterOrEqual(t, always, c.k, "%+v", c)
		}
	}
}

func TestChooseTopRefusesWhatItCannotUse(t *testing.T) {
	c := chooser(t, Params{Temperature: 1})
	_, err := c.ChooseTop([]int32{1}, []float32{1}, nil)
	assert.ErrorContains(t, err, "whole row")
	c = chooser(t, Params{Temperature: 1, TopK: 2})
	_, err = c.ChooseTop([]int32{1, 2}, []float32{1}, nil)
	assert.ErrorContains(t, err, "2 ids with 1 logits")
	_, err = c.ChooseTop(nil, nil, make([]int32, 3))
	assert.ErrorContains(t, err, "no logit of token 3")
	_, err = c.ChooseTop([]int32{-1, -1}, []float32{4, 4}, nil)
	assert.ErrorContains(t, err, "no logit of token 0")
}

// The SIMD level doesn't show.
func TestDrawsAreTheSameAtEveryLevel(t *testing.T) {
	best := simd
	defer func() { simd = best }()
	rng, c := rand.New(rand.NewPCG(71, 72)), new(Chooser)
	times := 1500
	if testing.Short() || race {
		times = 150
	}
	for range times {
		row := randomRow(rng)
		p, tokens := randomParams(rng, len(row))
		require.NoError(t, c.Reset(p))
		simd = best
		want, wantErr := c.Choose(row, tokens)
		log := LogProb(row, want)
		for _, level := range panel.Levels() {
			var err error
			simd, err = panel.For(level)
			require.NoError(t, err)
			got, err := c.Choose(row, tokens)
			require.Equal(t, wantErr, err)
			require.Equal(t, want, got, "%s: %+v", level, p)
			require.Equal(t, math.Float64bits(log), math.Float64bits(LogProb(row, want)))
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	if race {
		t.Skip("under the race detector a sync.Pool forgets at random")
	}
	rows := [][]float32{gaussian(1000, 3), gaussian(40000, 1)}
	ids, top := sorted(rows[0])
	tokens := []int32{1, 2, 3, 500}
	var logProbs []TokenLogProb
	for _, p := range []Params{
		{}, {Temperature: 0.8}, usual, nucleus,
		{Temperature: 0.8, TopK: 40, TopP: 0.9, MinP: 0.01, RepeatPenalty: 1.1},
		{Temperature: 0.8, TopK: 400, TopP: 0.9, RepeatPenalty: 0.9, Bias: map[int32]float32{3: 1}},
	} {
		c := chooser(t, p)
		draw := func() {
			for _, row := range rows {
				_, _ = c.Choose(row, tokens)
				logProbs = NewLogProbs(row).Top(logProbs[:0], 5)
			}
			if k, ok := c.Keep(tokens); ok {
				_, _ = c.ChooseTop(ids[:k], top[:k], tokens)
			}
		}
		draw()
		assert.Zero(t, testing.AllocsPerRun(100, draw), "%+v", p)
	}
}

func TestValuesAreChecked(t *testing.T) {
	many := map[int32]float32{}
	for i := range int32(MaxBiases) + 1 {
		many[i] = 1
	}
	nan := float32(math.NaN())
	for _, c := range []struct {
		p    Params
		want string
	}{
		{Params{Temperature: -1}, "temperature of -1: it may be from 0 to 1000000"},
		{Params{Temperature: math.NaN()}, "temperature of NaN: it may be from 0 to 1000000"},
		{Params{Temperature: math.Inf(1)}, "temperature of +Inf: it may be from 0 to 1000000"},
		{Params{TopK: -1}, "top-k of -1: it may be from 0 to 2147483647"},
		{Params{TopK: math.MaxInt32 + 1}, "top-k of 2147483648: it may be from 0 to 2147483647"},
		{Params{TopP: -0.1}, "top-p of -0.1: it may be from 0 to 1"},
		{Params{TopP: 1.1}, "top-p of 1.1: it may be from 0 to 1"},
		{Params{MinP: 2}, "min-p of 2: it may be from 0 to 1"},
		{Params{RepeatPenalty: -1}, "repeat penalty of -1: it may be from 0 to 1000000"},
		{Params{RepeatPenalty: 1e300}, "repeat penalty of 1e+300: it may be from 0 to 1000000"},
		{Params{Bias: map[int32]float32{7: 1, -1: 1, -3: 1}}, "bias of token -3: tokens are numbered from 0"},
		{Params{Bias: map[int32]float32{7: nan, 3: nan, 1: 1}}, "bias of token 3: it is not a number"},
		{Params{Bias: many}, "65537 biases: a request may have up to 65536"},
	} {
		assert.EqualError(t, c.p.Check(), c.want)
		used := chooser(t, usual)
		assert.EqualError(t, used.Reset(c.p), c.want)
		id, err := used.Choose(some, nil)
		assert.NoError(t, err)
		assert.EqualValues(t, 1, id, "a refused chooser is greedy")
	}
	delete(many, 0)
	assert.NoError(t, Params{Bias: many, TopP: TopPZero}.Check())
}

func TestTheLongestRow(t *testing.T) {
	skipLongRows(t)
	row := make([]float32, maxRow+1)
	_, err := chooser(t, Params{Temperature: 1}).Choose(row, nil)
	assert.EqualError(t, err, "a row of 8388609 logits: up to 8388608 can be sampled from")
	id, err := chooser(t, Params{Temperature: 1}).Choose(row[1:], nil)
	assert.NoError(t, err)
	assert.NotZero(t, id)
	id, err = chooser(t, Params{Temperature: 1, TopK: 1}).Choose(row, nil)
	assert.NoError(t, err)
	assert.Zero(t, id)
}

func TestGreedy(t *testing.T) {
	for _, p := range []Params{{}, {TopK: 3, TopP: 0.1, MinP: 0.1, Seed: 1}, {RepeatPenalty: 1}} {
		assert.True(t, p.Greedy(), "%+v", p)
	}
	for _, p := range []Params{{Temperature: 0.1}, {RepeatPenalty: 1.1}, {Bias: map[int32]float32{1: 1}}} {
		assert.False(t, p.Greedy(), "%+v", p)
	}
}
