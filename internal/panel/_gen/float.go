package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const segment = 256 // columns; panel.Segment

// float writes the product of a panel of F32, F16 or BF16 weights with some
// rows of float32.
//
// The outputs stand in memory between segments, which leaves the registers to
// the sums. They start as -0, the number that changes nothing it is added to, so
// that the first segment's sum needs no code of its own.
func float(w width, weights string, n int) {
	TEXT(fmt.Sprintf("float%sx%d%s", weights, n, w.name), NOSPLIT,
		"func(p []byte, cols int, x []float32, xStride int, y []float32, yStride int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("float%sx%d%s is float%s; rows at once: %d.", weights, n, w.name, weights, n))

	panel := Load(Param("p").Base(), GP64()).(reg.GPVirtual)
	cols := Load(Param("cols"), GP64()).(reg.GPVirtual)
	first := Load(Param("x").Base(), GP64()).(reg.GPVirtual)
	y := Load(Param("y").Base(), GP64()).(reg.GPVirtual)
	yStride := Load(Param("yStride"), GP64()).(reg.GPVirtual)
	xStride := Load(Param("xStride"), GP64()).(reg.GPVirtual)
	SHLQ(Imm(2), xStride)
	SHLQ(Imm(2), yStride)
	x := newRows(n, first, xStride)

	sums, out := w.each(n), GP64()
	Comment("Outputs start as -0.")
	minusZero := w.register()
	VBROADCASTSS(signBit(), minusZero)
	MOVQ(y, out)
	for range n {
		for v := 0; v < 64; v += w.bytes {
			VMOVUPS(minusZero, Mem{Base: out, Disp: v})
		}
		ADDQ(yStride, out)
	}

	Comment("A panel of one segment may be a page of keys: the next is elsewhere.")
	fetch, far := GP64(), GP64()
	XORQ(fetch, fetch)
	MOVQ(U32(ahead), far)
	CMPQ(cols, U32(segment))
	CMOVQGT(far, fetch)

	Label("segment")
	left := GP64()
	MOVQ(U32(segment), left)
	CMPQ(cols, left)
	CMOVQLT(cols, left)
	SUBQ(left, cols)
	w.zeros(sums)

	columns{
		width: w, weights: weights, at: panel,
		panels: []Mem{{Base: panel}}, fetch: []Mem{{Base: panel, Index: fetch, Scale: 1}},
	}.every("", left, x, [][][]reg.VecVirtual{sums})

	MOVQ(y, out)
	for _, sum := range sums {
		for v, s := range sum {
			VADDPS(Mem{Base: out, Disp: v * w.bytes}, s, s)
			VMOVUPS(s, Mem{Base: out, Disp: v * w.bytes})
		}
		ADDQ(yStride, out)
	}
	TESTQ(cols, cols)
	JNZ(LabelRef("segment"))
	VZEROUPPER()
	RET()
}

// columns are some panels, read column by column.
type columns struct {
	width
	weights string
	at      reg.GPVirtual // moves from column to column
	panels  []Mem         // from at on
	fetch   []Mem         // from at on too: what is fetched for each
}

// every multiplies left columns, at least one, with rows. The sums are those of each
// panel's rows. Labels begin with name.
func (c columns) every(name string, left reg.GPVirtual, x rows, sums [][][]reg.VecVirtual) {
	const unroll = 4
	SUBQ(Imm(unroll), left)
	JL(LabelRef(name + "tail"))
	Label(name + "four")
	for _, from := range c.fetch {
		fetchAhead(from, unroll*c.size())
	}
	c.some(unroll, x, sums)
	SUBQ(Imm(unroll), left)
	JGE(LabelRef(name + "four"))

	Label(name + "tail")
	ADDQ(Imm(unroll), left)
	JZ(LabelRef(name + "summed"))
	Label(name + "one")
	c.some(1, x, sums)
	DECQ(left)
	JNZ(LabelRef(name + "one"))
	Label(name + "summed")
}

// size returns the bytes of a column.
func (c columns) size() int {
	if c.weights == "F32" {
		return 64
	}
	return 32
}

// some multiplies n columns, and moves the panels and the rows on. An element of a row
// that meets several vectors is loaded once for all of them.
func (c columns) some(n int, x rows, sums [][][]reg.VecVirtual) {
	for i := range n {
		var column []reg.VecVirtual
		for _, panel := range c.panels {
			for v, to := range c.lanes() {
				c.widen(panel.Offset(i*c.size()+v*c.bytes*c.size()/64), to)
				column = append(column, to)
			}
		}
		for r := range x.n {
			var sum []reg.VecVirtual
			for _, s := range sums {
				sum = append(sum, s[r]...)
			}
			if len(sum) == 1 {
				VFMADD231PS_BCST(x.at(r, 4*i), column[0], sum[0])
				continue
			}
			xc := c.register()
			VBROADCASTSS(x.at(r, 4*i), xc)
			for v, s := range sum {
				VFMADD231PS(xc, column[v], s)
			}
		}
	}
	ADDQ(U32(uint32(n*c.size())), c.at)
	x.advance(4 * n)
}

// widen loads a vector of weights as float32.
func (c columns) widen(from Mem, to reg.VecVirtual) {
	switch c.weights {
	case "F32":
		VMOVUPS(from, to)
	case "F16":
		VCVTPH2PS(from, to)
	case "BF16":
		VPMOVZXWD(from, to)
		VPSLLD(Imm(16), to, to)
	}
}
