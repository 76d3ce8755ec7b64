package kernels

import (
	"fmt"
	"math"
)

// NormSpec is what a normalization needs beside its rows. With x a row of n
// columns, RMSNorm writes (Zhang and Sennrich, "Root Mean Square Layer
// Normalization", 2019)
//
//	y[j] = x[j] / sqrt(Σx[i]²/n + Eps) · Gain[j] + Bias[j]
//
// and LayerNorm (Ba et al., "Layer Normalization", 2016), with the mean m = Σx[i]/n,
//
//	y[j] = (x[j]-m) / sqrt(Σ(x[i]-m)²/n + Eps) · Gain[j] + Bias[j]
type NormSpec struct {
	Gain Weight  // [1, n] of F32, F16 or BF16
	Bias Weight  // as Gain; nil: nothing is added
	Eps  float32 // added to the mean square, or the variance
}

// AttentionSpec is what Attention needs beside its queries and the cache. With q
// the query of head h at position i, and k[j] and v[j] the key and the value of
// position j, Attention computes of each position j that the row attends to
//
//	s[j] = q·k[j] · Scale                    scaled dot product
//	s[j] = SoftCap · tanh(s[j]/SoftCap)      if SoftCap isn't 0
//	s[j] = s[j] - Slopes[h]·(i-j)            if there are slopes
//
// and of them the head's result
//
//	Σ e^s[j] · v[j]  /  (Σ e^s[j] + e^Sinks[h])
//
// where the last term is there if there are sinks. A field's zero value leaves
// its step out; all fields but Scale zero are the attention of Vaswani et al.,
// "Attention Is All You Need", 2017.
type AttentionSpec struct {
	// Scale is the factor of each product, 1/sqrt(HeadDim) in most models.
	Scale float32

	// Window is to how many positions a row attends, its own among them: j from
	// i-Window+1 to i. 0: to all positions from 0 on. (Beltagy et al.,
	// "Longformer", 2020; Jiang et al., "Mistral 7B", 2023.)
	Window int

	// SoftCap bounds the scores to ±SoftCap. 0: they are not bounded. (Gemma
	// Team, "Gemma 2: Improving Open Language Models at a Practical Size", 2024.)
	SoftCap float32

	// Sinks is a score for each head to which no value belongs, so that a head
	// may attend to nothing: [1, heads] of F32, F16 or BF16, or nil. (OpenAI,
	// "gpt-oss-120b & gpt-oss-20b Model Card", 2025, after Xiao et al.,
	// "Efficient Streaming Language Models with Attention Sinks", 2023.)
	Sinks Weight

	// Slopes is for each head by how much a score falls with each position of
	// distance: [1, heads] of F32, F16 or BF16, or nil. (Press et al., "Train
	// Short, Test Long: Attention with Linear Biases Enables Input Length
	// Extrapolation", 2021.)
	Slopes Weight
}

// Check says which field no attention can have, if any. What a weight must be, only
// the op knows: the number of heads is the queries'.
func (s AttentionSpec) Check() error {
	switch {
	case s.Window < 0:
		return fmt.Errorf("a Window of %d positions: it must be positive, or 0 for all", s.Window)
	case s.SoftCap != 0 && !positive(s.SoftCap):
		return fmt.Errorf("a SoftCap of %v: it must be a positive number, or 0 for none", s.SoftCap)
	}
	return nil
}

// CheckSoftCap says what is wrong with what SoftCap is asked to keep numbers within.
func CheckSoftCap(most float32) error {
	if !positive(most) {
		return fmt.Errorf("a cap of %v: it must be a positive number", most)
	}
	return nil
}

func positive(f float32) bool { return f > 0 && f <= math.MaxFloat32 }

// Rotation is what RoPE needs to know. Pair i of a head's first 2·len elements,
// len = Frequencies.Cols, turns by position·Frequencies[i] radians; the rest of
// the head stays. (Su et al., "RoFormer", 2021.)
type Rotation struct {
	HeadDim     int
	Frequencies Weight // [1, rotated dimensions/2], F32
	Split       bool   // pairs are (i, i+len) rather than (2i, 2i+1)
}
