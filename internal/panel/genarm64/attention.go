package main

import "fmt"

const tokens = 32 // positions of a page; panel.Tokens

// soften writes the online softmax of some rows of scores. A row's scores are in
// registers from the maximum to the sum.
func soften(a *assembler) {
	a.begin("softenNEON", "soften", "(s []float32, count int, scale float32, m, l, c []float32)", 0)
	const (
		s, m, l, c, left, behind = "R0", "R1", "R2", "R3", "R4", "R5"
	)
	a.line("MOVD %s, %s", a.param("s_base"), s)
	a.line("MOVD %s, %s", a.param("m_base"), m)
	a.line("MOVD %s, %s", a.param("m_len"), left)
	a.line("MOVD %s, %s", a.param("l_base"), l)
	a.line("MOVD %s, %s", a.param("c_base"), c)
	a.line("MOVD %s, R6", a.param("count"))
	a.line("MOVD $·behind<>+%d(SB), %s", 4*tokens, behind)
	a.line("SUB R6<<2, %s", behind)
	k := a.powers()
	scale, infinity := a.vec(), a.vec()
	a.line("FMOVS %s, %v", a.param("scale"), scale)
	a.splat(0xff800000, infinity)

	a.label("row")
	v := a.vecs(8)
	top, mask, old := a.vec(), a.vec(), a.vec()
	a.load(4, 0, m, old)
	a.op("dup %.4s, %.s[#]", top, old, 0)
	for i, v := range v {
		a.load(16, 16*i, s, v)
		a.load(16, 16*i, behind, mask)
		a.op("fmul %.4s, %.4s, %.s[#]", v, v, scale, 0)
		a.op("bit %.16b, %.16b, %.16b", v, infinity, mask)
		a.op("fcmgt %.4s, %.4s, %.4s", mask, v, top)
		a.op("bit %.16b, %.16b, %.16b", top, v, mask)
	}
	a.op("fmaxv s%, %.4s", top, top)
	a.store(4, top, 0, m)
	a.op("dup %.4s, %.s[#]", top, top, 0)
	a.free(mask)
	t := a.vecs(3)
	for i, v := range v {
		a.op("fsub %.4s, %.4s, %.4s", v, v, top)
		a.exp(k, v, t)
		a.store(16, v, 16*i, s)
	}
	a.comment("The sum, by halves, and the row's l and c.")
	for n := 4; n > 0; n /= 2 {
		for i := range n {
			a.op("fadd %.4s, %.4s, %.4s", v[i], v[i], v[i+n])
		}
	}
	a.op("ext %.16b, %.16b, %.16b, #", t[0], v[0], v[0], 8)
	a.op("fadd %.4s, %.4s, %.4s", v[0], v[0], t[0])
	a.op("dup %.4s, %.s[#]", t[0], v[0], 1)
	a.op("fadd %.4s, %.4s, %.4s", v[0], v[0], t[0])
	a.op("fsub %.4s, %.4s, %.4s", old, old, top)
	a.exp(k, old, t)
	a.store(4, old, 0, c)
	a.load(4, 0, l, t[0])
	a.op("fmul s%, s%, s%", t[0], t[0], old)
	a.op("fadd s%, s%, s%", t[0], t[0], v[0])
	a.store(4, t[0], 0, l)
	a.free(t...)
	a.free(v...)
	a.free(top, old)
	a.line("ADD $%d, %s", 4*tokens, s)
	for _, p := range []string{m, l, c} {
		a.line("ADD $4, %s", p)
	}
	a.line("SUB $1, %s", left)
	a.line("CBNZ %s, row", left)
	a.free(k.all...)
	a.free(scale, infinity)
	a.end()
	// Words of zeros, and behind them of ones.
	for i := range 2 * tokens {
		word := uint32(0)
		if i >= tokens {
			word = 1<<32 - 1
		}
		fmt.Fprintf(&a.data, "DATA ·behind<>+%d(SB)/4, $0x%x\n", 4*i, word)
	}
	fmt.Fprintf(&a.data, "GLOBL ·behind<>(SB), RODATA|NOPTR, $%d\n\n", 8*tokens)
}

// weigh writes the weighted values of some rows.
func weigh(a *assembler, values string, rows int) {
	a.begin(fmt.Sprintf("weigh%sx%dNEON", values, rows), fmt.Sprintf("weigh%s of %d rows", values, rows),
		"(values []byte, panels, count int, p, c, acc []float32, next []byte)", 0)
	const (
		panel, panels, counted, c, acc, stride = "R0", "R1", "R2", "R3", "R4", "R5"
		left, behind, out                      = "R6", "R7", "R19"
	)
	a.line("MOVD %s, %s", a.param("values_base"), panel)
	a.line("MOVD %s, %s", a.param("panels"), panels)
	a.line("MOVD %s, %s", a.param("count"), counted)
	a.line("MOVD %s, %s", a.param("p_base"), xReg(0))
	a.line("MOVD %s, %s", a.param("c_base"), c)
	a.line("MOVD %s, %s", a.param("acc_base"), acc)
	a.line("LSL $6, %s, %s", panels, stride)
	for r := 1; r < rows; r++ {
		a.line("ADD $%d, %s, %s", 4*tokens, xReg(r-1), xReg(r))
	}
	shift := 6
	if values == "F16" {
		shift = 5
	}
	a.comment("The bytes from a panel's last position that is seen to the next panel.")
	a.line("MOVD $%d, %s", tokens, behind)
	a.line("SUB %s, %s", counted, behind)
	a.line("LSL $%d, %s", shift, behind)

	a.label("panel")
	a.line("MOVD %s, %s", counted, left)
	sums := a.everyColumn(values, panel, left, rows)
	a.line("MOVD %s, %s", acc, out)
	factor, before := a.vec(), a.vec()
	for r := range rows {
		a.load(4, 4*r, c, factor)
		for q := range 4 {
			sum := sums[4*r+q]
			a.load(16, 16*q, out, before)
			a.op("fmla %.4s, %.4s, %.s[#]", sum, before, factor, 0)
			a.store(16, sum, 16*q, out)
		}
		if r < rows-1 {
			a.line("ADD %s, %s", stride, out)
		}
	}
	a.free(factor, before)
	a.free(sums...)
	a.line("ADD %s, %s", behind, panel)
	for r := range rows {
		a.line("SUB %s<<2, %s", counted, xReg(r))
	}
	a.line("ADD $64, %s", acc)
	a.line("SUB $1, %s", panels)
	a.line("CBNZ %s, panel", panels)
	a.end()
}

const valueBlock = 34 // bytes of 32 values in Q8_0

// expandKeys writes the expansion of a panel of keys.
func expandKeys(a *assembler) {
	a.begin("expandKeysNEON", "expandKeys", "(dst []float32, src []byte, blocks int)", 0)
	const dst, src, blocks, left = "R0", "R1", "R2", "R3"
	a.line("MOVD %s, %s", a.param("dst_base"), dst)
	a.line("MOVD %s, %s", a.param("src_base"), src)
	a.line("MOVD %s, %s", a.param("blocks"), blocks)
	a.label("block")
	scales := a.vecs(4)
	for i := 0; i < 4; i += 2 {
		a.load(16, 8*i, src, scales[i])
		a.op("fcvtl2 %.4s, %.8h", scales[i+1], scales[i])
		a.op("fcvtl %.4s, %.4h", scales[i], scales[i])
	}
	a.line("ADD $32, %s", src)
	a.line("MOVD $16, %s", left)
	a.label("elements")
	for e := range 2 {
		a.expand(16*e, src, scales, [4]int{64 * e, 64*e + 16, 64*e + 32, 64*e + 48}, dst)
	}
	a.line("ADD $32, %s", src)
	a.line("ADD $128, %s", dst)
	a.line("SUB $1, %s", left)
	a.line("CBNZ %s, elements", left)
	a.line("SUB $1, %s", blocks)
	a.line("CBNZ %s, block", blocks)
	a.free(scales...)
	a.end()
}

// expandValues writes the expansion of some positions' values.
func expandValues(a *assembler) {
	a.begin("expandValuesNEON", "expandValues", "(dst []float32, src []byte, count, blocks int)", 0)
	const dst, src, left, blocks, to, n = "R0", "R1", "R2", "R3", "R4", "R5"
	a.line("MOVD %s, %s", a.param("dst_base"), dst)
	a.line("MOVD %s, %s", a.param("src_base"), src)
	a.line("MOVD %s, %s", a.param("count"), left)
	a.line("MOVD %s, %s", a.param("blocks"), blocks)
	a.label("position")
	a.line("MOVD %s, %s", dst, to)
	a.line("MOVD %s, %s", blocks, n)
	a.label("block")
	a.line("MOVHU (%s), R6", src)
	scale := a.vec()
	a.op("dup %.4s, w%", scale, 6)
	a.op("xtn %.4h, %.4s", scale, scale)
	a.op("fcvtl %.4s, %.4h", scale, scale)
	a.line("ADD $2, %s", src)
	for p := range 2 { // panels
		at := 64 * tokens * p
		a.expand(16*p, src, []vec{scale, scale, scale, scale}, [4]int{at, at + 16, at + 32, at + 48}, to)
	}
	a.free(scale)
	a.line("ADD $%d, %s", valueBlock-2, src)
	a.line("ADD $%d, %s", 2*64*tokens, to)
	a.line("SUB $1, %s", n)
	a.line("CBNZ %s, block", n)
	a.line("ADD $64, %s", dst)
	a.line("SUB $1, %s", left)
	a.line("CBNZ %s, position", left)
	a.end()
}

// expand writes 16 numbers scale·q.
func (a *assembler) expand(at int, src string, scales []vec, to [4]int, dst string) {
	q := a.vecs(4)
	a.load(16, at, src, q[0])
	a.op("sxtl2 %.8h, %.16b", q[2], q[0])
	a.op("sxtl %.8h, %.8b", q[0], q[0])
	for i := 0; i < 4; i += 2 {
		a.op("sxtl2 %.4s, %.8h", q[i+1], q[i])
		a.op("sxtl %.4s, %.4h", q[i], q[i])
	}
	for i, v := range q {
		a.op("scvtf %.4s, %.4s", v, v)
		a.op("fmul %.4s, %.4s, %.4s", v, v, scales[i])
		a.store(16, v, to[i], dst)
	}
	a.free(q...)
}

func attentionFamily(a *assembler) {
	fetch(a)
	soften(a)
	expandKeys(a)
	expandValues(a)
	for _, values := range []string{"F32", "F16"} {
		for _, rows := range []int{4, 2, 1} {
			weigh(a, values, rows)
		}
	}
}
