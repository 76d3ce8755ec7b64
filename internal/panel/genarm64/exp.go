package main

import (
	"encoding/binary"
	"math"
)

const ln2High = 0x1.62ep-1

// powers is what exp and expm1 need in registers: numbers for products, and those that
// begin a sum, each in all lanes.
type powers struct {
	factors                                 vec // of 1/ln 2, ln 2 in two parts, and 1/5040
	round, least, c6, c5, c4, c3, half, one vec
	all                                     []vec
}

func (a *assembler) powers() *powers {
	p := &powers{all: a.vecs(9)}
	to := []*vec{&p.factors, &p.round, &p.least, &p.c6, &p.c5, &p.c4, &p.c3, &p.half, &p.one}
	for i, v := range to {
		*v = p.all[i]
	}
	a.table("powers", floatTable(1/math.Ln2, ln2High, math.Ln2-ln2High, 1./5040), p.factors)
	for i, f := range []float64{3<<22 + 127, -88, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2, 1} {
		a.splat(math.Float32bits(float32(f)), p.all[1+i])
	}
	return p
}

func floatTable(f ...float64) (b [16]byte) {
	for i, f := range f {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(f)))
	}
	return b
}

// reduce makes r of x, which must be at most 0 or NaN, so that e^x = 2^n·e^r, and then
// returns a register with the series of (e^r - 1)/r, as exp in exp.go does but for the
// fused operations. t[0] is 2^n afterwards: what is added to round to an integer n also
// adds 127, so that the sum's low bits are 2^n's exponent. The other two are used up.
func (a *assembler) reduce(p *powers, x vec, t []vec) (series vec) {
	n, s, other := t[0], t[1], t[2]
	a.op("fmax %.4s, %.4s, %.4s", x, x, p.least)
	a.op("orr %.16b, %.16b, %.16b", n, p.round, p.round)
	a.op("fmla %.4s, %.4s, %.s[#]", n, x, p.factors, 0)
	a.op("fsub %.4s, %.4s, %.4s", s, n, p.round)
	a.op("fmls %.4s, %.4s, %.s[#]", x, s, p.factors, 1)
	a.op("fmls %.4s, %.4s, %.s[#]", x, s, p.factors, 2)
	a.op("shl %.4s, %.4s, #", n, n, 23)
	a.op("orr %.16b, %.16b, %.16b", s, p.c6, p.c6)
	a.op("fmla %.4s, %.4s, %.s[#]", s, x, p.factors, 3)
	for _, c := range []vec{p.c5, p.c4, p.c3, p.half, p.one} {
		a.op("orr %.16b, %.16b, %.16b", other, c, c)
		a.op("fmla %.4s, %.4s, %.4s", other, s, x)
		s, other = other, s
	}
	return s
}

// exp replaces x, which must be at most 0 or NaN, by e^x. t are three registers.
func (a *assembler) exp(p *powers, x vec, t []vec) {
	s := a.reduce(p, x, t)
	last := t[1] + t[2] - s
	a.op("orr %.16b, %.16b, %.16b", last, p.one, p.one)
	a.op("fmla %.4s, %.4s, %.4s", last, s, x)
	a.op("fmul %.4s, %.4s, %.4s", x, last, t[0])
}

// expm1 replaces x, which must be at most 0 or NaN, by e^x - 1.
func (a *assembler) expm1(p *powers, x vec, t []vec) {
	s := a.reduce(p, x, t)
	a.op("fmul %.4s, %.4s, %.4s", s, s, x)
	a.op("fsub %.4s, %.4s, %.4s", x, t[0], p.one)
	a.op("fmla %.4s, %.4s, %.4s", x, s, t[0])
}
