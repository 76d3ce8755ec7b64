package kerneltest

import (
	"math"
	"testing"

	"github.com/leat-dev/leat/kernels"
)

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
		near(t, normed(x, gain, eps), got, b.RMSNorm(c.cols), "RMSNorm")
	}
}
