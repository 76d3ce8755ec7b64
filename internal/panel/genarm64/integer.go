package main

import (
	"fmt"

	"github.com/leat-dev/leat/internal/blocks"
	"github.com/leat-dev/leat/kernels"
)

// level is what a product of integers is made of.
type level struct {
	name string
	rows []int // at once: the kernels that there are
}

var (
	neon = level{"NEON", []int{4, 1}}      // smull, and sums of 16 bits
	dots = level{"Dot", []int{8, 4, 2, 1}} // sdot: four products to a sum
	i8mm = level{"I8MM", []int{8}}         // smmla: eight products of two lanes and two rows
)

// A block of activations, as in activations.go.
const (
	xBlock  = 48
	scaleAt = 32 // and behind it the three sums, one for all and one for each half
)

const lanes = 16 // panel.Lanes

// The general registers of a product.
const (
	panelReg = "R0" // the block: its scales, then its codes
	leftReg  = "R1" // blocks
	unitReg  = "R2" // the unit's header
	yReg     = "R3"
	yStride  = "R4"
	unitLeft = "R5" // blocks of the unit
	outReg   = "R6" // a row's outputs
	firstX   = 8    // R8 to R15: the rows of activations
	quadLeft = "R17"
	// Where the block is read, moving on with four lanes after another.
	codesReg, scalesReg, headReg, toReg = "R19", "R20", "R21", "R22"
	pairsReg                            = "R23" // the stack, for smmla
)

func xReg(r int) string { return fmt.Sprintf("R%d", firstX+r) }

// product is an integer product under construction. It takes four lanes at a time
// through a block, so that the registers hold the sums of up to eight rows; the outputs
// stand in memory from block to block.
type product struct {
	*assembler
	form  *blocks.Form
	level level
	rows  int

	unit, header, block, codes int // bytes: of a unit, its header, a block, its scales
	quad                       int // where the four lanes begin, if they are not looped over

	nibbleMask, pairMask, upperMask, levels vec // as far as the type needs them
	x                                       []vec
}

// unrolled says whether the four lanes' code is written four times.
func (p *product) unrolled() bool { return p.rows <= 2 && p.level.name != neon.name }

// resident says whether a block's activations stay in registers for all lanes.
func (p *product) resident() bool { return p.rows <= 4 && p.level.name == dots.name }

func (p *product) has() (nibbles, pairs, bits bool) {
	b := p.form.Bits
	return b >= 4 && b < 8, b == 2 || b == 3 || b == 6, b == 1 || b == 3 || b == 5
}

// signs says whether codes of one bit stand for -1 and 1.
func (p *product) signs() bool { return p.form.Bits == 1 }

// offset is what the codes, as they are multiplied, are too large by.
func (p *product) offset() int {
	switch {
	case p.signs():
		return 1 // of twice the code
	case p.form.Levels != nil || p.form.Bits == 8:
		return 0
	}
	return p.form.Offset
}

func integers(a *assembler, t kernels.Type, l level, rows int) {
	f := blocks.For(t)
	p := &product{assembler: a, form: f, level: l, rows: rows}
	p.codes = f.Scales.Bytes() * lanes
	p.header = map[blocks.Header]int{blocks.Half: 2 * lanes, blocks.HalfPair: 4 * lanes, blocks.Exponent: lanes}[f.Header]
	p.block = p.codes + 32*lanes*f.Bits/8
	p.unit = p.header + f.Cols/32*p.block
	name := fmt.Sprintf("int%vx%d%s", t, rows, l.name)
	frame := 0
	if l.name == i8mm.name {
		frame = 16*xPairs + 32*rows/2
	}
	a.begin(name, fmt.Sprintf("the product of %v weights with %d rows", t, rows),
		"(p []byte, blocks int, x []byte, y []float32, yStride int)", frame)
	p.write()
	a.end()
}

func (p *product) write() {
	p.line("MOVD %s, %s", p.param("p_base"), panelReg)
	p.line("MOVD %s, %s", p.param("blocks"), leftReg)
	p.line("MOVD %s, %s", p.param("x_base"), xReg(0))
	p.line("MOVD %s, %s", p.param("y_base"), yReg)
	if p.rows > 1 {
		p.line("MOVD %s, %s", p.param("yStride"), yStride)
		p.line("LSL $2, %s", yStride)
		p.line("MOVD $%d, R16", xBlock)
		p.line("MUL R16, %s, R16", leftReg)
		for r := 1; r < p.rows; r++ {
			p.line("ADD R16, %s, %s", xReg(r-1), xReg(r))
		}
	}
	if p.level.name == i8mm.name {
		p.line("MOVD $pairs-%d(SP), %s", 16*xPairs+32*p.rows/2, pairsReg)
	}
	nothing := p.vec()
	p.zero(nothing)
	p.eachRow(yReg, func(r, at int) {
		for q := range 4 {
			p.store(16, nothing, 16*q+at, outReg)
		}
	})
	p.free(nothing)
	constants := p.constants()

	loops := p.form.Cols > 32
	p.label("unit")
	p.line("MOVD %s, %s", panelReg, unitReg)
	if p.header > 0 {
		p.line("ADD $%d, %s", p.header, panelReg)
	}
	if loops {
		p.line("MOVD $%d, %s", p.form.Cols/32, unitLeft)
		p.label("block")
	}
	p.inside = 0
	if p.resident() {
		p.x = p.vecs(2 * p.rows)
		for r := range p.rows {
			p.load(16, 0, xReg(r), p.x[2*r])
			p.load(16, 16, xReg(r), p.x[2*r+1])
		}
	}
	if p.level.name == i8mm.name {
		p.pairRows()
	}
	perQuad := 0
	if p.unrolled() {
		for p.quad = range 4 {
			p.lanes()
		}
		p.quad = 0
	} else {
		p.line("ADD $%d, %s, %s", p.codes, panelReg, codesReg)
		p.line("MOVD %s, %s", panelReg, scalesReg)
		p.line("MOVD %s, %s", unitReg, headReg)
		p.line("MOVD %s, %s", yReg, toReg)
		p.line("MOVD $4, %s", quadLeft)
		p.label("lanes")
		before := p.inside
		p.lanes()
		p.line("ADD $16, %s", codesReg)
		p.line("ADD $4, %s", scalesReg)
		p.line("ADD $%d, %s", p.headerStep(), headReg)
		p.line("ADD $16, %s", toReg)
		p.line("SUB $1, %s", quadLeft)
		p.line("CBNZ %s, lanes", quadLeft)
		perQuad = p.inside - before
	}
	if p.resident() {
		p.free(p.x...)
	}
	for r := range p.rows {
		p.line("ADD $%d, %s", xBlock, xReg(r))
	}
	p.line("ADD $%d, %s", p.block, panelReg)
	p.line("SUB $1, %s", leftReg)
	p.line("CBZ %s, done", leftReg)
	if loops {
		p.line("SUB $1, %s", unitLeft)
		p.line("CBNZ %s, block", unitLeft)
	}
	p.line("B unit")
	p.label("done")
	p.free(constants...)
	count(p.function, p.inside+3*perQuad, 32*lanes*p.rows)
}

// headerStep is the header's bytes of four lanes.
func (p *product) headerStep() int {
	if p.form.Header == blocks.Exponent {
		return 4
	}
	return 8
}

// eachRow calls f with outReg at each row of outputs. Where the rows are one, that is
// the register from itself.
func (p *product) eachRow(from string, f func(r, at int)) {
	p.line("MOVD %s, %s", from, outReg)
	for r := range p.rows {
		f(r, 0)
		if r < p.rows-1 {
			p.line("ADD %s, %s", yStride, outReg)
		}
	}
}

// constants loads what stays in registers.
func (p *product) constants() (all []vec) {
	constant := func(b int) vec {
		v := p.vec()
		p.op("movi %.16b, #", v, b)
		all = append(all, v)
		return v
	}
	nibbles, pairs, bits := p.has()
	if nibbles || p.form.Scales == blocks.TwoNibbles || p.form.Scales == blocks.TwoMinima {
		p.nibbleMask = constant(15)
	}
	switch {
	case p.form.Bits == 8:
		p.upperMask = constant(0x80)
	case pairs && nibbles:
		p.upperMask = constant(0x30)
	case pairs && bits:
		p.pairMask = constant(3)
		p.upperMask = constant(4)
	case pairs:
		p.pairMask = constant(3)
	case nibbles && bits:
		p.upperMask = constant(0x10)
	case bits:
		p.upperMask = constant(2)
	}
	if p.form.Levels != nil && !p.signs() {
		var table [16]byte
		for i, v := range p.form.Levels {
			table[i] = byte(v)
		}
		p.levels = p.vec()
		all = append(all, p.levels)
		p.table(levelsName(p.form.Levels), table, p.levels)
	}
	return all
}

func levelsName(levels []int8) string {
	switch levels[0] {
	case -127:
		return "levelsNonlinear"
	case 0:
		return "levelsFloat"
	case -7:
		return "levelsIQ1"
	case 8:
		return "levelsIQ2"
	case 4:
		return "levelsIQ3"
	case 1:
		return "levelsOdd"
	}
	panic("a table without a name")
}

// lanes adds a block's products of four lanes to the outputs.
func (p *product) lanes() {
	p.comment("Lanes %d to %d.", 4*p.quad, 4*p.quad+3)
	w := p.weights()
	if !p.form.Scales.Halves() {
		s := p.sums(w, 0, 8)
		p.finish(s)
		return
	}
	first := p.scaled(p.sums(w, 0, 4), 0, nil)
	p.finish(p.scaled(p.sums(w, 4, 8), 1, first))
}

// scaled multiplies the sums of a half by its scales, and adds those of the other half.
func (p *product) scaled(sums []vec, half int, other []vec) []vec {
	scale := p.vec()
	if p.form.Scales == blocks.TwoFloats {
		p.smallFloats(half, scale)
		for r, s := range sums {
			p.op("scvtf %.4s, %.4s", s, s)
			p.op("fmul %.4s, %.4s, %.4s", s, s, scale)
			if other != nil {
				p.op("fadd %.4s, %.4s, %.4s", s, other[r], s)
				p.free(other[r])
			}
		}
		p.free(scale)
		return sums
	}
	p.scales(half, false, scale)
	for r, s := range sums {
		if other == nil {
			p.op("mul %.4s, %.4s, %.4s", s, s, scale)
			continue
		}
		p.op("mla %.4s, %.4s, %.4s", other[r], s, scale)
		p.free(s)
	}
	p.free(scale)
	if other != nil {
		return other
	}
	return sums
}

// bias replaces -8·Σq, in all lanes of v, by what the codes' offset adds to a sum.
func (p *product) bias(v vec) {
	switch p.offset() {
	case 1:
		p.op("sshr %.4s, %.4s, #", v, v, 3)
	case 4:
		p.op("sshr %.4s, %.4s, #", v, v, 1)
	case 16:
		p.op("shl %.4s, %.4s, #", v, v, 1)
	case 32:
		p.op("shl %.4s, %.4s, #", v, v, 2)
	}
}

// biasElement is where the activations have the sum that corrects columns from four
// times from on.
func (p *product) biasElement(from int) int {
	if p.form.Scales.Halves() {
		return 2 + from/4
	}
	return 1
}
