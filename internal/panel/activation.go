package panel

import (
	"math"

	"github.com/leat-dev/leat/kernels"
)

// functions is how many values kernels.Activation has, 0 included.
const functions = int(kernels.Sigmoid) + 1

// Activate writes f(x) to dst, which may be x. A level's result differs from the
// portable one's in the last bits, but for ReLU and ReLUSquared; e^-|u| below
// 2^-126.5 is 0 in all of them.
func (k *Kernels) Activate(f kernels.Activation, dst, x []float32) {
	k.activate[f](dst, x[:len(dst)])
}

// Gated writes f(gate)·up to dst, which may be either.
func (k *Kernels) Gated(f kernels.Activation, dst, gate, up []float32) {
	k.gated[f](dst, gate[:len(dst)], up[:len(dst)])
}

// SoftCap writes most·tanh(x/most) to dst, which may be x.
func (k *Kernels) SoftCap(dst, x []float32, most float32) { k.softCap(dst, x[:len(dst)], most) }

func softCap(dst, x []float32, most float32) {
	for i, v := range x {
		dst[i] = most * tanh(v/most)
	}
}

// each is a function of one number for all elements.
func each(f func(float32) float32) func(dst, x []float32) {
	return func(dst, x []float32) {
		for i, v := range x {
			dst[i] = f(v)
		}
	}
}

// eachGated is f(gate)·up for all elements.
func eachGated(f func(float32) float32) func(dst, gate, up []float32) {
	return func(dst, gate, up []float32) {
		for i, g := range gate {
			dst[i] = f(g) * up[i]
		}
	}
}

const sign = 1 << 31

// negative returns -|x|.
func negative(x float32) float32 { return math.Float32frombits(math.Float32bits(x) | sign) }

// choose returns below where x has the sign bit, else the other: by a mask, since a
// branch that goes either way would cost more than all the rest.
func choose(x, below, other float32) float32 {
	mask := uint32(int32(math.Float32bits(x)) >> 31)
	return math.Float32frombits(math.Float32bits(below)&mask | math.Float32bits(other)&^mask)
}

// logistic is x/(1+e^-u), where u has the sign of x. Below 0 it is taken as
// x·e^u/(1+e^u), where nothing overflows.
func logistic(x, u float32) float32 {
	power := exp(negative(u))
	return float32(x*choose(x, power, 1)) / (1 + power)
}

func silu(x float32) float32 { return logistic(x, x) }

// silued is eachGated(silu), for which it pays that the compiler sees the function.
func silued(dst, gate, up []float32) {
	for i, g := range gate {
		power := exp(negative(g))
		dst[i] = float32(g*choose(g, power, 1)) / (1 + power) * up[i]
	}
}

// Of GELU: since (1+tanh u)/2 = σ(2u), it is x·σ(x·(gelu1 + gelu3·x²)).
const (
	gelu1 = 1.5957691216057308  // 2√(2/π)
	gelu3 = 0.07135481282636032 // 0.044715 of it
)

func gelu(x float32) float32 {
	return logistic(x, float32(x*(float32(float32(x*x)*gelu3)+gelu1)))
}

// Of Φ, the normal distribution: Φ(-x) = e^(-x²/2)·t·P(t) for x at least 0, with
// t = 1/(1 + tailStep·x). P is of degree 8, fitted by Remez's algorithm so that the
// relative error is below 2^-24.9 as far as x = 13.3, where e^(-x²/2) is taken for 0.
const tailStep = 0.35

var tail = [...]float32{
	0.13962166, 0.13985756, 0.119863093, 0.105392113, -0.0228433404, 0.15879643, -0.255390882, 0.143818349, -0.0291150007,
}

// geluErf has a relative error of about 2^-22·(1 + x²/8): that of x² grows in the
// power of e.
func geluErf(x float32) float32 {
	t := 1 / (1 + float32(-negative(x)*tailStep))
	h := tail[8]
	for i := 7; i >= 0; i-- {
		h = float32(h*t) + tail[i]
	}
	h = float32(float32(h*t) * exp(-0.5*float32(x*x)))
	return x * choose(x, h, 1-h)
}

// relu keeps a NaN, and a zero's sign.
func relu(x float32) float32 {
	if x < 0 {
		return 0
	}
	return x
}

func reluSquared(x float32) float32 {
	r := relu(x)
	return r * r
}

// tanh is -E/(2+E) of E = e^(-2|x|) - 1, with x's sign: relatively as near for the
// smallest x as for others.
func tanh(x float32) float32 {
	e := expm1(2 * negative(x))
	bits := math.Float32bits(e/(2+e))&^sign | math.Float32bits(x)&sign
	return math.Float32frombits(bits)
}

func sigmoid(x float32) float32 {
	power := exp(negative(x))
	return choose(x, power, 1) / (1 + power)
}
