package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// integer is a type of integer weights.
type integer struct {
	name    string
	nibbles bool
	block   int // bytes of 32 columns
	bias    int // log2 of what an activation's -8·Σq is multiplied by
}

var (
	q8 = integer{"Q8_0", false, 544, 4}
	q4 = integer{"Q4_0", true, 288, 0}
)

// A block of activations, as in activations.go.
const (
	xBlock       = 48
	scaleAt      = 32
	biasAt       = 36
	firstBiasAt  = 40
	secondBiasAt = 44
)

// product is an integer product under construction.
type product struct {
	width
	integer
	panel, blocks reg.GPVirtual
	x             rows
	y, yStride    reg.GPVirtual
	sums          [][]reg.VecVirtual // of float32, a row each
}

func newProduct(w width, t integer, n int, level string) *product {
	name := fmt.Sprintf("int%sx%d%s", t.name, n, level)
	TEXT(name, NOSPLIT, "func(p []byte, blocks int, x []byte, y []float32, yStride int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s is int%s; rows at once: %d.", name, t.name, n))

	p := &product{width: w, integer: t}
	p.panel = Load(Param("p").Base(), GP64()).(reg.GPVirtual)
	p.blocks = Load(Param("blocks"), GP64()).(reg.GPVirtual)
	first := Load(Param("x").Base(), GP64()).(reg.GPVirtual)
	p.y = Load(Param("y").Base(), GP64()).(reg.GPVirtual)
	p.yStride = Load(Param("yStride"), GP64()).(reg.GPVirtual)
	SHLQ(Imm(2), p.yStride)
	stride := GP64()
	IMUL3Q(Imm(xBlock), p.blocks, stride)
	p.x = newRows(n, first, stride)
	p.sums = w.each(n)
	for _, sum := range p.sums {
		for _, s := range sum {
			w.zero(s)
		}
	}
	return p
}

// loop repeats body for every block, and stores the sums.
func (p *product) loop(body func()) {
	Label("block")
	fetchAhead(Mem{Base: p.panel, Disp: ahead}, p.block)
	body()
	ADDQ(U32(uint32(p.block)), p.panel)
	p.x.advance(xBlock)
	DECQ(p.blocks)
	JNZ(LabelRef("block"))

	for _, sum := range p.sums {
		for v, s := range sum {
			VMOVUPS(s, Mem{Base: p.y, Disp: v * p.bytes})
		}
		ADDQ(p.yStride, p.y)
	}
	VZEROUPPER()
	RET()
}

// addScaled adds a row's integer sums to its float ones: sum += s·(dw·dx), each
// operation rounded. dw is the weights' scales.
func (p *product) addScaled(r, v int, s, dw reg.VecVirtual) {
	VCVTDQ2PS(s, s)
	t := p.register()
	if p.bytes == 64 {
		VMULPS_BCST(p.x.at(r, scaleAt), dw, t)
	} else {
		VBROADCASTSS(p.x.at(r, scaleAt), t)
		VMULPS(t, dw, t)
	}
	VMULPS(t, s, s)
	VADDPS(s, p.sums[r][v], p.sums[r][v])
}

// scales loads the block's scales of vector v.
func (p *product) scales(v int) reg.VecVirtual {
	dw := p.register()
	VCVTPH2PS(Mem{Base: p.panel, Disp: v * p.bytes / 2}, dw)
	return dw
}

// nibbles splits the bytes of w into low and high nibbles, in w and in the
// register that it returns.
func (p *product) nibbles(w reg.VecVirtual) (high reg.VecVirtual) {
	high = p.register()
	VPSRLW(Imm(4), w, high)
	p.and(lowNibbles(), w)
	p.and(lowNibbles(), high)
	return high
}

// dot writes the product with VPDPBUSD, which adds four products of an unsigned
// with a signed byte to each lane.
func dot(t integer, n int) {
	p := newProduct(avx512, t, n, "VNNI")
	p.loop(func() {
		dw := p.scales(0)
		s := make([]reg.VecVirtual, n)
		for r := range s {
			s[r] = ZMM()
			VPBROADCASTD(p.x.at(r, biasAt), s[r])
			if t.bias > 0 {
				VPSLLD(Imm(uint64(t.bias)), s[r], s[r])
			}
		}
		times := func(w reg.VecVirtual, g int) {
			for r := range s {
				VPDPBUSD_BCST(p.x.at(r, 4*g), w, s[r])
			}
		}
		for at, g := 32, 0; at < t.block; at += 64 {
			w := ZMM()
			p.load(Mem{Base: p.panel, Disp: at}, w)
			if t.nibbles {
				high := p.nibbles(w)
				times(w, g)
				times(high, g+1)
				g += 2
			} else {
				times(w, g)
				g++
			}
		}
		for r := range s {
			p.addScaled(r, 0, s[r], dw)
		}
	})
}

// madd writes the product with VPMADDUBSW, which adds two products of an
// unsigned with a signed byte in 16 bits. Nibbles keep that exact: the eight
// groups of a block come to no more than 8·2·15·127 = 30480. Bytes of Q8_0 are
// multiplied as two nibbles, whose sums join at the block's end.
func madd(w width, t integer, n int) {
	p := newProduct(w, t, n, w.name)
	p.loop(func() {
		// The sums of the low and the high nibbles of Q8_0, or of Q4_0 the one
		// sum. The first group starts them.
		low, high := p.each(n), p.each(n)
		times := func(nibbles reg.VecVirtual, sums [][]reg.VecVirtual, r, v, g int, start bool) {
			x := p.register()
			VPBROADCASTD(p.x.at(r, 4*g), x)
			if start {
				VPMADDUBSW(x, nibbles, sums[r][v])
				return
			}
			VPMADDUBSW(x, nibbles, x)
			VPADDW(x, sums[r][v], sums[r][v])
		}
		for at := 32; at < t.block; at += 64 {
			g := (at - 32) / 64
			for v := range p.sums[0] {
				wl := p.register()
				p.load(Mem{Base: p.panel, Disp: at + v*p.bytes}, wl)
				wh := p.nibbles(wl)
				for r := range n {
					if t.nibbles {
						times(wl, low, r, v, 2*g, g == 0)
						times(wh, low, r, v, 2*g+1, false)
					} else {
						times(wl, low, r, v, g, g == 0)
						times(wh, high, r, v, g, g == 0)
					}
				}
			}
		}
		for v := range p.sums[0] {
			dw := p.scales(v)
			for r := range n {
				bias, s := p.register(), low[r][v]
				VPBROADCASTD(p.x.at(r, biasAt), bias)
				VPMADDWD(ones(), s, s)
				if !t.nibbles {
					VPMADDWD(ones(), high[r][v], high[r][v])
					VPADDD(high[r][v], bias, bias)
					VPSLLD(Imm(uint64(t.bias)), bias, bias)
				}
				VPADDD(bias, s, s)
				p.addScaled(r, v, s, dw)
			}
		}
	})
}
