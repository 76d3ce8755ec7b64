package cpu

import (
	"math"

	"github.com/leat-dev/leat/kernels"
)

// norm is the work of one RMSNorm; its unit is a row.
type norm struct {
	dst, x, gain []float32
	n, cols      int
	eps          float32
	parts        int
}

func (q *queue) RMSNorm(dst, x kernels.Tensor, gain kernels.Weight, eps float32) {
	if q.Failed() {
		return
	}
	a := args{op: "RMSNorm"}
	j := &q.norm
	*j = norm{
		x:    a.floats("x", x, x.Rows, x.Cols),
		dst:  a.floats("dst", dst, x.Rows, x.Cols),
		gain: a.vector("the gain", gain, x.Cols),
		n:    x.Rows, cols: x.Cols, eps: eps,
	}
	if !q.ready(&a) || j.n == 0 {
		return
	}
	j.parts = parts(j.n, 2*float64(j.n)*float64(j.cols))
	q.Parallel(j.parts, j)
}

// Do normalizes a span of the rows. A float32's square is exact in float64, so
// that it doesn't matter whether a target fuses the sum.
func (j *norm) Do(part, _ int) {
	from, to := span(part, j.parts, j.n)
	for r := from; r < to; r++ {
		x := j.x[r*j.cols:][:j.cols]
		sum := 0.0
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
		inv := float32(1 / math.Sqrt(sum/float64(j.cols)+float64(j.eps)))
		dst, gain := j.dst[r*j.cols:][:len(x)], j.gain[:len(x)]
		for i, v := range x {
			dst[i] = v * inv * gain[i]
		}
	}
}
