package panel

import (
	"math"

	"github.com/leat-dev/leat/kernels"
)

// portable is the specification of every level.
var portable = &Kernels{
	Level:    "portable",
	floats:   [3][]floatKernel{{{1, floatF32}}, {{1, floatF16}}, {{1, floatBF16}}},
	dotsBF16: portableBF16,
	ints:     portableInts,
	quantize: quantize,

	soften:       soften,
	weigh:        [2][]weighKernel{{{1, weighF32}}, {{1, weighF16}}},
	expandKeys:   expandKeys,
	expandValues: expandValues,

	sum:         sum,
	sumSquares:  sumSquares,
	scale:       scale,
	standardize: standardize,
	divide:      divide,
	multiply:    multiply,
	subtract:    subtract,
	add:         add,
	toF16:       toF16,

	rotatePairs:  rotatePairs,
	rotateHalves: rotateHalves,

	activate: [functions]func(dst, x []float32){
		kernels.SiLU: each(silu), kernels.GELU: each(gelu), kernels.GELUErf: each(geluErf), kernels.ReLU: each(relu),
		kernels.ReLUSquared: each(reluSquared), kernels.Tanh: each(tanh), kernels.Sigmoid: each(sigmoid),
	},
	gated: [functions]func(dst, gate, up []float32){
		kernels.SiLU: silued, kernels.GELU: eachGated(gelu), kernels.GELUErf: eachGated(geluErf), kernels.ReLU: eachGated(relu),
		kernels.ReLUSquared: eachGated(reluSquared), kernels.Tanh: eachGated(tanh), kernels.Sigmoid: eachGated(sigmoid),
	},
	softCap: softCap,

	largest: largest,
	find:    find,

	count:        count,
	filter:       filter,
	weights:      weights,
	sumWeights:   sumWeights,
	splitWeights: splitWeights,
	sumExp:       sumExp,
}

var portableBF16 = []bf16Kernel{{1, dotsBF16}}

func floatF32(p []byte, cols int, x []float32, _ int, y []float32, _ int) {
	float(kernels.F32, p, cols, x, y)
}

func floatF16(p []byte, cols int, x []float32, _ int, y []float32, _ int) {
	float(kernels.F16, p, cols, x, y)
}

func floatBF16(p []byte, cols int, x []float32, _ int, y []float32, _ int) {
	float(kernels.BF16, p, cols, x, y)
}

func float(t kernels.Type, p []byte, cols int, x, y []float32) {
	const tile = 32 // columns widened at a time
	var w [tile * Lanes]float32
	_, bytes := unit(t)
	for from := 0; from < cols; from += Segment {
		var acc [Lanes]float32
		end := min(from+Segment, cols)
		for c := from; c < end; c += tile {
			n := min(tile, end-c)
			widen(w[:n*Lanes], t, p[c*bytes:])
			for i, xc := range x[c:][:n] {
				for l, wc := range w[i*Lanes:][:Lanes] {
					acc[l] = float32(wc*xc) + acc[l]
				}
			}
		}
		if from == 0 {
			copy(y, acc[:])
			continue
		}
		for l, sum := range acc {
			y[l] += sum
		}
	}
}

// widen converts len(dst) weights of a panel to float32, exactly.
func widen(dst []float32, t kernels.Type, p []byte) {
	switch t {
	case kernels.F32:
		for i := range dst {
			dst[i] = math.Float32frombits(le.Uint32(p[i*4:]))
		}
	case kernels.F16:
		for i := range dst {
			dst[i] = kernels.Float16frombits(le.Uint16(p[i*2:]))
		}
	case kernels.BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(le.Uint16(p[i*2:])) << 16)
		}
	}
}

func quantize(dst []byte, x []float32) {
	const infinity = 0x7f800000
	for ; len(x) > 0; dst, x = dst[activationBlock:], x[Block:] {
		// Without their signs, floats are in the order of their bits, with
		// the infinity above all numbers and NaNs above that.
		var top uint32
		for _, v := range x[:Block] {
			top = max(top, math.Float32bits(v)&^(1<<31))
		}
		d := math.Float32frombits(top) / 127
		inverse := 1 / d
		clear(dst[:activationBlock])
		switch {
		case top >= infinity:
			le.PutUint32(dst[scaleAt:], 0x7fc00000)
			continue
		case math.Float32bits(inverse) == infinity:
			continue
		}
		var sums [2]int32 // of the two halves
		for i, v := range x[:Block] {
			q := int32(math.RoundToEven(float64(v * inverse)))
			dst[i] = byte(q)
			sums[i/(Block/2)] += q
		}
		le.PutUint32(dst[scaleAt:], math.Float32bits(d))
		le.PutUint32(dst[biasAt:], uint32(-8*(sums[0]+sums[1])))
		le.PutUint32(dst[firstBiasAt:], uint32(-8*sums[0]))
		le.PutUint32(dst[secondBiasAt:], uint32(-8*sums[1]))
	}
}
