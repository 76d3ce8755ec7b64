package panel

import (
	"math"

	"github.com/leat-dev/leat/internal/blocks"
	"github.com/leat-dev/leat/kernels"
)

// portableInts has the products of each quantized type, of four rows of activations at
// once and of one. They are the specification of those of every level.
var portableInts = func() (all ints) {
	for t := kernels.Q8_0; t <= kernels.Q2_0; t++ {
		l := &layouts[t]
		all[t-kernels.Q8_0] = []intKernel{
			{4, func(p []byte, blocks int, x []byte, y []float32, yStride int) { l.product(p, blocks, x, 4, y, yStride) }},
			{1, func(p []byte, blocks int, x []byte, y []float32, yStride int) { l.product(p, blocks, x, 1, y, yStride) }},
		}
	}
	return all
}()

// laneBlock is a block of 32 columns of one lane, as a product needs it.
type laneBlock struct {
	values         [Block]int8
	digits         fours
	d, m           float32 // the factors of the sums of products, and of activations
	second         float32 // of TwoFloats: the factor of the second half
	scale, minimum [2]int32
}

// product multiplies by n rows of activations, as Int says. Each operation on floats is
// rounded: the conversions keep the compiler from fusing them.
func (l *layout) product(p []byte, count int, x []byte, n int, y []float32, yStride int) {
	for r := range n {
		clear(y[r*yStride:][:Lanes])
	}
	most := l.form.Largest()
	var lanes [Lanes]laneBlock
	perUnit := l.form.Cols / Block
	for b := range count {
		if b > 0 && b%perUnit == 0 {
			p = p[l.unit:]
		}
		block := p[l.header+b%perUnit*l.block:][:l.block]
		for i := range lanes {
			l.weights(&lanes[i], p, block, i)
		}
		for r := range n {
			a := x[(r*count+b)*activationBlock:][:activationBlock]
			dx := math.Float32frombits(le.Uint32(a[scaleAt:]))
			bias := float32(int32(le.Uint32(a[biasAt:])))
			biases := [2]int32{int32(le.Uint32(a[firstBiasAt:])), int32(le.Uint32(a[secondBiasAt:]))}
			var q fours
			q.activations(a)
			acc := y[r*yStride:][:Lanes]
			for i := range lanes {
				w := &lanes[i]
				first, second := w.sums(&q, a, most)
				switch {
				case l.form.Scales == blocks.TwoFloats:
					acc[i] += float32((float32(w.d*float32(first)) + float32(w.second*float32(second))) * dx)
				case l.form.Scales == blocks.TwoMinima:
					t := w.scale[0]*first + w.scale[1]*second
					u := w.minimum[0]*biases[0] + w.minimum[1]*biases[1]
					acc[i] += float32((float32(w.d*float32(t)) + float32(w.m*float32(u))) * dx)
				case l.form.Scales.Halves():
					t := w.scale[0]*first + w.scale[1]*second
					acc[i] += float32(float32(w.d*float32(t)) * dx)
				case l.form.HasMinimum():
					acc[i] += float32((float32(w.d*float32(first+second)) + float32(w.m*bias)) * dx)
				default:
					acc[i] += float32(float32(first+second) * float32(w.d*dx))
				}
			}
		}
	}
}

// weights reads a block of a lane; unit begins with the header of the unit it is in.
func (l *layout) weights(w *laneBlock, unit, block []byte, lane int) {
	var codes [Block]byte
	l.getCodes(codes[:], block, lane)
	for c, code := range codes {
		w.values[c] = int8(l.form.Value(code))
	}
	w.digits.values(&w.values)
	d, dmin := l.form.HeaderScale(l.getHeader(unit, lane))
	dmin *= 1. / 8
	scales := [2]byte{block[lane], block[Lanes+lane]}
	switch l.form.Scales {
	case blocks.NoScales:
		w.d, w.m = d, -dmin
	case blocks.One, blocks.OneMinimum:
		s, m := l.form.Scales.Integers(scales[:])
		w.d, w.m = d*float32(s[0]), dmin*float32(m[0])
	case blocks.TwoFloats:
		w.d, w.second = blocks.SmallFloat(scales[0]), blocks.SmallFloat(scales[1])
	default:
		w.d, w.m = d, dmin
		w.scale, w.minimum = l.form.Scales.Integers(scales[:])
	}
}

// sums returns the sums of the products of a block's two halves, whose values are most
// at most. Digits of words hold the sums only where they are small enough.
func (w *laneBlock) sums(x *fours, a []byte, most int) (first, second int32) {
	switch {
	case most <= 32:
		return halfSums(&w.digits, x)
	case most <= 64:
		return wordSums(&w.digits, x)
	}
	a = a[:Block]
	for c, v := range w.values[:Block/2] {
		first += int32(v) * int32(int8(a[c]))
		second += int32(w.values[Block/2+c]) * int32(int8(a[Block/2+c]))
	}
	return first, second
}
