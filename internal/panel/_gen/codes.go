package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// value is the weights of four columns of each lane, as unsigned bytes: in low, or as
// two nibbles, where high is set.
type value struct{ low, high reg.VecVirtual }

// unpacker makes values of the codes of a block.
type unpacker struct {
	*product
	codes Mem // the block's
	v     int // which of the vectors that make 16 lanes
	split bool

	nibbles, pairs, single reg.VecVirtual // what was last read of each part
}

// each calls f with the values of the groups of four columns from from to to.
func (p *product) each(v, from, to int, split bool, f func(g int, w value)) {
	u := unpacker{product: p, codes: p.part(p.scales.bytes()), v: v, split: split}
	for g := from; g < to; g++ {
		f(g, u.value(g, g == from))
	}
}

func (u *unpacker) read(at int) reg.VecVirtual {
	r := u.register()
	u.load(u.codes.Offset(at+u.v*u.bytes), r)
	return r
}

// value returns the values of group g. Of the parts that more groups share, first
// says that none was read before.
func (u *unpacker) value(g int, first bool) value {
	code := u.code(g, first)
	switch {
	case u.lookup && u.split:
		return value{u.look(lowAt, code), u.look(highAt, code)}
	case u.lookup:
		return value{low: u.look(valuesAt, code)}
	case u.split:
		high := u.register()
		VPSRLW(Imm(4), code, high)
		u.and(u.mask(0x0f), code)
		u.and(u.mask(0x0f), high)
		return value{code, high}
	}
	return value{low: code}
}

// code returns the codes of group g, of 1 bit doubled.
func (u *unpacker) code(g int, first bool) reg.VecVirtual {
	nibbles, pairs, single := u.parts()
	if u.bits == 8 {
		return u.read(64 * g)
	}
	if nibbles >= 0 && (first || g%2 == 0) {
		u.nibbles = u.read(nibbles + g/2*64)
	}
	if pairs >= 0 && (first || g%4 == 0) {
		u.pairs = u.read(pairs + g/4*64)
	}
	if single >= 0 && first {
		u.single = u.read(single)
	}
	switch u.bits {
	case 1:
		return u.field(u.single, g, 1, 0x02)
	case 2:
		return u.field(u.pairs, g%4*2, 0, 0x03)
	case 3:
		return u.join(u.field(u.pairs, g%4*2, 0, 0x03), u.single, g, 2, 0x04)
	}
	code := u.field(u.nibbles, g%2*4, 0, 0x0f)
	switch u.bits {
	case 5:
		return u.join(code, u.single, g, 4, 0x10)
	case 6:
		return u.join(code, u.pairs, g%4*2, 4, 0x30)
	}
	return code
}

// field returns the bits of mask of v's bytes, after those at bit from moved to bit to.
func (u *unpacker) field(v reg.VecVirtual, from, to int, mask byte) reg.VecVirtual {
	r := u.register()
	if u.shift(v, from, to, r) {
		u.and(u.mask(mask), r)
	} else if u.bytes == 64 {
		VPANDD(u.mask(mask), v, r)
	} else {
		VPAND(u.mask(mask), v, r)
	}
	return r
}

// join adds such bits to code, whose are 0.
func (u *unpacker) join(code, v reg.VecVirtual, from, to int, mask byte) reg.VecVirtual {
	if u.bytes < 64 {
		VPOR(u.field(v, from, to, mask), code, code)
		return code
	}
	if moved := u.register(); u.shift(v, from, to, moved) {
		v = moved
	}
	const aOrBAndC = 0xf8
	VPTERNLOGD(Imm(aOrBAndC), u.mask(mask), v, code)
	return code
}

// shift moves the bits at bit from to bit to, where these differ; bits of neighbouring
// bytes come in, which a mask takes out.
func (u *unpacker) shift(v reg.VecVirtual, from, to int, r reg.VecVirtual) bool {
	switch {
	case from > to:
		VPSRLW(Imm(uint64(from-to)), v, r)
	case from < to:
		VPSLLW(Imm(uint64(to-from)), v, r)
	default:
		return false
	}
	return true
}

// look returns what the table at some place of the decoding has for each code.
func (u *unpacker) look(at int, code reg.VecVirtual) reg.VecVirtual {
	r := u.register()
	if u.bytes == 64 {
		VPSHUFB(code, u.table(at), r)
		return r
	}
	VBROADCASTI128(Mem{Base: u.decoding, Disp: at}, r)
	VPSHUFB(code, r, r)
	return r
}

// mask returns a vector of equal bytes.
func (p *product) mask(b byte) Op {
	return p.keep(bytesOf(b))
}

// keep returns a constant: the register that holds it, where keepConstants has loaded it.
func (p *product) keep(m Mem) Op {
	if r, ok := p.kept[m.Symbol.Name]; ok {
		return r
	}
	return m
}

// table returns the register of one of a decoding's tables.
func (p *product) table(at int) reg.VecVirtual { return p.tables[at] }

// bytesOf returns a constant vector of equal bytes.
func bytesOf(b byte) Mem {
	return constant(fmt.Sprintf("bytes%02x", b), uint64(b)*0x01010101_01010101, 64)
}
