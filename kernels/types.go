package kernels

import "fmt"

// Type is how numbers are stored. Its values are this package's own; package
// gguf maps a file's onto them.
type Type uint8

// The types that the op set computes with. A quantized type stores blocks of 32
// elements along a row.
const (
	F32  Type = iota + 1 // IEEE 754 binary32
	F16                  // IEEE 754 binary16
	BF16                 // the upper half of an F32
	Q8_0                 // a block: F16 scale d, 32 int8 q: x = d·q
	Q4_0                 // a block: F16 scale d, 16 bytes: x = d·(nibble-8); low nibbles are elements 0-15, high ones 16-31
	I32                  // 32-bit integers: tokens, positions, tables
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
	I32:  {"I32", 1, 4},
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
