// Package sampling chooses a token from a row of logits.
//
// [Params] says how, and a [Chooser] does it for one sequence. A choice is made
// from a whole row of logits, or from the largest few of them where those are
// enough (see [Chooser.Keep]); both give the same token. [LogProbs] are the
// log-probabilities of a row.
//
// # What is computed
//
// The biases and the penalty change the logits in float32. The numbers among them
// are then ordered, the largest first and, of equal ones, the token of the lower
// id first; NaN never takes part. TopK, TopP and MinP each keep a prefix of that
// order, and a token is drawn from the shortest of the three.
//
// Probabilities are integer weights with 40 bits behind the point, relative to the
// largest logit: a token that is less than 2^-41 times as likely as the first has
// the weight 0, and is never drawn. They are computed in float32; internal/panel's
// Weights says how to the bit. With
//
//	w(l) = round(2^40 · 2^((l-largest) · log2(e)))
//	v(l) = round(2^40 · 2^((l-largest) · log2(e)/Temperature))
//
// where the factors log2(e) and log2(e)/Temperature are rounded to float32,
//
//   - TopP keeps the shortest prefix whose sum of w is at least TopP times that of
//     all that TopK keeps, the product rounded to float64 and then up;
//   - MinP keeps the logits that are at least largest + ln(MinP), in float64;
//   - of the sum of v over what is kept, the random number, 64 bits taken as a
//     fraction, is a share that is rounded down; the first token at which the sum
//     of v exceeds the share is drawn.
//
// Sums of integers don't depend on their order. So a draw is the same on every
// CPU, whatever its SIMD level, and doesn't depend on how many of the row's logits
// were at hand.
//
// The package knows nothing of sequences, batches or devices. It has no goroutine.
package sampling

import (
	"fmt"
	"math"
	"strconv"
)

// Params says how a token is chosen from the model's logits. The zero value takes
// the most likely one.
//
// The steps are taken in the order of the fields: Bias and the penalty change
// logits; TopK, TopP and MinP each keep a part of what the step before left, by
// the probabilities before Temperature, which flattens or sharpens what remains;
// then one token is drawn. The random number depends on Seed and the token's
// position alone, so that a seed gives the same text whatever else runs.
//
// A field that is 0 is not set. A caller whose users may write a top_p of 0, which
// means the most likely token alone, sets TopP to [TopPZero] for it.
type Params struct {
	Bias          map[int32]float32 // added to the logits of tokens; up to MaxBiases; must not change while the request runs
	RepeatPenalty float64           // above 1: makes the last 64 tokens less likely; 0 and 1: off (Keskar et al., "CTRL", 2019)
	TopK          int               // keeps the K most likely; 0: all
	TopP          float64           // keeps the most likely ones that together reach P; 0 and 1: all (Holtzman et al., 2019)
	MinP          float64           // keeps those at least P times as likely as the first (Nguyen et al., 2024)
	Temperature   float64           // 0: the most likely token
	Seed          uint64
}

const (
	// TopPZero is the TopP that keeps the most likely token alone, as the limit of
	// ever smaller values does. (A TopP of 0 is not set, and keeps all.)
	TopPZero = math.SmallestNonzeroFloat64

	// MaxBiases is how many biases a request may have. Each costs its own request
	// time with every token.
	MaxBiases = 1 << 16

	// MaxTop is the most candidates that [Chooser.ChooseTop] is used with.
	MaxTop = 256

	// penalized is how many of the last tokens the penalty looks at.
	penalized = 64
)

// Sampler chooses tokens for one request. Sample is called once for each token, in
// order, from one goroutine at a time. The logits are the model's, one float32 a
// token of its vocabulary; tokens are the prompt and what was added so far.
// Neither may be changed, nor kept after Sample has returned. An error ends the
// request.
//
// A sequence that is preempted is computed again later. What was drawn stays then,
// and Sample isn't called for it again: a sampler may have state, and needn't know.
type Sampler interface {
	Sample(logits []float32, tokens []int32) (id int32, err error)
}

// Greedy reports whether always the most likely token is taken, by the model's own
// logits.
func (p Params) Greedy() bool {
	return p.Temperature == 0 && len(p.Bias) == 0 && !p.penalizes()
}

func (p Params) penalizes() bool { return p.RepeatPenalty != 0 && p.RepeatPenalty != 1 }

// Check returns an error if a value is out of its range.
func (p Params) Check() error {
	for _, v := range []struct {
		name    string
		x, most float64
	}{
		{"temperature", p.Temperature, 1e6},
		{"top-p", p.TopP, 1},
		{"min-p", p.MinP, 1},
		{"repeat penalty", p.RepeatPenalty, 1e6},
		{"top-k", float64(p.TopK), math.MaxInt32},
	} {
		if !(v.x >= 0 && v.x <= v.most) {
			return fmt.Errorf("%s of %s: it may be from 0 to %s", v.name, plain(v.x), plain(v.most))
		}
	}
	if len(p.Bias) > MaxBiases {
		return fmt.Errorf("%d biases: a request may have up to %d", len(p.Bias), MaxBiases)
	}
	wrong, found := int32(0), false
	for id, bias := range p.Bias {
		if (id < 0 || bias != bias) && (!found || id < wrong) {
			wrong, found = id, true
		}
	}
	switch {
	case found && wrong < 0:
		return fmt.Errorf("bias of token %d: tokens are numbered from 0", wrong)
	case found:
		return fmt.Errorf("bias of token %d: it is not a number", wrong)
	}
	return nil
}

// plain formats x without an exponent, as people write numbers.
func plain(x float64) string {
	if math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
