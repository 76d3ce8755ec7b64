package main

import "math"

// function is an activation under construction: what it needs in registers, and the code
// that replaces the lanes of x by its value, as its twin in activation.go does but for
// the fused operations.
type function struct {
	*assembler
	powers *powers
	k      []vec // numbers of its own
	t      []vec // used up
}

var functions = []struct {
	name    string
	numbers []float64
	exp     bool
	of      func(f *function, x vec)
}{
	{"SiLU", nil, true, silu},
	{"GELU", []float64{gelu1, gelu3}, true, gelu},
	{"GELUErf", append([]float64{tailStep, -0.5}, tail[:]...), true, geluErf},
	{"ReLU", nil, false, relu},
	{"ReLUSquared", nil, false, reluSquared},
	{"Tanh", []float64{2}, true, tanh},
	{"Sigmoid", nil, true, sigmoid},
}

func activationFamily(a *assembler) {
	for _, f := range functions {
		a.begin("activate"+f.name+"NEON", "the activation "+f.name, "(dst, x []float32)", 0)
		fn := a.activation(f.numbers, f.exp)
		a.elementwise([]string{"dst", "x"}, 1, func(e *elements) {
			x := e.load(1)
			f.of(fn, x)
			e.store(x)
		})
		a.begin("gated"+f.name+"NEON", "the gated activation "+f.name, "(dst, gate, up []float32)", 0)
		fn = a.activation(f.numbers, f.exp)
		a.elementwise([]string{"dst", "gate", "up"}, 1, func(e *elements) {
			x, up := e.load(1), e.load(2)
			f.of(fn, x)
			e.op("fmul %.4s, %.4s, %.4s", x, x, up)
			e.store(x)
			e.free(up)
		})
	}
	a.begin("softCapNEON", "softCap", "(dst, x []float32, most float32)", 0)
	fn, most := a.activation([]float64{2}, true), a.everywhere("most")
	a.elementwise([]string{"dst", "x"}, 1, func(e *elements) {
		x := e.load(1)
		e.op("fdiv %.4s, %.4s, %.4s", x, x, most)
		tanh(fn, x)
		e.op("fmul %.4s, %.4s, %.4s", x, x, most)
		e.store(x)
	})
}

func (a *assembler) activation(numbers []float64, exp bool) *function {
	f := &function{assembler: a}
	if exp {
		f.powers = a.powers()
	}
	for _, n := range numbers {
		v := a.vec()
		a.splat(math.Float32bits(float32(n)), v)
		f.k = append(f.k, v)
	}
	f.t = a.vecs(3)
	return f
}

// negative returns -|x|.
func (f *function) negative(x vec) vec {
	v := f.vec()
	f.op("fabs %.4s, %.4s", v, x)
	f.op("fneg %.4s, %.4s", v, v)
	return v
}

// choose makes to the lanes of below where x has the sign bit.
func (f *function) choose(x, below, to vec) {
	mask := f.vec()
	f.op("cmlt %.4s, %.4s, #0", mask, x)
	f.op("bit %.16b, %.16b, %.16b", to, below, mask)
	f.free(mask)
}

// logistic replaces x by x/(1+e^-u), where power is -|u| and is given back, and u has
// x's sign.
func (f *function) logistic(x, power vec) {
	f.exp(f.powers, power, f.t)
	scaled := f.vec()
	f.op("fmul %.4s, %.4s, %.4s", scaled, x, power)
	f.choose(x, scaled, x)
	f.op("fadd %.4s, %.4s, %.4s", power, power, f.powers.one)
	f.op("fdiv %.4s, %.4s, %.4s", x, x, power)
	f.free(scaled, power)
}

func silu(f *function, x vec) { f.logistic(x, f.negative(x)) }

func gelu(f *function, x vec) {
	u, c := f.vec(), f.vec()
	f.op("fmul %.4s, %.4s, %.4s", u, x, x)
	f.op("orr %.16b, %.16b, %.16b", c, f.k[0], f.k[0])
	f.op("fmla %.4s, %.4s, %.4s", c, u, f.k[1])
	f.op("fmul %.4s, %.4s, %.4s", u, x, c)
	f.free(c)
	power := f.negative(u)
	f.free(u)
	f.logistic(x, power)
}

func geluErf(f *function, x vec) {
	step, minusHalf, tail := f.k[0], f.k[1], f.k[2:]
	t, power, h, next := f.vec(), f.vec(), f.vec(), f.vec()
	f.comment("t = 1/(1+k·|x|)")
	f.op("fabs %.4s, %.4s", t, x)
	f.op("fmul %.4s, %.4s, %.4s", t, t, step)
	f.op("fadd %.4s, %.4s, %.4s", t, t, f.powers.one)
	f.op("fdiv %.4s, %.4s, %.4s", t, f.powers.one, t)
	f.comment("e^(-x²/2)")
	f.op("fmul %.4s, %.4s, %.4s", power, x, x)
	f.op("fmul %.4s, %.4s, %.4s", power, power, minusHalf)
	f.exp(f.powers, power, f.t)
	f.comment("h = Φ(-|x|)")
	f.op("orr %.16b, %.16b, %.16b", h, tail[8], tail[8])
	for i := 7; i >= 0; i-- {
		f.op("orr %.16b, %.16b, %.16b", next, tail[i], tail[i])
		f.op("fmla %.4s, %.4s, %.4s", next, h, t)
		h, next = next, h
	}
	f.op("fmul %.4s, %.4s, %.4s", h, h, t)
	f.op("fmul %.4s, %.4s, %.4s", h, h, power)
	f.op("fsub %.4s, %.4s, %.4s", t, f.powers.one, h)
	f.choose(x, h, t)
	f.op("fmul %.4s, %.4s, %.4s", x, x, t)
	f.free(t, power, h, next)
}

// relu keeps a NaN, and a zero's sign.
func relu(f *function, x vec) {
	mask := f.vec()
	f.op("fcmlt %.4s, %.4s, #0.0", mask, x)
	f.op("bic %.16b, %.16b, %.16b", x, x, mask)
	f.free(mask)
}

func reluSquared(f *function, x vec) {
	relu(f, x)
	f.op("fmul %.4s, %.4s, %.4s", x, x, x)
}

func tanh(f *function, x vec) {
	e, den := f.negative(x), f.vec()
	f.op("fadd %.4s, %.4s, %.4s", e, e, e)
	f.expm1(f.powers, e, f.t)
	f.op("fadd %.4s, %.4s, %.4s", den, e, f.k[0])
	f.op("fdiv %.4s, %.4s, %.4s", e, e, den)
	f.op("fabs %.4s, %.4s", e, e)
	f.comment("with the sign of x")
	f.op("movi %.16b, #", den, 0x80)
	f.op("shl %.4s, %.4s, #", den, den, 24)
	f.op("bit %.16b, %.16b, %.16b", e, x, den)
	f.op("orr %.16b, %.16b, %.16b", x, e, e)
	f.free(e, den)
}

func sigmoid(f *function, x vec) {
	power, upper := f.negative(x), f.vec()
	f.exp(f.powers, power, f.t)
	f.op("orr %.16b, %.16b, %.16b", upper, f.powers.one, f.powers.one)
	f.choose(x, power, upper)
	f.op("fadd %.4s, %.4s, %.4s", power, power, f.powers.one)
	f.op("fdiv %.4s, %.4s, %.4s", x, upper, power)
	f.free(power, upper)
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
