package main

import (
	"fmt"
	"log"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vexDot is VPDPBUSD of YMM with a VEX prefix, as CPUs with AVX-VNNI have it that don't
// have AVX-512. Go's assembler knows the instruction with an EVEX prefix alone.
func vexDot(x, w, sum reg.VecVirtual) {
	i := &ir.Instruction{Opcode: "LONG", Inputs: []Op{x, w, sum}, Outputs: []Op{sum}}
	i.Operands = []Op{vexBytes{Constant: U32(0), of: i}}
	Instruction(i)
}

// vexBytes is the encoding of a VPDPBUSD, printed once its registers are known.
type vexBytes struct {
	Constant
	of *ir.Instruction
}

// Asm returns four bytes, as LONG wants them, and the statement of the fifth.
func (v vexBytes) Asm() string {
	number := func(op Op) uint32 {
		n := uint32(op.(reg.Physical).PhysicalIndex())
		if n > 15 {
			log.Fatalf("VPDPBUSD with a VEX prefix has no register Y%d", n)
		}
		return n
	}
	x, w, sum := number(v.of.Inputs[0]), number(v.of.Inputs[1]), number(v.of.Outputs[0])
	// The registers' fourth bits, and all of w's, are inverted. The opcode is 50 of the
	// map 0F38; L says 256 bits, and pp a prefix of 66.
	const map0F38, l256, pp66, opcode = 2, 1 << 2, 1, 0x50
	second := (^sum>>3&1)<<7 | 1<<6 | (^x>>3&1)<<5 | map0F38
	third := (^w&15)<<3 | l256 | pp66
	modRM := 0xc0 | (sum&7)<<3 | x&7
	return fmt.Sprintf("$0x%08x; BYTE $0x%02x // VPDPBUSD Y%d, Y%d, Y%d",
		uint32(opcode)<<24|third<<16|second<<8|0xc4, modRM, x, w, sum)
}
