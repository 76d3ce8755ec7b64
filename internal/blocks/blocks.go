// Package blocks unpacks the blocks of quantized weights.
//
// Files have some twenty-five block types, each with a bit layout of its own. Unpacked,
// they all have one shape, the unit: up to 256 columns of one row with a code for each
// column, small integer scales for each 16 or 32 columns, and one or two floating-point
// numbers for all of them. A Form says for a type how codes and scales stand for
// numbers. So a backend packs its weights, and multiplies by them, by the form alone.
//
// The package knows files' layouts and nothing of panels, devices or products.
package blocks

import (
	"encoding/binary"
	"math"

	"github.com/leat-dev/leat/kernels"
)

// Group is the smallest number of columns that share a scale, and Block the number
// that a product sums as integers.
const (
	Group = 16
	Block = 32
)

// MaxCols is the largest number of columns of a unit.
const MaxCols = 256

// Header says which numbers the whole unit shares.
type Header uint8

// The headers, in their order in a Unit.
const (
	NoHeader Header = iota
	Half            // d: F16
	HalfPair        // d and m: F16
	Exponent        // d is a power of two, given by its exponent: E8M0, halved
)

// Scales says which scales a block of 32 columns has.
type Scales uint8

// The kinds of scales. Their bytes in a Unit are those that a panel holds.
const (
	NoScales    Scales = iota
	One                // S: int8
	OneMinimum         // S, M: uint8
	Two                // S of the first 16 columns and of the others: int8
	TwoNibbles         // the same as unsigned numbers of four bits: the first in the low nibble
	TwoMinima          // a byte for each 16 columns: S in the low nibble, M in the high one
	TwoFloats          // a byte for each 16 columns: UE4M3, halved
	scalesCount = TwoFloats + 1
)

// Bytes returns the bytes of a block's scales.
func (s Scales) Bytes() int { return [scalesCount]int{0, 1, 2, 2, 1, 2, 2}[s] }

// Halves says whether the two halves of a block have scales of their own.
func (s Scales) Halves() bool { return s >= Two }

// Form describes what a unit's codes and scales stand for:
//
//	weight = d·S·value - dmin·M, where value is Levels[code] or code - Offset
//
// d is the header's first number divided by 2^Shift. dmin is its second number; or, of
// a type whose header is a pair but which has no scales, its second number is -dmin·M.
// A factor that a type doesn't have is 1, and a minimum that it doesn't have is 0.
type Form struct {
	Cols     int // of a unit, a multiple of Block
	Bits     int // of a code: 1, 2, 3, 4, 5, 6 or 8
	Offset   int
	Levels   []int8 // a value for each code, 1<<Bits of them; nil: the code less Offset
	Header   Header
	Shift    int
	MinimumD bool // dmin is d, after the division by 2^Shift, and d is as before it
	Scales   Scales

	unpack func(u *Unit, src []byte)
	bytes  int // of a file's block, which holds units of them
	units  int
}

// Unit is one row's unit, unpacked.
type Unit struct {
	D, M   uint16                    // the header: bits of F16, or D is an exponent
	Scales [2 * MaxCols / Block]byte // those of each block after those of the one before
	Codes  [MaxCols]byte
}

// For returns the form of a quantized type, nil for any other type.
func For(t kernels.Type) *Form {
	if int(t) < len(forms) {
		return forms[t]
	}
	return nil
}

// Units returns how many units a row of cols columns has. cols must be whole blocks of
// the file's.
func (f *Form) Units(cols int) int { return cols / f.Cols }

// Unpack reads unit i of a row that lies in src as a file stores it.
func (f *Form) Unpack(u *Unit, src []byte, i int) {
	block := src[i/f.units*f.bytes:][:f.bytes]
	if f.units == 1 {
		f.unpack(u, block)
		return
	}
	unpackNVFP4(u, block, i%f.units)
}

// Value returns what a code stands for, before any scale.
func (f *Form) Value(code byte) int {
	if f.Levels != nil {
		return int(f.Levels[code])
	}
	return int(code) - f.Offset
}

// Largest returns the largest magnitude of a value.
func (f *Form) Largest() int {
	most := 0
	for c := range 1 << f.Bits {
		v := f.Value(byte(c))
		most = max(most, v, -v)
	}
	return most
}

// HeaderScale returns d and dmin of a header, as float32. dmin of a form without
// minima is 0.
func (f *Form) HeaderScale(d, m uint16) (scale, minimum float32) {
	switch f.Header {
	case NoHeader:
		return 1, 0
	case Exponent:
		return PowerOfTwo(byte(d)), 0
	}
	scale = kernels.Float16frombits(d)
	shifted := scale / float32(int(1)<<f.Shift)
	if f.MinimumD {
		return scale, shifted
	}
	if f.Header == HalfPair {
		minimum = kernels.Float16frombits(m)
	}
	return shifted, minimum
}

// Integers returns the integer scales of a block from its bytes: S and M of each half.
// They are the same for both where the block has one, 1 and 0 where it has none.
func (s Scales) Integers(b []byte) (scale, minimum [2]int32) {
	switch s {
	case One:
		v := int32(int8(b[0]))
		return [2]int32{v, v}, minimum
	case OneMinimum:
		v, m := int32(b[0]), int32(b[1])
		return [2]int32{v, v}, [2]int32{m, m}
	case Two:
		return [2]int32{int32(int8(b[0])), int32(int8(b[1]))}, minimum
	case TwoNibbles:
		return [2]int32{int32(b[0] & 15), int32(b[0] >> 4)}, minimum
	case TwoMinima:
		return [2]int32{int32(b[0] & 15), int32(b[1] & 15)}, [2]int32{int32(b[0] >> 4), int32(b[1] >> 4)}
	}
	return [2]int32{1, 1}, minimum
}

// Values writes the float32 that the unit's codes stand for to dst, f.Cols of them.
// Each operation is rounded, in the order in which Form has them.
func (f *Form) Values(dst []float32, u *Unit) {
	d, dmin := f.HeaderScale(u.D, u.M)
	n := f.Scales.Bytes()
	for j := range f.Cols / Group {
		b := u.Scales[j/2*n:][:n]
		var scale, minimum float32
		if f.Scales == TwoFloats {
			scale = SmallFloat(b[j%2])
		} else {
			s, m := f.Scales.Integers(b)
			scale, minimum = d*float32(s[j%2]), float32(dmin*float32(m[j%2]))
		}
		if f.Header == HalfPair && f.Scales == NoScales {
			minimum = -dmin
		}
		for c := j * Group; c < (j+1)*Group; c++ {
			if f.MinimumD {
				// Both terms are multiples of dmin. A d of 0 leaves the sign of the rest.
				s, m := f.Scales.Integers(b)
				dst[c] = dmin * float32(s[0]*int32(f.Value(u.Codes[c]))<<f.Shift-m[0])
				continue
			}
			v := float32(scale * float32(f.Value(u.Codes[c])))
			if f.HasMinimum() {
				v -= minimum
			}
			dst[c] = v
		}
	}
}

// HasMinimum says whether a block has a minimum to subtract.
func (f *Form) HasMinimum() bool {
	return f.Header == HalfPair || f.MinimumD
}

// PowerOfTwo returns 2^(e-128), the half of what the E8M0 exponent e stands for.
// Exponent 255, which stands for no number, is taken as 2^127.
func PowerOfTwo(e byte) float32 {
	if e < 2 {
		return math.Float32frombits(0x00200000 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

// SmallFloat returns half of what the lower seven bits of e stand for as UE4M3:
// four bits of exponent, with a bias of 7, and three of mantissa.
func SmallFloat(e byte) float32 {
	return math.Float32frombits(uint32(e&127)<<20) * 0x1p119
}

var le = binary.LittleEndian
