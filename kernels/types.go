package kernels

import (
	"fmt"
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

	I32 // 32-bit integers: tokens, positions, tables
)

var layouts = [...]struct {
	name         string
	elems, bytes int
}{
	F32:  {"F32", 1, 4},
	F16:  {"F16", 1, 2},
	BF16: {"BF16", 1, 2},
	Q8_0: {"Q8_0", 32, 34},
	Q4_0: {"Q4_0", 32, 18},
	Q4_K: {"Q4_K", 256, 144},
	Q6_K: {"Q6_K", 256, 210},
	I32:  {"I32", 1, 4},
}

// WeightTypes returns the types that a weight may have, the float ones first.
func WeightTypes() Types { return Types{F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q6_K} }

// Quantized says whether the type stores integers with scales. A product with
// such a weight quantizes its other side too.
func (t Type) Quantized() bool { return t >= Q8_0 && t <= Q6_K }

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
// error says so where cols isn't a whole number of blocks.
func (t Type) RowBytes(cols int) (int64, error) {
	elems, bytes := t.Block()
	switch {
	case elems == 0:
		return 0, fmt.Errorf("%v is not a type that Leat computes with", t)
	case cols < 0 || cols%elems != 0:
		return 0, fmt.Errorf("a row of %d elements is not a whole number of %v blocks of %d", cols, t, elems)
	}
	return int64(cols/elems) * int64(bytes), nil
}
