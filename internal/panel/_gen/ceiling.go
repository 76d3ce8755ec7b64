package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of package ceiling: loops that do nothing but what they measure.
func ceilings() {
	one := math.Float32bits(1)
	for _, w := range []width{avx512, avx2} {
		w.rate("fma"+w.name, "multiplies floats by fused multiply-adds", 12, true, []uint32{one}, func(c []reg.VecVirtual, sum reg.VecVirtual) {
			VFMADD231PS(c[0], c[0], sum)
		})
	}
	avx512.rate("dotBytesVNNI", "multiplies bytes by VPDPBUSD", 16, false, []uint32{0x01010101}, func(c []reg.VecVirtual, sum reg.VecVirtual) {
		VPDPBUSD(c[0], c[0], sum)
	})
	avx512.rate("dotBF16", "multiplies BF16 by VDPBF16PS", 16, true, []uint32{one>>16 | one}, func(c []reg.VecVirtual, sum reg.VecVirtual) {
		dotBF16(c[0], c[0], sum)
	})
	avx2.rate("dotBytesAVX2", "multiplies bytes by VPSIGNB, VPMADDUBSW and VPMADDWD", 8, false, []uint32{0x01010101, 0x00010001}, func(c []reg.VecVirtual, sum reg.VecVirtual) {
		t := YMM()
		VPSIGNB(c[0], c[0], t)
		VPMADDUBSW(t, c[0], t)
		VPMADDWD(c[1], t, t)
		VPADDD(t, sum, sum)
	})
	read()
}

// rate writes a loop over a step for each of some sums, and returns the first lane of
// all of them together, by which a test sees that they were made. A step reads registers
// of which each 32 bits are one of words.
func (w width) rate(name, what string, chains int, float bool, words []uint32, step func(c []reg.VecVirtual, sum reg.VecVirtual)) {
	TEXT(name, NOSPLIT, "func(rounds int) uint32")
	Doc(name + " " + what + ".")
	rounds := Load(Param("rounds"), GP64())
	var c []reg.VecVirtual
	for _, word := range words {
		v, r := w.register(), GP32()
		MOVL(U32(word), r)
		VMOVD(r, v.AsX())
		VPBROADCASTD(v.AsX(), v)
		c = append(c, v)
	}
	sums := make([]reg.VecVirtual, chains)
	for i := range sums {
		sums[i] = w.register()
		w.zero(sums[i])
	}
	Label("round")
	for _, s := range sums {
		step(c, s)
	}
	DECQ(rounds)
	JNZ(LabelRef("round"))
	for _, s := range sums[1:] {
		if float {
			VADDPS(s.AsX(), sums[0].AsX(), sums[0].AsX())
		} else {
			VPADDD(s.AsX(), sums[0].AsX(), sums[0].AsX())
		}
	}
	sum := GP32()
	VMOVD(sums[0].AsX(), sum)
	VZEROUPPER()
	Store(sum, ReturnIndex(0))
	RET()
}

// read writes a loop that reads memory, a whole number of blocks of 512 bytes.
func read() {
	TEXT("readAVX2", NOSPLIT, "func(p []byte) uint32")
	Pragma("noescape")
	Doc("readAVX2 adds up the numbers of 32 bits in p that lie at multiples of 32 bytes. p is some blocks of 512 bytes.")
	at := Load(Param("p").Base(), GP64()).(reg.GPVirtual)
	left := Load(Param("p").Len(), GP64())
	sums := make([]reg.VecVirtual, 8)
	for i := range sums {
		sums[i] = YMM()
		VPXOR(sums[i], sums[i], sums[i])
	}
	Label("block")
	fetchAhead(Mem{Base: at, Disp: ahead}, 512)
	for i := range 16 {
		VPADDD(Mem{Base: at, Disp: 32 * i}, sums[i%8], sums[i%8])
	}
	ADDQ(U32(512), at)
	SUBQ(U32(512), left)
	JNZ(LabelRef("block"))
	for _, s := range sums[1:] {
		VPADDD(s, sums[0], sums[0])
	}
	sum := GP32()
	VMOVD(sums[0].AsX(), sum)
	VZEROUPPER()
	Store(sum, ReturnIndex(0))
	RET()
}
