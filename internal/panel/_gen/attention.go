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

// soften writes the online softmax of some rows of scores. Each step goes over all rows
// before the next: a row is one long chain of instructions that wait for each other, and
// a processor sees only two or three such rows at a time.
func soften(w width) {
	begin("soften", w, "func(s []float32, count int, scale float32, m, l, c []float32)")
	s, count := base("s"), Load(Param("count"), GP64()).(reg.GPVirtual)
	m, l, c := base("m"), base("l"), base("c")
	n := Load(Param("m").Len(), GP64())
	scale := w.register()
	VBROADCASTSS(Load(Param("scale"), XMM()), scale)
	row, at := GP64(), GP64()
	eachRow := func(name string, body func()) {
		MOVQ(s, at)
		XORQ(row, row)
		Label(name)
		body()
		ADDQ(U32(4*tokens), at)
		INCQ(row)
		CMPQ(row, n)
		JL(LabelRef(name))
	}
	of := func(p reg.Register) Mem { return Mem{Base: p, Index: row, Scale: 4} }

	words := GP64()
	LEAQ(outside(), words)
	NEGQ(count)
	LEAQ(Mem{Base: words, Index: count, Scale: 4}, words)
	scores := append(w.lanes(), w.lanes()...)
	var seen []reg.Register
	for i := range scores {
		seen = append(seen, w.mask(Mem{Base: words, Disp: behindAt + i*w.bytes}))
	}
	Comment("c = the new m, s = s times scale")
	eachRow("largest", func() {
		top := w.register()
		VBROADCASTSS(of(m), top)
		for i, v := range scores {
			w.loadMasked(Mem{Base: at, Disp: i * w.bytes}, seen[i], v)
			VFMADD213PS(Mem{Base: words, Disp: infinitiesAt + i*w.bytes}, scale, v)
			VMOVUPS(v, Mem{Base: at, Disp: i * w.bytes})
			VMAXPS(top, v, top) // of a NaN and a number the first operand
		}
		VMOVSS(w.fold([]reg.VecVirtual{top}, 4, VMAXPS), of(c))
	})
	eachRow("weights", func() {
		top := w.register()
		VBROADCASTSS(of(c), top)
		for i, v := range scores {
			VMOVUPS(Mem{Base: at, Disp: i * w.bytes}, v)
			VSUBPS(top, v, v)
			exp(v, w.register)
			VMOVUPS(v, Mem{Base: at, Disp: i * w.bytes})
		}
	})
	Comment("c, and l without the sums, of as many rows at once as there are")
	XORQ(row, row)
	for _, step := range []struct {
		rows     int
		register func() reg.VecVirtual
		move     func(...Op)
	}{{w.bytes / 4, w.register, VMOVUPS}, {4, XMM, VMOVUPS}, {1, XMM, VMOVSS}} {
		name := fmt.Sprintf("factors%d", step.rows)
		end := GP64()
		Label(name)
		LEAQ(Mem{Base: row, Disp: step.rows}, end)
		CMPQ(end, n)
		JG(LabelRef(name + "done"))
		top, d := step.register(), step.register()
		step.move(of(m), d)
		step.move(of(c), top)
		VSUBPS(top, d, d)
		step.move(top, of(m))
		exp(d, step.register)
		step.move(d, of(c))
		before := step.register()
		step.move(of(l), before)
		VMULPS(before, d, d)
		step.move(d, of(l))
		MOVQ(end, row)
		JMP(LabelRef(name))
		Label(name + "done")
	}
	eachRow("sums", func() {
		for i, v := range scores {
			VMOVUPS(Mem{Base: at, Disp: i * w.bytes}, v)
		}
		sum := w.fold(scores, 4, VADDPS)
		VADDSS(of(l), sum, sum)
		VMOVSS(sum, of(l))
	})
	end()
}

// score writes the products of n rows with both panels of a page of keys.
func score(w width, keys string, n int) {
	begin(fmt.Sprintf("score%sx%d", keys, n), w, "func(keys []byte, cols int, x, s []float32, next []byte)")
	c := columns{width: w, weights: keys, at: base("keys")}
	left := Load(Param("cols"), GP64()).(reg.GPVirtual)
	stride, half := GP64().(reg.GPVirtual), GP64()
	MOVQ(left, stride)
	SHLQ(Imm(2), stride)
	IMUL3Q(Imm(uint64(c.size())), left, half)
	x, s := newRows(n, base("x"), stride), base("s")
	ahead, upper := base("next"), GP64()
	SUBQ(c.at, ahead)
	LEAQ(Mem{Base: ahead, Index: half, Scale: 1}, upper)
	c.panels = []Mem{{Base: c.at}, {Base: c.at, Index: half, Scale: 1}}
	c.fetch = []Mem{{Base: c.at, Index: ahead, Scale: 1}, {Base: c.at, Index: upper, Scale: 1}}

	sums := [][][]reg.VecVirtual{w.each(n), w.each(n)}
	for _, panel := range sums {
		w.zeros(panel)
	}
	c.every("", left, x, sums)
	for p, panel := range sums {
		for r, sum := range panel {
			for v, to := range sum {
				VMOVUPS(to, Mem{Base: s, Disp: 4*tokens*r + 64*p + v*w.bytes})
			}
		}
	}
	end()
}

// weigh writes the weighted values of n rows, of at most so many panels at once.
func weigh(w width, values string, n, most int) {
	begin(fmt.Sprintf("weigh%sx%d", values, n), w, "func(values []byte, panels, count int, p, c, acc []float32, next []byte)")
	v := columns{width: w, weights: values, at: base("values")}
	ahead := base("next")
	SUBQ(v.at, ahead)
	panels := Load(Param("panels"), GP64()).(reg.GPVirtual)
	count := Load(Param("count"), GP64())
	p := rows{first: base("p"), bytes: 4 * tokens, n: n}
	c := base("c")
	stride := GP64().(reg.GPVirtual)
	MOVQ(panels, stride)
	SHLQ(Imm(6), stride)
	acc := newRows(n, base("acc"), stride)

	for at := most; at > 0; at-- {
		name := fmt.Sprintf("panels%d", at)
		Label(name)
		SUBQ(Imm(uint64(at)), panels)
		JL(LabelRef(name + "done"))
		var sums [][][]reg.VecVirtual
		v.panels, v.fetch = nil, nil
		for i := range at {
			sums = append(sums, w.each(n))
			w.zeros(sums[i])
			v.panels = append(v.panels, Mem{Base: v.at, Disp: i * tokens * v.size()})
			v.fetch = append(v.fetch, Mem{Base: v.at, Index: ahead, Scale: 1, Disp: i * tokens * v.size()})
		}
		left := GP64().(reg.GPVirtual)
		MOVQ(count, left)
		v.every(name, left, p, sums)
		for r := range n {
			cr := w.register()
			VBROADCASTSS(Mem{Base: c, Disp: 4 * r}, cr)
			for i := range at {
				for l, sum := range sums[i][r] {
					VFMADD231PS(acc.at(r, 64*i+l*w.bytes), cr, sum)
					VMOVUPS(sum, acc.at(r, 64*i+l*w.bytes))
				}
			}
		}
		Comment("On to the next panels, and back to the first position.")
		IMUL3Q(Imm(uint64(v.size())), count, left)
		SUBQ(left, v.at)
		ADDQ(U32(uint32(at*tokens*v.size())), v.at)
		MOVQ(count, left)
		SHLQ(Imm(2), left)
		SUBQ(left, p.first)
		acc.advance(64 * at)
		JMP(LabelRef(name))
		Label(name + "done")
		ADDQ(Imm(uint64(at)), panels)
	}
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
