//go:build arm64 && !noasm

package panel

import (
	"slices"
	"sync"

	"github.com/klauspost/cpuid/v2"

	"github.com/leat-dev/leat/kernels"
)

// neon is what every 64-bit ARM has. Scores are its products of floats.
var neon = &Kernels{
	Level: "neon",
	floats: [3][]floatKernel{
		{{4, floatF32x4NEON}, {2, floatF32x2NEON}, {1, floatF32x1NEON}},
		{{4, floatF16x4NEON}, {2, floatF16x2NEON}, {1, floatF16x1NEON}},
		{{4, floatBF16x4NEON}, {2, floatBF16x2NEON}, {1, floatBF16x1NEON}},
	},
	ints:     portableInts.with(intsNEON),
	dotsBF16: portableBF16,
	quantize: quantizeNEON,

	soften: softenNEON,
	weigh: [2][]weighKernel{
		{{4, weighF32x4NEON}, {2, weighF32x2NEON}, {1, weighF32x1NEON}},
		{{4, weighF16x4NEON}, {2, weighF16x2NEON}, {1, weighF16x1NEON}},
	},
	expandKeys:   expandKeysNEON,
	expandValues: expandValuesNEON,

	sum:         sumNEON,
	sumSquares:  sumSquaresNEON,
	scale:       scaleNEON,
	standardize: standardizeNEON,
	divide:      divideNEON,
	multiply:    multiplyNEON,
	subtract:    subtractNEON,
	add:         addNEON,
	toF16:       toF16NEON,

	rotatePairs:  rotatePairsNEON,
	rotateHalves: rotateHalvesNEON,

	activate: [functions]func(dst, x []float32){
		kernels.SiLU: activateSiLUNEON, kernels.GELU: activateGELUNEON, kernels.GELUErf: activateGELUErfNEON, kernels.ReLU: activateReLUNEON,
		kernels.ReLUSquared: activateReLUSquaredNEON, kernels.Tanh: activateTanhNEON, kernels.Sigmoid: activateSigmoidNEON,
	},
	gated: [functions]func(dst, gate, up []float32){
		kernels.SiLU: gatedSiLUNEON, kernels.GELU: gatedGELUNEON, kernels.GELUErf: gatedGELUErfNEON, kernels.ReLU: gatedReLUNEON,
		kernels.ReLUSquared: gatedReLUSquaredNEON, kernels.Tanh: gatedTanhNEON, kernels.Sigmoid: gatedSigmoidNEON,
	},
	softCap: softCapNEON,

	largest: largestNEON,
	find:    findNEON,

	count:        countNEON,
	filter:       filterNEON,
	weights:      weightsNEON,
	sumWeights:   sumWeightsNEON,
	splitWeights: splitWeightsNEON,
	sumExp:       sumExpNEON,
}

var neonDot = neon.with("neon-dot", neon.ints.with(intsDot))

// The matrix products of 8-bit integers pay where eight rows share the weights.
var neonI8MM = neonDot.with("neon-i8mm", neonDot.ints.before(intsI8MM))

// with returns the level above k that has integer products of its own.
func (k *Kernels) with(level string, ints ints) *Kernels {
	higher := *k
	higher.Level, higher.ints = level, ints
	return &higher
}

// before returns the kernels of all types, in place of the first of each type those of
// more, which multiply as many rows.
func (k ints) before(more map[kernels.Type][]intKernel) ints {
	for t, first := range more {
		k[t-kernels.Q8_0] = append(slices.Clone(first), k[t-kernels.Q8_0][len(first):]...)
	}
	return k
}

// supported returns the levels that this machine has, each with all that the
// lower ones need.
var supported = sync.OnceValue(func() []*Kernels {
	levels := []*Kernels{portable}
	for _, l := range []struct {
		kernels *Kernels
		feature cpuid.FeatureID
	}{{neon, cpuid.ASIMD}, {neonDot, cpuid.ASIMDDP}, {neonI8MM, cpuid.I8MM}} {
		if !cpuid.CPU.Supports(l.feature) {
			break
		}
		levels = append([]*Kernels{l.kernels}, levels...)
	}
	return levels
})
