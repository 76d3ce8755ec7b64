package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

var constants = map[string]Mem{}

// constant returns read-only data that repeats word, made at its first use.
func constant(name string, word uint64, bytes int) Mem {
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL(name, RODATA|NOPTR)
	for at := 0; at < bytes; at += 8 {
		DATA(at, U64(word))
	}
	constants[name] = m
	return m
}

// table returns read-only data that fill writes, made at its first use.
func table(name string, fill func()) Mem {
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL(name, RODATA|NOPTR)
	fill()
	constants[name] = m
	return m
}

func signBit() Mem   { return constant("signBit", 1<<31, 8) }
func magnitude() Mem { return constant("magnitude", 0x7fffffff_7fffffff, 32) }

// ones has 1 in each 16 bits.
func ones() Mem { return constant("ones", 0x00010001_00010001, 64) }

// floats returns a vector of one float32.
func floats(name string, f float64) Mem {
	bits := uint64(math.Float32bits(float32(f)))
	return constant(name, bits<<32|bits, 64)
}

// outside is 32 zeros, 32 minus infinities and 32 zeros again. The 32 words that
// begin count before the infinities' end are a mask of the first count lanes, by
// their highest bits; those that begin count before the infinities are what to
// add to a score so that only the first count lanes matter.
func outside() Mem {
	return table("outside", func() {
		for i := range 96 {
			word := uint32(0)
			if i/32 == 1 {
				word = math.Float32bits(float32(math.Inf(-1)))
			}
			DATA(4*i, U32(word))
		}
	})
}

const (
	infinitiesAt = 4 * 32
	behindAt     = 4 * 64
)
