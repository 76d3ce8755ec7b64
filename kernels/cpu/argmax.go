package cpu

import (
	"fmt"
	"math"

	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// argmaxCols is how many columns a unit of ArgMax looks at.
const argmaxCols = 1 << 14

// argmax is the work of one ArgMax; its unit is a stretch of a row, so that
// one row of a large vocabulary has several.
type argmax struct {
	kern      *panel.Kernels
	x         []float32
	n, cols   int
	stretches int
	parts     int
	largest   []float32 // of each unit
	best      scratch   // holds largest
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
	j.largest = float32s(mem)
	j.parts = parts(len(j.largest), float64(len(j.x))/8)
	q.Parallel(j.parts, j)
	for r := range out {
		out[r] = j.first(r)
	}
}

// Do finds the largest number of each of a span of the stretches.
func (j *argmax) Do(part, _ int) {
	from, to := span(part, j.parts, len(j.largest))
	for u := from; u < to; u++ {
		j.largest[u] = j.kern.Max(j.stretch(u/j.stretches, u%j.stretches))
	}
}

// stretch returns the columns of a row that are one unit.
func (j *argmax) stretch(row, number int) []float32 {
	from := number * argmaxCols
	return j.x[row*j.cols+from:][:min(argmaxCols, j.cols-from)]
}

// first returns the first column that has the row's largest number; -1 if none has,
// as the row is NaN throughout.
func (j *argmax) first(row int) int32 {
	largest := j.largest[row*j.stretches:][:j.stretches]
	most := float32(math.Inf(-1))
	for _, v := range largest {
		most = max(most, v)
	}
	for s, v := range largest {
		if v != most {
			continue
		}
		// A stretch of NaN has minus infinity, but not in its columns.
		x := j.stretch(row, s)
		if at := j.kern.Find(x, most); at < len(x) {
			return int32(s*argmaxCols + at)
		}
	}
	return -1
}
