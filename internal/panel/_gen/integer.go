package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A block of activations, as in activations.go.
const (
	xBlock       = 48
	scaleAt      = 32
	biasAt       = 36
	firstBiasAt  = 40
	secondBiasAt = 44
)

// level is a SIMD level of the integer products.
type level struct {
	width
	suffix string
	dots   bool // it has VPDPBUSD
	most   int  // rows at once
}

var integerLevels = map[string]level{
	"integer_vnni":    {avx512, "VNNI", true, 8},
	"integer_avx512":  {avx512, "AVX512", false, 4},
	"integer_avxvnni": {avx2, "AVXVNNI", true, 4},
	"integer_avx2":    {avx2, "AVX2", false, 4},
}

// products writes the kernels of a level.
func products(l level) {
	for _, f := range forms {
		for n := l.most; n > 0; n /= 2 {
			if !f.rare || n == l.most || n == 1 {
				integer(l, f, n)
			}
		}
	}
}

// product is an integer product under construction.
type product struct {
	level
	form
	n int // rows of activations

	panel    reg.GPVirtual // the next block, or unit of one block
	first    reg.GPVirtual // the unit
	blocks   reg.GPVirtual // left, of all or of the units to come
	decoding reg.GPVirtual
	x, y     rows

	outputs []reg.VecVirtual // of ZMM; those of YMM stand in memory, at y
	kept    map[string]reg.VecVirtual
	tables  map[int]reg.VecVirtual // the decoding's, of ZMM

	// Of ZMM and units of several blocks: what their header gives factor and
	// minimumFactor.
	unitFactor, unitMinimum reg.VecVirtual
}

// integer writes the product of a panel of quantized weights with n rows of activations.
func integer(l level, f form, n int) {
	p := &product{level: l, form: f, n: n}
	p.begin()
	if f.unit == 1 {
		Label("block")
		p.body()
		DECQ(p.blocks)
		JNZ(LabelRef("block"))
	} else {
		left := GP64()
		Label("unit")
		MOVQ(p.panel, p.first)
		ADDQ(Imm(uint64(f.header.bytes())), p.panel)
		if f.unit > 0 {
			MOVQ(U32(uint32(f.unit)), left)
		} else {
			MOVQ(Mem{Base: p.decoding, Disp: unitAt}, left)
		}
		SUBQ(left, p.blocks)
		if p.bytes == 64 {
			p.unitFactor = p.headerFactor(0)
			if p.hasMinimum() {
				p.unitMinimum = p.headerMinimum(0)
			}
		}
		Label("block")
		p.body()
		DECQ(left)
		JNZ(LabelRef("block"))
		TESTQ(p.blocks, p.blocks)
		JNZ(LabelRef("unit"))
	}
	p.end()
}

func (p *product) begin() {
	name := fmt.Sprintf("int%sx%d%s", p.form.name, p.n, p.suffix)
	params := "p []byte, blocks int, x []byte, y []float32, yStride int"
	if p.told() {
		params += ", d *[64]byte"
	}
	TEXT(name, NOSPLIT, "func("+params+")")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s is the product of %s; rows at once: %d.", name, p.form.name, p.n))

	p.panel = Load(Param("p").Base(), GP64()).(reg.GPVirtual)
	p.first = p.panel
	if p.unit != 1 {
		p.first = GP64()
	}
	p.blocks = Load(Param("blocks"), GP64()).(reg.GPVirtual)
	x := Load(Param("x").Base(), GP64()).(reg.GPVirtual)
	stride := GP64()
	IMUL3Q(Imm(xBlock), p.blocks, stride)
	p.x = newRows(p.n, x, stride)
	if p.told() {
		p.decoding = Load(Param("d"), GP64()).(reg.GPVirtual)
	}
	p.keepConstants()
	if p.bytes == 64 {
		p.outputs = p.registers()
		for _, y := range p.outputs {
			p.zero(y)
		}
		return
	}
	p.y = p.rowsOfY()
	zero := p.register()
	p.zero(zero)
	for r := range p.n {
		for v := 0; v < 64; v += p.bytes {
			VMOVUPS(zero, p.y.at(r, v))
		}
	}
}

// keepConstants loads what the blocks need again and again, as far as there are
// registers for it.
func (p *product) keepConstants() {
	p.kept, p.tables = map[string]reg.VecVirtual{}, map[int]reg.VecVirtual{}
	keep := func(m Mem) {
		r := p.register()
		p.load(m, r)
		p.kept[m.Symbol.Name] = r
	}
	if p.bytes < 64 {
		if !p.dots && p.split() {
			keep(ones())
			keep(bytesOf(0x80))
		}
		return
	}
	for _, b := range p.masks() {
		keep(bytesOf(b))
	}
	if !p.dots {
		keep(ones())
	}
	if !p.lookup {
		return
	}
	at := []int{valuesAt}
	if !p.dots && p.split() {
		at = []int{lowAt, highAt}
	}
	for _, at := range at {
		p.tables[at] = p.register()
		VBROADCASTI32X4(Mem{Base: p.decoding, Disp: at}, p.tables[at])
	}
}

// masks are those that the codes need.
func (p *product) masks() []byte {
	m := map[int][]byte{1: {0x02}, 2: {0x03}, 3: {0x03, 0x04}, 4: {0x0f}, 5: {0x0f, 0x10}, 6: {0x0f, 0x30}}[p.bits]
	if p.bits == 8 && !p.dots {
		m = []byte{0x0f}
	}
	return m
}

func (p *product) rowsOfY() rows {
	y := Load(Param("y").Base(), GP64()).(reg.GPVirtual)
	stride := Load(Param("yStride"), GP64()).(reg.GPVirtual)
	SHLQ(Imm(2), stride)
	return newRows(p.n, y, stride)
}

func (p *product) end() {
	if p.bytes == 64 {
		y := p.rowsOfY()
		for r, v := range p.outputs {
			VMOVUPS(v, y.at(r, 0))
		}
	}
	VZEROUPPER()
	RET()
}

// body adds a block, and moves on to the next.
func (p *product) body() {
	fetchAhead(Mem{Base: p.panel, Disp: ahead}, p.form.block())
	for v := range 64 / p.bytes {
		p.scaled(v)
	}
	ADDQ(U32(uint32(p.form.block())), p.panel)
	p.x.advance(xBlock)
}

// registers returns one a row.
func (p *product) registers() []reg.VecVirtual {
	r := make([]reg.VecVirtual, p.n)
	for i := range r {
		r[i] = p.register()
	}
	return r
}

// part returns the address of what the block has at some place behind its unit's
// header.
func (p *product) part(at int) Mem {
	if p.unit == 1 {
		at += p.header.bytes()
	}
	return Mem{Base: p.panel, Disp: at}
}
