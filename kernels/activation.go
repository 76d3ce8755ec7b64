package kernels

import "fmt"

// Activation is a function of one number, which Activate and Gated apply to every
// element. Below, σ(x) = 1/(1+e^-x). Where a function tends to 0 below, the result
// for -Inf is NaN, as that of -Inf·0; of NaN it is NaN.
type Activation uint8

const (
	// SiLU is x·σ(x). (Elfwing et al., "Sigmoid-Weighted Linear Units for Neural
	// Network Function Approximation in Reinforcement Learning", 2017; with
	// Gated it is SwiGLU: Shazeer, "GLU Variants Improve Transformer", 2020.)
	SiLU Activation = iota + 1

	// GELU is x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))), the usual approximation of
	// GELUErf. (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.)
	GELU

	// GELUErf is x/2·(1 + erf(x/√2)), that is x·Φ(x). (As GELU.)
	GELUErf

	// ReLU is max(x, 0). (Nair and Hinton, "Rectified Linear Units Improve
	// Restricted Boltzmann Machines", 2010.)
	ReLU

	// ReLUSquared is max(x, 0)². (So et al., "Primer: Searching for Efficient
	// Transformers for Language Modeling", 2021.)
	ReLUSquared

	// Tanh is the hyperbolic tangent.
	Tanh

	// Sigmoid is σ(x).
	Sigmoid

	activationsEnd
)

var activationNames = [...]string{
	SiLU: "SiLU", GELU: "GELU", GELUErf: "GELUErf", ReLU: "ReLU", ReLUSquared: "ReLUSquared", Tanh: "Tanh", Sigmoid: "Sigmoid",
}

// Activations returns all functions.
func Activations() []Activation {
	var all []Activation
	for f := SiLU; f < activationsEnd; f++ {
		all = append(all, f)
	}
	return all
}

// String returns the function's name.
func (f Activation) String() string {
	if f.Known() {
		return activationNames[f]
	}
	return fmt.Sprintf("activation %d", uint8(f))
}

// Known says whether the function is one of this package's. The zero value isn't.
func (f Activation) Known() bool { return f > 0 && f < activationsEnd }
