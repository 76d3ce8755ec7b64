package main

import (
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

func signBit() Mem   { return constant("signBit", 1<<31, 8) }
func magnitude() Mem { return constant("magnitude", 0x7fffffff_7fffffff, 32) }

// lowNibbles has each byte's low nibble, and ones has 1 in each 16 bits.
func lowNibbles() Mem { return constant("lowNibbles", 0x0f0f0f0f_0f0f0f0f, 64) }
func ones() Mem       { return constant("ones", 0x00010001_00010001, 64) }
