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

func (w width) load(from Mem, to reg.VecVirtual) {
	if w.bytes == 64 {
		VMOVDQU32(from, to)
	} else {
		VMOVDQU(from, to)
	}
}

func (w width) and(mask Mem, v reg.VecVirtual) {
	if w.bytes == 64 {
		VPANDD(mask, v, v)
	} else {
		VPAND(mask, v, v)
	}
}

// rows addresses up to eight rows that lie a stride apart, with four registers.
type rows struct {
	first, fifth, stride, stride3 reg.GPVirtual
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
	m := Mem{Base: r.first, Disp: offset}
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
	if r.n > 4 {
		ADDQ(U32(uint32(bytes)), r.fifth)
	}
}
