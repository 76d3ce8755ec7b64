package panel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/panel"
)

// Every length, with the largest and what is sought in every place.
func TestMaxAndFind(t *testing.T) {
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		rng := rand.New(rand.NewPCG(41, 42))
		for n := range 150 {
			for at := range n {
				x := randomFloats(rng, n)
				x[at] = 9
				if last := at + rng.IntN(n-at); last > at {
					x[last] = 9
				}
				for range n / 10 {
					if i := rng.IntN(n); i != at {
						x[i] = nan
					}
				}
				in, _ := fenced(t, x)
				require.EqualValues(t, 9, k.Max(in))
				require.Equal(t, at, k.Find(in, 9), "in %d", n)
			}
			in, _ := fenced(t, randomFloats(rng, n))
			require.Equal(t, n, k.Find(in, 77), "it isn't there")
			require.Equal(t, n, k.Find(in, 0), "what isn't there is no zero")
			for i := range in {
				in[i] = -float32(i) - 1
			}
			require.EqualValues(t, n, k.Find(in, -float32(n)-1))
			if n > 0 {
				require.EqualValues(t, -1, k.Max(in), "all are below 0")
			}
		}
	})
}

func TestMaxAndFindOfOddNumbers(t *testing.T) {
	minus := float32(math.Copysign(0, -1))
	eachLevel(t, func(t *testing.T, k *panel.Kernels) {
		for n := 1; n < 70; n++ {
			x := make([]float32, n)
			for i := range x {
				x[i] = nan
			}
			require.EqualValues(t, -inf, k.Max(x))
			require.Equal(t, n, k.Find(x, nan), "a NaN equals nothing")
			require.Equal(t, n, k.Find(x, -inf))
			x[n-1] = -inf
			require.EqualValues(t, -inf, k.Max(x))
			require.Equal(t, n-1, k.Find(x, -inf))
			x[n/2] = minus
			require.EqualValues(t, 0, k.Max(x))
			require.Equal(t, n/2, k.Find(x, 0), "zeros are equal")
			x[0] = inf
			require.EqualValues(t, inf, k.Max(x))
		}
		require.EqualValues(t, -inf, k.Max(nil))
		require.Zero(t, k.Find(nil, 0))
	})
}
