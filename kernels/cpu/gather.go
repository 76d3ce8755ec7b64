package cpu

import "github.com/leat-dev/leat/kernels"

// gather is the work of one Gather; its unit is an output.
type gather struct {
	dst, src []float32
	outputs  []int32
	cols     int
	parts    int
}

func (q *queue) Gather(dst, src kernels.Tensor, rows kernels.Rows) {
	if q.Failed() {
		return
	}
	a := args{op: "Gather"}
	j := &q.gather
	h := a.header(rows, src.Rows)
	j.outputs, j.cols = h.outputs, src.Cols
	j.src = a.floats("src", src, src.Rows, src.Cols)
	j.dst = a.floats("dst", dst, rows.Outputs, src.Cols)
	for i, r := range j.outputs {
		if r < 0 || int(r) >= src.Rows {
			a.fail("output %d is row %d of %d", i, r, src.Rows)
		}
	}
	if overlap(j.dst, j.src) {
		a.fail("dst lies over src")
	}
	if !q.ready(&a) || len(j.outputs) == 0 {
		return
	}
	j.parts = parts(len(j.outputs), float64(len(j.dst))/2)
	q.Parallel(j.parts, j)
}

// Do copies a span of the outputs.
func (j *gather) Do(part, _ int) {
	from, to := span(part, j.parts, len(j.outputs))
	for i := from; i < to; i++ {
		copy(j.dst[i*j.cols:][:j.cols], j.src[int(j.outputs[i])*j.cols:])
	}
}
