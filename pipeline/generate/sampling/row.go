package sampling

import (
	"fmt"
	"math"

	"github.com/leat-dev/leat/internal/panel"
)

// long is from how many logits on a row's largest are looked at before the others.
const long = 1 << 14

// headSize is how many of them are.
const headSize = 128

// maxRow is how many weights can be summed up.
const maxRow = 1 << 23

// prefix is the beginning of a row in the order of its logits: those above value,
// and the first equal ones of those that are equal to it.
type prefix struct {
	value float32
	equal int
}

// everything is the prefix of all numbers above -Inf.
var everything = prefix{value: float32(math.Inf(-1))}

// shorter returns the shorter of two prefixes.
func (p prefix) shorter(q prefix) prefix {
	if q.value > p.value || q.value == p.value && q.equal < p.equal {
		return q
	}
	return p
}

// fromRow chooses from a whole row.
func (c *Chooser) fromRow(s *scratch, logits []float32, position int) (int32, error) {
	best, err := first(logits, position)
	if err != nil {
		return 0, err
	}
	largest := logits[best]
	switch done, err := c.decided(largest, position); {
	case err != nil:
		return 0, err
	case done:
		return best, nil
	case len(logits) > maxRow:
		return 0, fmt.Errorf("a row of %d logits: up to %d can be sampled from", len(logits), maxRow)
	}
	s.begin(logits, largest)
	kept := everything
	if k := c.params.TopK; k > 0 {
		// At a scale of 0 each weighs the same.
		if all := s.sum(0, everything); uint64(k) < all/panel.WeightOne {
			kept = s.reach(0, uint64(k)*panel.WeightOne, everything, all).prefix
		}
	}
	if c.nucleus() {
		total := s.sum(unchanged, kept)
		kept = s.reach(unchanged, share(c.params.TopP, total), kept, total).prefix
	}
	if c.params.MinP > 0 {
		kept = kept.shorter(prefix{value: previous(c.least(largest))})
	}
	total := s.sum(c.scale, kept)
	return s.reach(c.scale, c.draw(total, position), kept, total).id, nil
}

// begin prepares to work on a row.
func (s *scratch) begin(logits []float32, largest float32) {
	s.find.row, s.find.largest = logits, largest
	s.ids, s.values = s.ids[:0], s.values[:0]
	if len(logits) >= long {
		s.top(logits, headSize)
		s.sort(len(s.ids))
	}
}

// headed returns the weights of the head, if there is one, and how many of them are
// in a prefix.
func (s *scratch) headed(scale float32, within prefix) ([]uint64, int) {
	w := s.weigh(s.values, s.find.largest, scale)
	for i, v := range s.values {
		if v == within.value && within.equal > 0 {
			within.equal--
		} else if !(v > within.value) {
			return w, i
		}
	}
	return w, len(w)
}

// sum returns the sum of the weights of a prefix.
func (s *scratch) sum(scale float32, of prefix) uint64 {
	if w, n := s.headed(scale, of); n < len(w) {
		return sum(w[:n])
	}
	total := simd.SumWeights(s.find.row, next(of.value), s.find.largest, scale)
	if of.equal > 0 {
		s.one[0] = of.value
		total += uint64(of.equal) * s.weigh(s.one[:], s.find.largest, scale)[0]
	}
	return total
}

// crossing is the token at which a sum is reached, with the prefix that ends there.
type crossing struct {
	prefix
	id int32
}

// reach returns the token at which the sum of the weights reaches target, of a prefix
// whose sum is total, which is at least target.
func (s *scratch) reach(scale float32, target uint64, within prefix, total uint64) crossing {
	w, n := s.headed(scale, within)
	i, before := reach(w[:n], target)
	if i < n {
		return crossingAt(s.ids, s.values, i)
	}
	f := &s.find
	f.scale, f.target = scale, target
	f.low, f.high, f.above, f.inside = within.value, f.largest, 0, total
	if within.equal == 0 {
		f.low = next(f.low)
	}
	if n > 0 {
		// Of those that are equal to the head's last some may be behind it.
		f.high = s.values[n-1]
		for ; n > 0 && s.values[n-1] == f.high; n-- {
			before -= w[n-1]
		}
		f.above, f.inside = before, total-before
	}
	return f.find(s)
}

// crossingAt returns the crossing at the i-th of tokens that are in order, and that
// have all that are equal to it and before it.
func crossingAt(ids []int32, values []float32, i int) crossing {
	c := crossing{prefix{values[i], 1}, ids[i]}
	for j := i - 1; j >= 0 && values[j] == values[i]; j-- {
		c.equal++
	}
	return c
}
