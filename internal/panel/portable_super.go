package panel

import "math"

// Every level has these kernels.
var (
	portableQ4_K = []intKernel{{4, intQ4_Kx4}, {1, intQ4_K}}
	portableQ6_K = []intKernel{{4, intQ6_Kx4}, {1, intQ6_K}}
)

func intQ4_K(p []byte, blocks int, x []byte, y []float32, yStride int) {
	productsQ4_K(p, blocks, x, 1, y, yStride)
}

func intQ4_Kx4(p []byte, blocks int, x []byte, y []float32, yStride int) {
	productsQ4_K(p, blocks, x, 4, y, yStride)
}

func intQ6_K(p []byte, blocks int, x []byte, y []float32, yStride int) {
	productsQ6_K(p, blocks, x, 1, y, yStride)
}

func intQ6_Kx4(p []byte, blocks int, x []byte, y []float32, yStride int) {
	productsQ6_K(p, blocks, x, 4, y, yStride)
}

// productsQ4_K multiplies by n rows of activations. Each operation on floats is
// rounded: the conversions keep the compiler from fusing them.
func productsQ4_K(p []byte, blocks int, x []byte, n int, y []float32, yStride int) {
	clearLanes(y, n, yStride)
	var d, dmin [Lanes]float32
	for b := range blocks {
		j := b % (Super / Block)
		if j == 0 {
			if b > 0 {
				p = p[blocksQ4_K+Super/Block*blockQ4_K:]
			}
			for l := range Lanes {
				d[l], dmin[l] = half(p[l*2:]), half(p[minimumQ4_K+l*2:])
			}
		}
		block := p[blocksQ4_K+j*blockQ4_K:][:blockQ4_K]
		var w [Lanes]fours
		var scale, minimum [Lanes]float32
		for l := range Lanes {
			w[l].nibbles(block, l)
			scale[l] = d[l] * float32(block[l])
			minimum[l] = dmin[l] * float32(block[Lanes+l])
		}
		for r := range n {
			a := x[(r*blocks+b)*activationBlock:][:activationBlock]
			dx := math.Float32frombits(le.Uint32(a[scaleAt:]))
			sum := float32(int32(le.Uint32(a[biasAt:])) / -8)
			var q fours
			q.activations(a)
			acc := y[r*yStride:][:Lanes]
			for l := range acc {
				s := float32(nibbleSum(&w[l], &q))
				acc[l] += float32((float32(scale[l]*s) - float32(minimum[l]*sum)) * dx)
			}
		}
	}
}

// productsQ6_K multiplies by n rows of activations.
func productsQ6_K(p []byte, blocks int, x []byte, n int, y []float32, yStride int) {
	clearLanes(y, n, yStride)
	var d [Lanes]float32
	for b := range blocks {
		j := b % (Super / Block)
		if j == 0 {
			if b > 0 {
				p = p[blocksQ6_K+Super/Block*blockQ6_K:]
			}
			for l := range Lanes {
				d[l] = half(p[l*2:])
			}
		}
		block := p[blocksQ6_K+j*blockQ6_K:][:blockQ6_K]
		var w [Lanes]fours
		for l := range Lanes {
			w[l].sixBits(block, l)
		}
		for r := range n {
			a := x[(r*blocks+b)*activationBlock:][:activationBlock]
			dx := math.Float32frombits(le.Uint32(a[scaleAt:]))
			var q fours
			q.activations(a)
			acc := y[r*yStride:][:Lanes]
			for l := range acc {
				first, second := halfSums(&w[l], &q)
				t := int32(int8(block[l]))*first + int32(int8(block[Lanes+l]))*second
				acc[l] += float32(float32(d[l]*float32(t)) * dx)
			}
		}
	}
}

func clearLanes(y []float32, n, yStride int) {
	for r := range n {
		clear(y[r*yStride:][:Lanes])
	}
}
