package gpu

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// eachCut runs an op on n rows, whole and row by row, and returns the result that
// both must have.
func eachCut(t *testing.T, r *rig, n int, op func(from, to int) []float32) []float32 {
	t.Helper()
	whole := op(0, n)
	var single []float32
	for i := range n {
		single = append(single, op(i, i+1)...)
	}
	sameBits(t, whole, single, "row by row")
	return whole
}

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

// normed is RMSNorm in float64.
func normed(x, gain []float32, eps float32) (out []float64) {
	cols := len(gain)
	for ; len(x) > 0; x = x[cols:] {
		sum := 0.0
		for _, v := range x[:cols] {
			sum += float64(v) * float64(v)
		}
		for j, v := range x[:cols] {
			out = append(out, float64(v)*float64(gain[j])/math.Sqrt(sum/float64(cols)+float64(eps)))
		}
	}
	return out
}

func TestRMSNorm(t *testing.T) {
	r := onGPU(t)
	for _, c := range []struct{ n, cols int }{{1, 1}, {3, 77}, {2, 256}, {9, 1000}} {
		x, gain := normals(newRand(20), c.n*c.cols), normals(newRand(21), c.cols)
		const eps = 1e-5
		g := r.vector(gain)
		got := eachCut(t, r, c.n, func(from, to int) []float32 {
			in, out := r.tensorAt(margin+3, to-from, c.cols, x[from*c.cols:to*c.cols]), r.tensor(to-from, c.cols, nil)
			r.run(func(q kernels.Queue) { q.RMSNorm(out, in, g, eps); q.RMSNorm(in, in, g, eps) })
			sameBits(t, r.read(out), r.read(in), "in place")
			return r.read(out)
		})
		// A thread's sum rounds cols/256 times, their sum 8 times: a root takes half of that. Then 5 operations.
		bound := (float64(ceil(c.cols, 256)+8)/2 + 5) * 0x1p-24
		near(t, normed(x, gain, eps), got, bound, "RMSNorm")
	}
}

// rotation is a test of RoPE.
type rotation struct {
	n, heads, dim int
	split         bool
	freq          []float32
	x             []float32
	at            func(row int) int32
}

// on turns rows from to to-1 on a rig.
func (c *rotation) on(r *rig, from, to int) []float32 {
	width := c.heads * c.dim
	in, f := r.tensor(to-from, width, c.x[from*width:to*width]), r.vector(c.freq)
	var h kernels.Header
	for row := from; row < to; row++ {
		h.Append(0, c.at(row), 0, false)
	}
	rows := r.rows(&h)
	r.run(func(q kernels.Queue) {
		q.RoPE(in, kernels.Rotation{HeadDim: c.dim, Frequencies: f, Split: c.split}, rows)
	})
	return r.read(in)
}

// exact returns the turned rows, and of each element the size of its two terms.
func (c *rotation) exact() (want, size []float64) {
	pairs := len(c.freq)
	for i, v := range c.x {
		row, d := i/(c.heads*c.dim), i%c.dim
		if d >= 2*pairs {
			want, size = append(want, float64(v)), append(size, 0)
			continue
		}
		p, first, far := d/2, d%2 == 0, 1
		if c.split {
			p, first, far = d%pairs, d < pairs, pairs
		}
		other, sign := i-far, 1.0
		if first {
			other, sign = i+far, -1
		}
		sin, cos := math.Sincos(float64(c.at(row)) * float64(c.freq[p]))
		want = append(want, float64(v)*cos+sign*float64(c.x[other])*sin)
		size = append(size, math.Abs(float64(v))+math.Abs(float64(c.x[other])))
	}
	return want, size
}

func TestRoPE(t *testing.T) {
	r := onGPU(t)
	for _, c := range []struct{ n, heads, dim, pairs int }{{1, 1, 2, 1}, {5, 3, 64, 32}, {20, 4, 80, 20}, {2, 1, 600, 300}} {
		for _, split := range []bool{false, true} {
			turn := rotation{n: c.n, heads: c.heads, dim: c.dim, split: split, x: normals(newRand(22), c.n*c.heads*c.dim),
				at: func(row int) int32 { return int32(row * row * row * 2071) }}
			for i := range c.pairs {
				turn.freq = append(turn.freq, float32(math.Pow(10000, -float64(i)/float64(c.pairs))))
			}
			got := eachCut(t, r, c.n, func(from, to int) []float32 { return turn.on(r, from, to) })
			want, size := turn.exact()
			for i, w := range want {
				// Sine and cosine are within 2e-7; then each product and the sum rounds.
				require.InDelta(t, w, got[i], size[i]*(2e-7+2*0x1p-24), "split %v, element %d of %d", split, i, c.dim)
			}
		}
	}
}

// swiglued is SwiGLU in float64.
func swiglued(gate, up []float32) (out []float64) {
	for i, g := range gate {
		out = append(out, float64(g)/(1+math.Exp(-float64(g)))*float64(up[i]))
	}
	return out
}

func TestSwiGLU(t *testing.T) {
	r := onGPU(t)
	const n, cols = 5, 701
	gate, up := normals(newRand(23), n*cols), normals(newRand(24), n*cols)
	for i := range gate {
		gate[i] *= 8
	}
	got := eachCut(t, r, n, func(from, to int) []float32 {
		g, u := r.tensor(to-from, cols, gate[from*cols:to*cols]), r.tensor(to-from, cols, up[from*cols:to*cols])
		out := r.tensor(to-from, cols, nil)
		r.run(func(q kernels.Queue) { q.SwiGLU(out, g, u); q.SwiGLU(g, g, u) })
		sameBits(t, r.read(out), r.read(g), "over the gate")
		return r.read(out)
	})
	near(t, swiglued(gate, up), got, 0x1p-21, "SwiGLU") // the exponential's 2^-22 and three roundings

	g, u := r.tensor(1, 4, []float32{-200, 200, 0, float32(math.Inf(-1))}), r.tensor(1, 4, []float32{2, 2, 2, 2})
	r.run(func(q kernels.Queue) { q.SwiGLU(u, g, u) })
	got = r.read(u)
	require.Equal(t, []float32{0, 400, 0}, got[:3], "far from 0, and over up")
	require.True(t, got[3] != got[3], "of minus infinity")
}

func TestAdd(t *testing.T) {
	r := onGPU(t)
	const n, cols = 7, 1999
	a, b := normals(newRand(25), n*cols), normals(newRand(26), n*cols)
	want := make([]float32, n*cols)
	for i := range want {
		want[i] = a[i] + b[i]
	}
	dst, x := r.tensor(n, cols, a), r.tensor(n, cols, b)
	r.run(func(q kernels.Queue) { q.Add(dst, x) })
	sameBits(t, want, r.read(dst), "Add")
}

func TestEmbed(t *testing.T) {
	r := onGPU(t)
	const n = 20
	for _, typ := range allTypes {
		for _, c := range []struct{ vocab, cols int }{{1, 256}, {37, 512}, {70, 288}} {
			if elems, _ := typ.Block(); c.cols%elems != 0 {
				continue
			}
			m := matrix(newRand(27), typ, c.vocab, c.cols)
			numbers := exact(m)
			rng := newRand(28)
			tokens := make([]int32, n)
			var want []float32
			for i := range tokens {
				tokens[i] = int32(rng.IntN(c.vocab))
				for _, v := range numbers[int(tokens[i])*c.cols:][:c.cols] {
					want = append(want, float32(v))
				}
			}
			w := r.pack(m)
			got := eachCut(t, r, n, func(from, to int) []float32 {
				dst := r.tensor(to-from, c.cols, nil)
				var h kernels.Header
				for _, token := range tokens[from:to] {
					h.Append(token, 0, 0, false)
				}
				rows := r.rows(&h)
				r.run(func(q kernels.Queue) { q.Embed(dst, w, rows) })
				return r.read(dst)
			})
			sameBits(t, want, got, "%v", typ)
		}
	}
}

func TestGather(t *testing.T) {
	r := onGPU(t)
	const n, cols = 50, 700
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
	sameBits(t, want, r.read(dst), "Gather")

	h.Outputs = h.Outputs[:0]
	none := r.rows(&h)
	r.run(func(q kernels.Queue) { q.Gather(dst.First(0), src, none) })
	sameBits(t, want, r.read(dst), "nothing is wanted")
}

func TestArgMax(t *testing.T) {
	r := onGPU(t)
	inf := float32(math.Inf(1))
	long := normals(newRand(30), 5017)
	long[1003], long[4999], long[260] = 100, 100, 99
	lost := make([]float32, 3000)
	for i := range lost {
		lost[i] = nan
	}
	lost[2005] = -inf
	none := make([]float32, 300)
	for i := range none {
		none[i] = nan
	}
	for _, c := range []struct {
		cols int
		x    []float32
		want []int32
	}{
		{1, []float32{3, nan}, []int32{0, 0}},
		{4, []float32{1, 5, 5, 2, nan, -inf, -inf, nan, nan, nan, nan, nan, inf, nan, inf, 7, -1, -2, nan, -1}, []int32{1, 1, 0, 0, 0}},
		{len(long), long, []int32{1003}},
		{len(lost), lost, []int32{2005}},
		{len(none), none, []int32{0}},
		{2, []float32{float32(math.Copysign(0, -1)), 0}, []int32{0}}, // zeros are equal
	} {
		n := len(c.x) / c.cols
		x, dst := r.tensor(n, c.cols, c.x), r.tensor(n, 1, nil)
		dst.Type = kernels.I32
		r.run(func(q kernels.Queue) { q.ArgMax(dst, x) })
		for i, v := range r.read(dst) {
			require.Equal(t, c.want[i], int32(math.Float32bits(v)), "row %d of %d columns", i, c.cols)
		}
	}
}
