package cpu

import (
	"fmt"

	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// mostMACs bounds one call of a panel kernel to some tens of microseconds, since
// the garbage collector can't stop assembly.
const mostMACs = 1 << 21

// mostRows is how many rows one call takes at most: enough to amortise reading
// the panel, few enough that there are parts to share out.
const mostRows = 64

// matmul is the work of one MatMul. Its unit is one panel of one product times
// one block of rows; the blocks of a panel follow each other, so that it stays
// in the cache while rows stream by. Neither affects a sum: each output is one
// lane of one call.
type matmul struct {
	kern     *panel.Kernels
	products []product
	x        []float32
	acts     *panel.Activations // x quantized, where a product needs that
	rounded  []uint16           // x rounded to BF16, where a product needs that
	stride   int                // of the rows of rounded
	n, k     int
	block    int // rows a block
	blocks   int
	cut      guided
	lanes    []float32 // for each worker, a block of rows of a panel's lanes
	edge     scratch   // holds lanes
	spread   scratch   // holds the panels of vectors
}

// product is one weight's share of a matmul.
type product struct {
	packed []byte
	stride int
	typ    kernels.Type
	dst    []float32
	m      int
	panels int
}

func (q *queue) MatMul(x kernels.Tensor, products []kernels.Product) {
	if q.Failed() || len(products) == 0 {
		return
	}
	a := args{op: "MatMul"}
	j := &q.matmul
	j.n, j.k = x.Rows, x.Cols
	j.x = a.floats("x", x, x.Rows, x.Cols)
	j.products = j.products[:0]
	for i := range products {
		j.products = append(j.products, a.product(j.x, j.n, j.k, i, &products[i]))
	}
	if !q.ready(&a) || j.n == 0 {
		return
	}
	if err := q.prepare(j); err != nil {
		q.Fail(fmt.Errorf("MatMul of [%d, %d]: %w", j.n, j.k, err))
		return
	}
	q.Parallel(j.cut.parts(), j)
}

// product checks the i-th product of x.
func (a *args) product(x []float32, n, k, i int, p *kernels.Product) product {
	w, packed := a.weight("a weight", p.W)
	if w == nil {
		return product{}
	}
	if w.cols != k {
		a.fail("x has %d columns, weight %d [%d, %d] needs %d", k, i, w.rows, w.cols, w.cols)
		return product{}
	}
	dst := a.floats("a product's dst", p.Dst, n, w.rows)
	if overlap(dst, x) {
		a.fail("dst of product %d lies over x", i)
	}
	return product{packed: packed, stride: w.stride, typ: w.typ, dst: dst, m: w.rows,
		panels: panel.Count(w.rows)}
}

// prepare brings x and vectors to the forms that the kernels take, and cuts the
// work.
func (q *queue) prepare(j *matmul) error {
	if err := j.spreadVectors(q); err != nil {
		return err
	}
	j.block = min(mostRows, max(1, mostMACs/panel.Lanes/j.k))
	if j.block > 8 {
		j.block -= j.block % 8 // whole register tiles
	}
	j.block = min(j.block, j.n)
	j.blocks = (j.n + j.block - 1) / j.block
	units, ns, integer, halves := 0, 0.0, false, false
	for i := range j.products {
		p := &j.products[i]
		units += p.panels * j.blocks
		// A panel is read at some 10 bytes a nanosecond.
		ns += float64(p.panels) * (float64(p.stride)/10 + float64(j.n)*float64(j.k)*panel.Lanes/j.rate(p.typ))
		integer, halves = integer || p.typ.Quantized(), halves || j.rounds(p.typ)
	}
	j.cut = newGuided(units, ns, q.Workers())
	if integer {
		acts, err := q.quantize.run(q, j.x, j.n, j.k)
		if err != nil {
			return err
		}
		j.acts = acts
	}
	if halves {
		var err error
		if j.rounded, j.stride, err = q.round.run(q, j.x, j.n, j.k); err != nil {
			return err
		}
	}
	mem, err := j.edge.take(q.Device(), 4*panel.Lanes*int64(j.block)*int64(q.Workers()))
	j.lanes = float32s(mem)
	return err
}

// rounds says whether products with weights of a type take x rounded to BF16.
func (j *matmul) rounds(t kernels.Type) bool { return t == kernels.BF16 && j.kern.RoundsBF16() }

// rate is about how many multiply-adds a nanosecond a panel takes part in.
func (j *matmul) rate(t kernels.Type) float64 {
	switch {
	case j.kern.Level == "portable":
		return 1
	case t.Quantized():
		return 128
	case j.rounds(t):
		return 64
	}
	return 32
}

// spreadVectors gives the vectors among the weights the form of a panel.
func (j *matmul) spreadVectors(q *queue) error {
	n := 0
	for i := range j.products {
		if j.products[i].stride == 0 {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	stride, err := panel.Stride(kernels.F32, j.k)
	if err != nil {
		return err
	}
	mem, err := j.spread.take(q.Device(), int64(n)*stride)
	if err != nil {
		return err
	}
	for i := range j.products {
		p := &j.products[i]
		if p.stride != 0 {
			continue
		}
		panel.Pack(mem[:stride], kernels.Matrix{Type: kernels.F32, Rows: 1, Cols: j.k, Data: p.packed}, 0)
		p.packed, p.stride, p.typ = mem[:stride], int(stride), kernels.F32
		mem = mem[stride:]
	}
	return nil
}

// Do computes a span of the units.
func (j *matmul) Do(part, worker int) {
	from, to := j.cut.span(part)
	edge := j.lanes[worker*j.block*panel.Lanes:][:j.block*panel.Lanes]
	for i := range j.products {
		p := &j.products[i]
		units := p.panels * j.blocks
		for u := max(from, 0); u < min(to, units); u++ {
			row := u % j.blocks * j.block
			j.unit(p, u/j.blocks, row, min(j.block, j.n-row), edge)
		}
		from, to = from-units, to-units
	}
}

// unit computes 16 columns of a product for n rows from row on.
func (j *matmul) unit(p *product, number, row, n int, edge []float32) {
	packed := p.packed[number*p.stride:][:p.stride]
	col := number * panel.Lanes
	y, stride := p.dst[row*p.m+col:], p.m
	width := min(panel.Lanes, p.m-col)
	if width < panel.Lanes {
		y, stride = edge, panel.Lanes
	}
	switch {
	case p.typ.Quantized():
		j.kern.Int(p.typ, packed, j.k, j.acts, row, n, y, stride)
	case j.rounds(p.typ):
		j.kern.BF16(packed, j.k, j.rounded[row*j.stride:], j.stride, n, y, stride)
	default:
		j.kern.Float(p.typ, packed, j.k, j.x[row*j.k:], j.k, n, y, stride)
	}
	if width < panel.Lanes {
		for r := range n {
			copy(p.dst[(row+r)*p.m+col:][:width], edge[r*panel.Lanes:])
		}
	}
}
