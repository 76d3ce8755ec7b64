package kernels

import (
	"fmt"
	"math"
	"strings"
)

// Type is how numbers are stored. Its values are this package's own; package
// gguf maps a file's onto them.
type Type uint8

// The types that the op set computes with. A quantized type stores blocks of
// elements along a row. Numbers are little-endian; q[i] is element i's integer.
const (
	F32  Type = iota + 1 // IEEE 754 binary32
	F16                  // IEEE 754 binary16
	BF16                 // the upper half of an F32

	// Q8_0 is a block of 32 in 34 bytes: x = d·q
	//
	//	0  d: F16
	//	2  q: 32 int8
	Q8_0

	// Q4_0 is a block of 32 in 18 bytes: x = d·(q-8)
	//
	//	0  d: F16
	//	2  16 bytes: the low nibbles are q[0:16], the high ones q[16:32]
	Q4_0

	// Q4_1 is a block of 32 in 20 bytes: x = d·q + m
	//
	//	0  d: F16
	//	2  m: F16
	//	4  16 bytes of nibbles as in Q4_0
	Q4_1

	// Q5_0 is a block of 32 in 22 bytes: x = d·(q-16)
	//
	//	0  d: F16
	//	2  4 bytes: bit i is the upper bit of q[i]
	//	6  16 bytes: the lower four bits as in Q4_0
	Q5_0

	// Q5_1 is a block of 32 in 24 bytes: x = d·q + m
	//
	//	0  d: F16
	//	2  m: F16
	//	4  4 bytes: the upper bits as in Q5_0
	//	8  16 bytes: the lower four bits as in Q4_0
	Q5_1

	// Q2_K is 16 blocks of 16 in 84 bytes: x = d·scale[j]·q - dmin·min[j], where j is
	// the block, and q is from 0 to 3
	//
	//	0   16 bytes: scale[j] in the low nibble of byte j, min[j] in the high one
	//	16  64 bytes: the q, 32 bytes for each 128 elements: in byte i, from the lowest
	//	    bits up, those of the elements i, i+32, i+64 and i+96
	//	80  d: F16
	//	82  dmin: F16
	Q2_K

	// Q3_K is 16 blocks of 16 in 110 bytes: x = d·(scale[j]-32)·(q-4), where j is the
	// block, scale is from 0 to 63 and q is from 0 to 7
	//
	//	0    32 bytes: bit k of byte i is the upper bit of q[32k+i]
	//	32   64 bytes: the lower two bits as in Q2_K
	//	96   12 bytes s: the scales, in 6 bits each
	//	108  d: F16
	//
	// The lower four bits of scale[j] are the low nibble of s[j], or the high one of
	// s[j-8] where j >= 8; the upper two are bits j/4·2 and the next of s[8+j%4].
	Q3_K

	// Q4_K is 8 blocks of 32 in 144 bytes: x = d·scale[j]·q - dmin·min[j],
	// where j is the block, scale and min are from 0 to 63 and q is from 0 to 15
	//
	//	0   d: F16
	//	2   dmin: F16
	//	4   12 bytes s: the scales and minima, in 6 bits each
	//	16  128 bytes: the low nibbles of 32 bytes are the q of an even block,
	//	    their high ones those of the odd block after it
	//
	//	j < 4:  scale[j] = s[j] & 63                      min[j] = s[j+4] & 63
	//	j >= 4: scale[j] = s[j+4] & 15 | s[j-4]>>6 << 4   min[j] = s[j+4]>>4 | s[j]>>6 << 4
	Q4_K

	// Q5_K is 8 blocks of 32 in 176 bytes: x and the scales are as in Q4_K, q is from
	// 0 to 31
	//
	//	0   d: F16
	//	2   dmin: F16
	//	4   12 bytes: the scales and minima as in Q4_K
	//	16  32 bytes: bit k of byte i is the upper bit of q[32k+i]
	//	48  128 bytes: the lower four bits as in Q4_K
	Q5_K

	// Q6_K is 16 blocks of 16 in 210 bytes: x = d·scale[j]·(q-32), where j is
	// the block and q is from 0 to 63
	//
	//	0    128 bytes: the lower four bits of the q, 64 bytes for each 128 elements:
	//	     the low nibbles are those of the first 64 elements, the high ones those
	//	     of the other 64
	//	128  64 bytes: the upper two bits, 32 bytes for each 128 elements: in byte i,
	//	     from the lowest bits up, those of the elements i, i+32, i+64 and i+96
	//	192  scale: 16 int8
	//	208  d: F16
	Q6_K

	// IQ1_S is 8 blocks of 32 in 50 bytes: x = d·(2s+1)·(g+δ), where g is -1, 0 or 1,
	// eight of which are looked up in a grid of 2048, and δ is 1/8 or -1/8
	//
	//	0   d: F16
	//	2   32 bytes: the lower 8 bits of the grid's indices, of 8 elements each
	//	34  8 uint16, a block each: the upper 3 bits of its four indices from bit 0 on;
	//	    s in bits 12 to 14; bit 15 is set where δ is negative
	IQ1_S

	// IQ1_M is 16 blocks of 16 in 56 bytes: x and the grid are as in IQ1_S, but δ is
	// chosen for 8 elements
	//
	//	0   32 bytes: the lower 8 bits of the grid's indices
	//	32  32 nibbles, low before high: three upper bits of an index; bit 3 is set
	//	    where δ is negative
	//	48  4 uint16: four s of three bits each; the four bits above those are, from
	//	    the lowest on, the bits of d: F16
	IQ1_M

	// IQ2_XXS is 8 blocks of 32 in 66 bytes: x = d·(2s+1)/8·g, where g is ±8, ±25 or
	// ±43, eight of whose magnitudes are looked up in a grid of 256
	//
	//	0  d: F16
	//	2  8 bytes a block: four indices; then 32 bits: the signs of 8 elements in 7
	//	   bits each, four times, and s in the upper 4. The eighth sign makes the
	//	   number of negative ones even.
	IQ2_XXS

	// IQ2_XS is 16 blocks of 16 in 74 bytes: x is as in IQ2_XXS, with a grid of 512
	//
	//	0   d: F16
	//	2   32 uint16, of 8 elements each: 9 bits of index and 7 of signs
	//	66  16 nibbles, low before high: s
	IQ2_XS

	// IQ2_S is 16 blocks of 16 in 82 bytes: x is as in IQ2_XXS, with a grid of 1024
	//
	//	0   d: F16
	//	2   32 bytes: the lower 8 bits of the indices
	//	34  32 bytes: the signs of 8 elements each
	//	66  8 bytes: two upper bits of four indices each
	//	74  16 nibbles, low before high: s
	IQ2_S

	// IQ3_XXS is 8 blocks of 32 in 98 bytes: x = d·(2s+1)/4·g, where the magnitude of
	// g is one of 4, 12, 20, 28, 36, 44, 52 and 62, four of which are looked up in a
	// grid of 256
	//
	//	0   d: F16
	//	2   64 bytes: the indices
	//	66  8 uint32: signs and s of a block, as in IQ2_XXS
	IQ3_XXS

	// IQ3_S is 8 blocks of 32 in 110 bytes: x = d·(2s+1)·g, where the magnitude of g
	// is odd, up to 15, with a grid of 512
	//
	//	0    d: F16
	//	2    64 bytes: the lower 8 bits of the indices
	//	66   8 bytes: the upper bits of eight indices each
	//	74   32 bytes: the signs of 8 elements each
	//	106  8 nibbles, low before high: s
	IQ3_S

	// IQ4_NL is a block of 32 in 18 bytes: x = d·levels[q]; the 16 levels lie closer
	// together near zero
	//
	//	0  d: F16
	//	2  16 bytes of nibbles as in Q4_0
	IQ4_NL

	// IQ4_XS is 8 blocks of 32 in 136 bytes: x = d·(scale[j]-32)·levels[q], with the
	// levels of IQ4_NL
	//
	//	0  d: F16
	//	2  8 pairs of bits: the upper two bits of the scales
	//	4  8 nibbles, low before high: the lower four
	//	8  16 bytes a block: nibbles as in Q4_0
	IQ4_XS

	// TQ1_0 is a block of 256 in 54 bytes: x = d·(q-1), where q is 0, 1 or 2
	//
	//	0   52 bytes: five q each, or four in the last 4 bytes, as a fraction of 256 in
	//	    base 3; the bytes are 32, 16 and 4, and the n-th digits of each group are
	//	    elements that follow each other
	//	52  d: F16
	TQ1_0

	// TQ2_0 is a block of 256 in 66 bytes: x = d·(q-1)
	//
	//	0   64 bytes: the q as in Q2_K
	//	64  d: F16
	TQ2_0

	// MXFP4 is a block of 32 in 17 bytes, of the OCP Microscaling Formats: x = 2^(e-127)·q,
	// where q is a floating-point number of 4 bits, E2M1
	//
	//	0  e: uint8
	//	1  16 bytes of nibbles as in Q4_0
	MXFP4

	// NVFP4 is 4 blocks of 16 in 36 bytes: x = d[j]·q, with q as in MXFP4
	//
	//	0  d: 4 unsigned numbers with 4 bits of exponent and 3 of mantissa, UE4M3
	//	4  8 bytes a block: its first 8 q in the low nibbles, the others in the high ones
	NVFP4

	// Q1_0 is a block of 128 in 18 bytes: x = d where the element's bit is set, else -d
	//
	//	0  d: F16
	//	2  16 bytes: bit i%8 of byte i/8 is element i's
	Q1_0

	// Q2_0 is a block of 64 in 18 bytes: x = d·(q-1), where q is from 0 to 3
	//
	//	0  d: F16
	//	2  16 bytes: bits i%4·2 and the next of byte i/4 are q[i]
	Q2_0

	I32 // 32-bit integers: tokens, positions, tables
)

var layouts = [...]struct {
	name         string
	elems, bytes int
}{
	F32:     {"F32", 1, 4},
	F16:     {"F16", 1, 2},
	BF16:    {"BF16", 1, 2},
	Q8_0:    {"Q8_0", 32, 34},
	Q4_0:    {"Q4_0", 32, 18},
	Q4_1:    {"Q4_1", 32, 20},
	Q5_0:    {"Q5_0", 32, 22},
	Q5_1:    {"Q5_1", 32, 24},
	Q2_K:    {"Q2_K", 256, 84},
	Q3_K:    {"Q3_K", 256, 110},
	Q4_K:    {"Q4_K", 256, 144},
	Q5_K:    {"Q5_K", 256, 176},
	Q6_K:    {"Q6_K", 256, 210},
	IQ1_S:   {"IQ1_S", 256, 50},
	IQ1_M:   {"IQ1_M", 256, 56},
	IQ2_XXS: {"IQ2_XXS", 256, 66},
	IQ2_XS:  {"IQ2_XS", 256, 74},
	IQ2_S:   {"IQ2_S", 256, 82},
	IQ3_XXS: {"IQ3_XXS", 256, 98},
	IQ3_S:   {"IQ3_S", 256, 110},
	IQ4_NL:  {"IQ4_NL", 32, 18},
	IQ4_XS:  {"IQ4_XS", 256, 136},
	TQ1_0:   {"TQ1_0", 256, 54},
	TQ2_0:   {"TQ2_0", 256, 66},
	MXFP4:   {"MXFP4", 32, 17},
	NVFP4:   {"NVFP4", 64, 36},
	Q1_0:    {"Q1_0", 128, 18},
	Q2_0:    {"Q2_0", 64, 18},
	I32:     {"I32", 1, 4},
}

// WeightTypes returns the types that a weight may have, the float ones first.
func WeightTypes() Types {
	types := make(Types, 0, Q2_0)
	for t := F32; t <= Q2_0; t++ {
		types = append(types, t)
	}
	return types
}

// Quantized says whether the type stores integers with scales. A product with
// such a weight quantizes its other side too.
func (t Type) Quantized() bool { return t >= Q8_0 && t <= Q2_0 }

// Types is a list of types that prints as a sentence has it.
type Types []Type

// String returns the names, with commas between them.
func (t Types) String() string {
	names := make([]string, len(t))
	for i, t := range t {
		names[i] = t.String()
	}
	return strings.Join(names, ", ")
}

// String returns the type's name as files and flags spell it, in upper case.
func (t Type) String() string {
	if int(t) < len(layouts) && layouts[t].name != "" {
		return layouts[t].name
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Block returns how many elements a block of the type has and the bytes that a
// file stores it in. Both are 0 for a type that doesn't exist.
func (t Type) Block() (elems, bytes int) {
	if int(t) >= len(layouts) {
		return 0, 0
	}
	return layouts[t].elems, layouts[t].bytes
}

// RowBytes returns the bytes of a row of cols elements as a file stores it. The
// error says so where cols isn't a whole number of blocks, or the bytes are more than memory
// can hold.
func (t Type) RowBytes(cols int) (int64, error) {
	elems, bytes := t.Block()
	switch {
	case elems == 0:
		return 0, fmt.Errorf("%v is not a type that Leat computes with", t)
	case cols < 0 || cols%elems != 0:
		return 0, fmt.Errorf("a row of %d elements is not a whole number of %v blocks of %d", cols, t, elems)
	case int64(cols/elems) > math.MaxInt64/int64(bytes):
		return 0, fmt.Errorf("a row of %d elements of %v has more bytes than memory can hold", cols, t)
	}
	return int64(cols/elems) * int64(bytes), nil
}
