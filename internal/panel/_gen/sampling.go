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
	VMOVUPS(floats("infinityBelow", math.Inf(-1)), v)
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
