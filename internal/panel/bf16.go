package panel

import (
	"fmt"
	"math"

	"github.com/leat-dev/leat/kernels"
)

// RoundsBF16 says whether the machine multiplies BF16 by BF16 faster than float32: then
// products with BF16 weights are those of BF16, whose rows RoundBF16 makes, and not those
// of Float. A level's answer is always the same.
func (k *Kernels) RoundsBF16() bool { return k.roundsBF16 }

// BF16Stride returns the numbers of a row of cols columns that RoundBF16 writes and BF16
// reads.
func BF16Stride(cols int) int { return cols + cols%2 }

// RoundBF16 rounds x to BF16, to nearest and half to even; a NaN stays one, and what is
// beyond the largest BF16 becomes infinite. dst is as long as x.
func (k *Kernels) RoundBF16(dst []uint16, x []float32) {
	dst = dst[:len(x)]
	whole := 0
	if k.toBF16 != nil {
		if whole = len(x) &^ 15; whole > 0 {
			k.toBF16(dst[:whole], x[:whole])
		}
	}
	for i, v := range x[whole:] {
		dst[whole+i] = toBF16(v)
	}
}

func toBF16(x float32) uint16 {
	if x != x {
		return 0x7fc0
	}
	b := math.Float32bits(x)
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// BF16 multiplies panel p of BF16 weights by n rows of cols columns that RoundBF16 wrote:
// output lane l of row r is y[r·yStride+l], and row r starts at x[r·xStride], which is
// even.
//
// A segment of 256 columns is summed in two sums from +0, that of its pairs of columns
// 4i and 4i+1 and that of its pairs 4i+2 and 4i+3; a last column without another is added
// to the first of them, as a pair with zeros. To a sum, the product with the second column of a pair is added first, and then
// that with the first, each by a fused multiply-add that takes subnormal numbers as zeros
// of their signs, and returns such. The segment's sum is that of both; the first segment's
// is the output, and the others' are added to it in order.
//
// That is at every level to the bit. Beside the rounding of the rows, by 1 part in 256
// of each element at most, an output is off by less than (cols/4 + 16)·2⁻²³ of the sum of
// the products' magnitudes, and by cols·2⁻¹²⁵.
func (k *Kernels) BF16(p []byte, cols int, x []uint16, xStride, n int, y []float32, yStride int) {
	if n <= 0 {
		return
	}
	if cols < 1 || xStride < 0 || yStride < 0 {
		panic(fmt.Sprintf("panel: product of %d columns, strides %d and %d", cols, xStride, yStride))
	}
	// The kernels trust these lengths.
	_, bytes := unit(kernels.BF16)
	p, x, y = p[:cols*bytes], x[:(n-1)*xStride+cols], y[:(n-1)*yStride+Lanes]
	r := 0
	for _, v := range k.dotsBF16 {
		for ; n-r >= v.rows; r += v.rows {
			v.run(p, cols, x[r*xStride:], xStride, y[r*yStride:], yStride)
		}
	}
}

// bf16Kernel multiplies some rows of BF16.
type bf16Kernel struct {
	rows int
	run  func(p []byte, cols int, x []uint16, xStride int, y []float32, yStride int)
}

func dotsBF16(p []byte, cols int, x []uint16, _ int, y []float32, _ int) {
	for from := 0; from < cols; from += Segment {
		var sums [2][Lanes]float32
		end := min(from+Segment, cols)
		add := func(c int, sum *[Lanes]float32) {
			for l := range sum {
				sum[l] = multiplyAddFlushed(le.Uint16(p[2*(c*Lanes+l):]), x[c], sum[l])
			}
		}
		for c := from; c+1 < end; c += 2 {
			sum := &sums[c/2%2]
			add(c+1, sum)
			add(c, sum)
		}
		if (end-from)%2 == 1 {
			for l := range Lanes { // the other half of its pair
				sums[0][l] = multiplyAddFlushed(0, 0, sums[0][l])
			}
			add(end-1, &sums[0])
		}
		for l := range Lanes {
			sum := sums[0][l] + sums[1][l]
			if from > 0 {
				sum += y[l]
			}
			y[l] = sum
		}
	}
}

// multiplyAddFlushed returns a·b + c, rounded once to nearest, half to even, as
// VDPBF16PS does it: subnormal operands are zeros of their signs, and so is a subnormal
// result.
//
// A float64 holds the product of two BF16 exactly. It also rounds the sum, but then it is
// not so close to the middle between two float32 that rounding again could go wrong: the
// product has 16 bits and c has 24, and more than 28 bits apart they leave the sum's
// neighbourhood to the larger one.
func multiplyAddFlushed(a, b uint16, c float32) float32 {
	sum := float64(flushedBF16(a)*flushedBF16(b)) + float64(c)
	if math.Abs(sum) >= 0x1p-126 || sum != sum {
		return float32(sum)
	}
	// What is rounded to the smallest normal number, as if there were smaller ones, is one.
	if math.Abs(float64(float32(sum*0x1p64))) >= 0x1p-62 {
		return float32(math.Copysign(0x1p-126, sum))
	}
	return float32(math.Copysign(0, sum))
}

// flushedBF16 is the number that b stands for, without subnormal ones.
func flushedBF16(b uint16) float64 {
	if b&0x7f80 == 0 {
		b &= 0x8000
	}
	return float64(math.Float32frombits(uint32(b) << 16))
}
