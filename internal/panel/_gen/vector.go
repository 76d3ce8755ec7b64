package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// width is a vector register's: a panel's 16 lanes are one ZMM or two YMM.
type width struct {
	name     string
	bytes    int
	register func() reg.VecVirtual
}

var (
	avx512 = width{"AVX512", 64, ZMM}
	avx2   = width{"AVX2", 32, YMM}
)

// lanes returns registers for 16 lanes of 32 bits.
func (w width) lanes() []reg.VecVirtual {
	v := make([]reg.VecVirtual, 64/w.bytes)
	for i := range v {
		v[i] = w.register()
	}
	return v
}

// each returns n times the registers for 16 lanes.
func (w width) each(n int) [][]reg.VecVirtual {
	v := make([][]reg.VecVirtual, n)
	for i := range v {
		v[i] = w.lanes()
	}
	return v
}

func (w width) zero(v reg.VecVirtual) {
	if w.bytes == 64 {
		VPXORD(v, v, v)
	} else {
		VPXOR(v, v, v)
	}
}

// zeros makes the sums of some rows 0.
func (w width) zeros(sums [][]reg.VecVirtual) {
	for _, sum := range sums {
		for _, s := range sum {
			w.zero(s)
		}
	}
}

func (w width) load(from Mem, to reg.VecVirtual) {
	if w.bytes == 64 {
		VMOVDQU32(from, to)
	} else {
		VMOVDQU(from, to)
	}
}

func (w width) and(mask Op, v reg.VecVirtual) {
	if w.bytes == 64 {
		VPANDD(mask, v, v)
	} else {
		VPAND(mask, v, v)
	}
}

// half returns v's lower half.
func (w width) half(v reg.VecVirtual) reg.VecVirtual {
	if w.bytes == 64 {
		return v.AsY().(reg.VecVirtual)
	}
	return v.AsX().(reg.VecVirtual)
}

// fold brings the lanes of v together by op: the upper half of them with the
// lower, then the upper half of those, until one is left, in the lowest bytes of
// the result. The registers are used up.
func (w width) fold(v []reg.VecVirtual, lane int, op func(...Op)) reg.Register {
	for n := len(v) / 2; n > 0; n /= 2 {
		for i := range n {
			op(v[n+i], v[i], v[i])
		}
	}
	upper := w.register()
	if w.bytes == 64 {
		VEXTRACTF64X4(Imm(1), v[0], upper.AsY())
		op(upper.AsY(), v[0].AsY(), v[0].AsY())
	}
	x, upperX := v[0].AsX(), upper.AsX()
	VEXTRACTF128(Imm(1), v[0].AsY(), upperX)
	op(upperX, x, x)
	VPSHUFD(Imm(0b01_00_11_10), x, upperX)
	op(upperX, x, x)
	if lane == 4 {
		VPSHUFD(Imm(0b10_11_00_01), x, upperX)
		op(upperX, x, x)
	}
	return x
}

// mask returns a register that chooses the lanes where words has the highest
// bit: an opmask for ZMM, a vector for YMM.
func (w width) mask(words Mem) reg.Register {
	m := w.register()
	w.load(words, m)
	if w.bytes < 64 {
		return m
	}
	k := K()
	VPMOVD2M(m, k)
	return k
}

// loadMasked reads the lanes that m chooses, and makes the others 0.
func (w width) loadMasked(from Mem, m reg.Register, to reg.VecVirtual) {
	if w.bytes == 64 {
		VMOVUPS_Z(from, m, to)
	} else {
		VMASKMOVPS(from, m, to)
	}
}

// storeMasked writes the lanes that m chooses.
func (w width) storeMasked(v reg.VecVirtual, m reg.Register, to Mem) {
	if w.bytes == 64 {
		VMOVUPS(v, m, to)
	} else {
		VMASKMOVPS(v, m, to)
	}
}

// rows addresses up to eight rows that lie a stride apart: a stride known only
// at run time takes four registers, one known beforehand takes one.
type rows struct {
	first, fifth, stride, stride3 reg.GPVirtual
	bytes                         int // the stride, where it is known
	n                             int
}

// newRows returns n rows from first on, stride bytes apart.
func newRows(n int, first, stride reg.GPVirtual) rows {
	r := rows{n: n, first: first, stride: stride}
	if n > 2 {
		r.stride3 = GP64()
		LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, r.stride3)
	}
	if n > 4 {
		r.fifth = GP64()
		LEAQ(Mem{Base: first, Index: stride, Scale: 4}, r.fifth)
	}
	return r
}

// at returns the address of row i's byte at offset.
func (r rows) at(i, offset int) Mem {
	m := Mem{Base: r.first, Disp: offset + i*r.bytes}
	if r.bytes > 0 {
		return m
	}
	if i >= 4 {
		m.Base = r.fifth
	}
	switch i % 4 {
	case 1:
		m.Index, m.Scale = r.stride, 1
	case 2:
		m.Index, m.Scale = r.stride, 2
	case 3:
		m.Index, m.Scale = r.stride3, 1
	}
	return m
}

// advance moves every row on by some bytes.
func (r rows) advance(bytes int) {
	ADDQ(U32(uint32(bytes)), r.first)
	if r.n > 4 && r.bytes == 0 {
		ADDQ(U32(uint32(bytes)), r.fifth)
	}
}

// ahead is how far before their use the bytes of a panel are fetched: farther than
// memory is away from a kernel that reads 50 bytes a nanosecond, near enough that the
// first cache still holds them.
const ahead = 16 << 10

// fetchAhead fetches bytes of a panel that will be read in a while. A kernel of several
// rows works so long on each cache line that the processor, which sees no further than
// some hundred instructions, asks for the next one too late. What lies behind the last
// panel may be fetched too; that has no effect, whatever is there.
func fetchAhead(from Mem, bytes int) {
	for at := 0; at < bytes; at += 64 {
		PREFETCHT0(from.Offset(at))
	}
}
