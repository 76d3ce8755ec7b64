//go:build amd64 && !noasm

package panel

import (
	"sync"

	"github.com/klauspost/cpuid/v2"

	"github.com/leat-dev/leat/kernels"
)

var avx2 = &Kernels{
	Level: "avx2",
	floats: [3][]floatKernel{
		{{4, floatF32x4AVX2}, {2, floatF32x2AVX2}, {1, floatF32x1AVX2}},
		{{4, floatF16x4AVX2}, {2, floatF16x2AVX2}, {1, floatF16x1AVX2}},
		{{4, floatBF16x4AVX2}, {2, floatBF16x2AVX2}, {1, floatBF16x1AVX2}},
	},
	dotsBF16: portableBF16,
	ints:     intsAVX2,
	quantize: quantizeAVX2,

	soften: softenAVX2,
	score: [2][]scoreKernel{
		{{2, scoreF32x2AVX2}, {1, scoreF32x1AVX2}},
		{{2, scoreF16x2AVX2}, {1, scoreF16x1AVX2}},
	},
	weigh: [2][]weighKernel{
		{{4, weighF32x4AVX2}, {2, weighF32x2AVX2}, {1, weighF32x1AVX2}},
		{{4, weighF16x4AVX2}, {2, weighF16x2AVX2}, {1, weighF16x1AVX2}},
	},
	expandKeys:   expandKeysAVX2,
	expandValues: expandValuesAVX2,

	sum:         sumAVX2,
	sumSquares:  sumSquaresAVX2,
	scale:       scaleAVX2,
	standardize: standardizeAVX2,
	divide:      divideAVX2,
	multiply:    multiplyAVX2,
	subtract:    subtractAVX2,
	add:         addAVX2,
	toF16:       toF16AVX2,

	rotatePairs:  rotatePairsAVX2,
	rotateHalves: rotateHalvesAVX2,

	activate: [functions]func(dst, x []float32){
		kernels.SiLU: activateSiLUAVX2, kernels.GELU: activateGELUAVX2, kernels.GELUErf: activateGELUErfAVX2, kernels.ReLU: activateReLUAVX2,
		kernels.ReLUSquared: activateReLUSquaredAVX2, kernels.Tanh: activateTanhAVX2, kernels.Sigmoid: activateSigmoidAVX2,
	},
	gated: [functions]func(dst, gate, up []float32){
		kernels.SiLU: gatedSiLUAVX2, kernels.GELU: gatedGELUAVX2, kernels.GELUErf: gatedGELUErfAVX2, kernels.ReLU: gatedReLUAVX2,
		kernels.ReLUSquared: gatedReLUSquaredAVX2, kernels.Tanh: gatedTanhAVX2, kernels.Sigmoid: gatedSigmoidAVX2,
	},
	softCap: softCapAVX2,

	largest: largestAVX2,
	find:    findAVX2,

	count:        countAVX2,
	filter:       filterAVX2,
	weights:      weightsAVX2,
	sumWeights:   sumWeightsAVX2,
	splitWeights: splitWeightsAVX2,
	sumExp:       sumExpAVX2,
}

var avx512 = &Kernels{
	Level: "avx512",
	floats: [3][]floatKernel{
		{{8, floatF32x8AVX512}, {4, floatF32x4AVX512}, {2, floatF32x2AVX512}, {1, floatF32x1AVX512}},
		{{8, floatF16x8AVX512}, {4, floatF16x4AVX512}, {2, floatF16x2AVX512}, {1, floatF16x1AVX512}},
		{{8, floatBF16x8AVX512}, {4, floatBF16x4AVX512}, {2, floatBF16x2AVX512}, {1, floatBF16x1AVX512}},
	},
	dotsBF16: portableBF16,
	ints:     intsAVX512,
	quantize: quantizeAVX2,

	soften: softenAVX512,
	score: [2][]scoreKernel{
		{{8, scoreF32x8AVX512}, {4, scoreF32x4AVX512}, {2, scoreF32x2AVX512}, {1, scoreF32x1AVX512}},
		{{8, scoreF16x8AVX512}, {4, scoreF16x4AVX512}, {2, scoreF16x2AVX512}, {1, scoreF16x1AVX512}},
	},
	weigh: [2][]weighKernel{
		{{8, weighF32x8AVX512}, {4, weighF32x4AVX512}, {2, weighF32x2AVX512}, {1, weighF32x1AVX512}},
		{{8, weighF16x8AVX512}, {4, weighF16x4AVX512}, {2, weighF16x2AVX512}, {1, weighF16x1AVX512}},
	},
	expandKeys:   expandKeysAVX512,
	expandValues: expandValuesAVX512,

	sum:         sumAVX512,
	sumSquares:  sumSquaresAVX512,
	scale:       scaleAVX512,
	standardize: standardizeAVX512,
	divide:      divideAVX512,
	multiply:    multiplyAVX512,
	subtract:    subtractAVX512,
	add:         addAVX512,
	toF16:       toF16AVX512,

	rotatePairs:  rotatePairsAVX2,
	rotateHalves: rotateHalvesAVX2,

	activate: [functions]func(dst, x []float32){
		kernels.SiLU: activateSiLUAVX512, kernels.GELU: activateGELUAVX512, kernels.GELUErf: activateGELUErfAVX512, kernels.ReLU: activateReLUAVX512,
		kernels.ReLUSquared: activateReLUSquaredAVX512, kernels.Tanh: activateTanhAVX512, kernels.Sigmoid: activateSigmoidAVX512,
	},
	gated: [functions]func(dst, gate, up []float32){
		kernels.SiLU: gatedSiLUAVX512, kernels.GELU: gatedGELUAVX512, kernels.GELUErf: gatedGELUErfAVX512, kernels.ReLU: gatedReLUAVX512,
		kernels.ReLUSquared: gatedReLUSquaredAVX512, kernels.Tanh: gatedTanhAVX512, kernels.Sigmoid: gatedSigmoidAVX512,
	},
	softCap: softCapAVX512,

	largest: largestAVX512,
	find:    findAVX512,

	count:        countAVX512,
	filter:       filterAVX512,
	weights:      weightsAVX512,
	sumWeights:   sumWeightsAVX512,
	splitWeights: splitWeightsAVX512,
	sumExp:       sumExpAVX512,
}

var (
	avxVNNI = avx2.with("avx-vnni", intsAVXVNNI)
	vnni    = avx512.with("avx512-vnni", intsVNNI)
)

// bf16 is what VDPBF16PS adds.
var bf16 = func() *Kernels {
	higher := *vnni
	higher.Level, higher.roundsBF16, higher.toBF16 = "avx512-bf16", true, toBF16AVX512
	higher.dotsBF16 = []bf16Kernel{{8, dotsBF16x8}, {4, dotsBF16x4}, {2, dotsBF16x2}, {1, dotsBF16x1}}
	return &higher
}()

// with returns the level above k that has integer products of its own.
func (k *Kernels) with(level string, ints ints) *Kernels {
	higher := *k
	higher.Level, higher.ints = level, ints
	return &higher
}

// supported returns the levels that this machine has, best first. Each needs all that the
// ones after it need, except that avx-vnni is no part of the AVX-512 levels.
var supported = sync.OnceValue(func() []*Kernels {
	levels := []*Kernels{portable}
	for _, l := range []struct {
		kernels  *Kernels
		features []cpuid.FeatureID
		optional bool // the levels above it don't need it
	}{
		{kernels: avx2, features: []cpuid.FeatureID{cpuid.AVX2, cpuid.FMA3, cpuid.F16C}},
		{kernels: avxVNNI, features: []cpuid.FeatureID{cpuid.AVXVNNI}, optional: true},
		{kernels: avx512, features: []cpuid.FeatureID{cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL}},
		{kernels: vnni, features: []cpuid.FeatureID{cpuid.AVX512VNNI}},
		{kernels: bf16, features: []cpuid.FeatureID{cpuid.AVX512BF16}},
	} {
		switch {
		case cpuid.CPU.Supports(l.features...):
			levels = append([]*Kernels{l.kernels}, levels...)
		case !l.optional:
			return levels
		}
	}
	return levels
})
