package gpu

import (
	"fmt"

	"github.com/leat-dev/leat/kernels"
)

// Products of up to fewRows rows read the weights straight from memory, a row at
// a time; those of more share what they read in tiles of tileOuts outputs by
// tileRows rows. Both have the same sums.
const (
	fewRows  = 4
	tileRows = 32
	tileOuts = 64
)

// product is one weight's share of a MatMul.
type product struct {
	w       *weight
	at, dst uint64
}

func (q *queue) MatMul(x kernels.Tensor, products []kernels.Product) {
	if q.Failed() || len(products) == 0 {
		return
	}
	a := args{op: "MatMul", device: q.Device()}
	in := a.floats("x", x, x.Rows, x.Cols)
	if x.Rows > mostBlocks*tileRows {
		a.fail("x has %d rows, a GPU's product takes up to %d", x.Rows, mostBlocks*tileRows)
	}
	q.products = q.products[:0]
	integer := false
	for i := range products {
		p := a.product(in, x, i, &products[i])
		q.products = append(q.products, p)
		integer = integer || p.w != nil && p.w.layout.typ.Quantized()
	}
	if !q.ready(&a) || x.Rows == 0 {
		return
	}
	if integer {
		if err := q.quantizeRows(in.at, x.Rows, x.Cols); err != nil {
			q.Fail(fmt.Errorf("MatMul of [%d, %d]: %w", x.Rows, x.Cols, err))
			return
		}
	}
	for i := range q.products {
		q.multiply(&q.products[i], in.at, x.Rows)
	}
}

// product checks the i-th product of x.
func (a *args) product(in span, x kernels.Tensor, i int, p *kernels.Product) product {
	w, at := a.weight("a weight", p.W)
	if w == nil {
		return product{}
	}
	if w.cols != x.Cols {
		a.fail("x has %d columns, weight %d [%d, %d] needs %d", x.Cols, i, w.rows, w.cols, w.cols)
		return product{}
	}
	dst := a.floats("a product's dst", p.Dst, x.Rows, w.rows)
	if dst.overlaps(in) {
		a.fail("dst of product %d lies over x", i)
	}
	return product{w, at, dst.at}
}

// quantizeRows brings x to the form that quantized weights multiply, in the
// workspace, where quantize's parameters say.
func (q *queue) quantizeRows(x uint64, rows, cols int) error {
	bytes, err := quantizedBytes(rows, cols)
	if err != nil {
		return err
	}
	at, err := q.take(bytes)
	if err != nil {
		return err
	}
	blocks := rows * (cols / block)
	p := &q.quantize
	*p = quantizeParams{
		q:    at,
		d:    at + uint64(block*blocks),
		sum:  at + uint64((block+4)*blocks),
		x:    x,
		rows: int32(rows), cols: int32(cols),
	}
	launch(q, q.functions.quantize, p, ceil(blocks, threads/warp), 1, 1)
	return nil
}

// multiply enqueues one product.
func (q *queue) multiply(p *product, x uint64, rows int) {
	w := p.w
	f, across, down := q.functions.one[w.layout.typ], ceil(w.rows, warp), rows
	if rows > fewRows {
		f, across, down = q.functions.many[w.layout.typ], ceil(w.rows, tileOuts), ceil(rows, tileRows)
	}
	if w.layout.typ.Quantized() {
		q.intProduct = intProductParams{
			y: p.dst, q: q.quantize.q, d: q.quantize.d, sum: q.quantize.sum, w: p.at,
			rows: int32(rows), cols: int32(w.cols), outs: int32(w.rows), chunks: int32(w.chunks),
		}
		launch(q, f, &q.intProduct, across, down, 1)
		return
	}
	q.floatProduct = floatProductParams{
		y: p.dst, x: x, w: p.at,
		rows: int32(rows), cols: int32(w.cols), outs: int32(w.rows), chunks: int32(w.chunks), lanes: int32(w.lanes),
	}
	launch(q, f, &q.floatProduct, across, down, 1)
}
