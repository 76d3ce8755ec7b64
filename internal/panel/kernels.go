package panel

import (
	"fmt"
	"strings"

	"github.com/leat-dev/leat/kernels"
)

// Kernels are the products and the other inner loops of one SIMD level. Integer
// products give the same bits at every level, and so does what says so; the rest
// agrees within rounding. Where a result is NaN, its payload isn't part of that.
//
// A call takes its memory from the caller and runs on the caller's goroutine.
// Slices too short for the shape, and a type of the other family, are mistakes
// in the program, and panic.
type Kernels struct {
	// Level is "portable"; "avx2", "avx-vnni", "avx512", "avx512-vnni" or "avx512-bf16";
	// or "neon", "neon-dot" or "neon-i8mm".
	Level string

	// The kernels of a type multiply different numbers of rows at once: the
	// most first, and 1 last.
	floats   [3]([]floatKernel) // from F32 on
	dotsBF16 []bf16Kernel
	ints     ints
	quantize func(dst []byte, x []float32)

	roundsBF16 bool
	toBF16     func(dst []uint16, x []float32) // whole vectors of 16; may be nil

	// Attention's.
	soften       func(s []float32, count int, scale float32, m, l, c []float32)
	score        [2][]scoreKernel // F32 and F16; may be none
	weigh        [2][]weighKernel
	expandKeys   func(dst []float32, src []byte, blocks int)
	expandValues func(dst []float32, src []byte, count, blocks int)

	// Element by element.
	sum, sumSquares            func(x []float32) float64
	scale                      func(dst, x, gain []float32, f float32)
	standardize                func(dst, x, gain []float32, mean, f float32)
	divide, multiply, subtract func(dst, x []float32, by float32)
	add                        func(dst, x []float32)
	toF16                      func(dst []uint16, x []float32)         // whole vectors of 16
	rotatePairs                func(x, cos, sin []float32)             // whole fours of pairs
	rotateHalves               func(first, second, cos, sin []float32) // whole eights
	activate                   [functions]func(dst, x []float32)
	gated                      [functions]func(dst, gate, up []float32)
	softCap                    func(dst, x []float32, most float32)

	largest func(x []float32) float32
	find    func(x []float32, v float32) int

	// Sampling's: reductions of a row of logits.
	count        func(x []float32, least float32) int
	filter       func(values []float32, ids []int32, x []float32, from, to float32) int
	weights      func(dst []uint64, x []float32, largest, scale float32)
	sumWeights   func(x []float32, from, largest, scale float32) uint64
	splitWeights func(x []float32, from, over, largest, scale float32) (sum, sumOver uint64)
	sumExp       func(x []float32, largest float32) float64
}

// ints has the kernels of each quantized type, from Q8_0 on.
type ints [kernels.Q2_0 - kernels.Q8_0 + 1][]intKernel

// with returns the kernels of all types, some of them those of more.
func (k ints) with(more map[kernels.Type][]intKernel) ints {
	for t, v := range more {
		k[t-kernels.Q8_0] = v
	}
	return k
}

type floatKernel struct {
	rows int
	run  func(p []byte, cols int, x []float32, xStride int, y []float32, yStride int)
}

type intKernel struct {
	rows int
	run  func(p []byte, blocks int, x []byte, y []float32, yStride int)
}

// Levels returns the levels that this machine can run, best first.
func Levels() []string {
	var names []string
	for _, k := range supported() {
		names = append(names, k.Level)
	}
	return names
}

// For returns the kernels of a level. The error lists the levels that this
// machine can run.
func For(level string) (*Kernels, error) {
	for _, k := range supported() {
		if k.Level == level {
			return k, nil
		}
	}
	return nil, fmt.Errorf("SIMD level %q: this build on this machine has %s", level, strings.Join(Levels(), ", "))
}

// Float multiplies panel p of F32, F16 or BF16 weights by n rows of cols
// float32: output lane l of row r is y[r·yStride+l], and row r of the
// activations starts at x[r·xStride].
//
// A segment of 256 columns is summed in order from +0 by a fused multiply-add
// a column, or by a multiplication and an addition at the portable level; the
// first segment's sum is the output, and the others' are added to it in order.
func (k *Kernels) Float(t kernels.Type, p []byte, cols int, x []float32, xStride, n int, y []float32, yStride int) {
	variants := k.floats[t-kernels.F32]
	if n <= 0 {
		return
	}
	if cols < 1 || xStride < 0 || yStride < 0 {
		panic(fmt.Sprintf("panel: product of %d columns, strides %d and %d", cols, xStride, yStride))
	}
	// The kernels trust these lengths.
	_, bytes := unit(t)
	p, x, y = p[:cols*bytes], x[:(n-1)*xStride+cols], y[:(n-1)*yStride+Lanes]
	r := 0
	for _, v := range variants {
		for ; n-r >= v.rows; r += v.rows {
			v.run(p, cols, x[r*xStride:], xStride, y[r*yStride:], yStride)
		}
	}
}

// Int multiplies panel p of quantized weights by n quantized rows of cols
// columns, from row from on: output lane l of row from+r is y[r·yStride+l].
//
// Of each block of 32 columns exact integer sums are taken: s of the products with the
// codes' values, and s0 and s1 of those of its two halves. Where the type has minima, b,
// b0 and b1 are -8 times the same sums of the activations. Then, blocks in order and
// from +0 on, each operation is rounded to float32, none fused with another:
//
//	y += s·(d·dx)                                       d alone
//	y += s·((d·S)·dx)                                   a scale for 32 columns
//	y += ((d·S)·s + (dmin/8·M)·b)·dx                    a scale and a minimum
//	y += (d·(S0·s0 + S1·s1))·dx                         a scale for 16 columns
//	y += (d·(S0·s0 + S1·s1) + dmin/8·(M0·b0 + M1·b1))·dx    and a minimum
//	y += (f0·s0 + f1·s1)·dx                             floats for 16 columns
//
// In the fourth and fifth the sums in brackets of integers are exact integers. S and M
// are 1 where a type has d and a minimum, m = -dmin·M, but no integer scales.
func (k *Kernels) Int(t kernels.Type, p []byte, cols int, a *Activations, from, n int, y []float32, yStride int) {
	variants := k.ints[t-kernels.Q8_0]
	if n <= 0 {
		return
	}
	u, bytes := unit(t)
	if cols != a.cols || cols%u != 0 || yStride < 0 {
		panic(fmt.Sprintf("panel: product of %d columns of %v with %d, stride %d", cols, t, a.cols, yStride))
	}
	blocks, stride := cols/Block, a.stride()
	p, y = p[:cols/u*bytes], y[:(n-1)*yStride+Lanes]
	x := a.rows(from, n)
	r := 0
	for _, v := range variants {
		for ; n-r >= v.rows; r += v.rows {
			v.run(p, blocks, x[r*stride:], y[r*yStride:], yStride)
		}
	}
}

// Quantize writes x, a.Cols() long, to a row of a. In each block of 32,
// d = max|x|/127 and q = x·(1/d), rounded half to even. Where 1/d is infinite,
// since all is zero or too small, the block is zero. Where the block holds an
// infinity or a NaN, d is NaN, and so is all that is multiplied by the row.
func (k *Kernels) Quantize(a *Activations, row int, x []float32) {
	k.quantize(a.rows(row, 1), x[:a.cols])
}
