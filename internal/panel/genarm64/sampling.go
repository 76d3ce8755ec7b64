package main

import (
	"encoding/binary"
	"fmt"
	"math"
)

func samplingFamily(a *assembler) {
	countFrom(a)
	filter(a)
	weights(a)
	sumWeights(a, false)
	sumWeights(a, true)
	sumExp(a)
}

var minusInfinity = math.Float32bits(float32(math.Inf(-1)))

// countFrom writes the count of what is as large as a number.
func countFrom(a *assembler) {
	a.begin("countNEON", "count", "(x []float32, least float32) int", 64)
	least, sums := a.everywhere("least"), a.vecs(4)
	for _, s := range sums {
		a.zero(s)
	}
	a.sixteens(minusInfinity, func() {
		for i, s := range sums {
			v := a.vec()
			a.load(16, 16*i, "R1", v)
			a.op("fcmge %.4s, %.4s, %.4s", v, v, least)
			a.op("sub %.4s, %.4s, %.4s", s, s, v)
			a.free(v)
		}
	})
	a.op("add %.4s, %.4s, %.4s", sums[0], sums[0], sums[1])
	a.op("add %.4s, %.4s, %.4s", sums[2], sums[2], sums[3])
	a.op("add %.4s, %.4s, %.4s", sums[0], sums[0], sums[2])
	a.op("addv s%, %.4s", sums[0], sums[0])
	a.op("fmov w%, s%", 6, sums[0])
	a.line("MOVD R6, %s", a.param("ret"))
	a.end()
}

// filter writes the choice of what lies between two numbers: 16 elements at once, and
// those of which some are chosen one by one.
func filter(a *assembler) {
	a.begin("filterNEON", "filter", "(values []float32, ids []int32, x []float32, from, to float32) int", 0)
	const values, ids, x, left, index, n, some = "R0", "R2", "R1", "R4", "R5", "R7", "R8"
	a.line("MOVD %s, %s", a.param("values_base"), values)
	a.line("MOVD %s, %s", a.param("ids_base"), ids)
	a.line("MOVD %s, %s", a.param("x_base"), x)
	a.line("MOVD %s, %s", a.param("x_len"), left)
	a.line("MOVD ZR, %s", index)
	a.line("MOVD ZR, %s", n)
	from, to := a.everywhere("from"), a.everywhere("to")
	a.label("next")
	a.line("MOVD $16, %s", some)
	a.line("CMP %s, %s", some, left)
	a.line("BLT rest")
	v := a.vecs(4)
	for i, v := range v {
		below := a.vec()
		a.load(16, 16*i, x, v)
		a.op("fcmge %.4s, %.4s, %.4s", below, to, v)
		a.op("fcmge %.4s, %.4s, %.4s", v, v, from)
		a.op("and %.16b, %.16b, %.16b", v, v, below)
		a.free(below)
	}
	a.anywhere(v)
	a.line("CBNZW R6, single")
	a.line("ADD $64, %s", x)
	a.line("ADD $16, %s", index)
	a.line("SUB $16, %s", left)
	a.line("B next")

	a.label("rest")
	a.line("CBZ %s, done", left)
	a.line("MOVD %s, %s", left, some)
	a.label("single")
	one := a.vec()
	a.line("SUB %s, %s", some, left)
	a.label("each")
	a.load(4, 0, x, one)
	a.line("FCMPS %v, %v", from, one)
	a.line("BLT not") // or unordered
	a.line("FCMPS %v, %v", to, one)
	a.line("BHI not")
	a.store(4, one, 0, values)
	a.line("MOVW %s, (%s)", index, ids)
	a.line("ADD $4, %s", values)
	a.line("ADD $4, %s", ids)
	a.line("ADD $1, %s", n)
	a.label("not")
	a.line("ADD $4, %s", x)
	a.line("ADD $1, %s", index)
	a.line("SUBS $1, %s", some)
	a.line("BGT each")
	a.line("B next")
	a.label("done")
	a.line("MOVD %s, %s", n, a.param("ret"))
	a.end()
}

// weighing is what a weight needs in registers.
type weighing struct {
	*assembler
	largest, scale, least, round    vec
	c                               []vec // the polynomial's
	seven, fourfold, order, eighths vec
	whole                           vec
}

func (a *assembler) weighing() *weighing {
	w := &weighing{assembler: a, eighths: a.vec()}
	upper := a.vec() // the register after it
	if upper != w.eighths+1 {
		panic("a table of two registers that are apart")
	}
	for half, to := range []vec{w.eighths, upper} {
		var b [16]byte
		for i := range 4 {
			e := half*4 + i
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(math.Exp2(float64(e)/8)))-uint32(e)<<20)
		}
		a.table(fmt.Sprint("eighths", half), b, to)
	}
	w.largest, w.scale = a.everywhere("largest"), a.number("scale")
	number := func(bits uint32) vec {
		v := a.vec()
		a.splat(bits, v)
		return v
	}
	w.least, w.round = number(math.Float32bits(-42)), number(math.Float32bits(3<<19+40))
	for _, c := range []float32{0x1.c6b8bep-5, 0x1.ec0aa6p-3, 0x1.62e43p-1, 1} {
		w.c = append(w.c, number(math.Float32bits(c)))
	}
	w.seven, w.fourfold, w.order = number(7), number(0x04040404), number(0x03020100)
	w.whole = a.vec()
	a.line("MOVD $0x%x, R16", math.Float64bits(3<<51))
	a.op("dup %.2d, x%", w.whole, 16)
	return w
}

// of returns the weights of four values, and the lanes that have one, as weight in
// sampling.go says. x is given back.
func (w *weighing) of(x vec) (lower, upper, has vec) {
	y, f, n, p := x, w.vec(), w.vec(), w.vec()
	has = w.vec()
	w.op("fsub %.4s, %.4s, %.4s", y, x, w.largest)
	w.op("fmul %.4s, %.4s, %.s[#]", y, y, w.scale, 0)
	w.op("fcmge %.4s, %.4s, %.4s", has, y, w.least)
	w.op("fadd %.4s, %.4s, %.4s", n, y, w.round)
	w.op("fsub %.4s, %.4s, %.4s", f, n, w.round)
	w.op("fsub %.4s, %.4s, %.4s", f, y, f)
	w.op("fmul %.4s, %.4s, %.4s", p, f, w.c[0])
	for _, c := range w.c[1:3] {
		w.op("fadd %.4s, %.4s, %.4s", p, p, c)
		w.op("fmul %.4s, %.4s, %.4s", p, p, f)
	}
	w.op("fadd %.4s, %.4s, %.4s", p, p, w.c[3])
	w.op("and %.16b, %.16b, %.16b", f, n, w.seven)
	w.op("mul %.4s, %.4s, %.4s", f, f, w.fourfold)
	w.op("add %.4s, %.4s, %.4s", f, f, w.order)
	w.op("tbl %.16b, {%.16b, +.16b}, %.16b", f, w.eighths, f)
	w.op("shl %.4s, %.4s, #", n, n, 20)
	w.op("add %.4s, %.4s, %.4s", f, f, n)
	w.op("fmul %.4s, %.4s, %.4s", p, p, f)
	w.op("fcvtl %.2d, %.2s", f, p)
	w.op("fcvtl2 %.2d, %.4s", n, p)
	for _, v := range []vec{f, n} {
		w.op("fadd %.2d, %.2d, %.2d", v, v, w.whole)
		w.op("sub %.2d, %.2d, %.2d", v, v, w.whole)
	}
	w.free(y, p)
	return f, n, has
}

// masked clears the lanes of two registers where a mask of four has none.
func (w *weighing) masked(lower, upper, mask vec) {
	t := w.vec()
	w.op("sxtl %.2d, %.2s", t, mask)
	w.op("and %.16b, %.16b, %.16b", lower, lower, t)
	w.op("sxtl2 %.2d, %.4s", t, mask)
	w.op("and %.16b, %.16b, %.16b", upper, upper, t)
	w.free(t)
}

// weights writes the weights of a row.
func weights(a *assembler) {
	a.begin("weightsNEON", "weights", "(dst []uint64, x []float32, largest, scale float32)", 64)
	w := a.weighing()
	a.line("MOVD %s, R0", a.param("dst_base"))
	a.sixteens(minusInfinity, func() {
		for i := range 4 {
			x := a.vec()
			a.load(16, 16*i, "R1", x)
			lower, upper, has := w.of(x)
			w.masked(lower, upper, has)
			a.store(16, lower, 32*i, "R0")
			a.store(16, upper, 32*i+16, "R0")
			a.free(lower, upper, has)
		}
		a.line("ADD $128, R0")
	})
	a.end()
}

// sumWeights writes the sum of the weights of what is as large as a number, and with
// split of what is as large as another too.
func sumWeights(a *assembler, split bool) {
	if split {
		a.begin("splitWeightsNEON", "splitWeights", "(x []float32, from, over, largest, scale float32) (sum, sumOver uint64)", 64)
	} else {
		a.begin("sumWeightsNEON", "sumWeights", "(x []float32, from, largest, scale float32) uint64", 64)
	}
	w := a.weighing()
	from, sum, sumOver := a.everywhere("from"), a.vec(), a.vec()
	a.zero(sum)
	var over vec
	if split {
		over = a.everywhere("over")
		a.zero(sumOver)
	}
	a.sixteens(minusInfinity, func() {
		for i := range 4 {
			x, chosen, more := a.vec(), a.vec(), a.vec()
			a.load(16, 16*i, "R1", x)
			a.op("fcmge %.4s, %.4s, %.4s", chosen, x, from)
			if split {
				a.op("fcmge %.4s, %.4s, %.4s", more, x, over)
			}
			lower, upper, has := w.of(x)
			a.op("and %.16b, %.16b, %.16b", chosen, chosen, has)
			w.masked(lower, upper, chosen)
			a.op("add %.2d, %.2d, %.2d", sum, sum, lower)
			a.op("add %.2d, %.2d, %.2d", sum, sum, upper)
			if split {
				w.masked(lower, upper, more)
				a.op("add %.2d, %.2d, %.2d", sumOver, sumOver, lower)
				a.op("add %.2d, %.2d, %.2d", sumOver, sumOver, upper)
			}
			a.free(lower, upper, has, chosen, more)
		}
	})
	result := func(v vec, name string) {
		a.op("addp d%, %.2d", v, v)
		a.line("FMOVD %v, %s", v, a.param(name))
	}
	if split {
		result(sum, "sum")
		result(sumOver, "sumOver")
	} else {
		result(sum, "ret")
	}
	a.end()
}

// sumExp writes the sum of the powers of e in float64.
func sumExp(a *assembler) {
	a.begin("sumExpNEON", "sumExp", "(x []float32, largest float32) float64", 64)
	double := func(f float64) vec {
		v := a.vec()
		a.line("MOVD $0x%x, R16", math.Float64bits(f))
		a.op("dup %.2d, x%", v, 16)
		return v
	}
	largest := a.number("largest")
	a.op("fcvtl %.2d, %.2s", largest, largest)
	a.op("dup %.2d, %.d[#]", largest, largest, 0)
	log2e, least, round := double(math.Log2E), double(-1000), double(3<<51)
	// Taylor's series of 2^f, from f¹⁰ down to 1.
	series := make([]vec, 11)
	term := 1.0
	for i := range series {
		series[10-i] = double(term)
		term *= math.Ln2 / float64(i+1)
	}
	sums := a.vecs(8)
	for _, s := range sums {
		a.zero(s)
	}
	a.sixteens(minusInfinity, func() {
		for i, s := range sums {
			y, has, n, p := a.vec(), a.vec(), a.vec(), a.vec()
			a.load(8, 8*i, "R1", y)
			a.op("fcvtl %.2d, %.2s", y, y)
			a.op("fsub %.2d, %.2d, %.2d", y, y, largest)
			a.op("fmul %.2d, %.2d, %.2d", y, y, log2e)
			a.op("fcmge %.2d, %.2d, %.2d", has, y, least)
			a.op("fadd %.2d, %.2d, %.2d", n, y, round)
			a.op("fsub %.2d, %.2d, %.2d", n, n, round)
			a.op("fsub %.2d, %.2d, %.2d", y, y, n)
			a.op("fmul %.2d, %.2d, %.2d", p, y, series[0])
			for _, c := range series[1:10] {
				a.op("fadd %.2d, %.2d, %.2d", p, p, c)
				a.op("fmul %.2d, %.2d, %.2d", p, p, y)
			}
			a.op("fadd %.2d, %.2d, %.2d", p, p, series[10])
			a.op("fcvtzs %.2d, %.2d", n, n)
			a.op("shl %.2d, %.2d, #", n, n, 52)
			a.op("add %.2d, %.2d, %.2d", p, p, n)
			a.op("and %.16b, %.16b, %.16b", p, p, has)
			a.op("fadd %.2d, %.2d, %.2d", s, s, p)
			a.free(y, has, n, p)
		}
	})
	a.fold(sums)
	a.end()
}
