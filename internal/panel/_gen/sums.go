package main

import (
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// sums returns, of each row, the integer sums of the products of the values with the
// activations over the groups from from to to of vector v's lanes.
func (p *product) sums(v, from, to int) []reg.VecVirtual {
	switch {
	case p.dots:
		return p.dotSums(v, from, to)
	case p.split() && p.bytes < 64:
		return p.signSums(v, from, to)
	}
	return p.maddSums(v, from, to)
}

// bias returns where a block of activations has -8 times the sum of the groups, and the
// power of two by which it is multiplied to make up for the offset of the values.
func (p *product) bias(from, to int) (at, shift int) {
	at = biasAt
	if to-from < 8 {
		at = firstBiasAt + from
	}
	return at, bits.Len(uint(p.offset)) - 1 - 3
}

func shiftLeft(shift int, v reg.VecVirtual) {
	switch {
	case shift > 0:
		VPSLLD(Imm(uint64(shift)), v, v)
	case shift < 0:
		VPSRAD(Imm(uint64(-shift)), v, v)
	}
}

// dotSums uses VPDPBUSD, which adds four products of an unsigned with a signed byte to
// each lane. Where there are registers for it, the even and the odd groups are summed
// apart, so that more additions are on their way at once.
func (p *product) dotSums(v, from, to int) []reg.VecVirtual {
	s := p.registers()
	for r := range s {
		if p.offset == 0 {
			p.zero(s[r])
			continue
		}
		at, shift := p.bias(from, to)
		VPBROADCASTD(p.x.at(r, at), s[r])
		shiftLeft(shift, s[r])
	}
	sums := [2][]reg.VecVirtual{s, s}
	if apart := p.bytes == 64 && !p.scales.halves(); apart {
		sums[1] = p.registers()
		for _, s := range sums[1] {
			p.zero(s)
		}
	}
	p.each(v, from, to, false, func(g int, w value) {
		for r, s := range sums[g%2] {
			if p.bytes == 64 {
				VPDPBUSD_BCST(p.x.at(r, 4*g), w.low, s)
				continue
			}
			x := p.register()
			VPBROADCASTD(p.x.at(r, 4*g), x)
			vexDot(x, w.low, s)
		}
	})
	for r := range s {
		if sums[1][r] != s[r] {
			VPADDD(sums[1][r], s[r], s[r])
		}
	}
	return s
}

// maddSums uses VPMADDUBSW, which adds two products of an unsigned with a signed byte in
// 16 bits: as many groups as those hold are added there, and then widened. Values that
// are too large are multiplied as two nibbles.
func (p *product) maddSums(v, from, to int) []reg.VecVirtual {
	var total, high []reg.VecVirtual
	for g := from; g < to; g += p.groups() {
		var low []reg.VecVirtual
		low, high = p.words(v, g, min(g+p.groups(), to))
		for r := range low {
			VPMADDWD(p.keep(ones()), low[r], low[r])
			if total != nil {
				VPADDD(low[r], total[r], total[r])
			}
		}
		if total == nil {
			total = low
		}
	}
	at, shift := p.bias(from, to)
	for r := range total {
		if p.offset == 0 {
			break
		}
		t := p.register()
		VPBROADCASTD(p.x.at(r, at), t)
		if p.split() {
			// The high nibbles and the bias of 16·8 count 16 times alike.
			VPMADDWD(p.keep(ones()), high[r], high[r])
			VPADDD(high[r], t, t)
		}
		shiftLeft(shift, t)
		VPADDD(t, total[r], total[r])
	}
	return total
}

// signSums uses VPMADDUBSW on magnitudes, and on activations that VPSIGNB gave the
// weights' signs, which takes less than two nibbles do. AVX-512 has no VPSIGNB. Two
// products are at most 2·128·127 = 32512.
func (p *product) signSums(v, from, to int) []reg.VecVirtual {
	total := p.registers()
	p.each(v, from, to, false, func(g int, w value) {
		signed, magnitude := w.low, p.register()
		VPXOR(p.keep(bytesOf(0x80)), signed, signed) // less the offset of 128
		VPABSB(signed, magnitude)
		for r, sum := range total {
			x := p.register()
			VPBROADCASTD(p.x.at(r, 4*g), x)
			VPSIGNB(signed, x, x)
			VPMADDUBSW(x, magnitude, x)
			if g == from {
				VPMADDWD(p.keep(ones()), x, sum)
				continue
			}
			VPMADDWD(p.keep(ones()), x, x)
			VPADDD(x, sum, sum)
		}
	})
	return total
}

// words returns the sums of 16 bits: those of split values' low and high nibbles.
func (p *product) words(v, from, to int) (low, high []reg.VecVirtual) {
	low = p.registers()
	if p.split() {
		high = p.registers()
	}
	p.each(v, from, to, p.split(), func(g int, w value) {
		for r := range low {
			x := p.register()
			VPBROADCASTD(p.x.at(r, 4*g), x)
			if p.split() {
				p.madd(x, w.high, high[r], p.register(), g == from)
			}
			p.madd(x, w.low, low[r], x, g == from)
		}
	})
	return low, high
}

// madd adds the products of x with w to sum, or starts it; t may be x.
func (p *product) madd(x, w, sum, t reg.VecVirtual, start bool) {
	if start {
		VPMADDUBSW(x, w, sum)
		return
	}
	VPMADDUBSW(x, w, t)
	VPADDW(t, sum, sum)
}
