package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// begin starts a kernel of a level.
func begin(name string, w width, signature string) {
	TEXT(name+w.name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(name + w.name + " is " + name + ".")
}

func end() {
	VZEROUPPER()
	RET()
}

// base loads where a slice begins.
func base(param string) reg.GPVirtual {
	return Load(Param(param).Base(), GP64()).(reg.GPVirtual)
}

// elements is a place in slices of one length. Its mask, if any, chooses the
// lanes that are there.
type elements struct {
	width
	at   []reg.GPVirtual
	mask reg.Register
}

// load reads the next vector of a slice.
func (e *elements) load(slice int) reg.VecVirtual {
	v := e.register()
	if e.mask == nil {
		VMOVUPS(Mem{Base: e.at[slice]}, v)
	} else {
		e.loadMasked(Mem{Base: e.at[slice]}, e.mask, v)
	}
	return v
}

// store writes the next vector of the first slice.
func (e *elements) store(v reg.VecVirtual) {
	if e.mask == nil {
		VMOVUPS(v, Mem{Base: e.at[0]})
	} else {
		e.storeMasked(v, e.mask, Mem{Base: e.at[0]})
	}
}

// elementwise writes a kernel that does body to the slices' elements, as many as
// the first slice has. Lanes behind the last are neither read nor written.
func (w width) elementwise(slices []string, body func(e *elements)) {
	var at []reg.GPVirtual
	for _, s := range slices {
		at = append(at, base(s))
	}
	w.vectors(at, Load(Param(slices[0]).Len(), GP64()).(reg.GPVirtual), body)
	end()
}

// vectors does body to left elements from each address on. The addresses and left
// are used up.
func (w width) vectors(at []reg.GPVirtual, left reg.GPVirtual, body func(e *elements)) {
	e := &elements{width: w, at: at}
	lanes := w.bytes / 4
	SUBQ(Imm(uint64(lanes)), left)
	JL(LabelRef("tail"))
	Label("vector")
	body(e)
	for _, p := range e.at {
		ADDQ(Imm(uint64(w.bytes)), p)
	}
	SUBQ(Imm(uint64(lanes)), left)
	JGE(LabelRef("vector"))

	Label("tail")
	ADDQ(Imm(uint64(lanes)), left)
	JZ(LabelRef("done"))
	e.mask = w.mask(first(left))
	body(e)
	Label("done")
}

// first returns words whose highest bits choose the first n lanes. n is used up.
func first(n reg.GPVirtual) Mem {
	words := GP64()
	LEAQ(outside(), words)
	NEGQ(n)
	return Mem{Base: words, Index: n, Scale: 4, Disp: behindAt}
}

// scale writes x·f·gain.
func scale(w width) {
	begin("scale", w, "func(dst, x, gain []float32, f float32)")
	f := w.register()
	VBROADCASTSS(Load(Param("f"), XMM()), f)
	w.elementwise([]string{"dst", "x", "gain"}, func(e *elements) {
		x := e.load(1)
		VMULPS(f, x, x)
		VMULPS(e.load(2), x, x)
		e.store(x)
	})
}

// byNumber writes op of each element and one number.
func byNumber(name string, w width, op func(...Op)) {
	begin(name, w, "func(dst, x []float32, by float32)")
	by := w.register()
	VBROADCASTSS(Load(Param("by"), XMM()), by)
	w.elementwise([]string{"dst", "x"}, func(e *elements) {
		x := e.load(1)
		op(by, x, x)
		e.store(x)
	})
}

func divide(w width)   { byNumber("divide", w, VDIVPS) }
func multiply(w width) { byNumber("multiply", w, VMULPS) }
func subtract(w width) { byNumber("subtract", w, VSUBPS) }

// standardize writes (x-mean)·f·gain.
func standardize(w width) {
	begin("standardize", w, "func(dst, x, gain []float32, mean, f float32)")
	mean, f := w.register(), w.register()
	VBROADCASTSS(Load(Param("mean"), XMM()), mean)
	VBROADCASTSS(Load(Param("f"), XMM()), f)
	w.elementwise([]string{"dst", "x", "gain"}, func(e *elements) {
		x := e.load(1)
		VSUBPS(mean, x, x)
		VMULPS(f, x, x)
		VMULPS(e.load(2), x, x)
		e.store(x)
	})
}

// add writes dst+x.
func add(w width) {
	begin("add", w, "func(dst, x []float32)")
	w.elementwise([]string{"dst", "x"}, func(e *elements) {
		sum := e.load(0)
		VADDPS(e.load(1), sum, sum)
		e.store(sum)
	})
}

// toF16 writes the rounding to F16 of whole vectors of 16.
func toF16(w width) {
	begin("toF16", w, "func(dst []uint16, x []float32)")
	dst, x := base("dst"), base("x")
	left := Load(Param("x").Len(), GP64())
	Label("sixteen")
	for i, v := range w.lanes() {
		VMOVUPS(Mem{Base: x, Disp: i * w.bytes}, v)
		VCVTPS2PH(Imm(0), v, Mem{Base: dst, Disp: i * w.bytes / 2}) // to nearest, half to even
	}
	ADDQ(U32(64), x)
	ADDQ(Imm(32), dst)
	SUBQ(Imm(16), left)
	JNZ(LabelRef("sixteen"))
	end()
}

// sumSquares writes the sum of squares, in 16 sums of float64.
func sumSquares(w width) {
	sums("sumSquares", w, func(v, sum reg.VecVirtual) { VFMADD231PD(v, v, sum) })
}

// sum writes the sum, in 16 sums of float64.
func sum(w width) {
	sums("sum", w, func(v, sum reg.VecVirtual) { VADDPD(v, sum, sum) })
}

// sums writes a sum over the elements, each brought to float64 and added by add.
func sums(name string, w width, add func(v, sum reg.VecVirtual)) {
	begin(name, w, "func(x []float32) float64")
	x := base("x")
	left := Load(Param("x").Len(), GP64()).(reg.GPVirtual)
	sums := append(w.lanes(), w.lanes()...)
	for _, s := range sums {
		w.zero(s)
	}
	all := func(mask func(i int) reg.Register) {
		for i, v := range w.lanes() {
			from := Mem{Base: x, Disp: i * w.bytes}
			if mask == nil {
				VMOVUPS(from, v)
			} else {
				w.loadMasked(from, mask(i), v)
			}
			low, high := w.register(), w.register()
			VCVTPS2PD(w.half(v), low)
			if w.bytes == 64 {
				VEXTRACTF32X8(Imm(1), v, w.half(high))
			} else {
				VEXTRACTF128(Imm(1), v, w.half(high))
			}
			VCVTPS2PD(w.half(high), high)
			add(low, sums[2*i])
			add(high, sums[2*i+1])
		}
	}
	SUBQ(Imm(16), left)
	JL(LabelRef("tail"))
	Label("sixteen")
	all(nil)
	ADDQ(U32(64), x)
	SUBQ(Imm(16), left)
	JGE(LabelRef("sixteen"))

	Label("tail")
	ADDQ(Imm(16), left)
	JZ(LabelRef("summed"))
	words := first(left)
	all(func(i int) reg.Register {
		m := words
		m.Disp += i * w.bytes
		return w.mask(m)
	})
	Label("summed")
	Store(w.fold(sums, 8, VADDPD), ReturnIndex(0))
	end()
}
