package main

import "math"

// elements is a loop over slices of as many elements: the first is written, the others
// are read.
type elements struct {
	*assembler
	bytes, at int
}

func sliceReg(i int) string { return []string{"R0", "R1", "R2", "R3"}[i] }

// elementwise writes a loop whose body is written for four lanes, several times, and for
// what is left for one lane. Lanes that aren't stored hold zeros, or anything.
func (a *assembler) elementwise(slices []string, unroll int, body func(e *elements)) {
	for i, s := range slices {
		a.line("MOVD %s, %s", a.param(s+"_base"), sliceReg(i))
	}
	a.line("MOVD %s, R4", a.param(slices[0]+"_len"))
	a.steps("R4", len(slices), unroll, body)
	a.end()
}

// steps is the loop of elementwise over left elements.
func (a *assembler) steps(left string, slices, unroll int, body func(e *elements)) {
	for _, step := range []struct {
		name            string
		elements, bytes int
	}{{"vectors", 4 * unroll, 16}, {"vector", 4, 16}, {"single", 1, 4}} {
		if step.name == "vectors" && unroll == 1 {
			continue
		}
		a.line("SUBS $%d, %s", step.elements, left)
		a.line("BLT %sdone", step.name)
		a.label(step.name)
		for at := 0; at < step.elements*4; at += step.bytes {
			body(&elements{a, step.bytes, at})
		}
		for i := range slices {
			a.line("ADD $%d, %s", 4*step.elements, sliceReg(i))
		}
		a.line("SUBS $%d, %s", step.elements, left)
		a.line("BGE %s", step.name)
		a.label(step.name + "done")
		a.line("ADD $%d, %s", step.elements, left)
	}
}

func (e *elements) load(i int) vec {
	v := e.vec()
	e.assembler.load(e.bytes, e.at, sliceReg(i), v)
	return v
}

func (e *elements) store(v vec) {
	e.assembler.store(e.bytes, v, e.at, sliceReg(0))
	e.free(v)
}

// number loads a parameter into a register's first lane.
func (a *assembler) number(name string) vec {
	v := a.vec()
	a.line("FMOVS %s, %v", a.param(name), v)
	return v
}

// everywhere loads a parameter into all lanes.
func (a *assembler) everywhere(name string) vec {
	v := a.number(name)
	a.op("dup %.4s, %.s[#]", v, v, 0)
	return v
}

// withNumber writes a loop over dst and x that combines each with a number.
func withNumber(a *assembler, name, op string) {
	a.begin(name+"NEON", name, "(dst, x []float32, by float32)", 0)
	by := a.everywhere("by")
	a.elementwise([]string{"dst", "x"}, 4, func(e *elements) {
		x := e.load(1)
		e.op(op+" %.4s, %.4s, %.4s", x, x, by)
		e.store(x)
	})
}

func elementwiseFamily(a *assembler) {
	withNumber(a, "multiply", "fmul")
	withNumber(a, "subtract", "fsub")
	withNumber(a, "divide", "fdiv")

	a.begin("addNEON", "add", "(dst, x []float32)", 0)
	a.elementwise([]string{"dst", "x"}, 4, func(e *elements) {
		y, x := e.load(0), e.load(1)
		e.op("fadd %.4s, %.4s, %.4s", y, y, x)
		e.store(y)
		e.free(x)
	})

	a.begin("scaleNEON", "scale", "(dst, x, gain []float32, f float32)", 0)
	f := a.number("f")
	a.elementwise([]string{"dst", "x", "gain"}, 4, func(e *elements) {
		x, gain := e.load(1), e.load(2)
		e.op("fmul %.4s, %.4s, %.s[#]", x, x, f, 0)
		e.op("fmul %.4s, %.4s, %.4s", x, x, gain)
		e.store(x)
		e.free(gain)
	})

	a.begin("standardizeNEON", "standardize", "(dst, x, gain []float32, mean, f float32)", 0)
	mean, f := a.everywhere("mean"), a.number("f")
	a.elementwise([]string{"dst", "x", "gain"}, 4, func(e *elements) {
		x, gain := e.load(1), e.load(2)
		e.op("fsub %.4s, %.4s, %.4s", x, x, mean)
		e.op("fmul %.4s, %.4s, %.s[#]", x, x, f, 0)
		e.op("fmul %.4s, %.4s, %.4s", x, x, gain)
		e.store(x)
		e.free(gain)
	})

	toF16(a)
	rotatePairs(a)
	rotateHalves(a)
	sum(a, "sum")
	sum(a, "sumSquares")
	largest(a)
	find(a)
}

// toF16 writes the conversion of whole vectors of 16.
func toF16(a *assembler) {
	a.begin("toF16NEON", "toF16", "(dst []uint16, x []float32)", 0)
	a.line("MOVD %s, R0", a.param("dst_base"))
	a.line("MOVD %s, R1", a.param("x_base"))
	a.line("MOVD %s, R4", a.param("x_len"))
	a.label("sixteen")
	v := a.vecs(4)
	for i, v := range v {
		a.load(16, 16*i, "R1", v)
	}
	for i := 0; i < 4; i += 2 {
		a.op("fcvtn %.4h, %.4s", v[i], v[i])
		a.op("fcvtn2 %.8h, %.4s", v[i], v[i+1])
		a.store(16, v[i], 8*i, "R0")
	}
	a.free(v...)
	a.line("ADD $32, R0")
	a.line("ADD $64, R1")
	a.line("SUBS $16, R4")
	a.line("BGT sixteen")
	a.end()
}

// rotatePairs writes the rotation of whole fours of pairs.
func rotatePairs(a *assembler) {
	a.begin("rotatePairsNEON", "rotatePairs", "(x, cos, sin []float32)", 0)
	for i, s := range []string{"x", "cos", "sin"} {
		a.line("MOVD %s, %s", a.param(s+"_base"), sliceReg(i))
	}
	a.line("MOVD %s, R4", a.param("cos_len"))
	a.label("four")
	v := a.vecs(4)
	a.load(16, 0, "R0", v[0])
	a.load(16, 16, "R0", v[1])
	a.op("uzp2 %.4s, %.4s, %.4s", v[2], v[0], v[1])
	a.op("uzp1 %.4s, %.4s, %.4s", v[0], v[0], v[1])
	c, s := v[1], v[3]
	a.load(16, 0, "R1", c)
	a.load(16, 0, "R2", s)
	x, y := a.rotate(v[0], v[2], c, s)
	a.op("zip1 %.4s, %.4s, %.4s", c, x, y)
	a.op("zip2 %.4s, %.4s, %.4s", s, x, y)
	a.store(16, c, 0, "R0")
	a.store(16, s, 16, "R0")
	a.free(v...)
	a.line("ADD $32, R0")
	a.line("ADD $16, R1")
	a.line("ADD $16, R2")
	a.line("SUBS $4, R4")
	a.line("BGT four")
	a.end()
}

// rotate returns a·c - b·s and a·s + b·c in the registers of a and b.
func (a *assembler) rotate(x, y, c, s vec) (vec, vec) {
	t := a.vecs(2)
	a.op("fmul %.4s, %.4s, %.4s", t[0], y, s)
	a.op("fmul %.4s, %.4s, %.4s", t[1], x, s)
	a.op("fmul %.4s, %.4s, %.4s", x, x, c)
	a.op("fmul %.4s, %.4s, %.4s", y, y, c)
	a.op("fsub %.4s, %.4s, %.4s", x, x, t[0])
	a.op("fadd %.4s, %.4s, %.4s", y, t[1], y)
	a.free(t...)
	return x, y
}

// rotateHalves writes the rotation of whole eights of pairs whose parts lie in two
// halves.
func rotateHalves(a *assembler) {
	a.begin("rotateHalvesNEON", "rotateHalves", "(first, second, cos, sin []float32)", 0)
	for i, s := range []string{"first", "second", "cos", "sin"} {
		a.line("MOVD %s, %s", a.param(s+"_base"), sliceReg(i))
	}
	a.line("MOVD %s, R4", a.param("cos_len"))
	a.label("eight")
	for at := 0; at < 32; at += 16 {
		v := a.vecs(4)
		for i, v := range v {
			a.load(16, at, sliceReg(i), v)
		}
		x, y := a.rotate(v[0], v[1], v[2], v[3])
		a.store(16, x, at, "R0")
		a.store(16, y, at, "R1")
		a.free(v...)
	}
	for i := range 4 {
		a.line("ADD $32, %s", sliceReg(i))
	}
	a.line("SUBS $8, R4")
	a.line("BGT eight")
	a.end()
}

// sixteens writes a loop over x in steps of 16 elements. What is left of the last step
// lies in stack memory behind which fill is. body has the elements at R1.
func (a *assembler) sixteens(fill uint32, body func()) {
	a.line("MOVD %s, R1", a.param("x_base"))
	a.line("MOVD %s, R4", a.param("x_len"))
	a.line("SUBS $16, R4")
	a.line("BLT tail")
	a.label("sixteen")
	body()
	a.line("ADD $64, R1")
	a.line("SUBS $16, R4")
	a.line("BGE sixteen")
	a.label("tail")
	a.line("ADDS $16, R4")
	a.line("BLE summed")
	a.line("MOVD $rest-64(SP), R5")
	a.line("MOVW $0x%x, R6", fill)
	for i := 0; i < 64; i += 4 {
		a.line("MOVW R6, %d(R5)", i)
	}
	a.label("copy")
	a.line("MOVWU.P 4(R1), R6")
	a.line("MOVW.P R6, 4(R5)")
	a.line("SUBS $1, R4")
	a.line("BGT copy")
	a.line("MOVD $rest-64(SP), R1")
	body()
	a.label("summed")
}

// fold adds 16 sums of float64 up by halves, and returns the result.
func (a *assembler) fold(sums []vec) {
	for n := 4; n > 0; n /= 2 {
		for i := range n {
			a.op("fadd %.2d, %.2d, %.2d", sums[i], sums[i], sums[i+n])
		}
	}
	a.op("faddp d%, %.2d", sums[0], sums[0])
	a.line("FMOVD %v, %s", sums[0], a.param("ret"))
}

// sum writes the sum, or that of squares.
func sum(a *assembler, name string) {
	a.begin(name+"NEON", name, "(x []float32) float64", 64)
	sums := a.vecs(8)
	for _, s := range sums {
		a.zero(s)
	}
	a.sixteens(0, func() {
		v, upper := a.vecs(4), a.vec()
		for i, v := range v {
			a.load(16, 16*i, "R1", v)
			a.op("fcvtl2 %.2d, %.4s", upper, v)
			a.op("fcvtl %.2d, %.2s", v, v)
			if name == "sum" {
				a.op("fadd %.2d, %.2d, %.2d", sums[2*i], sums[2*i], v)
				a.op("fadd %.2d, %.2d, %.2d", sums[2*i+1], sums[2*i+1], upper)
			} else {
				a.op("fmla %.2d, %.2d, %.2d", sums[2*i], v, v)
				a.op("fmla %.2d, %.2d, %.2d", sums[2*i+1], upper, upper)
			}
		}
		a.free(v...)
		a.free(upper)
	})
	a.fold(sums)
	a.free(sums...)
	a.end()
}

// largest writes the maximum. A comparison leaves NaN out.
func largest(a *assembler) {
	a.begin("largestNEON", "largest", "(x []float32) float32", 64)
	top := a.vecs(4)
	for _, v := range top {
		a.splat(math.Float32bits(float32(math.Inf(-1))), v)
	}
	a.sixteens(math.Float32bits(float32(math.Inf(-1))), func() {
		for i, top := range top {
			v := a.vecs(2)
			a.load(16, 16*i, "R1", v[0])
			a.op("fcmgt %.4s, %.4s, %.4s", v[1], v[0], top)
			a.op("bit %.16b, %.16b, %.16b", top, v[0], v[1])
			a.free(v...)
		}
	})
	a.op("fmax %.4s, %.4s, %.4s", top[0], top[0], top[1])
	a.op("fmax %.4s, %.4s, %.4s", top[2], top[2], top[3])
	a.op("fmax %.4s, %.4s, %.4s", top[0], top[0], top[2])
	a.op("fmaxv s%, %.4s", top[0], top[0])
	a.line("FMOVS %v, %s", top[0], a.param("ret"))
	a.free(top...)
	a.end()
}

// find writes the search for a number: 16 elements at once until some are equal, and
// those one by one.
func find(a *assembler) {
	a.begin("findNEON", "find", "(x []float32, v float32) int", 0)
	a.line("MOVD %s, R1", a.param("x_base"))
	a.line("MOVD %s, R4", a.param("x_len"))
	a.line("MOVD R1, R2")
	wanted := a.everywhere("v")
	a.line("SUBS $16, R4")
	a.line("BLT rest")
	a.label("sixteen")
	v := a.vecs(4)
	for i, v := range v {
		a.load(16, 16*i, "R1", v)
		a.op("fcmeq %.4s, %.4s, %.4s", v, v, wanted)
	}
	a.anywhere(v)
	a.line("CBNZW R6, rest")
	a.line("ADD $64, R1")
	a.line("SUBS $16, R4")
	a.line("BGE sixteen")
	a.label("rest")
	a.line("ADDS $16, R4")
	a.line("BLE found")
	a.label("single")
	one := a.vec()
	a.load(4, 0, "R1", one)
	a.line("FCMPS %v, %v", wanted, one)
	a.line("BEQ found")
	a.line("ADD $4, R1")
	a.line("SUBS $1, R4")
	a.line("BGT single")
	a.label("found")
	a.line("SUB R2, R1")
	a.line("LSR $2, R1")
	a.line("MOVD R1, %s", a.param("ret"))
	a.free(one, wanted)
	a.end()
}

// anywhere makes R6 other than 0 where a bit is set in any of four registers, and gives
// them back.
func (a *assembler) anywhere(v []vec) {
	a.op("orr %.16b, %.16b, %.16b", v[0], v[0], v[1])
	a.op("orr %.16b, %.16b, %.16b", v[2], v[2], v[3])
	a.op("orr %.16b, %.16b, %.16b", v[0], v[0], v[2])
	a.op("umaxv s%, %.4s", v[0], v[0])
	a.op("fmov w%, s%", 6, v[0])
	a.free(v...)
}

// fetch writes what asks for the cache lines of some memory.
func fetch(a *assembler) {
	a.begin("fetch", "what asks for the cache lines of p, which are whole ones and at least one", "(p []byte)", 0)
	a.line("MOVD %s, R0", a.param("p_base"))
	a.line("MOVD %s, R1", a.param("p_len"))
	a.label("line")
	a.line("PRFM (R0), PLDL1KEEP")
	a.line("ADD $64, R0")
	a.line("SUBS $64, R1")
	a.line("BGT line")
	a.end()
}
