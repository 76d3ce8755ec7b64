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

	most, one := XMM(), XMM()
	VMOVSS(constant("float127", 0x42fe0000, 8), most)
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
	largest := avx2.fold(top[:], 4, VPMAXUD)
	VMOVD(largest, bits)
	CMPL(bits, U32(infinity))
	JAE(LabelRef("nan"))
	VDIVSS(most, largest, d)
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
	first, second := avx2.fold(sum[:2], 4, VPADDD), avx2.fold(sum[2:], 4, VPADDD)
	for _, half := range []struct {
		sum reg.Register
		at  int
	}{{first, firstBiasAt}, {second, secondBiasAt}} {
		VPSLLD(Imm(3), half.sum, half.sum)
		VPSUBD(half.sum, zero.AsX(), half.sum)
		VMOVD(half.sum, Mem{Base: dst, Disp: half.at})
	}
	VPADDD(second, first, first)
	VMOVD(first, Mem{Base: dst, Disp: biasAt})

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
	for _, at := range []int{biasAt, firstBiasAt, secondBiasAt} {
		MOVL(U32(0), Mem{Base: dst, Disp: at})
	}
	JMP(LabelRef("next"))
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
