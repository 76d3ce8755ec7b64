package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// embed looks tokens up in a table of weights.
func embed(r *Rig, table kernels.Weight, tokens []int32) []float32 {
	dst := r.Tensor(len(tokens), table.Cols(), nil)
	var h kernels.Header
	for _, token := range tokens {
		h.Append(token, 0, 0, false)
	}
	rows := r.Rows(&h)
	r.Run(func(q kernels.Queue) { q.Embed(dst, table, rows) })
	return r.Read(dst)
}

// Embed tests that a row of a table comes out as the file has it, of every type.
func Embed(t *testing.T, b Backend) {
	const n = 50
	rigs := b.rigs(t)
	for _, typ := range b.types() {
		for _, c := range []struct{ vocab, cols int }{{1, 64}, {1, 256}, {37, 320}, {37, 512}, {70, 288}, {9, 2560}} {
			cols := whole(typ, c.cols)
			m := Matrix(NewRand(27), typ, c.vocab, cols)
			numbers := Exact(m)
			rng := NewRand(28)
			tokens := make([]int32, n)
			var want []float32
			for i := range tokens {
				tokens[i] = int32(rng.IntN(c.vocab))
				for _, v := range numbers[int(tokens[i])*cols:][:cols] {
					want = append(want, float32(v))
				}
			}
			got := eachCut(t, rigs, n, func(r *Rig) func(from, to int) []float32 {
				table := r.Pack(m)
				return func(from, to int) []float32 { return embed(r, table, tokens[from:to]) }
			})
			SameBits(t, want, got, "%v", typ)
		}
	}
}

// Gather tests that the rows that are wanted come out, and nothing where none is.
func Gather(t *testing.T, b Backend) {
	const n, cols = 200, 700
	for _, r := range b.rigs(t) {
		x := Normals(NewRand(29), n*cols)
		var h kernels.Header
		var want []float32
		for i := range n {
			wanted := i%3 != 1
			h.Append(0, 0, 0, wanted)
			if wanted {
				want = append(want, x[i*cols:][:cols]...)
			}
		}
		src, dst, rows := r.Tensor(n, cols, x), r.Tensor(len(h.Outputs), cols, nil), r.Rows(&h)
		r.Run(func(q kernels.Queue) { q.Gather(dst, src, rows) })
		SameBits(t, want, r.Read(dst), "Gather")

		h.Outputs = h.Outputs[:0]
		none := r.Rows(&h)
		r.Run(func(q kernels.Queue) { q.Gather(dst.First(0), src, none) })
		SameBits(t, want, r.Read(dst), "nothing is wanted")
	}
}

// ArgMax tests the column of the largest value: the first of equals, and no NaN, be it
// that there is nothing else.
func ArgMax(t *testing.T, b Backend) {
	each := b.ArgMaxCols
	cut := Normals(NewRand(30), 5*each+17)
	cut[2*each+3], cut[4*each] = 100, 100
	last := Normals(NewRand(32), 4*each)
	last[3*each-1] = 100
	lost := nans(2 * each)
	lost[each+5] = -inf
	long := Normals(NewRand(31), 5017)
	long[1003], long[4999], long[260] = 100, 100, 99
	alone := nans(3000)
	alone[2005] = -inf
	for _, r := range b.rigs(t) {
		for _, c := range []struct {
			cols int
			x    []float32
			want []int32
		}{
			{1, []float32{3, NaN}, []int32{0, -1}},
			{4, []float32{1, 5, 5, 2, NaN, -inf, -inf, NaN, NaN, NaN, NaN, NaN, inf, NaN, inf, 7, -1, -2, NaN, -1}, []int32{1, 1, -1, 0, 0}},
			{len(cut), cut, []int32{int32(2*each + 3)}},
			{len(last), last, []int32{int32(3*each - 1)}},
			{len(lost), lost, []int32{int32(each + 5)}},
			{len(long), long, []int32{1003}},
			{len(alone), alone, []int32{2005}},
			{300, nans(300), []int32{-1}},
			{2, []float32{float32(math.Copysign(0, -1)), 0}, []int32{0}}, // zeros are equal
		} {
			n := len(c.x) / c.cols
			x, dst := r.Tensor(n, c.cols, c.x), r.Tensor(n, 1, nil)
			dst.Type = kernels.I32
			r.Run(func(q kernels.Queue) { q.ArgMax(dst, x) })
			for i, v := range r.Read(dst) {
				require.Equal(t, c.want[i], int32(math.Float32bits(v)), "row %d of %d columns", i, c.cols)
			}
		}
	}
}
