package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// largest writes the largest element, in 64 lanes so that comparisons needn't wait
// for each other.
func largest(w width) {
	begin("largest", w, "func(x []float32) float32")
	x := base("x")
	left := Load(Param("x").Len(), GP64()).(reg.GPVirtual)
	const at = 64
	var most []reg.VecVirtual
	for range 4 * at / w.bytes {
		v := w.register()
		VMOVUPS(floats("infinityBelow", math.Inf(-1)), v)
		most = append(most, v)
	}
	SUBQ(Imm(at), left)
	JL(LabelRef("rest"))
	Label("many")
	for i, m := range most {
		v := w.register()
		VMOVUPS(Mem{Base: x, Disp: i * w.bytes}, v)
		VMAXPS(m, v, m) // of a NaN and a number the first operand
	}
	ADDQ(U32(4*at), x)
	SUBQ(Imm(at), left)
	JGE(LabelRef("many"))

	Label("rest")
	ADDQ(Imm(at), left)
	lanes := w.bytes / 4
	SUBQ(Imm(uint64(lanes)), left)
	JL(LabelRef("tail"))
	Label("vector")
	v := w.register()
	VMOVUPS(Mem{Base: x}, v)
	VMAXPS(most[0], v, most[0])
	ADDQ(Imm(uint64(w.bytes)), x)
	SUBQ(Imm(uint64(lanes)), left)
	JGE(LabelRef("vector"))

	Label("tail")
	ADDQ(Imm(uint64(lanes)), left)
	JZ(LabelRef("done"))
	words := first(left)
	mask := w.mask(words)
	words.Disp += infinitiesAt - behindAt
	w.loadMasked(Mem{Base: x}, mask, v)
	VADDPS(words, v, v) // minus infinity in the lanes that aren't there
	VMAXPS(most[0], v, most[0])
	Label("done")
	Store(w.fold(most, 4, VMAXPS), ReturnIndex(0))
	end()
}

// find writes where the first element is that equals v, or as many as there are.
func find(w width) {
	begin("find", w, "func(x []float32, v float32) int")
	x := base("x")
	length := Load(Param("x").Len(), GP64()).(reg.GPVirtual)
	v := w.register()
	VBROADCASTSS(Load(Param("v"), XMM()), v)
	at, left, found := GP64().(reg.GPVirtual), GP64().(reg.GPVirtual), GP32()
	XORQ(at, at)
	MOVQ(length, left)
	lanes := w.bytes / 4
	equal := func(from reg.VecVirtual) {
		if w.bytes == 64 {
			k := K()
			VCMPPS(Imm(0), from, v, k)
			KMOVW(k, found)
		} else {
			VCMPPS(Imm(0), from, v, from)
			VMOVMSKPS(from, found)
		}
		TESTL(found, found)
	}
	SUBQ(Imm(uint64(lanes)), left)
	JL(LabelRef("tail"))
	Label("vector")
	from := w.register()
	VMOVUPS(Mem{Base: x, Index: at, Scale: 4}, from)
	equal(from)
	JNZ(LabelRef("found"))
	ADDQ(Imm(uint64(lanes)), at)
	SUBQ(Imm(uint64(lanes)), left)
	JGE(LabelRef("vector"))

	Label("tail")
	ADDQ(Imm(uint64(lanes)), left)
	JZ(LabelRef("none"))
	w.loadMasked(Mem{Base: x, Index: at, Scale: 4}, w.mask(first(left)), from)
	equal(from)
	JNZ(LabelRef("found"))
	Label("none")
	MOVQ(length, at)
	JMP(LabelRef("done"))
	Label("found")
	BSFL(found, found)
	MOVL(found, found)
	ADDQ(found.(reg.GPVirtual).As64(), at)
	CMPQ(at, length) // lanes that aren't there are 0
	CMOVQGT(length, at)
	Label("done")
	Store(at, ReturnIndex(0))
	end()
}
