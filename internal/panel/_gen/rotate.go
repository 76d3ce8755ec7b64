package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// rotatePairs writes the rotation of whole fours of pairs, for every level from AVX2 on.
func rotatePairs() {
	begin("rotatePairs", avx2, "func(x, cos, sin []float32)")
	x, cos, sin := base("x"), base("cos"), base("sin")
	left := Load(Param("cos").Len(), GP64())
	Label("four")
	c, s, ab, ba := YMM(), YMM(), YMM(), YMM()
	VPMOVZXDQ(Mem{Base: cos}, c)
	VMOVSLDUP(c, c)
	VPMOVZXDQ(Mem{Base: sin}, s)
	VMOVSLDUP(s, s)
	VMOVUPS(Mem{Base: x}, ab)
	VPERMILPS(Imm(0b10_11_00_01), ab, ba)
	VMULPS(c, ab, ab)
	VMULPS(s, ba, ba)
	VADDSUBPS(ba, ab, ab)
	VMOVUPS(ab, Mem{Base: x})
	ADDQ(Imm(32), x)
	ADDQ(Imm(16), cos)
	ADDQ(Imm(16), sin)
	SUBQ(Imm(4), left)
	JG(LabelRef("four"))
	end()
}

// rotateHalves writes the rotation of whole eights of pairs whose parts lie in two
// halves, for every level from AVX2 on.
func rotateHalves() {
	begin("rotateHalves", avx2, "func(first, second, cos, sin []float32)")
	first, second, cos, sin := base("first"), base("second"), base("cos"), base("sin")
	left := Load(Param("cos").Len(), GP64())
	Label("eight")
	c, s, a, b, as, bs := YMM(), YMM(), YMM(), YMM(), YMM(), YMM()
	VMOVUPS(Mem{Base: cos}, c)
	VMOVUPS(Mem{Base: sin}, s)
	VMOVUPS(Mem{Base: first}, a)
	VMOVUPS(Mem{Base: second}, b)
	VMULPS(s, a, as)
	VMULPS(s, b, bs)
	VMULPS(c, a, a)
	VMULPS(c, b, b)
	VSUBPS(bs, a, a)
	VADDPS(b, as, b)
	VMOVUPS(a, Mem{Base: first})
	VMOVUPS(b, Mem{Base: second})
	for _, p := range []Op{first, second, cos, sin} {
		ADDQ(Imm(32), p)
	}
	SUBQ(Imm(8), left)
	JG(LabelRef("eight"))
	end()
}
