package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// Rotation is a test of RoPE: N rows of Heads heads of Dim elements.
type Rotation struct {
	N, Heads, Dim int
	Split         bool
	Freq          []float32
	X             []float32
	At            func(row int) int32 // a row's position
}

// On turns rows from to to-1 on a rig.
func (c *Rotation) On(r *Rig, from, to int) []float32 {
	r.Helper()
	f := r.Vector(c.Freq)
	width := c.Heads * c.Dim
	in := r.Tensor(to-from, width, c.X[from*width:to*width])
	var h kernels.Header
	for row := from; row < to; row++ {
		h.Append(0, c.At(row), 0, false)
	}
	rows := r.Rows(&h)
	r.Run(func(q kernels.Queue) {
		q.RoPE(in, kernels.Rotation{HeadDim: c.Dim, Frequencies: f, Split: c.Split}, rows)
	})
	return r.Read(in)
}

// exact returns the turned rows, and of each element the size of its two terms.
func (c *Rotation) exact() (want, size []float64) {
	pairs := len(c.Freq)
	for i, v := range c.X {
		row, d := i/(c.Heads*c.Dim), i%c.Dim
		if d >= 2*pairs {
			want, size = append(want, float64(v)), append(size, 0)
			continue
		}
		p, first, far := d/2, d%2 == 0, 1
		if c.Split {
			p, first, far = d%pairs, d < pairs, pairs
		}
		other, sign := i-far, 1.0
		if first {
			other, sign = i+far, -1
		}
		sin, cos := math.Sincos(float64(c.At(row)) * float64(c.Freq[p]))
		want = append(want, float64(v)*cos+sign*float64(c.X[other])*sin)
		size = append(size, math.Abs(float64(v))+math.Abs(float64(c.X[other])))
	}
	return want, size
}

// RoPE tests rotations, and that what a queue keeps of them doesn't show.
func RoPE(t *testing.T, b Backend) {
	b.run(t, part{"IsNearTheExactOne", ropeIsNear}, part{"AfterOtherRows", ropeAfterOtherRows})
}

func ropeIsNear(t *testing.T, b Backend) {
	rigs := b.rigs(t)
	for _, c := range []struct{ n, heads, dim, pairs int }{{1, 1, 2, 1}, {5, 3, 64, 32}, {40, 4, 80, 20}, {2, 1, 600, 300}, {3, 2, 7, 0}} {
		for _, split := range []bool{false, true} {
			turn := Rotation{N: c.n, Heads: c.heads, Dim: c.dim, Split: split, X: Normals(NewRand(22), c.n*c.heads*c.dim),
				At: func(row int) int32 { return int32(row * row * row * 2071 % (1 << 24)) }}
			for i := range c.pairs {
				turn.Freq = append(turn.Freq, float32(math.Pow(10000, -float64(i)/float64(c.pairs))))
			}
			if c.pairs == 0 {
				turn.Freq = []float32{0} // a weight can't be empty: one pair that stays
			}
			got := eachCut(t, rigs, c.n, func(r *Rig) func(from, to int) []float32 {
				return func(from, to int) []float32 { return turn.On(r, from, to) }
			})
			want, size := turn.exact()
			for i, w := range want {
				require.InDelta(t, w, got[i], size[i]*b.RoPE, "split %v, element %d of %d", split, i, c.dim)
			}
		}
	}
}

// What a queue keeps of the rows and frequencies before doesn't show.
func ropeAfterOtherRows(t *testing.T, b Backend) {
	const dim, pairs = 16, 8
	rng := NewRand(42)
	slow, fast, fewer := Normals(rng, pairs), Normals(rng, pairs), Normals(rng, pairs/2)
	rigs := b.rigs(t)
	used, another := rigs[0], rigs[len(rigs)-1]
	for i, c := range []struct {
		positions []int32
		freq      []float32
	}{
		{[]int32{0, 5, 9}, slow}, {[]int32{0, 5, 9}, slow}, {[]int32{1, 5, 10}, slow}, {[]int32{1, 5, 10}, fast}, {[]int32{1}, fast},
		{[]int32{1, 5, 9, 10, 11}, fast}, {[]int32{1, 5}, fewer}, {[]int32{1, 5, 9, 10, 11}, fewer}, {[]int32{1, 5, 9, 10, 11}, slow},
	} {
		turn := Rotation{N: len(c.positions), Heads: 1, Dim: dim, Freq: c.freq, X: Normals(rng, len(c.positions)*dim),
			At: func(row int) int32 { return c.positions[row] }}
		fresh := b.On(t, another.Q.Device())
		want := turn.On(fresh, 0, turn.N)
		SameBits(t, want, turn.On(used, 0, turn.N), "call %d", i)
	}
}
