package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// Activation is a function in float64, and how far a float32 result may be off: how
// many times 2^-24, relative to the result.
func Activation(f kernels.Activation, x float64) (value, ulps float64) {
	switch f {
	case kernels.SiLU:
		return x / (1 + math.Exp(-x)), 6
	case kernels.GELU:
		// Four roundings make the power of e, whose error is relative to that power.
		power := 2 * math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x)
		return x / (1 + math.Exp(-power)), 6 + 4*math.Abs(power)
	case kernels.GELUErf:
		return x / 2 * math.Erfc(-x/math.Sqrt2), 10 + x*x/2
	case kernels.ReLU:
		return max(x, 0), 0
	case kernels.ReLUSquared:
		return max(x, 0) * max(x, 0), 1
	case kernels.Tanh:
		return math.Tanh(x), 8
	case kernels.Sigmoid:
		return 1 / (1 + math.Exp(-x)), 5
	}
	return math.NaN(), 0
}

// gatedBy is Gated in float64.
func gatedBy(f kernels.Activation, gate, up []float32) (out []float64) {
	for i, g := range gate {
		v, _ := Activation(f, float64(g))
		out = append(out, v*float64(up[i]))
	}
	return out
}

// Gated tests the gates, over their arguments too.
func Gated(t *testing.T, b Backend) {
	rigs := b.rigs(t)
	const n, cols = 30, 701
	gate, up := Normals(NewRand(23), n*cols), Normals(NewRand(24), n*cols)
	for i := range gate {
		gate[i] *= 8
	}
	for _, f := range kernels.Activations() {
		got := eachCut(t, rigs, n, func(r *Rig) func(from, to int) []float32 {
			return func(from, to int) []float32 {
				g, u := r.Tensor(to-from, cols, gate[from*cols:to*cols]), r.Tensor(to-from, cols, up[from*cols:to*cols])
				out := r.Tensor(to-from, cols, nil)
				r.Run(func(q kernels.Queue) { q.Gated(out, g, u, f); q.Gated(g, g, u, f) })
				SameBits(t, r.Read(out), r.Read(g), "over the gate")
				return r.Read(out)
			}
		})
		for i, w := range gatedBy(f, gate, up) {
			_, ulps := Activation(f, float64(gate[i]))
			require.InDelta(t, w, got[i], math.Abs(w)*(ulps+1)*ulp+1e-36, "%v of %v, times %v", f, gate[i], up[i])
		}
	}

	r := rigs[0]
	g, u := r.Tensor(1, 4, []float32{-200, 200, 0, -inf}), r.Tensor(1, 4, []float32{2, 2, 2, 2})
	r.Run(func(q kernels.Queue) { q.Gated(u, g, u, kernels.SiLU) })
	got := r.Read(u)
	require.Equal(t, []float32{0, 400, 0}, got[:3], "far from 0, and over up")
	require.True(t, got[3] != got[3], "of minus infinity")
}

// Activate tests the functions alone: in place, near 0, and far out.
func Activate(t *testing.T, b Backend) {
	rigs := b.rigs(t)
	const n, cols = 9, 555
	x := Normals(NewRand(35), n*cols)
	for i := range x {
		x[i] *= float32(math.Exp2(float64(i%40 - 30))) // from 2^-30 to 2^9
	}
	for _, f := range kernels.Activations() {
		got := eachCut(t, rigs, n, func(r *Rig) func(from, to int) []float32 {
			return func(from, to int) []float32 {
				in, out := r.Tensor(to-from, cols, x[from*cols:to*cols]), r.Tensor(to-from, cols, nil)
				r.Run(func(q kernels.Queue) { q.Activate(out, in, f); q.Activate(in, in, f) })
				SameBits(t, r.Read(out), r.Read(in), "in place")
				return r.Read(out)
			}
		})
		for i, v := range x {
			w, ulps := Activation(f, float64(v))
			require.InDelta(t, w, got[i], math.Abs(w)*ulps*ulp+1e-36, "%v of %v", f, v)
		}
		odd := []float32{NaN, inf}
		in := rigs[0].Tensor(1, len(odd), odd)
		rigs[0].Run(func(q kernels.Queue) { q.Activate(in, in, f) })
		far := inf
		if f == kernels.Tanh || f == kernels.Sigmoid {
			far = 1
		}
		SameBits(t, []float32{NaN, far}, rigs[0].Read(in), "%v of NaN and infinity", f)
	}
}

// Scale tests products with a number, which are exact to the bit.
func Scale(t *testing.T, b Backend) {
	const n, cols, factor = 17, 701, 0.7
	x := Normals(NewRand(36), n*cols)
	want := make([]float32, len(x))
	for i, v := range x {
		want[i] = v * factor
	}
	got := eachCut(t, b.rigs(t), n, func(r *Rig) func(from, to int) []float32 {
		return func(from, to int) []float32 {
			in := r.TensorAt(Margin+1, to-from, cols, x[from*cols:to*cols])
			r.Run(func(q kernels.Queue) { q.Scale(in, factor) })
			return r.Read(in)
		}
	})
	SameBits(t, want, got, "Scale")
}

// SoftCap tests bounds, near 0 and far out.
func SoftCap(t *testing.T, b Backend) {
	const n, cols, most = 17, 701, 30
	x := Normals(NewRand(37), n*cols)
	for i := range x {
		x[i] *= float32(math.Exp2(float64(i%40 - 30)))
	}
	x[5], x[6], x[7] = inf, -inf, NaN
	got := eachCut(t, b.rigs(t), n, func(r *Rig) func(from, to int) []float32 {
		return func(from, to int) []float32 {
			in := r.Tensor(to-from, cols, x[from*cols:to*cols])
			r.Run(func(q kernels.Queue) { q.SoftCap(in, most) })
			return r.Read(in)
		}
	})
	SameBits(t, []float32{most, -most, NaN}, got[5:8], "far out")
	for i, v := range x {
		if v == v {
			w := most * math.Tanh(float64(v)/most)
			require.InDelta(t, w, got[i], math.Abs(w)*10*ulp, "of %v", v)
		}
	}
}

// AddBias tests sums with a row, which are exact to the bit.
func AddBias(t *testing.T, b Backend) {
	const n, cols = 61, 701
	x, bias := Normals(NewRand(38), n*cols), Normals(NewRand(39), cols)
	want := make([]float32, len(x))
	for i, v := range x {
		want[i] = v + bias[i%cols]
	}
	got := eachCut(t, b.rigs(t), n, func(r *Rig) func(from, to int) []float32 {
		w := r.Vector(bias)
		return func(from, to int) []float32 {
			in := r.TensorAt(Margin+1, to-from, cols, x[from*cols:to*cols])
			r.Run(func(q kernels.Queue) { q.AddBias(in, w) })
			return r.Read(in)
		}
	})
	SameBits(t, want, got, "AddBias")
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
