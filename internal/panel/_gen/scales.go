package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// scaled adds the block's products to the outputs of vector v's lanes: the integer sums
// times the scales, as Kernels.Int says.
func (p *product) scaled(v int) {
	switch {
	case p.scales == twoFloats:
		p.floatHalves(v)
	case p.scales.halves():
		p.integerHalves(v)
	case p.hasMinimum():
		p.withMinimum(v)
	default:
		s := p.sums(v, 0, 8)
		d := p.factor(v)
		for r := range s {
			VCVTDQ2PS(s[r], s[r])
			t := p.register()
			p.timesScale(r, d, t)
			VMULPS(t, s[r], s[r])
			p.add(r, v, s[r])
		}
	}
}

func (p *product) withMinimum(v int) {
	s := p.sums(v, 0, 8)
	d, m := p.factor(v), p.minimumFactor(v)
	for r := range s {
		VCVTDQ2PS(s[r], s[r])
		VMULPS(d, s[r], s[r])
		b := p.register()
		p.toFloat(r, biasAt, b)
		VMULPS(m, b, b)
		VADDPS(b, s[r], s[r])
		p.timesScale(r, s[r], s[r])
		p.add(r, v, s[r])
	}
}

// integerHalves adds the integer sums of the halves, times their integer scales, as
// floats, which hold them exactly: they are below 2^24.
func (p *product) integerHalves(v int) {
	t := p.sums(v, 0, 4)
	scale := p.halfScale(v, 0)
	for r := range t {
		VCVTDQ2PS(t[r], t[r])
		VMULPS(scale, t[r], t[r])
	}
	s := p.sums(v, 4, 8)
	scale = p.halfScale(v, 1)
	d := p.factor(v)
	var m reg.VecVirtual
	var minima [2]reg.VecVirtual
	if p.hasMinimum() {
		m = p.minimumFactor(v)
		for i := range minima {
			minima[i] = p.nibbleScale(v, 16*i, true)
		}
	}
	for r := range t {
		VCVTDQ2PS(s[r], s[r])
		VFMADD231PS(scale, s[r], t[r])
		VMULPS(d, t[r], t[r])
		if p.hasMinimum() {
			u := s[r]
			p.toFloat(r, firstBiasAt, u)
			VMULPS(minima[0], u, u)
			b := p.register()
			p.toFloat(r, secondBiasAt, b)
			VFMADD231PS(minima[1], b, u)
			VMULPS(m, u, u)
			VADDPS(u, t[r], t[r])
		}
		p.timesScale(r, t[r], t[r])
		p.add(r, v, t[r])
	}
}

func (p *product) floatHalves(v int) {
	t := p.sums(v, 0, 4)
	scale := p.smallFloat(v, 0)
	for r := range t {
		VCVTDQ2PS(t[r], t[r])
		VMULPS(scale, t[r], t[r])
	}
	s := p.sums(v, 4, 8)
	scale = p.smallFloat(v, 1)
	for r := range t {
		VCVTDQ2PS(s[r], s[r])
		VMULPS(scale, s[r], s[r])
		VADDPS(s[r], t[r], t[r])
		p.timesScale(r, t[r], t[r])
		p.add(r, v, t[r])
	}
}

// add adds t, which is used up, to row r's output.
func (p *product) add(r, v int, t reg.VecVirtual) {
	if p.bytes == 64 {
		VADDPS(t, p.outputs[r], p.outputs[r])
		return
	}
	VADDPS(p.y.at(r, v*p.bytes), t, t)
	VMOVUPS(t, p.y.at(r, v*p.bytes))
}

// timesScale makes t the product of f and the scale of row r's activations.
func (p *product) timesScale(r int, f, t reg.VecVirtual) {
	if p.bytes == 64 {
		VMULPS_BCST(p.x.at(r, scaleAt), f, t)
		return
	}
	x := p.register()
	VBROADCASTSS(p.x.at(r, scaleAt), x)
	VMULPS(x, f, t)
}

// toFloat makes t an integer of row r's activations.
func (p *product) toFloat(r, at int, t reg.VecVirtual) {
	if p.bytes == 64 {
		VCVTDQ2PS_BCST(p.x.at(r, at), t)
		return
	}
	VPBROADCASTD(p.x.at(r, at), t)
	VCVTDQ2PS(t, t)
}

// factor returns d, multiplied by what all columns of the block share.
func (p *product) factor(v int) reg.VecVirtual {
	d := p.unitFactor
	if d == nil {
		d = p.headerFactor(v)
	}
	if p.scales != one && p.scales != oneMinimum {
		return d
	}
	s := p.integerScale(v, 0, p.scales == one)
	VMULPS(d, s, s)
	return s
}

// headerFactor returns the part of it that is the unit's.
func (p *product) headerFactor(v int) reg.VecVirtual {
	if p.form.header == exponent {
		return p.power(v)
	}
	d := p.halves(v, 0)
	if p.lookup && p.scales != noScales {
		p.timesFactor(d)
	}
	return d
}

// timesFactor multiplies d by the decoding's factor.
func (p *product) timesFactor(d reg.VecVirtual) {
	at := Mem{Base: p.decoding, Disp: factorAt}
	if p.bytes == 64 {
		VMULPS_BCST(at, d, d)
		return
	}
	f := p.register()
	VBROADCASTSS(at, f)
	VMULPS(f, d, d)
}

// minimumFactor returns what the activations' sum is multiplied by: m/-8, or dmin/8 and
// the minimum that all columns of the block share.
func (p *product) minimumFactor(v int) reg.VecVirtual {
	m := p.unitMinimum
	if m == nil {
		m = p.headerMinimum(v)
	}
	if p.scales != oneMinimum {
		return m
	}
	s := p.integerScale(v, 16, false)
	VMULPS(m, s, s)
	return s
}

// headerMinimum returns the part of it that is the unit's.
func (p *product) headerMinimum(v int) reg.VecVirtual {
	at := 32
	if p.form.header == half {
		at = 0
	}
	m := p.halves(v, at)
	name := map[float64]string{-1. / 8: "minusEighth", 1. / 8: "eighth", 1. / 64: "sixtyFourth"}[p.minimum]
	VMULPS(floats(name, p.minimum), m, m)
	return m
}

// halves returns the lanes' numbers of F16 at some place of the header.
func (p *product) halves(v, at int) reg.VecVirtual {
	d := p.register()
	VCVTPH2PS(Mem{Base: p.first, Disp: at + v*p.bytes/2}, d)
	return d
}

// power returns the lanes' powers of two: of an exponent e, 2^(e-128). Of 0 and 1 that
// is a number without a leading bit, of which (e+1)<<21 are the bits; of others those
// are less than the right ones.
func (p *product) power(v int) reg.VecVirtual {
	e, small := p.register(), p.register()
	VPMOVZXBD(Mem{Base: p.first, Disp: v * p.bytes / 4}, e)
	VPSLLD(Imm(21), e, small)
	VPADDD(words("leastPowers", 1<<21), small, small)
	VPSLLD(Imm(23), e, e)
	VPSUBD(words("exponentOne", 1<<23), e, e)
	VPMAXSD(small, e, e)
	return e
}

// words returns a vector of one integer.
func words(name string, w uint32) Mem {
	return constant(name, uint64(w)<<32|uint64(w), 64)
}

// scaleBytes returns the lanes' bytes at some place of the block, widened.
func (p *product) scaleBytes(v, at int, signed bool) reg.VecVirtual {
	s := p.register()
	if signed {
		VPMOVSXBD(p.part(at+v*p.bytes/4), s)
	} else {
		VPMOVZXBD(p.part(at+v*p.bytes/4), s)
	}
	return s
}

// integerScale returns them as floats.
func (p *product) integerScale(v, at int, signed bool) reg.VecVirtual {
	s := p.scaleBytes(v, at, signed)
	VCVTDQ2PS(s, s)
	return s
}

// nibbleScale returns the low or the high nibbles.
func (p *product) nibbleScale(v, at int, high bool) reg.VecVirtual {
	s := p.scaleBytes(v, at, false)
	if high {
		VPSRLD(Imm(4), s, s)
	} else {
		p.and(bytesOf(0x0f), s)
	}
	VCVTDQ2PS(s, s)
	return s
}

// halfScale returns the scales of a half of the block.
func (p *product) halfScale(v, half int) reg.VecVirtual {
	switch p.scales {
	case twoNibbles:
		return p.nibbleScale(v, 0, half == 1)
	case twoMinima:
		return p.nibbleScale(v, 16*half, false)
	}
	return p.integerScale(v, 16*half, true)
}

// smallFloat returns the scales of a half that are floats of seven bits. As the upper bits
// of an F16's exponent and mantissa they are 2^7 times too small; the conversion takes
// numbers without a leading bit at full speed, which a multiplication may not.
func (p *product) smallFloat(v, half int) reg.VecVirtual {
	s := p.register()
	words := p.half(s)
	VPMOVZXBW(p.part(16*half+v*p.bytes/4), words)
	VPSLLW(Imm(9), words, words)
	VPSRLW(Imm(2), words, words)
	VCVTPH2PS(words, s)
	VMULPS(floats("smallFloat", 1<<7), s, s)
	return s
}
