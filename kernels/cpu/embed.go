package cpu

import (
	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// embed is the work of one Embed; its unit is a row.
type embed struct {
	dst    []float32
	table  *weight
	packed []byte
	tokens []int32
	parts  int
}

func (q *queue) Embed(dst kernels.Tensor, table kernels.Weight, rows kernels.Rows) {
	if q.Failed() {
		return
	}
	a := args{op: "Embed"}
	j := &q.embed
	j.table, j.packed = a.weight("the table", table)
	if j.table == nil {
		q.ready(&a)
		return
	}
	h := a.header(rows, dst.Rows)
	j.tokens = h.tokens
	j.dst = a.floats("dst", dst, dst.Rows, j.table.cols)
	for i, t := range j.tokens {
		if t < 0 || int(t) >= j.table.rows {
			a.fail("row %d is token %d, the table has %d", i, t, j.table.rows)
		}
	}
	if !q.ready(&a) || len(j.tokens) == 0 {
		return
	}
	j.parts = parts(len(j.tokens), 4*float64(len(j.dst)))
	q.Parallel(j.parts, j)
}

// Do looks up a span of the rows.
func (j *embed) Do(part, _ int) {
	w := j.table
	from, to := span(part, j.parts, len(j.tokens))
	for r := from; r < to; r++ {
		dst := j.dst[r*w.cols:][:w.cols]
		if w.stride == 0 {
			copy(dst, float32s(j.packed))
		} else {
			panel.Row(dst, j.packed, w.typ, w.cols, int(j.tokens[r]))
		}
	}
}
