package cpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// near compares with numbers from float64, each within a relative bound.
func near(t *testing.T, want []float64, got []float32, bound float64, what string) {
	t.Helper()
	require.Equal(t, len(want), len(got))
	for i, w := range want {
		if !(math.Abs(w-float64(got[i])) <= bound*max(math.Abs(w), 1e-30)) {
			require.Failf(t, "too far off", "%s: element %d is %v, it must be %v", what, i, got[i], w)
		}
	}
}

// eachCut runs an op on n rows on one core and on all, whole and row by row,
// and returns the result that all must have.
func eachCut(t *testing.T, n int, op func(r *rig, from, to int) []float32) []float32 {
	t.Helper()
	rigs := oneAndAll(t)
	whole := op(rigs[0], 0, n)
	sameBits(t, whole, op(rigs[1], 0, n), "on all cores")
	var single []float32
	for i := range n {
		single = append(single, op(rigs[1], i, i+1)...)
	}
	sameBits(t, whole, single, "row by row")
	return whole
}

func TestRMSNorm(t *testing.T) {
	for _, c := range []struct{ n, cols int }{{1, 1}, {3, 77}, {90, 1000}} {
		x, gain := normals(newRand(20), c.n*c.cols), normals(newRand(21), c.cols)
		const eps = 1e-5
		want := make([]float64, 0, len(x))
		for i := range c.n {
			row, sum := x[i*c.cols:][:c.cols], 0.0
			for _, v := range row {
				sum += float64(v) * float64(v)
			}
			for j, v := range row {
				want = append(want, float64(v)*float64(gain[j])/math.Sqrt(sum/float64(c.cols)+float64(float32(eps))))
			}
		}
		got := eachCut(t, c.n, func(r *rig, from, to int) []float32 {
			in, out, g := r.tensor(to-from, c.cols, x[from*c.cols:to*c.cols]), r.tensor(to-from, c.cols, nil), r.vector(gain)
			r.run(func(q kernels.Queue) { q.RMSNorm(out, in, g, eps); q.RMSNorm(in, in, g, eps) })
			r.margins(out)
			sameBits(t, read(out), read(in), "in place")
			return read(out)
		})
		near(t, want, got, 0x1p-22, "RMSNorm")
	}
}

func TestRoPE(t *testing.T) {
	for _, c := range []struct{ n, heads, dim, pairs int }{{1, 1, 2, 1}, {5, 3, 64, 32}, {40, 4, 80, 20}, {3, 2, 7, 0}} {
		for _, split := range []bool{false, true} {
			width := c.heads * c.dim
			x := normals(newRand(22), c.n*width)
			freq := make([]float32, max(1, c.pairs))
			for i := range freq {
				freq[i] = float32(math.Pow(10000, -float64(i)/float64(len(freq))))
			}
			if c.pairs == 0 {
				freq[0] = 0 // a weight can't be empty: one pair that stays
			}
			at := func(row int) int32 { return int32(row * row * 71) }
			var want []float64
			for i, v := range x {
				row, d := i/width, i%c.dim
				p, first := d/2, d%2 == 0
				if split {
					p, first = d%len(freq), d < len(freq)
				}
				if d >= 2*len(freq) {
					want = append(want, float64(v))
					continue
				}
				other := i + 1
				switch {
				case split && first:
					other = i + len(freq)
				case split:
					other = i - len(freq)
				case !first:
					other = i - 1
				}
				s, k := math.Sincos(float64(at(row)) * float64(freq[p]))
				if first {
					s = -s
				}
				want = append(want, float64(v)*k+float64(x[other])*s)
			}
			got := eachCut(t, c.n, func(r *rig, from, to int) []float32 {
				in, f := r.tensor(to-from, width, x[from*width:to*width]), r.vector(freq)
				var h kernels.Header
				for row := from; row < to; row++ {
					h.Append(0, at(row), 0, false)
				}
				rows := r.rows(&h)
				r.run(func(q kernels.Queue) {
					q.RoPE(in, kernels.Rotation{HeadDim: c.dim, Frequencies: f, Split: split}, rows)
				})
				r.margins(in)
				return read(in)
			})
			for i, w := range want {
				require.InDelta(t, w, got[i], 8*0x1p-24*4, "split %v, element %d", split, i)
			}
		}
	}
}

// What a queue keeps of the rows and frequencies before doesn't show.
func TestRoPEAfterOtherRows(t *testing.T) {
	const dim, pairs = 16, 8
	type call struct {
		positions []int32
		freq      []float32
	}
	rng := newRand(42)
	slow, fast, fewer := normals(rng, pairs), normals(rng, pairs), normals(rng, pairs/2)
	turn := func(r *rig, c call, x []float32) []float32 {
		in, f := r.tensor(len(c.positions), dim, x), r.vector(c.freq)
		var h kernels.Header
		for _, p := range c.positions {
			h.Append(0, p, 0, false)
		}
		rows := r.rows(&h)
		r.run(func(q kernels.Queue) { q.RoPE(in, kernels.Rotation{HeadDim: dim, Frequencies: f}, rows) })
		return read(in)
	}
	used := newRig(t, 0)
	for i, c := range []call{
		{[]int32{0, 5, 9}, slow}, {[]int32{0, 5, 9}, slow}, {[]int32{1, 5, 10}, slow}, {[]int32{1, 5, 10}, fast}, {[]int32{1}, fast},
		{[]int32{1, 5, 9, 10, 11}, fast}, {[]int32{1, 5}, fewer}, {[]int32{1, 5, 9, 10, 11}, fewer}, {[]int32{1, 5, 9, 10, 11}, slow},
	} {
		x := normals(rng, len(c.positions)*dim)
		sameBits(t, turn(newRig(t, 1), c, x), turn(used, c, x), "call %d", i)
	}
}

func TestSwiGLU(t *testing.T) {
	const n, cols = 30, 701
	gate, up := normals(newRand(23), n*cols), normals(newRand(24), n*cols)
	want := make([]float64, n*cols)
	for i := range gate {
		gate[i] *= 8
		want[i] = float64(gate[i]) / (1 + math.Exp(-float64(gate[i]))) * float64(up[i])
	}
	got := eachCut(t, n, func(r *rig, from, to int) []float32 {
		g, u := r.tensor(to-from, cols, gate[from*cols:to*cols]), r.tensor(to-from, cols, up[from*cols:to*cols])
		out := r.tensor(to-from, cols, nil)
		r.run(func(q kernels.Queue) { q.SwiGLU(out, g, u); q.SwiGLU(g, g, u) })
		r.margins(out)
		sameBits(t, read(out), read(g), "over the gate")
		return read(out)
	})
	near(t, want, got, 0x1p-21, "SwiGLU")

	r := newRig(t, 0)
	g, u := r.tensor(1, 3, []float32{-200, 200, 0}), r.tensor(1, 3, []float32{2, 2, 2})
	r.run(func(q kernels.Queue) { q.SwiGLU(u, g, u) })
	require.Equal(t, []float32{0, 400, 0}, read(u), "far from 0, and over up")
}

func TestAdd(t *testing.T) {
	const n, cols = 61, 1999
	a, b := normals(newRand(25), n*cols), normals(newRand(26), n*cols)
	want := make([]float32, n*cols)
	for i := range want {
		want[i] = a[i] + b[i]
	}
	got := eachCut(t, n, func(r *rig, from, to int) []float32 {
		dst, x := r.tensor(to-from, cols, a[from*cols:to*cols]), r.tensor(to-from, cols, b[from*cols:to*cols])
		r.run(func(q kernels.Queue) { q.Add(dst, x) })
		r.margins(dst)
		return read(dst)
	})
	sameBits(t, want, got, "Add")
}

func TestEmbed(t *testing.T) {
	const n = 50
	for _, typ := range allTypes {
		for _, c := range []struct{ vocab, cols int }{{1, 64}, {37, 320}} {
			elems, _ := typ.Block()
			c.cols *= max(1, elems/32) // whole superblocks
			m, exact := matrix(newRand(27), typ, c.vocab, c.cols)
			rng := newRand(28)
			tokens := make([]int32, n)
			var want []float32
			for i := range tokens {
				tokens[i] = int32(rng.IntN(c.vocab))
				for _, v := range exact[int(tokens[i])*c.cols:][:c.cols] {
					want = append(want, float32(v))
				}
			}
			got := eachCut(t, n, func(r *rig, from, to int) []float32 {
				dst, w := r.tensor(to-from, c.cols, nil), r.pack(m)
				var h kernels.Header
				for _, token := range tokens[from:to] {
					h.Append(token, 0, 0, false)
				}
				rows := r.rows(&h)
				r.run(func(q kernels.Queue) { q.Embed(dst, w, rows) })
				r.margins(dst)
				return read(dst)
			})
			sameBits(t, want, got, "%v", typ)
		}
	}
}

func TestGather(t *testing.T) {
	for _, r := range oneAndAll(t) {
		const n, cols = 200, 700
		x := normals(newRand(29), n*cols)
		var h kernels.Header
		var want []float32
		for i := range n {
			wanted := i%3 != 1
			h.Append(0, 0, 0, wanted)
			if wanted {
				want = append(want, x[i*cols:][:cols]...)
			}
		}
		src, dst, rows := r.tensor(n, cols, x), r.tensor(len(h.Outputs), cols, nil), r.rows(&h)
		r.run(func(q kernels.Queue) { q.Gather(dst, src, rows) })
		r.margins(dst)
		sameBits(t, want, read(dst), "Gather")

		h.Outputs = h.Outputs[:0]
		none := r.rows(&h)
		r.run(func(q kernels.Queue) { q.Gather(dst.First(0), src, none) })
		sameBits(t, want, read(dst), "nothing is wanted")
	}
}

func TestArgMax(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	long := normals(newRand(30), 5*argmaxCols+17)
	long[2*argmaxCols+3], long[4*argmaxCols] = 100, 100
	lost := make([]float32, 2*argmaxCols)
	for i := range lost {
		lost[i] = nan
	}
	lost[argmaxCols+5] = -inf
	for _, r := range oneAndAll(t) {
		for _, c := range []struct {
			cols int
			x    []float32
			want []int32
		}{
			{1, []float32{3, nan}, []int32{0, 0}},
			{4, []float32{1, 5, 5, 2, nan, -inf, -inf, nan, nan, nan, nan, nan, inf, nan, inf, 7, -1, -2, nan, -1}, []int32{1, 1, 0, 0, 0}},
			{len(long), long, []int32{2*argmaxCols + 3}},
			{len(lost), lost, []int32{argmaxCols + 5}},
		} {
			n := len(c.x) / c.cols
			x, dst := r.tensor(n, c.cols, c.x), r.tensor(n, 1, nil)
			dst.Type = kernels.I32
			r.run(func(q kernels.Queue) { q.ArgMax(dst, x) })
			r.margins(dst)
			require.Equal(t, c.want, int32s(dst.Buf.Bytes()[dst.Off:])[:n], fmt.Sprintf("%d columns", c.cols))
		}
	}
}

func TestSpanSharesOutAll(t *testing.T) {
	for units := range 40 {
		for cut := 1; cut < 9; cut++ {
			next := 0
			for p := range cut {
				from, to := span(p, cut, units)
				require.Equal(t, next, from)
				require.LessOrEqual(t, to-from, units/cut+1)
				next = to
			}
			require.Equal(t, units, next)
		}
	}
	require.Equal(t, 1, parts(100, 2*partTime-1), "small work stays with the caller")
	require.Equal(t, 2, parts(100, 2*partTime))
	require.Equal(t, 100, parts(100, 1e12))
	require.Equal(t, 1, parts(0, 1e12))
}
