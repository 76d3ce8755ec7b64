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
	r := row{s, logits, largest}
	r.begin()
	kept := everything
	if k := c.params.TopK; k > 0 && k < len(logits) {
		// At a scale of 0 each weighs the same.
		kept = r.reach(0, kept, func(total uint64) uint64 { return min(uint64(k)*panel.WeightOne, total) }).prefix
	}
	if c.nucleus() {
		kept = r.reach(unchanged, kept, func(total uint64) uint64 { return share(c.params.TopP, total) }).prefix
	}
	if c.params.MinP > 0 {
		kept = kept.shorter(prefix{value: below(c.least(largest))})
	}
	return r.reach(c.scale, kept, func(total uint64) uint64 { return c.draw(total, position) }).id, nil
}

// row is a row of logits at work. If it is long, the candidates are its head.
type row struct {
	*scratch
	logits  []float32
	largest float32
}

func (r row) begin() {
	r.ids, r.values = r.ids[:0], r.values[:0]
	if len(r.logits) >= long {
		r.top(r.logits, headSize)
		r.sort(len(r.ids))
	}
}

// weighHead returns the weights of the head, and how many of them are in a prefix.
func (r row) weighHead(scale float32, within prefix) ([]uint64, int) {
	w := r.head[:len(r.values)]
	simd.Weights(r.head[:], r.values, r.largest, scale)
	for i, v := range r.values {
		if v == within.value && within.equal > 0 {
			within.equal--
		} else if !(v > within.value) {
			return w, i
		}
	}
	return w, len(w)
}

// crossing is the token at which a sum is reached, with the prefix that ends there.
type crossing struct {
	prefix
	id int32
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

// reach returns the token at which the sum of the weights of a prefix reaches a
// target, which depends on the prefix's total and is from 1 to that.
func (r row) reach(scale float32, within prefix, target func(total uint64) uint64) crossing {
	w, n := r.weighHead(scale, within)
	head := sum(w[:n])
	if n < len(w) { // the prefix ends in the head
		i, _ := reach(w[:n], target(head))
		return crossingAt(r.ids, r.values, i)
	}
	f := finder{largest: r.largest, scale: scale, low: within.value, high: r.largest}
	if within.equal == 0 {
		f.low = above(f.low)
	}
	if n > 0 {
		// Of those that are equal to the head's last some may be behind it.
		f.high, f.above = r.values[n-1], head
		for i := n; i > 0 && r.values[i-1] == f.high; i-- {
			f.above -= w[i-1]
		}
	}

	var g guess
	if len(r.logits) > few {
		g = f.guess(r.scratch, r.logits, head, target)
	}
	total := r.total(scale, within, &g)
	f.target = target(total)
	if i, _ := reach(w, f.target); i < n {
		return crossingAt(r.ids, r.values, i)
	}
	switch {
	case !g.made:
	case g.above >= f.target: // the token is above the guess
		f.low = above(g.to)
	default:
		if g.to < f.high {
			f.high, f.above = g.to, g.above
		}
		values, ids := r.between(g.from, f.high)
		if sum := f.above + simd.SumWeights(values, g.from, f.largest, scale); sum >= f.target {
			f.low = g.from
			return f.among(r.scratch, values, ids)
		} else if g.from > f.low { // it is below the guess
			f.high, f.above = below(g.from), sum
		}
	}
	values, ids := r.between(f.low, f.high)
	return f.among(r.scratch, values, ids)
}

// total returns the sum of the weights of a prefix. If there is a guess, it also gets
// the sum of what is above it.
func (r row) total(scale float32, within prefix, g *guess) uint64 {
	total, from := uint64(0), above(within.value)
	if g.made {
		total, g.above = simd.SplitWeights(r.logits, from, above(g.to), r.largest, scale)
	} else {
		total = simd.SumWeights(r.logits, from, r.largest, scale)
	}
	if within.equal > 0 {
		r.one[0] = within.value
		total += uint64(within.equal) * r.weigh(r.one[:], r.largest, scale)[0]
	}
	return total
}

// between returns the logits in a range, with their tokens.
func (r row) between(from, to float32) ([]float32, []int32) {
	room := len(r.logits) + panel.FilterRoom
	r.inside, r.tokens = resize(r.inside, room), resize(r.tokens, room)
	n := simd.Filter(r.inside, r.tokens, r.logits, from, to)
	return r.inside[:n], r.tokens[:n]
}
