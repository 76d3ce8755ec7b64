package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const tokens = 32 // positions of a page; kernels.PageTokens

// fetch writes what asks for the cache lines of some memory.
func fetch() {
	TEXT("fetch", NOSPLIT, "func(p []byte)")
	Pragma("noescape")
	Doc("fetch asks for the cache lines of p, which are whole ones and at least one.")
	at, left := base("p"), Load(Param("p").Len(), GP64())
	Label("line")
	PREFETCHT0(Mem{Base: at})
	ADDQ(Imm(64), at)
	SUBQ(Imm(64), left)
	JG(LabelRef("line"))
	RET()
}

// soften writes the online softmax of some rows of scores. A row's scores are in
// registers from the maximum to the sum.
func soften(w width) {
	begin("soften", w, "func(s []float32, count int, scale float32, m, l, c []float32)")
	s, count := base("s"), Load(Param("count"), GP64()).(reg.GPVirtual)
	m, l, c := base("m"), base("l"), base("c")
	left := Load(Param("m").Len(), GP64())
	scale := w.register()
	VBROADCASTSS(Load(Param("scale"), XMM()), scale)

	words := GP64()
	LEAQ(outside(), words)
	NEGQ(count)
	LEAQ(Mem{Base: words, Index: count, Scale: 4}, words)
	scores := append(w.lanes(), w.lanes()...)
	var seen []reg.Register
	for i := range scores {
		seen = append(seen, w.mask(Mem{Base: words, Disp: behindAt + i*w.bytes}))
	}

	Label("row")
	top := w.register()
	VBROADCASTSS(Mem{Base: m}, top)
	for i, v := range scores {
		w.loadMasked(Mem{Base: s, Disp: i * w.bytes}, seen[i], v)
		VFMADD213PS(Mem{Base: words, Disp: infinitiesAt + i*w.bytes}, scale, v)
		VMAXPS(top, v, top) // of a NaN and a number the first operand
	}
	most := w.fold([]reg.VecVirtual{top}, 4, VMAXPS)
	VBROADCASTSS(most, top)
	for i, v := range scores {
		VSUBPS(top, v, v)
		exp(v, w.register)
		VMOVUPS(v, Mem{Base: s, Disp: i * w.bytes})
	}
	sum := w.fold(scores, 4, VADDPS)

	Comment("The row's m, c and l.")
	d := XMM()
	VMOVSS(Mem{Base: m}, d)
	VSUBSS(most, d, d)
	VMOVSS(most, Mem{Base: m})
	exp(d, XMM)
	VMOVSS(d, Mem{Base: c})
	VMULSS(Mem{Base: l}, d, d)
	VADDSS(sum, d, d)
	VMOVSS(d, Mem{Base: l})

	ADDQ(U32(4*tokens), s)
	for _, p := range []reg.Register{m, l, c} {
		ADDQ(Imm(4), p)
	}
	DECQ(left)
	JNZ(LabelRef("row"))
	end()
}

// score writes the products of n rows with both panels of a page of keys. A column of
// each is read before the rows, so that a row's element is loaded once for both.
func score(w width, keys string, n int) {
	begin(fmt.Sprintf("score%sx%d", keys, n), w, "func(keys []byte, cols int, x, s []float32, next []byte)")
	size := 4
	if keys == "F16" {
		size = 2
	}
	page, next := base("keys"), base("next")
	left := Load(Param("cols"), GP64()).(reg.GPVirtual)
	stride, half := GP64().(reg.GPVirtual), GP64().(reg.GPVirtual)
	MOVQ(left, stride)
	SHLQ(Imm(2), stride)
	IMUL3Q(Imm(uint64(16*size)), left, half)
	x := newRows(n, base("x"), stride)
	s := base("s")
	upper := GP64()
	LEAQ(Mem{Base: next, Index: half, Scale: 1}, upper)

	var sums [2][][]reg.VecVirtual
	for i := range sums {
		sums[i] = w.each(n)
		for _, sum := range sums[i] {
			for _, v := range sum {
				w.zero(v)
			}
		}
	}
	both := func(columns int) {
		for c := range columns {
			at := c * 16 * size
			var column [2][]reg.VecVirtual
			for i, from := range []Mem{{Base: page}, {Base: page, Index: half, Scale: 1}} {
				column[i] = w.lanes()
				for v, to := range column[i] {
					w.widen(keys, from.Offset(at+v*w.bytes*size/4), to)
				}
			}
			for r := range n {
				xc := w.register()
				VBROADCASTSS(x.at(r, 4*c), xc)
				for i := range sums {
					for v, sum := range sums[i][r] {
						VFMADD231PS(xc, column[i][v], sum)
					}
				}
			}
		}
		ADDQ(U32(uint32(columns*16*size)), page)
		x.advance(4 * columns)
	}
	const unroll = 4
	SUBQ(Imm(unroll), left)
	JL(LabelRef("tail"))
	Label("four")
	for _, half := range []reg.Register{next, upper} {
		fetchAhead(Mem{Base: half}, unroll*16*size)
		ADDQ(U32(uint32(unroll*16*size)), half)
	}
	both(unroll)
	SUBQ(Imm(unroll), left)
	JGE(LabelRef("four"))
	Label("tail")
	ADDQ(Imm(unroll), left)
	JZ(LabelRef("summed"))
	Label("one")
	both(1)
	DECQ(left)
	JNZ(LabelRef("one"))
	Label("summed")
	for r := range n {
		for i := range sums {
			for v, sum := range sums[i][r] {
				VMOVUPS(sum, Mem{Base: s, Disp: r*4*tokens + i*64 + v*w.bytes})
			}
		}
	}
	end()
}

// weigh writes the weighted values of n rows.
func weigh(w width, values string, n int) {
	begin(fmt.Sprintf("weigh%sx%d", values, n), w, "func(values []byte, panels, count int, p, c, acc []float32, next []byte)")
	panel, ahead := base("values"), base("next")
	SUBQ(panel, ahead)
	panels := Load(Param("panels"), GP64()).(reg.GPVirtual)
	count := Load(Param("count"), GP64())
	p := rows{first: base("p"), bytes: 4 * tokens, n: n}
	c := base("c")
	stride := GP64().(reg.GPVirtual)
	MOVQ(panels, stride)
	SHLQ(Imm(6), stride)
	acc := newRows(n, base("acc"), stride)

	Comment("The bytes from a panel's last position that is seen to the next panel.")
	behind, shift := GP64(), uint64(6)
	if values == "F16" {
		shift = 5
	}
	MOVQ(U32(tokens), behind)
	SUBQ(count, behind)
	SHLQ(Imm(shift), behind)

	Label("panel")
	sums, left := w.each(n), GP64().(reg.GPVirtual)
	for _, sum := range sums {
		for _, v := range sum {
			w.zero(v)
		}
	}
	MOVQ(count, left)
	everyColumn(w, values, panel, left, ahead, p, sums)
	for r, sum := range sums {
		cr := w.register()
		VBROADCASTSS(Mem{Base: c, Disp: 4 * r}, cr)
		for i, v := range sum {
			VFMADD231PS(acc.at(r, i*w.bytes), cr, v)
			VMOVUPS(v, acc.at(r, i*w.bytes))
		}
	}
	ADDQ(behind, panel)
	MOVQ(count, left)
	SHLQ(Imm(2), left)
	SUBQ(left, p.first)
	acc.advance(64)
	DECQ(panels)
	JNZ(LabelRef("panel"))
	end()
}

const valueBlock = 34 // bytes of 32 values in Q8_0

// expandKeys writes the expansion of a panel of keys.
func expandKeys(w width) {
	begin("expandKeys", w, "func(dst []float32, src []byte, blocks int)")
	dst, src := base("dst"), base("src")
	blocks := Load(Param("blocks"), GP64())
	const unroll = 8

	Label("block")
	scales := w.lanes()
	for i, v := range scales {
		VCVTPH2PS(Mem{Base: src, Disp: i * w.bytes / 2}, v)
	}
	ADDQ(Imm(32), src)
	left := GP64()
	MOVQ(U32(32/unroll), left)
	Label("elements")
	for e := range unroll {
		for i, scale := range scales {
			at := 16*e + i*w.bytes/4
			w.expand(Mem{Base: src, Disp: at}, scale, Mem{Base: dst, Disp: 4 * at})
		}
	}
	ADDQ(U32(16*unroll), src)
	ADDQ(U32(64*unroll), dst)
	DECQ(left)
	JNZ(LabelRef("elements"))
	DECQ(blocks)
	JNZ(LabelRef("block"))
	end()
}

// expandValues writes the expansion of some positions' values.
func expandValues(w width) {
	begin("expandValues", w, "func(dst []float32, src []byte, count, blocks int)")
	dst, src := base("dst"), base("src")
	count, blocks := Load(Param("count"), GP64()), Load(Param("blocks"), GP64())

	Label("position")
	to, left := GP64(), GP64()
	MOVQ(dst, to)
	MOVQ(blocks, left)
	Label("block")
	scale := w.register()
	VPBROADCASTW(Mem{Base: src}, w.half(scale))
	VCVTPH2PS(w.half(scale), scale)
	for p := range 2 { // panels
		for i := 0; i < 64; i += w.bytes {
			w.expand(Mem{Base: src, Disp: 2 + 16*p + i/4}, scale, Mem{Base: to, Disp: 64*tokens*p + i})
		}
	}
	ADDQ(Imm(valueBlock), src)
	ADDQ(U32(2*64*tokens), to)
	DECQ(left)
	JNZ(LabelRef("block"))
	ADDQ(Imm(64), dst)
	DECQ(count)
	JNZ(LabelRef("position"))
	end()
}

// expand writes a vector of scale·q.
func (w width) expand(q Mem, scale reg.VecVirtual, to Mem) {
	v := w.register()
	VPMOVSXBD(q, v)
	VCVTDQ2PS(v, v)
	VMULPS(scale, v, v)
	VMOVUPS(v, to)
}
