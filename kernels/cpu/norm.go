package cpu

import (
	"math"

	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// norm is the work of one RMSNorm; its unit is a row.
type norm struct {
	kern         *panel.Kernels
	dst, x, gain []float32
	n, cols      int
	eps          float32
	parts        int
}

func (q *queue) RMSNorm(dst, x kernels.Tensor, s kernels.NormSpec) {
	if q.Failed() {
		return
	}
	a := args{op: "RMSNorm"}
	j := &q.norm
	j.x = a.floats("x", x, x.Rows, x.Cols)
	j.dst = a.floats("dst", dst, x.Rows, x.Cols)
	j.gain = a.vector("the gain", s.Gain, x.Cols)
	j.n, j.cols, j.eps = x.Rows, x.Cols, s.Eps
	if s.Bias != nil {
		a.fail("NormSpec.Bias is not implemented on a CPU")
	}
	if !q.ready(&a) || j.n == 0 {
		return
	}
	j.parts = parts(j.n, float64(j.n)*(30+float64(j.cols)/4))
	q.Parallel(j.parts, j)
}

// Do normalizes a span of the rows.
func (j *norm) Do(part, _ int) {
	from, to := span(part, j.parts, j.n)
	for r := from; r < to; r++ {
		x := j.x[r*j.cols:][:j.cols]
		mean := j.kern.SumSquares(x) / float64(j.cols)
		j.kern.Scale(j.dst[r*j.cols:][:j.cols], x, j.gain, float32(1/math.Sqrt(mean+float64(j.eps))))
	}
}
