package cpu

import "github.com/leat-dev/leat/internal/panel"

// quantize is the work of bringing the rows of x to the form that quantized
// weights multiply.
type quantize struct {
	kern  *panel.Kernels
	acts  panel.Activations
	x     []float32
	n, k  int
	parts int
	mem   scratch
}

// run quantizes x [n, k]. The result is valid until the next run.
func (j *quantize) run(q *queue, x []float32, n, k int) (*panel.Activations, error) {
	bytes, err := panel.ActivationBytes(n, k)
	if err != nil {
		return nil, err
	}
	mem, err := j.mem.take(q.Device(), bytes)
	if err != nil {
		return nil, err
	}
	if j.acts, err = panel.NewActivations(mem, n, k); err != nil {
		return nil, err
	}
	j.x, j.n, j.k = x, n, k
	j.parts = parts(n, float64(n)*float64(k)/2)
	q.Parallel(j.parts, j)
	return &j.acts, nil
}

// Do quantizes a span of the rows.
func (j *quantize) Do(part, _ int) {
	from, to := span(part, j.parts, j.n)
	for r := from; r < to; r++ {
		j.kern.Quantize(&j.acts, r, j.x[r*j.k:][:j.k])
	}
}
