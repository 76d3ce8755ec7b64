package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exp replaces x, which must be at most 0 or NaN, by e^x, as exp in exp.go does
// but for the fused operations. What is added to round to an integer n also adds
// 127, so that the sum's low bits are 2^n's exponent.
func exp(x reg.VecVirtual, register func() reg.VecVirtual) {
	n, s := register(), register()
	const (
		round   = 3<<22 + 127
		ln2High = 0x1.62ep-1
	)
	Comment("e^x")
	VMOVUPS(floats("least", -88), n)
	VMAXPS(x, n, x) // of a NaN and a number the first operand
	VMOVUPS(floats("log2e", 1/math.Ln2), n)
	VFMADD213PS(floats("round", round), x, n)
	VSUBPS(floats("round", round), n, s)
	VFNMADD231PS(floats("ln2High", ln2High), s, x)
	VFNMADD231PS(floats("ln2Low", math.Ln2-ln2High), s, x)
	VMOVUPS(floats("factorial7", 1./5040), s)
	VFMADD213PS(floats("factorial6", 1./720), x, s)
	VFMADD213PS(floats("factorial5", 1./120), x, s)
	VFMADD213PS(floats("factorial4", 1./24), x, s)
	VFMADD213PS(floats("factorial3", 1./6), x, s)
	VFMADD213PS(floats("factorial2", 1./2), x, s)
	VFMADD213PS(floats("factorial1", 1), x, s)
	VFMADD213PS(floats("factorial1", 1), x, s)
	VPSLLD(Imm(23), n, n)
	VMULPS(n, s, x)
}
