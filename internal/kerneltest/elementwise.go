package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// swiglued is SwiGLU in float64.
func swiglued(gate, up []float32) (out []float64) {
	for i, g := range gate {
		out = append(out, float64(g)/(1+math.Exp(-float64(g)))*float64(up[i]))
	}
	return out
}

// SwiGLU tests the gate, over its arguments too.
func SwiGLU(t *testing.T, b Backend) {
	rigs := b.rigs(t)
	const n, cols = 30, 701
	gate, up := Normals(NewRand(23), n*cols), Normals(NewRand(24), n*cols)
	for i := range gate {
		gate[i] *= 8
	}
	got := eachCut(t, rigs, n, func(r *Rig) func(from, to int) []float32 {
		return func(from, to int) []float32 {
			g, u := r.Tensor(to-from, cols, gate[from*cols:to*cols]), r.Tensor(to-from, cols, up[from*cols:to*cols])
			out := r.Tensor(to-from, cols, nil)
			r.Run(func(q kernels.Queue) { q.SwiGLU(out, g, u); q.SwiGLU(g, g, u) })
			SameBits(t, r.Read(out), r.Read(g), "over the gate")
			return r.Read(out)
		}
	})
	near(t, swiglued(gate, up), got, 0x1p-21, "SwiGLU") // the exponential's 2^-22 and three roundings

	r := rigs[0]
	g, u := r.Tensor(1, 4, []float32{-200, 200, 0, -inf}), r.Tensor(1, 4, []float32{2, 2, 2, 2})
	r.Run(func(q kernels.Queue) { q.SwiGLU(u, g, u) })
	got = r.Read(u)
	require.Equal(t, []float32{0, 400, 0}, got[:3], "far from 0, and over up")
	require.True(t, got[3] != got[3], "of minus infinity")
}

// Add tests sums, which are exact to the bit.
func Add(t *testing.T, b Backend) {
	rigs := b.rigs(t)
	const n, cols = 61, 1999
	x, y := Normals(NewRand(25), n*cols), Normals(NewRand(26), n*cols)
	want := make([]float32, n*cols)
	for i := range want {
		want[i] = x[i] + y[i]
	}
	got := eachCut(t, rigs, n, func(r *Rig) func(from, to int) []float32 {
		return func(from, to int) []float32 {
			dst, add := r.Tensor(to-from, cols, x[from*cols:to*cols]), r.Tensor(to-from, cols, y[from*cols:to*cols])
			r.Run(func(q kernels.Queue) { q.Add(dst, add) })
			return r.Read(dst)
		}
	})
	SameBits(t, want, got, "Add")
}
