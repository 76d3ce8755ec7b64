package cpu

import (
	"fmt"

	"github.com/leat-dev/leat/kernels"
)

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

// argmaxCols is how many columns a unit of ArgMax looks at.
const argmaxCols = 1 << 14

// argmax is the work of one ArgMax; its unit is a stretch of a row, so that
// one row of a large vocabulary has several.
type argmax struct {
	x         []float32
	n, cols   int
	stretches int
	parts     int
	columns   []int32 // the best of each unit
	best      scratch // holds columns
}

func (q *queue) ArgMax(dst, x kernels.Tensor) {
	if q.Failed() {
		return
	}
	a := args{op: "ArgMax"}
	j := &q.argmax
	j.n, j.cols = x.Rows, x.Cols
	j.x = a.floats("x", x, x.Rows, x.Cols)
	out := a.ints("dst", dst, x.Rows, 1)
	if !q.ready(&a) || j.n == 0 {
		return
	}
	j.stretches = (j.cols + argmaxCols - 1) / argmaxCols
	mem, err := j.best.take(q.Device(), 4*int64(j.n)*int64(j.stretches))
	if err != nil {
		q.Fail(fmt.Errorf("ArgMax: %w", err))
		return
	}
	j.columns = int32s(mem)
	j.parts = parts(len(j.columns), float64(len(j.x)))
	q.Parallel(j.parts, j)
	for r := range out {
		row := j.x[r*j.cols:][:j.cols]
		best := j.columns[r*j.stretches:][:j.stretches]
		out[r] = best[0]
		for _, c := range best[1:] {
			if beats(row[c], row[out[r]]) {
				out[r] = c
			}
		}
		if v := row[out[r]]; v != v {
			out[r] = -1
		}
	}
}

// Do looks at a span of the stretches.
func (j *argmax) Do(part, _ int) {
	from, to := span(part, j.parts, len(j.columns))
	for u := from; u < to; u++ {
		row := j.x[u/j.stretches*j.cols:][:j.cols]
		first := u % j.stretches * argmaxCols
		best := first
		for c := first + 1; c < min(first+argmaxCols, len(row)); c++ {
			if beats(row[c], row[best]) {
				best = c
			}
		}
		j.columns[u] = int32(best)
	}
}

// beats says whether a later value takes the place of the best so far.
func beats(v, best float32) bool { return v > best || best != best && v == v }
