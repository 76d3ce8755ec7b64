package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantize writes the quantization of a row, for every level from AVX2 on.
func quantize() {
	TEXT("quantizeAVX2", NOSPLIT, "func(dst []byte, x []float32)")
	Pragma("noescape")
	Doc("quantizeAVX2 is quantize.")
	dst := Load(Param("dst").Base(), GP64())
	x := Load(Param("x").Base(), GP64())
	left := Load(Param("x").Len(), GP64())
	const infinity = 0x7f800000

	largest, one := XMM(), XMM()
	VMOVSS(constant("float127", 0x42fe0000, 8), largest)
	VMOVSS(constant("float1", 0x3f800000, 8), one)
	zero, order := YMM(), YMM()
	VPXOR(zero, zero, zero)
	VMOVDQU(interleave(), order)
	bits, d := GP32(), XMM()

	Label("block")
	Comment("The largest magnitude, by its bits.")
	var columns, top [4]reg.VecVirtual
	for i := range columns {
		columns[i], top[i] = YMM(), YMM()
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, columns[i])
		VPAND(magnitude(), columns[i], top[i])
	}
	fold(top, VPMAXUD)
	VMOVD(top[0].AsX(), bits)
	CMPL(bits, U32(infinity))
	JAE(LabelRef("nan"))
	VDIVSS(largest, top[0].AsX(), d)
	inverse := YMM()
	VDIVSS(d, one, inverse.AsX())
	VMOVD(inverse.AsX(), bits)
	CMPL(bits, U32(infinity))
	JE(LabelRef("zero"))

	Comment("Round to integers: the control register's mode is half to even.")
	VBROADCASTSS(inverse.AsX(), inverse)
	var sum [4]reg.VecVirtual
	for i, c := range columns {
		VMULPS(inverse, c, c)
		VCVTPS2DQ(c, c)
		sum[i] = YMM()
		VMOVDQA(c, sum[i])
	}
	VPACKSSDW(columns[1], columns[0], columns[0])
	VPACKSSDW(columns[3], columns[2], columns[2])
	VPACKSSWB(columns[2], columns[0], columns[0])
	VPERMD(columns[0], order, columns[0])
	VMOVDQU(columns[0], Mem{Base: dst})
	VMOVSS(d, Mem{Base: dst, Disp: scaleAt})
	fold(sum, VPADDD)
	VPSLLD(Imm(3), sum[0].AsX(), sum[0].AsX())
	VPSUBD(sum[0].AsX(), zero.AsX(), sum[0].AsX())
	VMOVD(sum[0].AsX(), Mem{Base: dst, Disp: biasAt})

	Label("next")
	ADDQ(Imm(xBlock), dst)
	ADDQ(U32(128), x)
	SUBQ(Imm(32), left)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()

	Label("nan")
	MOVL(U32(0x7fc00000), bits)
	JMP(LabelRef("empty"))
	Label("zero")
	XORL(bits, bits)
	Label("empty")
	VMOVDQU(zero, Mem{Base: dst})
	MOVL(bits, Mem{Base: dst, Disp: scaleAt})
	MOVL(U32(0), Mem{Base: dst, Disp: biasAt})
	JMP(LabelRef("next"))
}

// fold brings the 32 lanes of v together in every lane of the lower half of
// v[0].
func fold(v [4]reg.VecVirtual, op func(...Op)) {
	op(v[1], v[0], v[0])
	op(v[3], v[2], v[2])
	op(v[2], v[0], v[0])
	a, b := v[0].AsX(), v[1].AsX()
	VEXTRACTI128(Imm(1), v[0], b)
	op(b, a, a)
	for _, swap := range []uint64{0b01_00_11_10, 0b10_11_00_01} {
		VPSHUFD(Imm(swap), a, b)
		op(b, a, a)
	}
}

// interleave is the order in which VPACKSSDW and VPACKSSWB, which work on the
// two halves of a register apart, leave groups of four bytes.
func interleave() Mem {
	m := GLOBL("interleave", RODATA|NOPTR)
	for i, group := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(group))
	}
	return m
}
