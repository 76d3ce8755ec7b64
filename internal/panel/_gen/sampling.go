package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Predicates of VCMPPS and VCMPPD. Of a NaN neither holds.
const (
	atLeast = 29
	atMost  = 18
)

// doubles returns a vector of one float64.
func doubles(name string, f float64) Mem { return constant(name, math.Float64bits(f), 64) }

// kept returns a constant as an operand: in a register of its own at the level
// that has 32 of them, else in memory.
func (w width) kept(m Mem) Op {
	if w.bytes < 64 {
		return m
	}
	v := w.register()
	VMOVUPS(m, v)
	return v
}

// broadcast returns a register with a float32 parameter in each lane.
func (w width) broadcast(param string) reg.VecVirtual {
	v := w.register()
	VBROADCASTSS(Load(Param(param), XMM()), v)
	return v
}

// minusInf returns a register of -Inf in each lane.
func (w width) minusInf() reg.VecVirtual {
	v := w.register()
	VMOVUPS(floats("minusInf", math.Inf(-1)), v)
	return v
}

// padded reads the next vector of a slice, with pad in the lanes behind its end.
func (e *elements) padded(slice int, pad reg.VecVirtual) reg.VecVirtual {
	from := Mem{Base: e.at[slice]}
	v := e.register()
	switch {
	case e.mask == nil:
		VMOVUPS(from, v)
	case e.bytes == 64:
		VMOVAPS(pad, v)
		VMOVUPS(from, e.mask, v)
	default:
		VMASKMOVPS(from, e.mask, v)
		VBLENDVPS(e.mask, v, pad, v)
	}
	return v
}

// count writes how many values reach a least one.
func count(w width) {
	begin("count", w, "func(x []float32, least float32) int")
	pad, least := w.minusInf(), w.broadcast("least")
	at := base("x")
	left := Load(Param("x").Len(), GP64()).(reg.GPVirtual)
	sum := GP64()
	XORQ(sum, sum)
	w.vectors([]reg.GPVirtual{at}, left, func(e *elements) {
		n := GP32()
		e.bits(n, e.padded(0, pad), least, nil)
		POPCNTL(n, n)
		ADDQ(n.As64(), sum)
	})
	Store(sum, ReturnIndex(0))
	end()
}

// bits sets a bit in n for each lane of v that is at least from and, if to isn't
// nil, at most to. It returns them as an opmask too at the level that has those.
func (w width) bits(n reg.GPVirtual, v, from, to reg.VecVirtual) reg.Register {
	if w.bytes == 64 {
		k := w.compare(atLeast, from, v)
		if to != nil {
			VCMPPS(Imm(atMost), to, v, k, k)
		}
		KMOVW(k, n)
		return k
	}
	m := w.compare(atLeast, from, v)
	if to != nil {
		VANDPS(w.compare(atMost, to, v), m, m)
	}
	VMOVMSKPS(m, n)
	return nil
}

// filter writes the values in a range with their indices. Four vectors without any
// are passed over at once.
func filter(w width) {
	begin("filter", w, "func(values []float32, ids []int32, x []float32, from, to float32) int")
	pad, from, to := w.minusInf(), w.broadcast("from"), w.broadcast("to")
	f := &filtering{width: w, values: base("values"), ids: base("ids"), index: w.register(), found: GP64()}
	at := base("x")
	left := Load(Param("x").Len(), GP64()).(reg.GPVirtual)
	w.load(counting(), f.index)
	step := func(vectors int) Mem {
		n := uint64(vectors * w.bytes / 4)
		return constant(fmt.Sprintf("step%d", n), n<<32|n, w.bytes)
	}
	f.step = w.kept(step(1))
	XORQ(f.found, f.found)
	if w.bytes < 64 {
		f.orders = GP64()
		LEAQ(gathers(), f.orders)
	}

	SUBQ(U32(uint32(w.bytes)), left)
	JL(LabelRef("rest"))
	Label("four")
	any := GP32()
	var v [4]reg.VecVirtual
	var bits [4]reg.GPVirtual
	var k [4]reg.Register
	for i := range v {
		v[i], bits[i] = w.register(), GP32()
		VMOVUPS(Mem{Base: at, Disp: i * w.bytes}, v[i])
		k[i] = w.bits(bits[i], v[i], from, to)
		if i == 0 {
			MOVL(bits[0], any)
		} else {
			ORL(bits[i], any)
		}
	}
	TESTL(any, any)
	JZ(LabelRef("none"))
	for i := range v {
		f.put(v[i], k[i], bits[i])
	}
	Label("further")
	ADDQ(U32(uint32(4*w.bytes)), at)
	SUBQ(U32(uint32(w.bytes)), left)
	JGE(LabelRef("four"))
	JMP(LabelRef("rest"))
	Label("none")
	VPADDD(step(4), f.index, f.index)
	JMP(LabelRef("further"))

	Label("rest")
	ADDQ(U32(uint32(w.bytes)), left)
	w.vectors([]reg.GPVirtual{at}, left, func(e *elements) {
		v, n := e.padded(0, pad), GP32()
		f.put(v, e.bits(n, v, from, to), n)
	})
	Store(f.found, ReturnIndex(0))
	end()
}

// filtering is where filter is.
type filtering struct {
	width
	values, ids, found reg.GPVirtual
	orders             reg.GPVirtual // gathers, at the level without compression
	index              reg.VecVirtual
	step               Op
}

// put appends the lanes of v that k, or else n, has. n is used up.
func (f *filtering) put(v reg.VecVirtual, k reg.Register, n reg.GPVirtual) {
	picked, places := f.register(), f.register()
	if f.bytes == 64 {
		VCOMPRESSPS_Z(v, k, picked)
		VPCOMPRESSD_Z(f.index, k, places)
	} else {
		order := f.register()
		VPMOVZXBD(Mem{Base: f.orders, Index: n.As64(), Scale: 8}, order)
		VPERMPS(v, order, picked)
		VPERMD(f.index, order, places)
	}
	VMOVUPS(picked, Mem{Base: f.values, Index: f.found, Scale: 4})
	VMOVUPS(places, Mem{Base: f.ids, Index: f.found, Scale: 4})
	POPCNTL(n, n)
	ADDQ(n.As64(), f.found)
	VPADDD(f.step, f.index, f.index)
}

// counting is the integers from 0 to 15.
func counting() Mem {
	return table("counting", func() {
		for i := range 16 {
			DATA(4*i, U32(uint32(i)))
		}
	})
}

// gathers has, for each byte, the numbers of the bits that it has set.
func gathers() Mem {
	return table("gathers", func() {
		for b := range 256 {
			word, n := uint64(0), 0
			for bit := range 8 {
				if b>>bit&1 == 1 {
					word |= uint64(bit) << (8 * n)
					n++
				}
			}
			DATA(8*b, U64(word))
		}
	})
}

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

// compare returns a mask of the lanes where x compares so with y.
func (w width) compare(predicate uint64, y, x reg.VecVirtual) reg.Register {
	if w.bytes == 64 {
		k := K()
		VCMPPS(Imm(predicate), y, x, k)
		return k
	}
	m := w.register()
	VCMPPS(Imm(predicate), y, x, m)
	return m
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

// sumExp writes the sum of powers of e in 16 sums of float64.
func sumExp(w width) {
	begin("sumExp", w, "func(x []float32, largest float32) float64")
	pad := w.minusInf()
	largest := w.register()
	top := XMM()
	Load(Param("largest"), top)
	VCVTSS2SD(top, top, top)
	VBROADCASTSD(top, largest)
	log2e := w.kept(doubles("doubleLog2e", math.Log2E))
	least, round := w.kept(doubles("leastDouble", -1000)), w.kept(doubles("whole", 3<<51))
	coefficients := []Op{w.kept(doubles("double0", 1))}
	term := 1.0
	for i := range 10 {
		term *= math.Ln2 / float64(i+1)
		coefficients = append([]Op{w.kept(doubles(fmt.Sprintf("double%d", i+1), term))}, coefficients...)
	}

	power := func(y, sum reg.VecVirtual) {
		n, s := w.register(), w.register()
		VSUBPD(largest, y, y)
		VMULPD(log2e, y, y)
		var k, m reg.Register
		if w.bytes == 64 {
			k = K()
			VCMPPD(Imm(atLeast), least, y, k)
		} else {
			m = w.register()
			VCMPPD(Imm(atLeast), least, y, m)
		}
		VADDPD(round, y, n)
		VSUBPD(round, n, s)
		VSUBPD(s, y, y)
		VMOVUPD(coefficients[0], s)
		for _, c := range coefficients[1:] {
			VMULPD(y, s, s)
			VADDPD(c, s, s)
		}
		VPSLLQ(Imm(52), n, n)
		VPADDQ(n, s, s)
		if k != nil {
			VMOVAPD_Z(s, k, s)
		} else {
			VANDPD(m, s, s)
		}
		VADDPD(s, sum, sum)
	}
	at := base("x")
	left := Load(Param("x").Len(), GP64()).(reg.GPVirtual)
	sums := append(w.lanes(), w.lanes()...)
	for _, s := range sums {
		w.zero(s)
	}
	sixteen := func(load func(i int) reg.VecVirtual) {
		for i := range 64 / w.bytes {
			v := load(i)
			low, high := w.register(), w.register()
			VCVTPS2PD(w.half(v), low)
			power(low, sums[2*i])
			if w.bytes == 64 {
				VEXTRACTF32X8(Imm(1), v, w.half(high))
			} else {
				VEXTRACTF128(Imm(1), v, w.half(high))
			}
			VCVTPS2PD(w.half(high), high)
			power(high, sums[2*i+1])
		}
	}
	SUBQ(Imm(16), left)
	JL(LabelRef("tail"))
	Label("sixteen")
	sixteen(func(i int) reg.VecVirtual {
		v := w.register()
		VMOVUPS(Mem{Base: at, Disp: i * w.bytes}, v)
		return v
	})
	ADDQ(U32(64), at)
	SUBQ(Imm(16), left)
	JGE(LabelRef("sixteen"))

	Label("tail")
	ADDQ(Imm(16), left)
	JZ(LabelRef("summed"))
	words := first(left)
	e := &elements{width: w, at: []reg.GPVirtual{at}}
	sixteen(func(i int) reg.VecVirtual {
		m := words
		m.Disp += i * w.bytes
		e.mask = w.mask(m)
		v := e.padded(0, pad)
		ADDQ(U32(uint32(w.bytes)), at)
		return v
	})
	Label("summed")
	Comment("The registers of the constants are free now, and fold needs low ones.")
	totals := append(w.lanes(), w.lanes()...)
	for i, s := range sums {
		VMOVAPD(s, totals[i])
	}
	Store(w.fold(totals, 8, VADDPD), ReturnIndex(0))
	end()
}
