package sampling

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// logProbs are log-probabilities in float64.
func logProbs(row []float32) []float64 {
	largest := math.Inf(-1)
	for _, l := range row {
		if l == l {
			largest = max(largest, float64(l))
		}
	}
	sum, lost := 0.0, 0.0 // Kahan's
	for _, l := range row {
		if l == l {
			x := math.Exp(float64(l)-largest) - lost
			next := sum + x
			sum, lost = next, (next-sum)-x
		}
	}
	var p []float64
	for _, l := range row {
		p = append(p, float64(l)-largest-math.Log(sum))
	}
	return p
}

func TestLogProbsAreThoseOfFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(81, 82))
	for range 600 {
		row := gaussian(1+rng.IntN(3000), math.Exp(6*rng.Float64()-2))
		for range rng.IntN(5) {
			row[rng.IntN(len(row))] = []float32{float32(math.NaN()), float32(math.Inf(-1)), 0, 50}[rng.IntN(4)]
		}
		if ArgMax(row) < 0 || math.IsInf(float64(row[ArgMax(row)]), 0) {
			continue
		}
		want, p := logProbs(row), NewLogProbs(row)
		for id, w := range want {
			switch got := p.Of(int32(id)); {
			case w != w || math.IsInf(w, -1):
				require.True(t, math.IsInf(got, -1), "%v", row[id])
			default:
				require.InDelta(t, w, got, 1e-11+1e-15*math.Abs(w))
			}
		}
		n := rng.IntN(40)
		ids, _ := sorted(row)
		top := p.Top([]TokenLogProb{{ID: -7}}, n)
		require.EqualValues(t, -7, top[0].ID, "appended")
		require.Len(t, top, 1+min(n, len(ids)))
		for i, x := range top[1:] {
			require.Equal(t, ids[i], x.ID)
			require.Equal(t, p.Of(x.ID), x.LogProb)
		}
	}
	row := gaussian(128000, 2)
	want := logProbs(row)
	for id := 0; id < len(row); id += 1001 {
		require.InDelta(t, want[id], LogProb(row, int32(id)), 1e-11)
	}
}

func TestLogProbsFarOut(t *testing.T) {
	inf, nan := math.Inf(1), float32(math.NaN())
	infinite := float32(inf)
	half := -math.Ln2
	for _, c := range []struct {
		row  []float32
		want []float64
	}{
		{[]float32{3}, []float64{0}},
		{[]float32{nan, 3, 3}, []float64{-inf, half, half}},
		{[]float32{infinite, 3, infinite, nan}, []float64{half, -inf, half, -inf}},
		{[]float32{-infinite, -infinite, nan}, []float64{half, half, -inf}},
		{[]float32{math.MaxFloat32, -math.MaxFloat32}, []float64{0, -2 * math.MaxFloat32}},
		{[]float32{nan, nan}, []float64{-inf, -inf}},
		{nil, nil},
	} {
		for id, want := range c.want {
			assert.Equal(t, want, LogProb(c.row, int32(id)), "%v", c.row)
		}
		for _, id := range []int32{-1, int32(len(c.row)), math.MaxInt32, math.MinInt32} {
			assert.Equal(t, -inf, LogProb(c.row, id), "%v", c.row)
		}
		for _, n := range []int{-1, 0, 1, 9} {
			top := NewLogProbs(c.row).Top(nil, n)
			assert.LessOrEqual(t, len(top), max(n, 0))
			for _, x := range top {
				assert.Equal(t, c.want[x.ID], x.LogProb)
			}
		}
	}
}
