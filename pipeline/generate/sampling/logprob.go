package sampling

import "math"

// LogProbs are the natural logarithms of the probabilities of a row's tokens, by its
// logits alone, with an absolute error below 1e-11 beside the rounding of float64. A
// logit that is not a number has the probability 0. If the largest are +Inf, they
// share all of the probability; so do all that are -Inf if there is no other.
type LogProbs struct {
	logits  []float32
	largest float32
	log     float64 // of the sum of the powers, relative to the largest
}

// TokenLogProb is a token with its log-probability.
type TokenLogProb struct {
	ID      int32
	LogProb float64
}

// NewLogProbs returns the log-probabilities of a row of logits, which it refers to.
func NewLogProbs(logits []float32) LogProbs {
	p := LogProbs{logits: logits, largest: simd.Max(logits)}
	if !math.IsInf(float64(p.largest), 0) {
		p.log = math.Log(simd.SumExp(logits, p.largest))
		return p
	}
	n := 0
	for _, l := range logits {
		if l == p.largest {
			n++
		}
	}
	p.log = math.Log(float64(n))
	return p
}

// LogProb returns one log-probability of a row: see [LogProbs].
func LogProb(logits []float32, id int32) float64 { return NewLogProbs(logits).Of(id) }

// Of returns the log-probability of a token, -Inf if it isn't in the row.
func (p LogProbs) Of(id int32) float64 {
	if id < 0 || int(id) >= len(p.logits) {
		return math.Inf(-1)
	}
	return p.of(p.logits[id])
}

func (p LogProbs) of(logit float32) float64 {
	switch {
	case logit == p.largest:
		return -p.log
	case logit != logit || math.IsInf(float64(p.largest), 0):
		return math.Inf(-1)
	}
	return float64(logit) - float64(p.largest) - p.log
}

// Top appends to dst the n most likely tokens, or all whose logits are numbers if
// there are fewer. The most likely comes first; of equal ones, that of the lower id.
func (p LogProbs) Top(dst []TokenLogProb, n int) []TokenLogProb {
	s := borrow()
	defer s.giveBack()
	s.top(p.logits, max(n, 0))
	s.sort(len(s.ids))
	for i, id := range s.ids {
		dst = append(dst, TokenLogProb{id, p.of(s.values[i])})
	}
	return dst
}
