package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// reduce makes r of x, which must be at most 0 or NaN, so that e^x = 2^n·e^r, and
// returns 2^n, as exp in exp.go does but for the fused operations. What is added to
// round to an integer n also adds 127, so that the sum's low bits are 2^n's exponent.
// s is used up.
func reduce(x, s reg.VecVirtual, register func() reg.VecVirtual) (power reg.VecVirtual) {
	n := register()
	const (
		round   = 3<<22 + 127
		ln2High = 0x1.62ep-1
	)
	VMOVUPS(floats("least", -88), n)
	VMAXPS(x, n, x) // of a NaN and a number the first operand
	VMOVUPS(floats("log2e", 1/math.Ln2), n)
	VFMADD213PS(floats("round", round), x, n)
	VSUBPS(floats("round", round), n, s)
	VFNMADD231PS(floats("ln2High", ln2High), s, x)
	VFNMADD231PS(floats("ln2Low", math.Ln2-ln2High), s, x)
	return n
}

// series makes s the Taylor series of (e^r - 1)/r.
func series(r, s reg.VecVirtual) {
	VMOVUPS(floats("factorial7", 1./5040), s)
	VFMADD213PS(floats("factorial6", 1./720), r, s)
	VFMADD213PS(floats("factorial5", 1./120), r, s)
	VFMADD213PS(floats("factorial4", 1./24), r, s)
	VFMADD213PS(floats("factorial3", 1./6), r, s)
	VFMADD213PS(floats("factorial2", 1./2), r, s)
	VFMADD213PS(floats("factorial1", 1), r, s)
}

// exp replaces x, which must be at most 0 or NaN, by e^x.
func exp(x reg.VecVirtual, register func() reg.VecVirtual) {
	Comment("e^x")
	s := register()
	n := reduce(x, s, register)
	series(x, s)
	VFMADD213PS(floats("factorial1", 1), x, s)
	VPSLLD(Imm(23), n, n)
	VMULPS(n, s, x)
}

// expm1 replaces x, which must be at most 0 or NaN, by e^x - 1, as expm1 in exp.go
// does but for the fused operations.
func expm1(x reg.VecVirtual, register func() reg.VecVirtual) {
	Comment("e^x - 1")
	s := register()
	n := reduce(x, s, register)
	series(x, s)
	VMULPS(x, s, s)
	VPSLLD(Imm(23), n, n)
	VSUBPS(floats("factorial1", 1), n, x)
	VFMADD231PS(n, s, x)
}
