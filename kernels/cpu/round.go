package cpu

import "github.com/leat-dev/leat/internal/panel"

// round is the work of bringing the rows of x to BF16, where products with BF16 weights
// take them so.
type round struct {
	kern         *panel.Kernels
	x            []float32
	dst          []uint16
	n, k, stride int
	parts        int
	mem          scratch
}

// roundedBytes returns the bytes of rows rounded to BF16.
func roundedBytes(n, k int) int64 { return 2 * int64(n) * int64(panel.BF16Stride(k)) }

// run rounds x [n, k]. The rows are valid until the next run, stride numbers from one to
// the next.
func (j *round) run(q *queue, x []float32, n, k int) (rows []uint16, stride int, err error) {
	mem, err := j.mem.take(q.Device(), roundedBytes(n, k))
	if err != nil {
		return nil, 0, err
	}
	j.x, j.dst, j.n, j.k, j.stride = x, uint16s(mem), n, k, panel.BF16Stride(k)
	j.parts = parts(n, float64(n)*float64(k)/4)
	q.Parallel(j.parts, j)
	return j.dst, j.stride, nil
}

// Do rounds a span of the rows.
func (j *round) Do(part, _ int) {
	from, to := span(part, j.parts, j.n)
	for r := from; r < to; r++ {
		j.kern.RoundBF16(j.dst[r*j.stride:][:j.k], j.x[r*j.k:][:j.k])
	}
}
