package main

// A header is what a unit of blocks shares.
type header int

const (
	noHeader header = iota
	half            // d: F16
	halfPair        // d and a minimum: F16
	exponent        // d is a power of two
)

func (h header) bytes() int { return [...]int{0, 32, 64, 16}[h] }

// scales are those of a block of 32 columns, as in package blocks.
type scales int

const (
	noScales   scales = iota
	one               // S: int8
	oneMinimum        // S, M: uint8
	two               // S of each half: int8
	twoNibbles        // S of each half: four bits
	twoMinima         // S and M of each half: four bits
	twoFloats         // a float of each half
)

func (s scales) bytes() int   { return 16 * [...]int{0, 1, 2, 2, 1, 2, 2}[s] }
func (s scales) halves() bool { return s >= two }

// A form says how a kernel's weights lie in a panel and what they stand for: what
// blocks.Form says, and what a kernel makes of it. Types whose forms differ only in
// what a kernel is told when it is called, in a decoding, share a kernel.
type form struct {
	name   string
	bits   int // of a code
	header header
	scales scales
	unit   int // blocks that share a header; 0: the decoding says it

	// The unsigned values that are multiplied, those of the codes plus offset. Of the
	// forms with a lookup they are in the decoding, which also has a factor of d.
	lookup  bool
	offset  int
	largest int

	// What the F16 minimum, or the d that stands for it, is multiplied by.
	minimum float64
	// Few numbers of rows have a kernel of their own.
	rare bool
}

var forms = []form{
	{name: "Q8_0", bits: 8, header: half, unit: 1, offset: 128, largest: 255},
	{name: "Q4_0", bits: 4, header: half, unit: 1, offset: 8, largest: 15},
	{name: "Q4_1", bits: 4, header: halfPair, unit: 1, largest: 15, minimum: -1. / 8},
	{name: "Q5_0", bits: 5, header: half, unit: 1, offset: 16, largest: 31},
	{name: "Q5_1", bits: 5, header: halfPair, unit: 1, largest: 31, minimum: -1. / 8},

	{name: "Q2_K", bits: 2, header: halfPair, scales: twoMinima, unit: 8, largest: 3, minimum: 1. / 8},
	{name: "Q4_K", bits: 4, header: halfPair, scales: oneMinimum, unit: 8, largest: 15, minimum: 1. / 8},
	{name: "Q5_K", bits: 5, header: halfPair, scales: oneMinimum, unit: 8, largest: 31, minimum: 1. / 8},
	{name: "Q6_K", bits: 6, header: half, scales: two, unit: 8, offset: 32, largest: 63},

	// Levels4 is IQ4_NL. Scaled4 is IQ4_XS, IQ3_S and IQ3_XXS, Scaled3 is IQ2_XXS, and
	// Halves3 is Q3_K, IQ2_XS and IQ2_S.
	{name: "Levels4", bits: 4, header: half, unit: 1, lookup: true, offset: 128, largest: 255},
	{name: "Scaled4", bits: 4, header: half, scales: one, unit: 8, lookup: true, offset: 128, largest: 255},
	{name: "Scaled3", bits: 3, header: half, scales: one, unit: 8, lookup: true, offset: 128, largest: 255, rare: true},
	{name: "Halves3", bits: 3, header: half, scales: two, unit: 8, lookup: true, offset: 128, largest: 255},
	{name: "MXFP4", bits: 4, header: exponent, unit: 1, lookup: true, offset: 16, largest: 31},
	{name: "NVFP4", bits: 4, scales: twoFloats, unit: 1, lookup: true, offset: 16, largest: 31},

	{name: "IQ1_S", bits: 2, header: half, scales: oneMinimum, unit: 8, largest: 3, minimum: 1. / 64, rare: true},
	{name: "IQ1_M", bits: 3, header: half, scales: twoNibbles, unit: 8, lookup: true, offset: 16, largest: 31, rare: true},
	// Ternary is TQ1_0, TQ2_0 and Q2_0. A value of Q1_0 is twice its code.
	{name: "Ternary", bits: 2, header: half, offset: 1, largest: 3, rare: true},
	{name: "Q1_0", bits: 1, header: half, unit: 4, offset: 1, largest: 2, rare: true},
}

// hasMinimum says whether a multiple of the activations' sum is added.
func (f form) hasMinimum() bool { return f.minimum != 0 }

// told says whether a kernel is told a decoding.
func (f form) told() bool { return f.lookup || f.unit == 0 }

// split says whether VPMADDUBSW's sums of 16 bits need the values in two nibbles.
func (f form) split() bool { return f.largest > 127 }

// groups returns how many products of VPMADDUBSW, of two columns each, fit in 16 bits.
func (f form) groups() int {
	largest := f.largest
	if f.split() {
		largest = 15
	}
	n := 8
	for n*2*largest*127 > 32767 {
		n /= 2
	}
	return n
}

// block returns the bytes of a block of 32 columns.
func (f form) block() int {
	bytes := f.scales.bytes()
	if f.unit == 1 {
		bytes += f.header.bytes()
	}
	return bytes + 64*f.bits
}

// parts returns where in a block's codes the nibbles, pairs and bits begin; -1 where
// they have no such part.
func (f form) parts() (nibbles, pairs, single int) {
	switch f.bits {
	case 1:
		return -1, -1, 0
	case 2:
		return -1, 0, -1
	case 3:
		return -1, 0, 128
	case 4:
		return 0, -1, -1
	case 5:
		return 0, -1, 256
	case 6:
		return 0, 256, -1
	}
	return -1, -1, -1
}

// A decoding, as in decoding_amd64.go.
const (
	valuesAt = 0
	lowAt    = 16
	highAt   = 32
	factorAt = 48
	unitAt   = 56
)
