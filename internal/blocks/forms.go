package blocks

import "github.com/leat-dev/leat/kernels"

// What the codes of the types with levels stand for. The four-bit floats (E2M1) are
// doubled, which makes them integers; the grids' values carry their signs.
var (
	levelsNonlinear = []int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	levelsFloat     = []int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
	levelsSign      = []int8{-1, 1}
	levelsIQ1       = []int8{-7, 1, 9, 0, -9, -1, 7, 0}
	levelsIQ2       = []int8{8, 25, 43, 0, -8, -25, -43, 0}
	levelsIQ3       = []int8{4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62}
	levelsOdd       = []int8{1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15}
)

var forms = [...]*Form{
	kernels.Q8_0: {Cols: 32, Bits: 8, Offset: 128, Header: Half, unpack: unpackQ8_0},
	kernels.Q4_0: {Cols: 32, Bits: 4, Offset: 8, Header: Half, unpack: unpackQ4_0},
	kernels.Q4_1: {Cols: 32, Bits: 4, Header: HalfPair, unpack: unpackQ4_1},
	kernels.Q5_0: {Cols: 32, Bits: 5, Offset: 16, Header: Half, unpack: unpackQ5_0},
	kernels.Q5_1: {Cols: 32, Bits: 5, Header: HalfPair, unpack: unpackQ5_1},

	kernels.Q2_K: {Cols: 256, Bits: 2, Header: HalfPair, Scales: TwoMinima, unpack: unpackQ2_K},
	kernels.Q3_K: {Cols: 256, Bits: 3, Offset: 4, Header: Half, Scales: Two, unpack: unpackQ3_K},
	kernels.Q4_K: {Cols: 256, Bits: 4, Header: HalfPair, Scales: OneMinimum, unpack: unpackQ4_K},
	kernels.Q5_K: {Cols: 256, Bits: 5, Header: HalfPair, Scales: OneMinimum, unpack: unpackQ5_K},
	kernels.Q6_K: {Cols: 256, Bits: 6, Offset: 32, Header: Half, Scales: Two, unpack: unpackQ6_K},

	kernels.IQ1_S:   {Cols: 256, Bits: 2, Header: Half, Shift: 3, MinimumD: true, Scales: OneMinimum, unpack: unpackIQ1_S},
	kernels.IQ1_M:   {Cols: 256, Bits: 3, Levels: levelsIQ1, Header: Half, Shift: 3, Scales: TwoNibbles, unpack: unpackIQ1_M},
	kernels.IQ2_XXS: {Cols: 256, Bits: 3, Levels: levelsIQ2, Header: Half, Shift: 3, Scales: One, unpack: unpackIQ2_XXS},
	kernels.IQ2_XS:  {Cols: 256, Bits: 3, Levels: levelsIQ2, Header: Half, Shift: 3, Scales: Two, unpack: unpackIQ2_XS},
	kernels.IQ2_S:   {Cols: 256, Bits: 3, Levels: levelsIQ2, Header: Half, Shift: 3, Scales: Two, unpack: unpackIQ2_S},
	kernels.IQ3_XXS: {Cols: 256, Bits: 4, Levels: levelsIQ3, Header: Half, Shift: 2, Scales: One, unpack: unpackIQ3_XXS},
	kernels.IQ3_S:   {Cols: 256, Bits: 4, Levels: levelsOdd, Header: Half, Scales: One, unpack: unpackIQ3_S},
	kernels.IQ4_NL:  {Cols: 32, Bits: 4, Levels: levelsNonlinear, Header: Half, unpack: unpackQ4_0},
	kernels.IQ4_XS:  {Cols: 256, Bits: 4, Levels: levelsNonlinear, Header: Half, Scales: One, unpack: unpackIQ4_XS},

	kernels.TQ1_0: {Cols: 256, Bits: 2, Offset: 1, Header: Half, unpack: unpackTQ1_0},
	kernels.TQ2_0: {Cols: 256, Bits: 2, Offset: 1, Header: Half, unpack: unpackTQ2_0},
	kernels.MXFP4: {Cols: 32, Bits: 4, Levels: levelsFloat, Header: Exponent, unpack: unpackMXFP4},
	kernels.NVFP4: {Cols: 32, Bits: 4, Levels: levelsFloat, Scales: TwoFloats},
	kernels.Q1_0:  {Cols: 128, Bits: 1, Levels: levelsSign, Header: Half, unpack: unpackQ1_0},
	kernels.Q2_0:  {Cols: 64, Bits: 2, Offset: 1, Header: Half, unpack: unpackQ2_0},
}

func init() {
	for t, f := range forms {
		if f != nil {
			elems, bytes := kernels.Type(t).Block()
			f.bytes, f.units = bytes, elems/f.Cols
		}
	}
}
