package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// activations replace the lanes of x by the function's value, as its twin in
// activation.go does but for the fused operations.
var activations = []struct {
	name string
	of   func(w width, x reg.VecVirtual)
}{
	{"SiLU", silu}, {"GELU", gelu}, {"GELUErf", geluErf}, {"ReLU", relu}, {"ReLUSquared", reluSquared},
	{"Tanh", tanh}, {"Sigmoid", sigmoid},
}

// activate writes f(x) for every activation, and f(gate)·up.
func activate(w width) {
	for _, f := range activations {
		begin("activate"+f.name, w, "func(dst, x []float32)")
		w.elementwise([]string{"dst", "x"}, func(e *elements) {
			x := e.load(1)
			f.of(w, x)
			e.store(x)
		})
		begin("gated"+f.name, w, "func(dst, gate, up []float32)")
		w.elementwise([]string{"dst", "gate", "up"}, func(e *elements) {
			x := e.load(1)
			f.of(w, x)
			VMULPS(e.load(2), x, x)
			e.store(x)
		})
	}
}

// softCap writes cap·tanh(x/cap).
func softCap(w width) {
	begin("softCap", w, "func(dst, x []float32, most float32)")
	most := w.register()
	VBROADCASTSS(Load(Param("most"), XMM()), most)
	w.elementwise([]string{"dst", "x"}, func(e *elements) {
		x := e.load(1)
		VDIVPS(most, x, x)
		tanh(w, x)
		VMULPS(most, x, x)
		e.store(x)
	})
}

func signBits() Mem { return constant("signBits", 0x80000000_80000000, 64) }

// choose makes to the lanes of negative where x has the sign bit, and leaves the
// others.
func (w width) choose(x, negative, to reg.VecVirtual) {
	if w.bytes == 64 {
		k := K()
		VPMOVD2M(x, k)
		VMOVAPS(negative, k, to)
	} else {
		VBLENDVPS(x, negative, to, to)
	}
}

// logistic replaces x by x/(1+e^-u), where power is -|u| and is used up, and u has
// x's sign.
func (w width) logistic(x, power reg.VecVirtual) {
	exp(power, w.register)
	scaled := w.register()
	VMULPS(power, x, scaled)
	w.choose(x, scaled, x)
	VADDPS(floats("factorial1", 1), power, power)
	VDIVPS(power, x, x)
}

func silu(w width, x reg.VecVirtual) {
	power := w.register()
	VORPS(signBits(), x, power)
	w.logistic(x, power)
}

func gelu(w width, x reg.VecVirtual) {
	u, c := w.register(), w.register()
	VMULPS(x, x, u)
	VMOVUPS(floats("gelu3", gelu3), c)
	VFMADD213PS(floats("gelu1", gelu1), c, u)
	VMULPS(x, u, u)
	VORPS(signBits(), u, u)
	w.logistic(x, u)
}

func geluErf(w width, x reg.VecVirtual) {
	Comment("t = 1/(1+k·|x|)")
	t, power, h := w.register(), w.register(), w.register()
	VANDPS(constant("magnitudes", 0x7fffffff_7fffffff, 64), x, t)
	VMULPS(floats("tailStep", tailStep), t, t)
	VADDPS(floats("factorial1", 1), t, t)
	VMOVUPS(floats("factorial1", 1), h)
	VDIVPS(t, h, t)
	Comment("e^(-x²/2)")
	VMULPS(x, x, power)
	VMULPS(floats("minusHalf", -0.5), power, power)
	exp(power, w.register)
	Comment("h = Φ(-|x|)")
	VMOVUPS(floats("tail8", tail[8]), h)
	for i := 7; i >= 0; i-- {
		VFMADD213PS(floats(fmt.Sprint("tail", i), tail[i]), t, h)
	}
	VMULPS(t, h, h)
	VMULPS(power, h, h)
	VMOVUPS(floats("factorial1", 1), t)
	VSUBPS(h, t, t)
	w.choose(x, h, t)
	VMULPS(t, x, x)
}

func relu(w width, x reg.VecVirtual) {
	zero := w.register()
	VXORPS(zero, zero, zero)
	VMAXPS(x, zero, x) // of a NaN and a number, and of zeros, the first operand
}

func reluSquared(w width, x reg.VecVirtual) {
	relu(w, x)
	VMULPS(x, x, x)
}

func tanh(w width, x reg.VecVirtual) {
	e, den := w.register(), w.register()
	VORPS(signBits(), x, e)
	VADDPS(e, e, e)
	expm1(e, w.register)
	VADDPS(floats("two", 2), e, den)
	VDIVPS(den, e, e)
	VANDPS(constant("magnitudes", 0x7fffffff_7fffffff, 64), e, e)
	VANDPS(signBits(), x, x)
	VORPS(e, x, x)
}

func sigmoid(w width, x reg.VecVirtual) {
	power, upper := w.register(), w.register()
	VORPS(signBits(), x, power)
	exp(power, w.register)
	VMOVUPS(floats("factorial1", 1), upper)
	w.choose(x, power, upper)
	VADDPS(floats("factorial1", 1), power, power)
	VDIVPS(power, upper, x)
}

// The numbers of package panel's activation.go, where they are explained.
const (
	gelu1    = 1.5957691216057308
	gelu3    = 0.07135481282636032
	tailStep = 0.35
)

var tail = [...]float64{
	0.13962166, 0.13985756, 0.119863093, 0.105392113, -0.0228433404, 0.15879643, -0.255390882, 0.143818349, -0.0291150007,
}
