package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/reg"
	"github.com/mmcloughlin/avo/x86"
)

// Neither avo nor Go's assembler knows VDPBF16PS. It has the operands and the encoding
// of VPDPWSSD, but for the mandatory prefix, F3 instead of 66: it is built as one, under
// its own name, and written as bytes once its registers are known.
const vdpbf16ps = "VDPBF16PS"

func init() { pass.Compile = pass.Concat(pass.Compile, pass.FunctionPass(encode)) }

// dotBF16 adds to each lane of sum the products of two pairs of BF16: w, a register,
// and x, a register or a single pair in memory.
func dotBF16(x Op, w, sum reg.Register) {
	build := x86.VPDPWSSD
	if _, ok := x.(Mem); ok {
		build = x86.VPDPWSSD_BCST
	}
	i, err := build(x, w, sum)
	if err != nil {
		panic(err)
	}
	i.Opcode, i.ISA = vdpbf16ps, []string{"AVX512BF16"}
	Instruction(i)
}

// encode replaces what Go's assembler doesn't know by bytes, with a comment that says
// what they are.
func encode(f *ir.Function) error {
	var nodes []ir.Node
	for _, n := range f.Nodes {
		i, ok := n.(*ir.Instruction)
		if !ok || i.Opcode != vdpbf16ps {
			nodes = append(nodes, n)
			continue
		}
		code, err := evex(i)
		if err != nil {
			return err
		}
		nodes = append(nodes, &ir.Comment{Lines: []string{fmt.Sprintf("%s %s, %s, %s", i.OpcodeWithSuffixes(),
			i.Operands[0].Asm(), i.Operands[1].Asm(), i.Operands[2].Asm())}})
		for _, b := range code {
			nodes = append(nodes, &ir.Instruction{Opcode: "BYTE", Operands: []Op{Imm(uint64(b))}})
		}
	}
	f.Nodes = nodes
	return nil
}

// evex encodes VDPBF16PS on vectors of 512 bits: EVEX.512.F3.0F38.W0 52 /r.
func evex(i *ir.Instruction) ([]byte, error) {
	source, second, dest := i.Operands[0], number(i.Operands[1]), number(i.Operands[2])
	const (
		notB, notX, notR = 1 << 5, 1 << 6, 1 << 7 // high bits of register numbers are stored inverted
		notR2            = 1 << 4
		map0F38, f3      = 2, 2
		opcode           = 0x52
	)
	bit := func(n, at, mask byte) byte {
		if n>>at&1 == 0 {
			return mask
		}
		return 0
	}
	p1 := map0F38 | bit(dest, 3, notR) | bit(dest, 4, notR2)
	p2 := f3 | 1<<2 | (^second&15)<<3
	p3 := byte(0b10<<5) | bit(second, 4, 1<<3)
	modRM := dest & 7 << 3
	if r, ok := source.(reg.Register); ok {
		n := number(r)
		p1 |= bit(n, 3, notB) | bit(n, 4, notX)
		return []byte{0x62, p1, p2, p3, opcode, 0b11<<6 | modRM | n&7}, nil
	}
	m, ok := source.(Mem)
	if !ok || m.Base == nil || m.Symbol.Name != "" {
		return nil, fmt.Errorf("%s of %s: only registers and memory with a base are encoded", i.Opcode, source.Asm())
	}
	p3 |= 1 << 4 // broadcast
	base, index := number(m.Base), byte(4)
	if m.Index != nil {
		index = number(m.Index)
	}
	p1 |= bit(base, 3, notB) | bit(index, 3, notX)
	scale, ok := map[uint8]byte{0: 0, 1: 0, 2: 1, 4: 2, 8: 3}[m.Scale]
	if !ok {
		return nil, fmt.Errorf("scale %d", m.Scale)
	}
	sib := scale<<6 | index&7<<3 | base&7
	code := []byte{0x62, p1, p2, p3, opcode}
	const pair = 4 // bytes: what an offset of one byte counts
	if small := m.Disp / pair; m.Disp%pair == 0 && small == int(int8(small)) {
		return append(code, 0b01<<6|modRM|4, sib, byte(small)), nil
	}
	d := uint32(int32(m.Disp))
	return append(code, 0b10<<6|modRM|4, sib, byte(d), byte(d>>8), byte(d>>16), byte(d>>24)), nil
}

// number is the number of an allocated register.
func number(op Op) byte {
	return byte(reg.ToPhysical(op.(reg.Register)).PhysicalIndex())
}
