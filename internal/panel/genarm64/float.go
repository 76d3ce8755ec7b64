package main

import "fmt"

const segment = 256 // columns; panel.Segment

// floats writes the product of a panel of F32, F16 or BF16 weights with some rows of
// float32.
//
// The outputs stand in memory between segments, which leaves the registers to the sums.
// They start as -0, the number that changes nothing it is added to, so that the first
// segment's sum needs no code of its own.
func floats(a *assembler, weights string, rows int) {
	a.begin(fmt.Sprintf("float%sx%dNEON", weights, rows), fmt.Sprintf("float%s of %d rows", weights, rows),
		"(p []byte, cols int, x []float32, xStride int, y []float32, yStride int)", 0)
	const (
		panel, cols, y, stride, left, out = "R0", "R1", "R2", "R3", "R4", "R6"
	)
	a.line("MOVD %s, %s", a.param("p_base"), panel)
	a.line("MOVD %s, %s", a.param("cols"), cols)
	a.line("MOVD %s, %s", a.param("x_base"), xReg(0))
	a.line("MOVD %s, %s", a.param("y_base"), y)
	if rows > 1 {
		a.line("MOVD %s, R16", a.param("xStride"))
		a.line("MOVD %s, %s", a.param("yStride"), stride)
		a.line("LSL $2, %s", stride)
		for r := 1; r < rows; r++ {
			a.line("ADD R16<<2, %s, %s", xReg(r-1), xReg(r))
		}
	}
	eachRow := func(f func(r int)) {
		a.line("MOVD %s, %s", y, out)
		for r := range rows {
			f(r)
			if r < rows-1 {
				a.line("ADD %s, %s", stride, out)
			}
		}
	}
	minusZero := a.vec()
	a.splat(1<<31, minusZero)
	eachRow(func(int) {
		for q := range 4 {
			a.store(16, minusZero, 16*q, out)
		}
	})
	a.free(minusZero)

	a.label("segment")
	a.line("MOVD $%d, %s", segment, left)
	a.line("CMP %s, %s", left, cols)
	a.line("CSEL LT, %s, %s, %s", cols, left, left)
	a.line("SUB %s, %s", left, cols)
	sums := a.everyColumn(weights, panel, left, rows)
	eachRow(func(r int) {
		for q := range 4 {
			sum, before := sums[4*r+q], a.vec()
			a.load(16, 16*q, out, before)
			a.op("fadd %.4s, %.4s, %.4s", sum, sum, before)
			a.store(16, sum, 16*q, out)
			a.free(before, sum)
		}
	})
	a.line("CBNZ %s, segment", cols)
	a.end()
}

// everyColumn returns the sums of the products of left columns, at least one, with the
// rows at xReg, which move on as the panel does: four registers for each row.
func (a *assembler) everyColumn(weights, panel, left string, rows int) []vec {
	sums := a.vecs(4 * rows)
	for _, s := range sums {
		a.zero(s)
	}
	a.line("SUBS $4, %s", left)
	a.line("BLT tail")
	a.label("four")
	a.inside = 0
	a.columns(weights, panel, sums, 4)
	a.line("SUBS $4, %s", left)
	a.line("BGE four")
	count(a.function, a.inside, 4*lanes*rows)
	a.label("tail")
	a.line("ADDS $4, %s", left)
	a.line("BEQ summed")
	a.label("one")
	a.columns(weights, panel, sums, 1)
	a.line("SUBS $1, %s", left)
	a.line("BNE one")
	a.label("summed")
	return sums
}

// columns multiplies n columns, and moves the panel and the rows on.
func (a *assembler) columns(weights, panel string, sums []vec, n int) {
	rows, size := len(sums)/4, 4
	if weights != "F32" {
		size = 2
	}
	x := a.vecs(rows)
	for r, v := range x {
		a.load(4*n, 0, xReg(r), v)
	}
	for c := range n {
		w := a.vecs(4)
		for q := 0; q < 4; q += 4 / size {
			a.load(16, (c*16+4*q)*size, panel, w[q])
		}
		if size == 2 {
			low, high := "fcvtl %.4s, %.4h", "fcvtl2 %.4s, %.8h"
			if weights == "BF16" {
				low, high = "shll %.4s, %.4h, #16", "shll2 %.4s, %.8h, #16"
			}
			for q := 0; q < 4; q += 2 {
				a.op(high, w[q+1], w[q])
				a.op(low, w[q], w[q])
			}
		}
		for i, s := range sums {
			a.op("fmla %.4s, %.4s, %.s[#]", s, w[i%4], x[i/4], c)
		}
		a.free(w...)
	}
	a.free(x...)
	a.line("ADD $%d, %s", n*16*size, panel)
	for r := range rows {
		a.line("ADD $%d, %s", 4*n, xReg(r))
	}
}

func floatFamily(a *assembler) {
	for _, weights := range []string{"F32", "F16", "BF16"} {
		for _, rows := range []int{4, 2, 1} {
			floats(a, weights, rows)
		}
	}
}
