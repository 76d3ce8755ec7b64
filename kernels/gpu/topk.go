package gpu

import (
	"fmt"

	"github.com/leat-dev/leat/kernels"
)

// A row is searched in parts of at least topKColumns columns, at most topKParts of
// them, each by a block of its own; what these find is then searched in the same way.
const (
	topKColumns = 4096
	topKParts   = 1024
)

func (q *queue) TopK(ids, values, x kernels.Tensor) {
	if q.Failed() {
		return
	}
	a := args{op: "TopK", device: q.Device()}
	in := a.floats("x", x, x.Rows, x.Cols)
	columns, numbers := a.ints("ids", ids, x.Rows, ids.Cols), a.floats("values", values, x.Rows, ids.Cols)
	if ids.Cols > kernels.MostTopK {
		a.fail("the %d largest of each row: at most %d can be asked for", ids.Cols, kernels.MostTopK)
	}
	if columns.overlaps(in) || numbers.overlaps(in) {
		a.fail("ids or values lie over x")
	}
	if columns.overlaps(numbers) {
		a.fail("ids lie over values")
	}
	if !q.ready(&a) || x.Rows == 0 {
		return
	}
	p := &q.topK
	*p = topKParams{
		ids: columns.at, values: numbers.at, x: in.at,
		rows: int32(x.Rows), cols: int32(x.Cols), k: int32(ids.Cols),
		parts: 1, each: int32(ceil(x.Cols, threads) * threads),
	}
	if x.Cols > topKColumns {
		each := max(topKColumns, ceil(ceil(x.Cols, topKParts), threads)*threads)
		parts := ceil(x.Cols, each)
		found := int64(x.Rows) * int64(parts) * int64(ids.Cols)
		at, err := q.take(wholePages(8 * found))
		if err != nil {
			q.Fail(fmt.Errorf("TopK: %w", err))
			return
		}
		p.ids, p.values, p.parts, p.each = at, at+uint64(4*found), int32(parts), int32(each)
		launch(q, q.functions.topK, p, x.Rows, parts, 1)
		cols := parts * ids.Cols
		*p = topKParams{
			ids: columns.at, values: numbers.at, x: p.values, columns: p.ids,
			rows: int32(x.Rows), cols: int32(cols), k: int32(ids.Cols),
			parts: 1, each: int32(ceil(cols, threads) * threads), given: 1,
		}
	}
	launch(q, q.functions.topK, p, x.Rows, 1, 1)
}
