package main

import "github.com/leat-dev/leat/internal/blocks"

// codes gives a block's weights of four lanes as signed bytes, four columns at a time.
type codes struct {
	*product
	at                   int // the next group of four columns
	nibbles, pairs, bits vec // as they lie in the panel, while they are needed
}

func (p *product) weights() *codes { return &codes{product: p} }

// base returns the register and the offset of what of the block lies at at, where four
// lanes take step bytes.
func (p *product) base(looped, fixed string, at, step int) (int, string) {
	if p.unrolled() {
		return at + p.quad*step, fixed
	}
	return at, looped
}

// part loads 16 bytes of the codes.
func (c *codes) part(at int) vec {
	v := c.vec()
	if c.unrolled() {
		c.load(16, c.codes+at+16*c.quad, panelReg, v)
	} else {
		c.load(16, at, codesReg, v)
	}
	return v
}

// shifted writes v, shifted to the left, or to the right if by is negative.
func (c *codes) shifted(to, v vec, by int) {
	switch {
	case by > 0:
		c.op("shl %.16b, %.16b, #", to, v, by)
	case by < 0:
		c.op("ushr %.16b, %.16b, #", to, v, -by)
	}
}

// masked returns v, shifted, and of that the bits of a mask.
func (c *codes) masked(v vec, by int, mask vec) vec {
	to := c.vec()
	if by == 0 {
		c.op("and %.16b, %.16b, %.16b", to, v, mask)
		return to
	}
	c.shifted(to, v, by)
	c.op("and %.16b, %.16b, %.16b", to, to, mask)
	return to
}

// next returns the next four columns' values, or those plus product.offset, in a
// register of the caller's.
func (c *codes) next() vec {
	i := c.at
	c.at++
	if c.form.Bits == 8 {
		v := c.part(64 * i)
		c.op("eor %.16b, %.16b, %.16b", v, v, c.upperMask)
		return v
	}
	nibbles, pairs, bits := c.has()
	at := 0
	if nibbles {
		if i%2 == 0 {
			c.nibbles = c.part(at + 64*(i/2))
		}
		at += 256
	}
	if pairs {
		if i%4 == 0 {
			c.pairs = c.part(at + 64*(i/4))
		}
		at += 128
	}
	if bits && i == 0 {
		c.bits = c.part(at)
	}
	v := c.code(i, nibbles, pairs, bits)
	if nibbles && i%2 == 1 {
		c.free(c.nibbles)
	}
	if pairs && i%4 == 3 {
		c.free(c.pairs)
	}
	if bits && i == 7 {
		c.free(c.bits)
	}
	if c.form.Levels != nil && !c.signs() {
		c.op("tbl %.16b, {%.16b}, %.16b", v, c.levels, v)
	}
	return v
}

// code puts a code together: its upper bits, and then the lower ones inserted.
func (c *codes) code(i int, nibbles, pairs, bits bool) vec {
	switch {
	case nibbles && !pairs && !bits:
		if i%2 == 0 {
			return c.masked(c.nibbles, 0, c.nibbleMask)
		}
		v := c.vec()
		c.shifted(v, c.nibbles, -4)
		return v
	case nibbles:
		var v vec
		if pairs {
			v = c.masked(c.pairs, 4-2*(i%4), c.upperMask)
		} else {
			v = c.masked(c.bits, 4-i, c.upperMask)
		}
		if i%2 == 0 {
			c.op("bit %.16b, %.16b, %.16b", v, c.nibbles, c.nibbleMask)
		} else {
			c.op("sri %.16b, %.16b, #", v, c.nibbles, 4)
		}
		return v
	case pairs && bits:
		v := c.masked(c.bits, 2-i, c.upperMask)
		switch i % 4 {
		case 0:
			c.op("bit %.16b, %.16b, %.16b", v, c.pairs, c.pairMask)
		case 3:
			c.op("sri %.16b, %.16b, #", v, c.pairs, 6)
		default:
			t := c.vec()
			c.shifted(t, c.pairs, -2*(i%4))
			c.op("bit %.16b, %.16b, %.16b", v, t, c.pairMask)
			c.free(t)
		}
		return v
	case pairs:
		if i%4 == 3 {
			v := c.vec()
			c.shifted(v, c.pairs, -6)
			return v
		}
		return c.masked(c.pairs, -2*(i%4), c.pairMask)
	}
	return c.masked(c.bits, 1-i, c.upperMask) // twice the bit
}

// scales loads the integer scales, or minima, of a half as 32 bits.
func (p *product) scales(half int, minima bool, to vec) {
	at, signed := lanes*half, false
	switch p.form.Scales {
	case blocks.One, blocks.Two:
		signed = true
	case blocks.TwoNibbles:
		at = 0
	}
	offset, base := p.base(scalesReg, panelReg, at, 4)
	p.load(4, offset, base, to)
	switch {
	case p.form.Scales == blocks.TwoNibbles && half == 1, p.form.Scales == blocks.TwoMinima && minima:
		p.op("ushr %.16b, %.16b, #", to, to, 4)
	case p.form.Scales == blocks.TwoNibbles, p.form.Scales == blocks.TwoMinima:
		p.op("and %.16b, %.16b, %.16b", to, to, p.nibbleMask)
	}
	if signed {
		p.op("sxtl %.8h, %.8b", to, to)
		p.op("sxtl %.4s, %.4h", to, to)
	} else {
		p.op("uxtl %.8h, %.8b", to, to)
		p.op("uxtl %.4s, %.4h", to, to)
	}
}

// floatScales loads integer scales, or minima, of a block as floats.
func (p *product) floatScales(half int, to vec) {
	p.scales(half, false, to)
	p.op("scvtf %.4s, %.4s", to, to)
}

// smallFloats loads a half's scales in UE4M3, halved. The seven bits as a float32's
// highest ones are the number times 2^-120.
func (p *product) smallFloats(half int, to vec) {
	offset, base := p.base(scalesReg, panelReg, lanes*half, 4)
	factor := p.vec()
	p.load(4, offset, base, to)
	p.op("shl %.16b, %.16b, #", to, to, 1)
	p.op("uxtl %.8h, %.8b", to, to)
	p.op("uxtl %.4s, %.4h", to, to)
	p.op("shl %.4s, %.4s, #", to, to, 19)
	p.splat((119+127)<<23, factor)
	p.op("fmul %.4s, %.4s, %.4s", to, to, factor)
	p.free(factor)
}

// halves loads the header's first or second number.
func (p *product) halves(which int, to vec) {
	offset, base := p.base(headReg, unitReg, 2*lanes*which, 8)
	p.load(8, offset, base, to)
	p.op("fcvtl %.4s, %.4h", to, to)
}

// times multiplies by a power of two.
func (p *product) times(power int, negative bool, v vec) {
	f := p.vec()
	bits := uint32(127+power) << 23
	if negative {
		bits |= 1 << 31
	}
	p.splat(bits, f)
	p.op("fmul %.4s, %.4s, %.4s", v, v, f)
	p.free(f)
}

// exponents loads powers of two: of an exponent e its bits as a float32 are
// (e-1)<<23, or 1<<21<<e where e is 0 or 1.
func (p *product) exponents(to vec) {
	offset, base := p.base(headReg, unitReg, 0, 4)
	p.load(4, offset, base, to)
	p.op("uxtl %.8h, %.8b", to, to)
	p.op("uxtl %.4s, %.4h", to, to)
	v := p.vecs(3)
	p.splat(1, v[0])
	p.op("cmhi %.4s, %.4s, %.4s", v[1], to, v[0])
	p.op("shl %.4s, %.4s, #", v[2], v[0], 21)
	p.op("ushl %.4s, %.4s, %.4s", v[2], v[2], to)
	p.op("sub %.4s, %.4s, %.4s", to, to, v[0])
	p.op("shl %.4s, %.4s, #", to, to, 23)
	p.op("bif %.16b, %.16b, %.16b", to, v[2], v[1])
	p.free(v...)
}

// finish adds the sums to the outputs, each operation on floats rounded, as
// Kernels.Int says. The sums' registers are given back.
func (p *product) finish(sums []vec) {
	f := p.form
	d, m := p.vec(), p.vec()
	switch f.Header {
	case blocks.Half, blocks.HalfPair:
		p.halves(0, d)
		if f.Shift > 0 && !f.MinimumD {
			p.times(-f.Shift, false, d)
		}
	case blocks.Exponent:
		p.exponents(d)
	}
	if f.HasMinimum() {
		if f.MinimumD {
			p.halves(0, m)
			p.times(-f.Shift-3, false, m)
		} else {
			p.halves(1, m)
			p.times(-3, f.Scales == blocks.NoScales, m)
		}
	}
	t, u, h := p.vec(), p.vec(), p.vec()
	switch f.Scales {
	case blocks.One, blocks.OneMinimum:
		p.floatScales(0, t)
		p.op("fmul %.4s, %.4s, %.4s", d, d, t)
	}
	if f.Scales == blocks.OneMinimum {
		p.floatScales(1, t)
		p.op("fmul %.4s, %.4s, %.4s", m, m, t)
	}
	var minima []vec
	if f.Scales == blocks.TwoMinima {
		minima = p.vecs(2)
		p.scales(0, true, minima[0])
		p.scales(1, true, minima[1])
	}
	from, at := toReg, 0
	if p.unrolled() {
		from, at = yReg, 16*p.quad
	}
	p.eachRow(from, func(r, _ int) {
		s := sums[r]
		p.load(16, scaleAt, xReg(r), h)
		if f.Scales != blocks.TwoFloats {
			p.op("scvtf %.4s, %.4s", s, s)
		}
		switch {
		case f.Scales == blocks.TwoFloats:
			p.op("fmul %.4s, %.4s, %.s[#]", s, s, h, 0)
		case f.Scales == blocks.TwoMinima:
			p.op("mul %.4s, %.4s, %.s[#]", u, minima[0], h, 2)
			p.op("mla %.4s, %.4s, %.s[#]", u, minima[1], h, 3)
			p.op("scvtf %.4s, %.4s", u, u)
			p.op("fmul %.4s, %.4s, %.4s", s, s, d)
			p.op("fmul %.4s, %.4s, %.4s", u, u, m)
			p.op("fadd %.4s, %.4s, %.4s", s, s, u)
			p.op("fmul %.4s, %.4s, %.s[#]", s, s, h, 0)
		case f.HasMinimum():
			p.op("scvtf %.4s, %.4s", t, h)
			p.op("fmul %.4s, %.4s, %.4s", s, s, d)
			p.op("fmul %.4s, %.4s, %.s[#]", u, m, t, 1)
			p.op("fadd %.4s, %.4s, %.4s", s, s, u)
			p.op("fmul %.4s, %.4s, %.s[#]", s, s, h, 0)
		case f.Scales.Halves():
			p.op("fmul %.4s, %.4s, %.4s", s, s, d)
			p.op("fmul %.4s, %.4s, %.s[#]", s, s, h, 0)
		default:
			p.op("fmul %.4s, %.4s, %.s[#]", u, d, h, 0)
			p.op("fmul %.4s, %.4s, %.4s", s, s, u)
		}
		p.load(16, at, outReg, t)
		p.op("fadd %.4s, %.4s, %.4s", t, t, s)
		p.store(16, t, at, outReg)
		p.free(s)
	})
	p.free(minima...)
	p.free(d, m, t, u, h)
}
