package sampling

import (
	"slices"
)

// changes are what is done to logits before tokens are ordered by them. They are
// prepared once a sequence.
type changes struct {
	biases  []bias // in order of their tokens, without those that are 0
	given   bool   // there are biases, if only of 0
	penalty float32
	on      bool // there is a penalty
	raises  bool // a logit may become larger
	recent  set
}

type bias struct {
	id  int32
	add float32
}

func (c *changes) reset(p *Params) {
	c.biases, c.given = c.biases[:0], len(p.Bias) > 0
	c.penalty, c.on = float32(p.RepeatPenalty), p.penalizes()
	c.raises = c.on && c.penalty < 1
	for id, add := range p.Bias {
		if add != 0 {
			c.biases = append(c.biases, bias{id, add})
			c.raises = c.raises || add > 0
		}
	}
	slices.SortFunc(c.biases, func(a, b bias) int { return int(a.id) - int(b.id) })
}

// most returns how many tokens may be changed at most behind a number of tokens.
func (c *changes) most(tokens int) int {
	if c.on {
		return len(c.biases) + min(tokens, penalized)
	}
	return len(c.biases)
}

func (c *changes) any(tokens int) bool { return c.most(tokens) > 0 }

// penalize returns a token's logit after the penalty.
func (c *changes) penalize(l float32) float32 {
	if l > 0 {
		return l / c.penalty
	}
	return l * c.penalty
}

func last(tokens []int32) []int32 { return tokens[max(0, len(tokens)-penalized):] }

// row changes a whole row.
func (c *changes) row(logits []float32, tokens []int32) {
	for _, b := range c.biases {
		if int(b.id) >= len(logits) {
			break
		}
		logits[b.id] += b.add
	}
	if !c.on {
		return
	}
	c.recent.clear()
	for _, id := range last(tokens) {
		if id >= 0 && int(id) < len(logits) && c.recent.add(id) {
			logits[id] = c.penalize(logits[id])
		}
	}
}

// some changes the logits of some tokens, as row does.
func (c *changes) some(ids []int32, logits []float32, tokens []int32) {
	if len(c.biases) > 0 {
		for i, id := range ids {
			if at, ok := slices.BinarySearchFunc(c.biases, id, func(b bias, id int32) int { return int(b.id) - int(id) }); ok {
				logits[i] += c.biases[at].add
			}
		}
	}
	if !c.on {
		return
	}
	c.recent.clear()
	for _, id := range last(tokens) {
		if id >= 0 {
			c.recent.add(id)
		}
	}
	for i, id := range ids {
		if c.recent.has(id) {
			logits[i] = c.penalize(logits[i])
		}
	}
}

// set is a set of up to penalized tokens: a hash table with open addressing.
type set struct {
	slots [2 * penalized]int32 // a token plus 1; 0 where there is none
}

func (s *set) clear() { s.slots = [2 * penalized]int32{} }

// at returns the slot of a token, or the free one where it belongs.
func (s *set) at(id int32) *int32 {
	const unused = 32 - 7 // the product's 7 highest bits choose one of 128 slots
	for i := uint32(id+1) * 0x9e3779b1 >> unused; ; i++ {
		slot := &s.slots[i%uint32(len(s.slots))]
		if *slot == 0 || *slot == id+1 {
			return slot
		}
	}
}

// add reports whether a token wasn't there yet.
func (s *set) add(id int32) bool {
	slot := s.at(id)
	isNew := *slot == 0
	*slot = id + 1
	return isNew
}

func (s *set) has(id int32) bool { return *s.at(id) != 0 }
