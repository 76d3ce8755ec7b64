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
//	Q8_0: a block of 32 columns after another, 544 bytes each
//
//	  | 16 scales, F16 | c0-3 | c4-7 | … | c28-31 |
//
//	  where c0-3 is 64 bytes: r0: c0 c1 c2 c3, r1: c0 c1 c2 c3, … r15.
//	  A byte holds q+128: the products' instructions want an unsigned side.
//
//	Q4_0: a block of 32 columns after another, 288 bytes each
//
//	  | 16 scales, F16 | c0-3 and c4-7 | c8-11 and c12-15 | … | c24-27 and c28-31 |
//
//	  each of the four 64 bytes as in Q8_0: the first four columns in the
//	  bytes' low nibbles, the other four in the high ones. A nibble holds q+8,
//	  as in a file.
//
//	Q4_K: a superblock of 256 columns after another, 2368 bytes each
//
//	  | 16 d, F16 | 16 dmin, F16 | block 0 | block 1 | … | block 7 |
//
//	  where a block of 32 columns is 288 bytes, its nibbles as in Q4_0:
//
//	  | 16 scales, uint8 | 16 minima, uint8 | c0-3 and c4-7 | … | c24-27 and c28-31 |
//
//	  A file's scales and minima of 6 bits take a byte here.
//
//	Q6_K: a superblock of 256 columns after another, 3360 bytes each
//
//	  | 16 d, F16 | block 0 | block 1 | … | block 7 |
//
//	  where a block of 32 columns is 416 bytes:
//
//	  | 16 scales of c0-15, int8 | 16 scales of c16-31, int8
//	  | c0-3 and c4-7 | … | c24-27 and c28-31     the lower four bits, as in Q4_0
//	  | c0-3, c4-7, c8-11 and c12-15 | c16-19, c20-23, c24-27 and c28-31 |
//
//	  the last being two 64 bytes with the upper two bits: of the first four
//	  columns in the bytes' lowest bits, of the next four in those above, and so
//	  on. The six bits hold q+32, as in a file.
//
// A panel's stride is padded to a multiple of 64 bytes.
//
// The package also has the inner loops of the CPU's other ops, since they too
// are written once a SIMD level.
package panel

import (
	"fmt"
	"math"

	"github.com/leat-dev/leat/kernels"
)

//go:generate go run -C _gen . -kernels float -pkg panel -out ../float_amd64.s -stubs ../float_amd64.go
//go:generate go run -C _gen . -kernels integer -pkg panel -out ../integer_amd64.s -stubs ../integer_amd64.go
//go:generate go run -C _gen . -kernels quantize -pkg panel -out ../quantize_amd64.s -stubs ../quantize_amd64.go
//go:generate go run -C _gen . -kernels attention -pkg panel -out ../attention_amd64.s -stubs ../attention_amd64.go
//go:generate go run -C _gen . -kernels elementwise -pkg panel -out ../elementwise_amd64.s -stubs ../elementwise_amd64.go
//go:generate go run -C _gen . -kernels activation -pkg panel -out ../activation_amd64.s -stubs ../activation_amd64.go
//go:generate go run -C _gen . -kernels sampling -pkg panel -out ../sampling_amd64.s -stubs ../sampling_amd64.go

// Lanes is the number of rows in a panel.
const Lanes = 16

// Block is the number of columns that share a scale in quantized activations, and
// in Q8_0 and Q4_0 weights.
const Block = 32

// Segment is the number of columns that a float product sums on their own
// before it adds them to the output.
const Segment = 256

const align = 64

// unit returns the smallest number of columns that a panel of type t holds, and
// their bytes; 0 for a type without panels.
func unit(t kernels.Type) (cols, bytes int) {
	switch t {
	case kernels.F32:
		return 1, 4 * Lanes
	case kernels.F16, kernels.BF16:
		return 1, 2 * Lanes
	case kernels.Q8_0:
		return Block, 2*Lanes + Block*Lanes
	case kernels.Q4_0:
		return Block, 2*Lanes + Block*Lanes/2
	case kernels.Q4_K:
		return Super, blocksQ4_K + Super/Block*blockQ4_K
	case kernels.Q6_K:
		return Super, blocksQ6_K + Super/Block*blockQ6_K
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
