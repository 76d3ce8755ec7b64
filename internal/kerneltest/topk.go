package kerneltest

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// topK is TopK by sorting.
func topK(x []float32, k int) (ids []int32, values []float32) {
	for col, v := range x {
		if v == v {
			ids = append(ids, int32(col))
		}
	}
	slices.SortStableFunc(ids, func(a, b int32) int {
		switch {
		case x[a] > x[b]:
			return -1
		case x[a] < x[b]:
			return 1
		}
		return 0
	})
	ids = ids[:min(k, len(ids))]
	for _, col := range ids {
		values = append(values, x[col])
	}
	for len(ids) < k {
		ids, values = append(ids, -1), append(values, -inf)
	}
	return ids, values
}

// TopK tests the largest numbers of rows, of an op set that has the op: of equals the
// first columns, no NaN, and what there is where there are too few.
func TopK(t *testing.T, b Backend) {
	rigs := b.rigs(t)
	for _, r := range rigs {
		_, ok := r.Q.(kernels.TopKer)
		require.True(t, ok, "the queue has no TopK")
	}
	rng := NewRand(48)
	vocabulary := b.fewer(128_256, 20_001)
	rising, few, equal := make([]float32, vocabulary), nans(5000), make([]float32, 9000)
	for i := range rising {
		rising[i] = float32(i) - 1000
	}
	few[4997], few[3], few[70], few[71] = -3, 5, -inf, 5
	for i := range equal {
		if equal[i] = 1; i%3 == 0 {
			equal[i] = 2
		}
		if i%1000 == 999 {
			equal[i] = 3
		}
	}
	coarse := Normals(rng, 2*vocabulary) // many are equal
	for i := range coarse {
		coarse[i] = float32(math.Round(float64(coarse[i]) * 8))
	}
	minus := float32(math.Copysign(0, -1))
	for _, c := range []struct {
		name string
		n    int
		x    []float32
	}{
		{"one number", 3, []float32{7, NaN, -inf}},
		{"zeros are equal", 1, []float32{minus, -1, 0, minus, 0, 1e-45}},
		{"a small vocabulary", 8, Normals(rng, 8*512)},
		{"a large one", 2, Normals(rng, 2*vocabulary)},
		{"ever larger", 1, rising}, {"few numbers", 1, few}, {"many equals", 1, equal}, {"and more", 2, coarse},
		{"no number", 1, nans(300)},
	} {
		for _, k := range []int{1, 2, 40, kernels.MostTopK} {
			if b.Slow && len(c.x) > 9000 && k == 2 {
				continue
			}
			cols := len(c.x) / c.n
			var ids, values []float32
			for row := range c.n {
				i, v := topK(c.x[row*cols:][:cols], k)
				for _, id := range i {
					ids = append(ids, math.Float32frombits(uint32(id)))
				}
				values = append(values, v...)
			}
			for _, r := range rigs {
				x, v, i := r.TensorAt(Margin+1, c.n, cols, c.x), r.Tensor(c.n, k, nil), r.Tensor(c.n, k, nil)
				i.Type = kernels.I32
				r.Run(func(q kernels.Queue) { q.(kernels.TopKer).TopK(i, v, x) })
				gotIDs, got := r.Read(i), r.Read(v)
				for at := range ids {
					require.Equal(t, math.Float32bits(ids[at]), math.Float32bits(gotIDs[at]), "%s, the %d largest: column of number %d, %v", c.name, k, at, got[at])
				}
				SameBits(t, values, got, "%s, the %d largest", c.name, k)
			}
		}
	}
}
