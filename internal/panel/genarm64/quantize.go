package main

// quantize writes the quantization of a row.
func quantize(a *assembler) {
	const (
		infinity     = 0x7f800000
		dst, x, left = "R0", "R1", "R2"
	)
	a.begin("quantizeNEON", "quantize", "(dst []byte, x []float32)", 0)
	a.line("MOVD %s, %s", a.param("dst_base"), dst)
	a.line("MOVD %s, %s", a.param("x_base"), x)
	a.line("MOVD %s, %s", a.param("x_len"), left)
	most, one, zero, minus8 := a.vec(), a.vec(), a.vec(), a.vec()
	a.splat(0x42fe0000, most) // 127
	a.splat(0x3f800000, one)
	a.zero(zero)
	a.splat(1<<32-8, minus8)
	a.line("MOVW $0x%x, R5", infinity)

	a.label("block")
	a.comment("The largest magnitude, by its bits.")
	c := a.vecs(8)
	for i, v := range c {
		a.load(16, 16*i, x, v)
	}
	top := a.vecs(8)
	for i, v := range c {
		a.op("fabs %.4s, %.4s", top[i], v)
	}
	for n := 4; n > 0; n /= 2 {
		for i := range n {
			a.op("umax %.4s, %.4s, %.4s", top[i], top[i], top[i+n])
		}
	}
	a.op("umaxv s%, %.4s", top[0], top[0])
	a.op("fmov w%, s%", 4, top[0])
	a.line("CMPW R5, R4")
	a.line("BHS nan")
	d, inverse := top[0], top[1]
	a.op("fdiv s%, s%, s%", d, d, most)
	a.op("fdiv s%, s%, s%", inverse, one, d)
	a.op("fmov w%, s%", 4, inverse)
	a.line("CMPW R5, R4")
	a.line("BEQ zero")

	a.comment("Rounded to integers, half to even.")
	for _, v := range c {
		a.op("fmul %.4s, %.4s, %.s[#]", v, v, inverse, 0)
		a.op("fcvtns %.4s, %.4s", v, v)
	}
	sums := top[2:4]
	for half, s := range sums {
		q := c[4*half:]
		a.op("add %.4s, %.4s, %.4s", s, q[0], q[1])
		a.op("add %.4s, %.4s, %.4s", top[4], q[2], q[3])
		a.op("add %.4s, %.4s, %.4s", s, s, top[4])
	}
	for i := 0; i < 8; i += 2 {
		a.op("xtn %.4h, %.4s", c[i], c[i])
		a.op("xtn2 %.8h, %.4s", c[i], c[i+1])
	}
	for i := 0; i < 8; i += 4 {
		a.op("xtn %.8b, %.8h", c[i], c[i])
		a.op("xtn2 %.16b, %.8h", c[i], c[i+2])
		a.store(16, c[i], 4*i, dst)
	}
	a.comment("d, and the sums of all and of each half.")
	a.op("addp %.4s, %.4s, %.4s", sums[0], sums[0], sums[1])
	a.op("addp %.4s, %.4s, %.4s", sums[0], sums[0], sums[0])
	a.op("mul %.4s, %.4s, %.4s", sums[0], sums[0], minus8)
	a.op("addp %.4s, %.4s, %.4s", sums[1], sums[0], sums[0])
	a.store(4, d, scaleAt, dst)
	a.store(4, sums[1], scaleAt+4, dst)
	a.store(8, sums[0], scaleAt+8, dst)
	a.free(c...)
	a.free(top...)

	a.label("next")
	a.line("ADD $%d, %s", xBlock, dst)
	a.line("ADD $128, %s", x)
	a.line("SUB $32, %s", left)
	a.line("CBNZ %s, block", left)
	a.line("RET")

	a.label("nan")
	a.line("MOVW $0x7fc00000, R4")
	a.line("B empty")
	a.label("zero")
	a.line("MOVW $0, R4")
	a.label("empty")
	for i := range 3 {
		a.store(16, zero, 16*i, dst)
	}
	a.line("MOVW R4, %d(%s)", scaleAt, dst)
	a.free(most, one, zero, minus8)
	a.line("B next")
	a.end()
}
