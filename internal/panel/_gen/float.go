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
	for _, sum := range sums {
		for _, s := range sum {
			w.zero(s)
		}
	}

	everyColumn(w, weights, panel, left, fetch, x, sums)

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

// everyColumn multiplies left columns, at least one, and fetches what lies fetch bytes
// ahead.
func everyColumn(w width, weights string, panel, left reg.GPVirtual, fetch reg.Register, x rows, sums [][]reg.VecVirtual) {
	const unroll = 4
	SUBQ(Imm(unroll), left)
	JL(LabelRef("tail"))
	Label("four")
	columns(w, weights, panel, fetch, x, sums, unroll)
	SUBQ(Imm(unroll), left)
	JGE(LabelRef("four"))

	Label("tail")
	ADDQ(Imm(unroll), left)
	JZ(LabelRef("summed"))
	Label("one")
	columns(w, weights, panel, fetch, x, sums, 1)
	DECQ(left)
	JNZ(LabelRef("one"))
	Label("summed")
}

// columns multiplies n columns, and moves the panel and the rows on.
func columns(w width, weights string, panel reg.GPVirtual, fetch reg.Register, x rows, sums [][]reg.VecVirtual, n int) {
	size := 4
	if weights != "F32" {
		size = 2
	}
	column := w.lanes()
	if n > 1 {
		fetchAhead(Mem{Base: panel, Index: fetch, Scale: 1}, n*16*size)
	}
	for c := range n {
		for v, to := range column {
			w.widen(weights, Mem{Base: panel, Disp: c*16*size + v*w.bytes*size/4}, to)
		}
		for r, sum := range sums {
			if w.bytes == 64 {
				VFMADD231PS_BCST(x.at(r, 4*c), column[0], sum[0])
				continue
			}
			xc := w.register()
			VBROADCASTSS(x.at(r, 4*c), xc)
			for v, s := range sum {
				VFMADD231PS(xc, column[v], s)
			}
		}
	}
	ADDQ(U32(uint32(n*16*size)), panel)
	x.advance(4 * n)
}

// widen loads a vector of weights as float32.
func (w width) widen(weights string, from Mem, to reg.VecVirtual) {
	switch weights {
	case "F32":
		VMOVUPS(from, to)
	case "F16":
		VCVTPH2PS(from, to)
	case "BF16":
		VPMOVZXWD(from, to)
		VPSLLD(Imm(16), to, to)
	}
}
