package generate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Sampling says how a token is chosen from the model's logits. The zero value
// takes the most likely one.
//
// The steps are taken in the order of the fields below: Bias and the penalty
// change logits, TopK, TopP and MinP each keep a part of what the step before left,
// by the probabilities before Temperature, which flattens or sharpens what
// remains; then one is drawn. The random number depends on Seed and the
// token's position only, so a seed gives the same text whatever else runs.
type Sampling struct {
	Bias          map[int32]float32 // added to the logits of tokens; must not change while the request runs
	RepeatPenalty float64           // above 1: makes the last 64 tokens less likely; 0 and 1: off (Keskar et al., "CTRL", 2019)
	TopK          int               // keeps the K most likely; 0: all
	TopP          float64           // keeps the most likely ones that together reach P; 0 and 1: all (Holtzman et al., 2019)
	MinP          float64           // keeps those at least P times as likely as the first (Nguyen et al., 2024)
	Temperature   float64           // 0: the most likely token
	Seed          uint64
}

const penalized = 64

// greedy says that always the most likely token is taken, by the model's own
// logits.
func (s Sampling) greedy() bool {
	return s.Temperature == 0 && len(s.Bias) == 0 && (s.RepeatPenalty == 0 || s.RepeatPenalty == 1)
}

// Check says what is wrong with the values, if anything.
func (s Sampling) Check() error {
	for _, v := range []struct {
		name    string
		x, most float64
	}{
		{"temperature", s.Temperature, 1e6},
		{"top-p", s.TopP, 1},
		{"min-p", s.MinP, 1},
		{"repeat penalty", s.RepeatPenalty, 1e6},
		{"top-k", float64(s.TopK), math.MaxInt32},
	} {
		if !(v.x >= 0 && v.x <= v.most) {
			return fmt.Errorf("%s of %v: it may be from 0 to %v", v.name, v.x, v.most)
		}
	}
	for id, bias := range s.Bias {
		if math.IsNaN(float64(bias)) || id < 0 {
			return fmt.Errorf("bias %v of token %d", bias, id)
		}
	}
	return nil
}

// candidate is a token that may be drawn.
type candidate struct {
	id int32
	p  float64 // its logit; later its probability before scaling to a sum of 1
}

// Sampler chooses tokens for one request. Sample is called once for each token,
// in order, from one goroutine at a time: logits are the model's, a float32 a
// token of its vocabulary, to be left as they are; tokens are the prompt and
// what was added so far. Neither may be kept. An error ends the request.
//
// A request whose pages are needed by others yields and is computed again later.
// What was drawn stays then, and Sample isn't called for it again: a sampler may
// have state, and needn't know.
type Sampler interface {
	Sample(logits []float32, tokens []int32) (id int32, err error)
}

// sampler is Sampling at work for one sequence. Its memory is reused.
type sampler struct {
	Sampling
	logits     []float32
	candidates []candidate
}

// Sample chooses a token.
func (s *sampler) Sample(logits []float32, before []int32) (int32, error) {
	position := len(before)
	if len(s.Bias) > 0 {
		logits = s.biased(logits)
	}
	if s.RepeatPenalty > 0 && s.RepeatPenalty != 1 {
		logits = s.penalize(logits, before)
	}
	best := argMax(logits)
	switch {
	case best < 0:
		return 0, fmt.Errorf("no logit of token %d is a number", position)
	case len(s.Bias) > 0 && math.IsInf(float64(logits[best]), -1):
		return 0, fmt.Errorf("the biases leave no token for position %d", position)
	}
	if s.Temperature == 0 || math.IsInf(float64(logits[best]), 0) {
		return best, nil
	}
	return s.choose(s.cut(logits, logits[best]), position), nil
}

// own returns logits in memory that may be changed.
func (s *sampler) own(logits []float32) []float32 {
	if len(s.logits) == len(logits) && &s.logits[0] == &logits[0] {
		return logits
	}
	s.logits = append(s.logits[:0], logits...)
	return s.logits
}

func (s *sampler) biased(logits []float32) []float32 {
	logits = s.own(logits)
	for id, bias := range s.Bias {
		if id >= 0 && int(id) < len(logits) {
			logits[id] += bias
		}
	}
	return logits
}

// logProb is the logarithm of a token's probability.
func logProb(logits []float32, id int32) float64 {
	largest := float64(logits[argMax(logits)])
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - largest)
	}
	return float64(logits[id]) - largest - math.Log(sum)
}

// argMax returns the first of the largest, or -1 if none is a number.
func argMax(x []float32) int32 {
	best := int32(-1)
	for i, v := range x {
		if v == v && (best < 0 || v > x[best]) {
			best = int32(i)
		}
	}
	return best
}

func (s *sampler) penalize(logits []float32, before []int32) []float32 {
	logits = s.own(logits)
	recent := before[max(0, len(before)-penalized):]
	for i, id := range recent {
		if slices.Contains(recent[:i], id) || int(id) >= len(logits) || id < 0 {
			continue
		}
		if l := &logits[id]; *l > 0 {
			*l /= float32(s.RepeatPenalty)
		} else {
			*l *= float32(s.RepeatPenalty)
		}
	}
	return logits
}

// cut returns the candidates left by TopK, TopP and MinP, most likely first,
// with their probabilities relative to the first's.
func (s *sampler) cut(logits []float32, largest float32) []candidate {
	c := s.candidates[:0]
	// A token less likely than e^-80 of the first is never drawn.
	floor := largest - 80
	if s.TopK > 0 && s.TopK < len(logits) {
		c = mostLikely(c, logits, s.TopK, s.raise(logits, largest, floor))
	} else {
		for i, l := range logits {
			if l >= floor {
				c = append(c, candidate{int32(i), float64(l)})
			}
		}
	}
	slices.SortFunc(c, likelier)
	s.candidates = c
	for i := range c {
		c[i].p = math.Exp(c[i].p - float64(largest))
	}
	if s.TopP > 0 && s.TopP < 1 {
		c = c[:nucleus(c, s.TopP)]
	}
	if s.MinP > 0 {
		n := 1
		for n < len(c) && c[n].p >= s.MinP {
			n++
		}
		c = c[:n]
	}
	return c
}

// ahead orders by logit, largest first; of equals, the first token first, so that
// a draw never depends on how the order came about.
func ahead(a, b candidate) bool { return a.p > b.p || a.p == b.p && a.id < b.id }

func likelier(a, b candidate) int {
	switch {
	case ahead(a, b):
		return -1
	case ahead(b, a):
		return 1
	}
	return 0
}

// raise returns a floor that at least TopK logits reach, as high as counting
// them in steps tells: most of the others need not be looked at again.
func (s *sampler) raise(logits []float32, largest, floor float32) float32 {
	const steps = 256
	var counts [steps + 1]int32
	scale := steps / (largest - floor)
	for _, l := range logits {
		if l >= floor {
			counts[int((largest-l)*scale)]++
		}
	}
	reached := 0
	for i, n := range counts {
		if reached += int(n); reached >= s.TopK {
			// One step more: the product above is rounded.
			return max(floor, largest-float32(i+2)/scale)
		}
	}
	return floor
}

// mostLikely appends the k candidates of the largest logits, in any order. It
// keeps a heap whose top is the least of those kept.
func mostLikely(c []candidate, logits []float32, k int, floor float32) []candidate {
	for i, l := range logits {
		switch {
		case !(l >= floor):
		case len(c) < k:
			c = append(c, candidate{int32(i), float64(l)})
			for j := len(c) - 1; j > 0 && ahead(c[(j-1)/2], c[j]); j = (j - 1) / 2 {
				c[j], c[(j-1)/2] = c[(j-1)/2], c[j]
			}
			if len(c) == k {
				floor = float32(c[0].p)
			}
		case float64(l) > c[0].p: // an equal one comes later, and so behind
			c[0] = candidate{int32(i), float64(l)}
			sink(c)
			floor = float32(c[0].p)
		}
	}
	return c
}

func sink(c []candidate) {
	for i := 0; ; {
		least := i
		for j := 2*i + 1; j <= 2*i+2 && j < len(c); j++ {
			if ahead(c[least], c[j]) {
				least = j
			}
		}
		if least == i {
			return
		}
		c[i], c[least] = c[least], c[i]
		i = least
	}
}

// nucleus returns how many of the first candidates reach the share p.
func nucleus(c []candidate, p float64) int {
	sum := 0.0
	for _, x := range c {
		sum += x.p
	}
	reached := 0.0
	for i, x := range c {
		if reached += x.p; reached >= p*sum {
			return i + 1
		}
	}
	return len(c)
}

// choose draws by probability, after temperature.
func (s *sampler) choose(c []candidate, position int) int32 {
	sum := 0.0
	for i := range c {
		c[i].p = math.Pow(c[i].p, 1/s.Temperature)
		sum += c[i].p
	}
	var source rand.PCG
	source.Seed(s.Seed, uint64(position))
	at := float64(source.Uint64()>>11) / (1 << 53) * sum
	for _, x := range c {
		if at -= x.p; at < 0 {
			return x.id
		}
	}
	return c[len(c)-1].id
}
