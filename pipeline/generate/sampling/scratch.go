package sampling

import (
	"math"
	"os"
	"slices"
	"sync"

	"github.com/leat-dev/leat/device/cpu"
	"github.com/leat-dev/leat/internal/panel"
)

// simd are the kernels of the best SIMD level, or of the one that the environment
// asks for. All levels give the same results.
var simd = func() *panel.Kernels {
	k, err := panel.For(os.Getenv(cpu.SIMDVariable))
	if err != nil {
		// Either no level is asked for, or it is a wrong one: package cpu, which needs
		// the level too, reports that.
		k, _ = panel.For(panel.Levels()[0])
	}
	return k
}()

// scratch is the memory in which a choice is made. It is borrowed for one choice, so
// that there are as many as choices at the same time, and not one a sequence.
type scratch struct {
	// ids and values are the candidates: tokens and their logits.
	ids    []int32
	values []float32

	keys    []uint64         // of sort
	weights []uint64         // of weigh
	changed []float32        // the row with its biases and its penalty
	maxima  []float32        // of the stretches of a row
	head    [headSize]uint64 // weights of a row's head
	one     [1]float32

	// A finder's.
	sample  []float32 // of a row
	counted []float32 // a copy of the sample
	inside  []float32 // the logits in the range
	tokens  []int32   // their tokens
	places  []int32   // where they were before they were filtered
}

var pool = sync.Pool{New: func() any { return new(scratch) }}

func borrow() *scratch       { return pool.Get().(*scratch) }
func (s *scratch) giveBack() { pool.Put(s) }

// unchanged is the scale of weights at a temperature of 1.
const unchanged = float32(math.Log2E)

// weigh returns the weights of logits, until it is called again.
func (s *scratch) weigh(logits []float32, largest, scale float32) []uint64 {
	s.weights = resize(s.weights, (len(logits)+15)/16*16)
	simd.Weights(s.weights, logits, largest, scale)
	return s.weights[:len(logits)]
}

// resize returns x with a length of n. Its contents are lost.
func resize[T any](x []T, n int) []T { return slices.Grow(x[:0], n)[:n] }

// sort orders the first n candidates: the largest value first, and of equal ones the
// lower id.
func (s *scratch) sort(n int) { s.sortPairs(s.values[:n], s.ids[:n]) }

func (s *scratch) sortPairs(values []float32, ids []int32) {
	s.keys = resize(s.keys, len(ids))
	for i, id := range ids {
		s.keys[i] = uint64(^ordered(values[i]))<<32 | uint64(uint32(id))
	}
	order(s.keys)
	for i, key := range s.keys {
		values[i], ids[i] = number(^uint32(key>>32)), int32(uint32(key))
	}
}

// order sorts keys. Most often they are few.
func order(keys []uint64) {
	if len(keys) > 80 {
		slices.Sort(keys)
		return
	}
	for i, key := range keys {
		for ; i > 0 && keys[i-1] > key; i-- {
			keys[i] = keys[i-1]
		}
		keys[i] = key
	}
}

// dropNaN removes candidates whose value is not a number.
func (s *scratch) dropNaN() {
	n := 0
	for i, v := range s.values {
		if v == v {
			s.ids[n], s.values[n] = s.ids[i], v
			n++
		}
	}
	s.ids, s.values = s.ids[:n], s.values[:n]
}
