package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// normed is RMSNorm in float64.
func normed(x, gain, bias []float32, eps float32) (out []float64) {
	cols := len(gain)
	for ; len(x) > 0; x = x[cols:] {
		sum := 0.0
		for _, v := range x[:cols] {
			sum += float64(v) * float64(v)
		}
		for j, v := range x[:cols] {
			y := float64(v) * float64(gain[j]) / math.Sqrt(sum/float64(cols)+float64(eps))
			if bias != nil {
				y += float64(bias[j])
			}
			out = append(out, y)
		}
	}
	return out
}

// RMSNorm tests norms, in place too.
func RMSNorm(t *testing.T, b Backend) {
	rigs := b.rigs(t)
	for _, c := range []struct{ n, cols int }{{1, 1}, {3, 77}, {2, 256}, {90, 1000}} {
		x, gain := Normals(NewRand(20), c.n*c.cols), Normals(NewRand(21), c.cols)
		const eps = 1e-5
		got := eachCut(t, rigs, c.n, func(r *Rig) func(from, to int) []float32 {
			spec := kernels.NormSpec{Gain: r.Vector(gain), Eps: eps}
			return func(from, to int) []float32 {
				in, out := r.TensorAt(Margin+3, to-from, c.cols, x[from*c.cols:to*c.cols]), r.Tensor(to-from, c.cols, nil)
				r.Run(func(q kernels.Queue) { q.RMSNorm(out, in, spec); q.RMSNorm(in, in, spec) })
				SameBits(t, r.Read(out), r.Read(in), "in place")
				return r.Read(out)
			}
		})
		near(t, normed(x, gain, nil, eps), got, b.RMSNorm(c.cols), "RMSNorm")
	}
}

// layerNormed is LayerNorm in float64, and the size of what rounds: with z the
// normalized number, (1 + |z|)·|gain| + |bias|.
func layerNormed(x, gain, bias []float32, eps float32) (out, size []float64) {
	cols := len(gain)
	for ; len(x) > 0; x = x[cols:] {
		mean, variance := 0.0, 0.0
		for _, v := range x[:cols] {
			mean += float64(v) / float64(cols)
		}
		for _, v := range x[:cols] {
			variance += (float64(v) - mean) * (float64(v) - mean) / float64(cols)
		}
		for j, v := range x[:cols] {
			z, b := (float64(v)-mean)/math.Sqrt(variance+float64(eps)), 0.0
			if bias != nil {
				b = float64(bias[j])
			}
			out = append(out, z*float64(gain[j])+b)
			size = append(size, (1+math.Abs(z))*math.Abs(float64(gain[j]))+math.Abs(b))
		}
	}
	return out, size
}

// LayerNorm tests norms around the mean, in place too, with and without bias.
func LayerNorm(t *testing.T, b Backend) {
	rigs := b.rigs(t)
	for _, c := range []struct{ n, cols int }{{1, 1}, {3, 77}, {2, 256}, {40, 1000}} {
		for _, biased := range []bool{false, true} {
			x, gain := Normals(NewRand(20), c.n*c.cols), Normals(NewRand(21), c.cols)
			var bias []float32
			if biased {
				bias = Normals(NewRand(33), c.cols)
			}
			for i := range x[:c.cols] {
				x[i] += 300 // a mean far from 0, for its size
			}
			const eps = 1e-5
			got := eachCut(t, rigs, c.n, func(r *Rig) func(from, to int) []float32 {
				spec := kernels.NormSpec{Gain: r.Vector(gain), Eps: eps}
				if biased {
					spec.Bias = r.Vector(bias)
				}
				return func(from, to int) []float32 {
					in, out := r.TensorAt(Margin+3, to-from, c.cols, x[from*c.cols:to*c.cols]), r.Tensor(to-from, c.cols, nil)
					r.Run(func(q kernels.Queue) { q.LayerNorm(out, in, spec); q.LayerNorm(in, in, spec) })
					SameBits(t, r.Read(out), r.Read(in), "in place")
					return r.Read(out)
				}
			})
			want, size := layerNormed(x, gain, bias, eps)
			for i, w := range want {
				require.InDelta(t, w, got[i], size[i]*4*b.RMSNorm(c.cols), "%d columns, bias %v, element %d", c.cols, biased, i)
			}
		}
	}
	r := rigs[0]
	x, dst := r.Tensor(3, 2, []float32{1, NaN, 1, inf, 5, 5}), r.Tensor(3, 2, nil)
	spec := kernels.NormSpec{Gain: r.Vector([]float32{1, 1}), Bias: r.Vector([]float32{7, 8}), Eps: 1e-5}
	r.Run(func(q kernels.Queue) { q.LayerNorm(dst, x, spec) })
	SameBits(t, []float32{NaN, NaN, NaN, NaN, 7, 8}, r.Read(dst), "no numbers, and no variance")
}

// Vectors tests that a gain and a bias may be of any float type, and what RMSNorm
// does with a bias.
func Vectors(t *testing.T, b Backend) {
	r := b.Rig(t)
	const n, cols, eps = 3, 333, 1e-5
	for _, typ := range b.floats() {
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			rng := NewRand(34)
			gain, bias := Matrix(rng, typ, 1, cols), Matrix(rng, typ, 1, cols)
			g, o := float32sOf(Exact(gain)), float32sOf(Exact(bias))
			x := Normals(rng, n*cols)
			in, dst := r.Tensor(n, cols, x), r.Tensor(n, cols, nil)
			offset := r.Pack(bias)
			spec := kernels.NormSpec{Gain: r.Pack(gain), Bias: offset, Eps: eps}

			r.Run(func(q kernels.Queue) { q.RMSNorm(dst, in, spec) })
			got := r.Read(dst)
			for i, w := range normed(x, g, o, eps) {
				require.InDelta(t, w, got[i], (math.Abs(w)+math.Abs(float64(o[i%cols])))*2*b.RMSNorm(cols))
			}
			r.Run(func(q kernels.Queue) { q.LayerNorm(dst, in, spec) })
			want, size := layerNormed(x, g, o, eps)
			got = r.Read(dst)
			for i, w := range want {
				require.InDelta(t, w, got[i], size[i]*4*b.RMSNorm(cols))
			}
			r.Run(func(q kernels.Queue) { q.AddBias(in, offset) })
			for i := range x {
				x[i] += o[i%cols]
			}
			SameBits(t, x, r.Read(in), "AddBias of %v", typ)
		})
	}
}

func float32sOf(x []float64) (out []float32) {
	for _, v := range x {
		out = append(out, float32(v))
	}
	return out
}

func layerNormTrial(rng *rand.Rand) (c trial) {
	n, cols := between(rng, 1, 9), between(rng, 1, 700)
	x, gain, bias := Normals(rng, n*cols), Normals(rng, cols), Normals(rng, cols)
	c.want, c.size = layerNormed(x, gain, bias, 1e-5)
	c.on = func(r *Rig) []float32 {
		in, out := r.Tensor(n, cols, x), r.Tensor(n, cols, nil)
		spec := kernels.NormSpec{Gain: r.Vector(gain), Bias: r.Vector(bias), Eps: 1e-5}
		r.Run(func(q kernels.Queue) { q.LayerNorm(out, in, spec) })
		return r.Read(out)
	}
	return c
}
