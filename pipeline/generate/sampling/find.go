package sampling

import (
	"math"

	"github.com/leat-dev/leat/internal/panel"
)

const (
	// few is up to how many logits no sample is taken of, and sampled the size of one.
	few     = 4096
	sampled = 2048

	// fewest is how many logits are put in order.
	fewest = 24
)

// finder finds the token at which the sum of the weights, in the order of the logits,
// reaches a target, without putting them all in order.
//
// It has a range of logits, both ends included, in which the token is: the sum above
// it is less than the target, and with what is inside it is not.
type finder struct {
	largest, scale float32
	low, high      float32
	target, above  uint64
}

// among returns the token among those in the range, given their logits and ids in
// order of the ids. Both are used up.
func (f finder) among(s *scratch, values []float32, ids []int32) crossing {
	for b := bisect(f.low, simd.Max(values)); len(values) > fewest; {
		middle, ok := b.middle()
		if !ok { // all are equal
			w := s.weigh(values[:1], f.largest, f.scale)[0]
			i := min(int((f.target-f.above-1)/max(w, 1)), len(values)-1)
			return crossing{prefix{values[0], i + 1}, ids[i]}
		}
		sum := f.above + simd.SumWeights(values, middle, f.largest, f.scale)
		b.told(middle, sum >= f.target)
		if sum >= f.target {
			f.low = middle
		} else {
			f.high, f.above = below(middle), sum
		}
		s.places = resize(s.places, len(values)+panel.FilterRoom)
		n := simd.Filter(values[:len(values):len(values)+panel.FilterRoom], s.places, values, f.low, f.high)
		for i, at := range s.places[:n] {
			ids[i] = ids[at]
		}
		values, ids = values[:n], ids[:n]
	}
	s.sortPairs(values, ids)
	i, _ := reach(s.weigh(values, f.largest, f.scale), f.target-f.above)
	return crossingAt(ids, values, min(i, len(values)-1))
}

// guess is a narrower range, in which the token most likely is.
type guess struct {
	made     bool
	from, to float32
	above    uint64 // the sum of the weights above it
}

// guess returns a guess by a sample of a row. The target depends on the row's total,
// which isn't known yet, and so is estimated too; and if the target most likely isn't
// above head, there is no guess.
//
// It goes by the sum of the weights behind the token: none of those is larger than the
// token's, and so the sample tells the token's place to within the square root of
// their number.
func (f finder) guess(s *scratch, row []float32, head uint64, target func(uint64) uint64) guess {
	const length = 16
	stride := (len(row) - length) / (sampled/length - 1)
	s.sample = resize(s.sample, sampled+panel.FilterRoom)
	for i := range sampled / length {
		copy(s.sample[i*length:][:length], row[i*stride:])
	}
	s.tokens = resize(s.tokens, sampled+panel.FilterRoom)
	n := simd.Filter(s.sample, s.tokens, s.sample[:sampled], f.low, f.high)
	sample := s.sample[:n]
	inside := simd.SumWeights(sample, f.low, f.largest, f.scale)
	ratio := float64(len(row)) / sampled
	total := f.above + uint64(float64(inside)*ratio)
	f.target = target(total)
	if f.target <= head || inside == 0 || n < sampled/64 {
		return guess{}
	}
	behind := min(uint64(float64(total-f.target)/ratio), inside-1)
	f.target, f.above = inside-behind, 0
	// The sample is used up; its counts are taken of a copy.
	s.counted = append(s.counted[:0], sample...)
	token := f.among(s, sample, s.tokens[:n])
	at := simd.Count(s.counted, token.value)
	margin := int(3*math.Sqrt(float64(n-at+1))) + 4
	g := guess{made: true, from: f.low, to: f.high}
	if at+margin < n {
		g.from, _ = cutoff(s.counted, at+margin)
	}
	if at > margin {
		g.to, _ = cutoff(s.counted, at-margin)
	}
	return g
}
