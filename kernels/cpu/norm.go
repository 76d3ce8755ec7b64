package cpu

import (
	"math"

	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// norm is the work of one RMSNorm or LayerNorm; its unit is a row.
type norm struct {
	kern         *panel.Kernels
	dst, x, gain []float32
	bias         []float32 // nil: none
	centred      bool      // a LayerNorm
	n, cols      int
	eps          float32
	parts        int
}

func (q *queue) RMSNorm(dst, x kernels.Tensor, s kernels.NormSpec) {
	q.normalize("RMSNorm", dst, x, s, false)
}

func (q *queue) LayerNorm(dst, x kernels.Tensor, s kernels.NormSpec) {
	q.normalize("LayerNorm", dst, x, s, true)
}

func (q *queue) normalize(op string, dst, x kernels.Tensor, s kernels.NormSpec, centred bool) {
	if q.Failed() {
		return
	}
	a := args{op: op}
	j := &q.norm
	j.x = a.floats("x", x, x.Rows, x.Cols)
	j.dst = a.floats("dst", dst, x.Rows, x.Cols)
	j.gain = a.vector("the gain", s.Gain, x.Cols)
	if j.bias = nil; s.Bias != nil {
		j.bias = a.vector("the bias", s.Bias, x.Cols)
	}
	j.n, j.cols, j.eps, j.centred = x.Rows, x.Cols, s.Eps, centred
	if !q.ready(&a) || j.n == 0 {
		return
	}
	passes := 1.
	if centred {
		passes = 2
	}
	j.parts = parts(j.n, float64(j.n)*(30+passes*float64(j.cols)/4))
	q.Parallel(j.parts, j)
}

// Do normalizes a span of the rows.
func (j *norm) Do(part, _ int) {
	from, to := span(part, j.parts, j.n)
	for r := from; r < to; r++ {
		x, dst := j.x[r*j.cols:][:j.cols], j.dst[r*j.cols:][:j.cols]
		if j.centred {
			j.centre(dst, x)
		} else {
			mean := j.kern.SumSquares(x) / float64(j.cols)
			j.kern.Scale(dst, x, j.gain, float32(1/math.Sqrt(mean+float64(j.eps))))
		}
		if j.bias != nil {
			j.kern.Add(dst, j.bias)
		}
	}
}

// centre is a row of LayerNorm without the bias. The mean is taken away twice: what
// the first, rounded to float32, leaves is small, and its square too, so that the
// variance loses nothing by the difference of squares (Chan, Golub and LeVeque,
// "Algorithms for Computing the Sample Variance", 1983).
func (j *norm) centre(dst, x []float32) {
	n := float64(j.cols)
	j.kern.Subtract(dst, x, float32(j.kern.Sum(x)/n))
	left := j.kern.Sum(dst) / n
	variance := j.kern.SumSquares(dst)/n - float64(left*left)
	j.kern.Standardize(dst, dst, j.gain, float32(left), float32(1/math.Sqrt(max(0, variance)+float64(j.eps))))
}
