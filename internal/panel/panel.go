// Package panel holds a CPU's weights in panels, and multiplies them.
//
// A panel is 16 rows of a matrix, interleaved so that the 16 lanes of a vector
// work on 16 rows: a panel times a row of activations is 16 outputs, and no sum
// runs across lanes. So the order of each output's sum is that of the columns,
// the same for one row of activations and for many.
//
// In the pictures, c is a column and r a row of the panel. All numbers are
// little-endian. Rows beyond the matrix's last are zeros; of an integer type,
// their scales are.
//
//	F32, F16, BF16: a column after another, 4 or 2 bytes an element
//
//	  | c0: r0 r1 … r15 | c1: r0 r1 … r15 | …
//
// A quantized type's panel is unit after unit, see package blocks for what a unit is. A
// unit has its header and then its blocks of 32 columns:
//
//	| 16 d, F16 | 16 m, F16 | block 0 | block 1 | …
//	| 16 exponents | block |                              MXFP4
//	| block |                                             NVFP4
//
// A block has its scales, a byte for each of the 16 lanes and then the same of its second
// scale or its minimum, and then the parts of its codes. Each part is vectors of 64 bytes:
// r0: four bytes, r1: four bytes, … r15.
//
//	bytes    | c0-3 | c4-7 | … | c28-31 |                  all of codes of 8 bits
//	nibbles  | c0-3 and c4-7 | … | c24-27 and c28-31 |     the lower bits of 4, 5 or 6
//	pairs    | c0-3, c4-7, c8-11 and c12-15 | c16-19, c20-23, c24-27 and c28-31 |
//	                                       2 bits, the lower of 3, or the upper two of 6
//	bits     | all columns |                               1 bit, or the upper of 3 or 5
//
// What is named first in a vector lies in the lowest bits of its bytes. The codes are
// those of the form: Q8_0's are q+128, since the products' instructions want an unsigned
// side, and those of the types that are looked up in grids are the values' own.
//
// A panel's stride is padded to a multiple of 64 bytes.
//
// The package also has the inner loops of the CPU's other ops, since they too
// are written once a SIMD level.
package panel

import (
	"fmt"
	"math"

	"github.com/leat-dev/leat/internal/blocks"
	"github.com/leat-dev/leat/kernels"
)

//go:generate go run -C _gen . -kernels float -pkg panel -out ../float_amd64.s -stubs ../float_amd64.go
//go:generate go run -C _gen . -kernels bf16 -pkg panel -out ../bf16_amd64.s -stubs ../bf16_amd64.go
//go:generate go run -C _gen . -kernels integer_vnni -pkg panel -out ../integer_vnni_amd64.s -stubs ../integer_vnni_amd64.go
//go:generate go run -C _gen . -kernels integer_avx512 -pkg panel -out ../integer_avx512_amd64.s -stubs ../integer_avx512_amd64.go
//go:generate go run -C _gen . -kernels integer_avxvnni -pkg panel -out ../integer_avxvnni_amd64.s -stubs ../integer_avxvnni_amd64.go
//go:generate go run -C _gen . -kernels integer_avx2 -pkg panel -out ../integer_avx2_amd64.s -stubs ../integer_avx2_amd64.go
//go:generate go run -C _gen . -kernels quantize -pkg panel -out ../quantize_amd64.s -stubs ../quantize_amd64.go
//go:generate go run -C _gen . -kernels attention -pkg panel -out ../attention_amd64.s -stubs ../attention_amd64.go
//go:generate go run -C _gen . -kernels elementwise -pkg panel -out ../elementwise_amd64.s -stubs ../elementwise_amd64.go
//go:generate go run -C _gen . -kernels activation -pkg panel -out ../activation_amd64.s -stubs ../activation_amd64.go
//go:generate go run -C _gen . -kernels sampling -pkg panel -out ../sampling_amd64.s -stubs ../sampling_amd64.go
//go:generate go run ./genarm64

// Lanes is the number of rows in a panel.
const Lanes = 16

// Block is the number of columns that share a scale in quantized activations, and
// whose products with quantized weights are summed as integers.
const Block = blocks.Block

// Segment is the number of columns that a float product sums on their own
// before it adds them to the output.
const Segment = 256

const align = 64

// unit returns the smallest number of columns that a panel of type t holds, and
// their bytes; 0 for a type without panels.
func unit(t kernels.Type) (cols, bytes int) {
	switch {
	case t == kernels.F32:
		return 1, 4 * Lanes
	case t == kernels.F16 || t == kernels.BF16:
		return 1, 2 * Lanes
	case t.Quantized():
		return layouts[t].form.Cols, layouts[t].unit
	}
	return 0, 0
}

// Count returns the number of panels that rows rows fill.
func Count(rows int) int {
	n := rows / Lanes
	if rows%Lanes > 0 {
		n++
	}
	return n
}

// Stride returns the bytes from one panel to the next, a multiple of 64. The
// error says why a type or a number of columns has no panels.
func Stride(t kernels.Type, cols int) (int64, error) {
	u, bytes := unit(t)
	switch {
	case u == 0:
		return 0, fmt.Errorf("weights of %v have no panels; these have: %v", t, kernels.WeightTypes())
	case cols < 1 || cols%u != 0:
		return 0, fmt.Errorf("%d columns of %v weights: a positive multiple of %d is needed", cols, t, u)
	case int64(cols/u) > (math.MaxInt64-align)/int64(bytes):
		return 0, fmt.Errorf("%d columns of %v weights are more than memory can hold", cols, t)
	}
	return (int64(cols/u)*int64(bytes) + align - 1) / align * align, nil
}

// Bytes returns the bytes of all panels of a matrix.
func Bytes(t kernels.Type, rows, cols int) (int64, error) {
	stride, err := Stride(t, cols)
	switch {
	case err != nil:
		return 0, err
	case rows < 0:
		return 0, fmt.Errorf("a matrix of %d rows", rows)
	case int64(Count(rows)) > math.MaxInt64/stride:
		return 0, fmt.Errorf("%d rows of %d columns of %v weights are more than memory can hold", rows, cols, t)
	}
	return int64(Count(rows)) * stride, nil
}
