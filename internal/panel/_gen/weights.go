package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// weigher replaces values by their weights, as float32 that are not yet rounded to
// integers. It does, operation by operation, what weight in sampling.go does.
type weigher struct {
	width
	largest, scale       reg.VecVirtual
	least, round, eighth Op
	coefficients         []Op           // of f³ and so on
	whole                reg.VecVirtual // rounds a float64 to an integer
}

func newWeigher(w width) weigher {
	p := weigher{width: w, largest: w.broadcast("largest"), scale: w.broadcast("scale")}
	p.least = w.kept(floats("leastPower", -42))
	p.round = w.kept(floats("roundAnd40", 3<<19+40))
	p.eighth = w.kept(eighths())
	for i, c := range []float64{0x1.c6b8bep-5, 0x1.ec0aa6p-3, 0x1.62e43p-1, 1} {
		p.coefficients = append(p.coefficients, w.kept(floats(fmt.Sprintf("power%d", 3-i), c)))
	}
	if w.bytes < 64 {
		p.whole = w.register()
		VMOVUPS(doubles("whole", 3<<51), p.whole)
	}
	return p
}

// eighths has the bits of 2^(i/8), less i<<20, twice.
func eighths() Mem {
	return table("eighths", func() {
		for i := range 16 {
			power := float32(math.Exp2(float64(i%8) / 8))
			DATA(4*i, U32(math.Float32bits(power)-uint32(i%8)<<20))
		}
	})
}

// power returns the unrounded weights of x, which is used up; where a mask of compare
// is given, of its lanes, and 0 in the others. What is added to
// round to eighths also adds 40, so that the sum's low bits, moved up, are what to
// add to an exponent; those below the exponent choose the eighth.
func (p weigher) power(x reg.VecVirtual, mask reg.Register) reg.VecVirtual {
	n, s, scale := p.register(), p.register(), p.register()
	VSUBPS(p.largest, x, x)
	VMULPS(p.scale, x, x)
	VMAXPS(p.least, x, x) // of a NaN and a number the first operand
	VADDPS(p.round, x, n)
	VSUBPS(p.round, n, s)
	VSUBPS(s, x, x)
	VPERMPS(p.eighth, n, scale)
	VPSLLD(Imm(20), n, n)
	VPADDD(n, scale, scale)
	VMULPS(p.coefficients[0], x, s)
	for _, c := range p.coefficients[1:3] {
		VADDPS(c, s, s)
		VMULPS(x, s, s)
	}
	VADDPS(p.coefficients[3], s, s)
	switch {
	case mask == nil:
		VMULPS(scale, s, s)
	case p.bytes == 64:
		VMULPS_Z(scale, s, mask, s)
	default:
		VMULPS(scale, s, s)
		VANDPS(mask, s, s)
	}
	return s
}

// integers returns the lanes of v rounded to integers of 64 bits, in two registers.
func (p weigher) integers(v reg.VecVirtual) [2]reg.VecVirtual {
	low, high := p.register(), p.register()
	if p.bytes == 64 {
		VCVTPS2QQ(p.half(v), low)
		VEXTRACTF32X8(Imm(1), v, p.half(high))
		VCVTPS2QQ(p.half(high), high)
		return [2]reg.VecVirtual{low, high}
	}
	VCVTPS2PD(p.half(v), low)
	VEXTRACTF128(Imm(1), v, p.half(high))
	VCVTPS2PD(p.half(high), high)
	for _, d := range []reg.VecVirtual{low, high} {
		VADDPD(p.whole, d, d)
		VPSUBQ(p.whole, d, d)
	}
	return [2]reg.VecVirtual{low, high}
}

// weights writes the weights of values.
func weights(w width) {
	begin("weights", w, "func(dst []uint64, x []float32, largest, scale float32)")
	pad, p := w.minusInf(), newWeigher(w)
	dst, at := base("dst"), base("x")
	left := Load(Param("x").Len(), GP64()).(reg.GPVirtual)
	if w.bytes < 64 {
		Comment("The upper half of the last 16 may be missing.")
		room := Load(Param("dst").Len(), GP64())
		zero := w.register()
		w.zero(zero)
		SUBQ(Imm(8), room)
		JL(LabelRef("begin"))
		VMOVUPS(zero, Mem{Base: dst, Index: room, Scale: 8})
		VMOVUPS(zero, Mem{Base: dst, Index: room, Scale: 8, Disp: 32})
		Label("begin")
	}
	w.vectors([]reg.GPVirtual{at}, left, func(e *elements) {
		for i, v := range p.integers(p.power(e.padded(0, pad), nil)) {
			VMOVUPS(v, Mem{Base: dst, Disp: i * w.bytes})
		}
		ADDQ(U32(uint32(2*w.bytes)), dst)
	})
	end()
}

// sumWeights writes the sum of the weights of values that are at least from; or, for
// splitWeights, the sum of those that are also at least over too.
func sumWeights(w width, split bool) {
	params, results := []string{"from"}, 1
	if split {
		begin("splitWeights", w, "func(x []float32, from, over, largest, scale float32) (uint64, uint64)")
		params, results = []string{"from", "over"}, 2
	} else {
		begin("sumWeights", w, "func(x []float32, from, largest, scale float32) uint64")
	}
	pad, p := w.minusInf(), newWeigher(w)
	var least []reg.VecVirtual
	var sums [][]reg.VecVirtual
	for _, name := range params {
		sum := []reg.VecVirtual{w.register(), w.register()}
		w.zero(sum[0])
		w.zero(sum[1])
		least, sums = append(least, w.broadcast(name)), append(sums, sum)
	}
	at := base("x")
	left := Load(Param("x").Len(), GP64()).(reg.GPVirtual)
	w.vectors([]reg.GPVirtual{at}, left, func(e *elements) {
		x, v := e.padded(0, pad), w.register()
		VMOVAPS(x, v)
		n := p.integers(p.power(v, w.compare(atLeast, least[0], x)))
		for i, s := range sums[0] {
			VPADDQ(n[i], s, s)
		}
		if split {
			w.addWhere(sums[1], n, w.compare(atLeast, least[1], x))
		}
	})
	for i := range results {
		Store(w.fold(sums[i], 8, VPADDQ), ReturnIndex(i))
	}
	end()
}

// addWhere adds integers, in two registers, to sums where a mask of compare has them.
func (w width) addWhere(sums []reg.VecVirtual, n [2]reg.VecVirtual, mask reg.Register) {
	if w.bytes == 64 {
		high := K()
		KSHIFTRW(Imm(8), mask, high)
		VPADDQ(n[0], sums[0], mask, sums[0])
		VPADDQ(n[1], sums[1], high, sums[1])
		return
	}
	high, low := w.register(), w.register()
	VPMOVSXDQ(w.half(mask.(reg.VecVirtual)), low)
	VEXTRACTF128(Imm(1), mask, w.half(high))
	VPMOVSXDQ(w.half(high), high)
	VPAND(n[0], low, low)
	VPAND(n[1], high, high)
	VPADDQ(low, sums[0], sums[0])
	VPADDQ(high, sums[1], sums[1])
}
