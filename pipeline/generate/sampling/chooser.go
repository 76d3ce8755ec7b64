package sampling

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
)

// Chooser chooses the tokens of one sequence as [Params] says. It may be used from
// one goroutine at a time. In the steady state it allocates nothing: the memory
// that a choice needs is shared by all choosers.
type Chooser struct {
	params  Params
	changes changes
	scale   float32 // log2(e)/Temperature
	minP    float64 // ln(MinP)
}

// NewChooser returns a chooser. The error is that of [Params.Check].
func NewChooser(p Params) (*Chooser, error) {
	c := new(Chooser)
	return c, c.Reset(p)
}

// Reset makes c a chooser of p, for another sequence. The error is that of
// [Params.Check]; c takes the most likely token then.
func (c *Chooser) Reset(p Params) error {
	err := p.Check()
	if err != nil {
		p = Params{}
	}
	c.params = p
	c.changes.reset(&p)
	c.minP = math.Log(p.MinP)
	c.scale = 0
	if p.Temperature > 0 {
		// The limit of ever lower temperatures is a choice among the equal largest.
		c.scale = float32(min(math.Log2E/p.Temperature, math.MaxFloat32))
	}
	return err
}

// errNoNumber is the error of a row without any number.
func errNoNumber(position int) error {
	return fmt.Errorf("no logit of token %d is a number", position)
}

var errWholeRow = errors.New("these sampling parameters need the whole row of logits: see Keep")

// Keep returns how many of a row's largest logits are enough to choose the token
// that follows tokens: see [Chooser.ChooseTop]. ok is false if the whole row is
// needed: where TopK is off, where a bias is positive or the penalty is below 1, so
// that any token may become one of the most likely, and where it would be more than
// [MaxTop].
//
// The number grows with TopK, the biases and the tokens that may be penalized,
// since each of those may fall behind. It depends on tokens by their number alone.
func (c *Chooser) Keep(tokens []int32) (k int, ok bool) {
	k = c.params.TopK
	if c.params.Temperature == 0 {
		k = 1
	}
	if k == 0 || k > MaxTop || c.changes.raises {
		return 0, false
	}
	k += c.changes.most(len(tokens))
	if k > MaxTop {
		return 0, false
	}
	return k, true
}

// KeepAlways is Keep for any number of tokens.
func (c *Chooser) KeepAlways() (k int, ok bool) {
	var any [penalized]int32
	return c.Keep(any[:])
}

// Choose returns the token that follows tokens, by a row of logits, one a token of
// the vocabulary. It changes neither. It fails if no logit is a number, and if the
// biases leave no token.
func (c *Chooser) Choose(logits []float32, tokens []int32) (int32, error) {
	if c.params.Greedy() {
		return first(logits, len(tokens))
	}
	s := borrow()
	defer s.giveBack()
	if k, ok := c.Keep(tokens); ok {
		s.top(logits, k)
		if c.changes.any(len(tokens)) {
			return c.fromChanged(s, tokens)
		}
		return c.fromSet(s, len(tokens))
	}
	if c.changes.any(len(tokens)) {
		s.changed = append(s.changed[:0], logits...)
		logits = s.changed
		c.changes.row(logits, tokens)
	}
	return c.fromRow(s, logits, len(tokens))
}

// first returns the first of the largest logits.
func first(logits []float32, position int) (int32, error) {
	best := ArgMax(logits)
	if best < 0 {
		return 0, errNoNumber(position)
	}
	return best, nil
}

// ArgMax returns the token of the largest logit, of equal ones the first; -1 if none
// is a number.
func ArgMax(logits []float32) int32 { return int32(simd.ArgMax(logits)) }

// ChooseTop returns the token that [Chooser.Choose] returns for the same tokens and
// a whole row of logits, given the largest of the row: ids are their tokens, the
// largest first and, of equal logits, the lower id first. At least as many must be
// given as [Chooser.Keep] says, or all numbers of a row that has fewer. An id below
// 0 and a logit that is not a number end them. It changes none of its arguments.
func (c *Chooser) ChooseTop(ids []int32, logits []float32, tokens []int32) (int32, error) {
	k, ok := c.Keep(tokens)
	switch {
	case !ok:
		return 0, errWholeRow
	case len(ids) != len(logits):
		return 0, fmt.Errorf("%d ids with %d logits", len(ids), len(logits))
	}
	n := 0
	for n < min(k, len(ids)) && ids[n] >= 0 && logits[n] == logits[n] {
		n++
	}
	s := borrow()
	defer s.giveBack()
	if !c.changes.any(len(tokens)) {
		return c.fromSorted(s, ids[:n], logits[:n], n, len(tokens))
	}
	s.ids = append(s.ids[:0], ids[:n]...)
	s.values = append(s.values[:0], logits[:n]...)
	return c.fromChanged(s, tokens)
}

// fromChanged chooses from s.ids and s.values, in any order, by their logits after
// the changes.
func (c *Chooser) fromChanged(s *scratch, tokens []int32) (int32, error) {
	c.changes.some(s.ids, s.values, tokens)
	s.dropNaN()
	if k := c.params.TopK; k > 0 && k < len(s.ids) {
		s.sort(len(s.ids))
		s.ids, s.values = s.ids[:k], s.values[:k]
	}
	return c.fromSet(s, len(tokens))
}

// fromSet chooses from s.ids and s.values, in any order, which are all that TopK
// keeps. Only those that MinP keeps must be in order.
func (c *Chooser) fromSet(s *scratch, position int) (int32, error) {
	kept := len(s.ids)
	if c.params.MinP > 0 && kept > 0 {
		least := c.least(simd.Max(s.values))
		kept = 0
		for i, v := range s.values {
			if v >= least {
				s.values[i], s.values[kept] = s.values[kept], v
				s.ids[i], s.ids[kept] = s.ids[kept], s.ids[i]
				kept++
			}
		}
		if kept == 0 { // all are -Inf
			kept = len(s.ids)
		}
	}
	s.sort(kept)
	return c.fromSorted(s, s.ids, s.values, kept, position)
}

// least returns the smallest logit that MinP keeps.
func (c *Chooser) least(largest float32) float32 {
	least := float64(largest) + c.minP
	rounded := float32(max(least, -math.MaxFloat32))
	if float64(rounded) < least {
		rounded = above(rounded)
	}
	return rounded
}

// fromSorted chooses from tokens by their logits, which are all that TopK keeps. The
// first kept are in order, and none behind them is one that MinP keeps.
func (c *Chooser) fromSorted(s *scratch, ids []int32, logits []float32, kept, position int) (int32, error) {
	if len(ids) == 0 {
		return 0, errNoNumber(position)
	}
	largest := logits[0]
	switch done, err := c.decided(largest, position); {
	case err != nil:
		return 0, err
	case done:
		return ids[0], nil
	}
	if c.params.MinP > 0 {
		least := c.least(largest)
		n := 1
		for n < kept && logits[n] >= least {
			n++
		}
		kept = n
	}
	if kept > 1 && c.nucleus() {
		w := s.weigh(logits, largest, unchanged)
		i, _ := reach(w[:kept], share(c.params.TopP, sum(w)))
		kept = min(i+1, kept)
	}
	if kept == 1 {
		return ids[0], nil
	}
	w := s.weigh(logits[:kept], largest, c.scale)
	i, _ := reach(w, c.draw(sum(w), position))
	return ids[min(i, kept-1)], nil
}

// decided reports whether the first token is chosen without a draw. The error says
// that the biases leave no token.
func (c *Chooser) decided(largest float32, position int) (bool, error) {
	if c.changes.given && math.IsInf(float64(largest), -1) {
		return false, fmt.Errorf("the biases leave no token for position %d", position)
	}
	return c.params.Temperature == 0 || math.IsInf(float64(largest), 0), nil
}

// nucleus reports whether TopP is on.
func (c *Chooser) nucleus() bool { return c.params.TopP > 0 && c.params.TopP < 1 }

// draw returns the sum at which the random number of a position finds its token, of
// total, which must not be 0: from 1 to total.
func (c *Chooser) draw(total uint64, position int) uint64 {
	var source rand.PCG
	source.Seed(c.params.Seed, uint64(position))
	at, _ := bits.Mul64(source.Uint64(), total)
	return at + 1
}

// share returns p times a sum, rounded up: from 1 to total.
func share(p float64, total uint64) uint64 {
	return max(1, min(uint64(math.Ceil(p*float64(total))), total))
}

func sum(w []uint64) uint64 {
	total := uint64(0)
	for _, x := range w {
		total += x
	}
	return total
}

// reach returns the index at which the sum of w reaches target, and the sum before
// it. If that is never the index is len(w).
func reach(w []uint64, target uint64) (i int, before uint64) {
	for i, x := range w {
		if before+x >= target {
			return i, before
		}
		before += x
	}
	return len(w), before
}
