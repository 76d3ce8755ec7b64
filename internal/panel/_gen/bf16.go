package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dotsBF16 writes the product of a panel of BF16 weights with some rows that are
// rounded to BF16 too, by VDPBF16PS. It multiplies two columns at once: a permutation
// brings the elements of two columns side by side. Pairs go to two sums in turn, without
// which one or a few rows would wait for their own sums.
func dotsBF16(n int) {
	name := fmt.Sprintf("dotsBF16x%d", n)
	TEXT(name, NOSPLIT, "func(p []byte, cols int, x []uint16, xStride int, y []float32, yStride int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s is dotsBF16; rows at once: %d.", name, n))

	d := dots{panel: Load(Param("p").Base(), GP64()).(reg.GPVirtual), order: ZMM(), sums: [2][][]reg.VecVirtual{avx512.each(n), avx512.each(n)}}
	cols := Load(Param("cols"), GP64()).(reg.GPVirtual)
	first := Load(Param("x").Base(), GP64()).(reg.GPVirtual)
	y := Load(Param("y").Base(), GP64()).(reg.GPVirtual)
	yStride := Load(Param("yStride"), GP64()).(reg.GPVirtual)
	xStride := Load(Param("xStride"), GP64()).(reg.GPVirtual)
	SHLQ(Imm(1), xStride)
	SHLQ(Imm(2), yStride)
	d.x = newRows(n, first, xStride)
	VMOVDQU16(sideBySide(), d.order)

	out := GP64()
	Comment("Outputs start as -0.")
	minusZero := ZMM()
	VBROADCASTSS(signBit(), minusZero)
	MOVQ(y, out)
	for range n {
		VMOVUPS(minusZero, Mem{Base: out})
		ADDQ(yStride, out)
	}

	Label("segment")
	left := GP64()
	MOVQ(U32(segment), left)
	CMPQ(cols, left)
	CMOVQLT(cols, left)
	SUBQ(left, cols)
	for _, sums := range d.sums {
		avx512.zeros(sums)
	}
	SUBQ(Imm(8), left)
	JL(LabelRef("tail"))
	Label("eight")
	fetchAhead(Mem{Base: d.panel, Disp: ahead}, 256)
	d.pairs(4)
	SUBQ(Imm(8), left)
	JGE(LabelRef("eight"))

	Label("tail")
	ADDQ(Imm(8), left)
	for _, pairs := range []int{2, 1} {
		next := fmt.Sprintf("less%d", 2*pairs)
		TESTQ(U32(uint32(2*pairs)), left)
		JZ(LabelRef(next))
		d.pairs(pairs)
		Label(next)
	}
	TESTQ(U32(1), left)
	JZ(LabelRef("summed"))
	Comment("The last column alone: its pair is zeros.")
	d.last(left)

	Label("summed")
	MOVQ(y, out)
	for r := range n {
		sum, other := d.sums[0][r][0], d.sums[1][r][0]
		VADDPS(other, sum, sum)
		VADDPS(Mem{Base: out}, sum, sum)
		VMOVUPS(sum, Mem{Base: out})
		ADDQ(yStride, out)
	}
	TESTQ(cols, cols)
	JNZ(LabelRef("segment"))
	VZEROUPPER()
	RET()
}

// dots is a product under construction.
type dots struct {
	panel reg.GPVirtual
	order reg.VecVirtual
	x     rows
	sums  [2][][]reg.VecVirtual
}

// pairs multiplies n pairs of columns, and moves the panel and the rows on.
func (d *dots) pairs(n int) {
	for i := range n {
		w := ZMM()
		VPERMW(Mem{Base: d.panel, Disp: 64 * i}, d.order, w)
		for r := range d.x.n {
			dotBF16(d.x.at(r, 4*i), w, d.sums[i%2][r][0])
		}
	}
	ADDQ(U32(uint32(64*n)), d.panel)
	d.x.advance(4 * n)
}

// last multiplies the last column. What lies behind an element of a row may be memory
// of others, so that it is not read.
func (d *dots) last(left reg.GPVirtual) {
	w, x, pair := ZMM(), GP32(), ZMM()
	VPMOVZXWD(Mem{Base: d.panel}, w)
	for r := range d.x.n {
		MOVWLZX(d.x.at(r, 0), x)
		VPBROADCASTD(x, pair)
		dotBF16(pair, w, d.sums[0][r][0])
	}
}

// sideBySide is the order of words that brings the elements of two columns of 16 lanes
// side by side.
func sideBySide() Mem {
	return table("sideBySide", func() {
		for l := range 16 {
			DATA(4*l, U32(uint32(l)|uint32(16+l)<<16))
		}
	})
}

// toBF16 writes the rounding to BF16 of whole vectors of 16.
func toBF16() {
	w := avx512
	begin("toBF16", w, "func(dst []uint16, x []float32)")
	dst, x := base("dst"), base("x")
	left := Load(Param("x").Len(), GP64())
	half, one, quiet := ZMM(), ZMM(), ZMM()
	VPBROADCASTD(constant("halfOfBF16", 0x00007fff_00007fff, 8), half)
	VPBROADCASTD(constant("oneOfBF16", 1<<32|1, 8), one)
	VPBROADCASTD(constant("quietNaN", 0x7fc00000_7fc00000, 8), quiet)
	Label("sixteen")
	v, odd, nan := ZMM(), ZMM(), K()
	VMOVUPS(Mem{Base: x}, v)
	VCMPPS(Imm(3), v, v, nan) // unordered
	VPSRLD(Imm(16), v, odd)
	VPANDD(one, odd, odd)
	VPADDD(half, odd, odd)
	VPADDD(odd, v, v)
	VMOVDQA32(quiet, nan, v)
	VPSRLD(Imm(16), v, v)
	VPMOVDW(v, Mem{Base: dst})
	ADDQ(U32(64), x)
	ADDQ(Imm(32), dst)
	SUBQ(Imm(16), left)
	JNZ(LabelRef("sixteen"))
	end()
}
