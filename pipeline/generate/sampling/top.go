package sampling

import (
	"math"

	"github.com/leat-dev/leat/internal/panel"
)

// stretches is into how many parts a long row is cut.
const stretches = 1024

// top makes the k largest logits the candidates, or all numbers if there are fewer.
// Of equal ones those of lower ids come first. They are in the order of the ids, but
// for those of -Inf, which come last.
func (s *scratch) top(x []float32, k int) {
	k = min(k, len(x))
	s.ids, s.values = resize(s.ids, len(x)+panel.FilterRoom), resize(s.values, len(x)+panel.FilterRoom)
	least, exact := float32(math.Inf(-1)), true
	if k > 0 {
		least, exact = s.least(x, k)
	}
	n := simd.Filter(s.values, s.ids, x, least, float32(math.Inf(1)))
	s.ids, s.values = s.ids[:n], s.values[:n]
	if n > k {
		if !exact {
			least, _ = cutoff(s.values, k)
		}
		s.trim(k, least)
		n = k
	}
	for i, v := range x {
		if n == k {
			break
		}
		if math.IsInf(float64(v), -1) {
			s.ids, s.values = append(s.ids, int32(i)), append(s.values, v)
			n++
		}
	}
}

// trim removes the candidates behind the k-th, given their cutoff.
func (s *scratch) trim(k int, least float32) {
	equal := k // how many that are equal to it stay
	if !math.IsInf(float64(least), 1) {
		equal -= simd.Count(s.values, next(least))
	}
	n := 0
	for i, v := range s.values {
		if v > least || v == least && equal > 0 {
			if v == least {
				equal--
			}
			s.ids[n], s.values[n] = s.ids[i], v
			n++
		}
	}
	s.ids, s.values = s.ids[:n], s.values[:n]
}

// least returns a value that at least k of x reach, and whether it is their cutoff.
// If x has fewer numbers above -Inf it is -Inf.
func (s *scratch) least(x []float32, k int) (least float32, exact bool) {
	size := (len(x)/stretches + 15) / 16 * 16
	if size < 32 || k > len(x)/size/2 {
		return cutoff(x, k)
	}
	// The k-th largest of the largest of each stretch is near the k-th largest of
	// all, if the stretches are many more.
	s.maxima = s.maxima[:0]
	for from := 0; from < len(x); from += size {
		s.maxima = append(s.maxima, simd.Max(x[from:min(from+size, len(x))]))
	}
	least, _ = cutoff(s.maxima, k)
	return least, false
}

// cutoff returns a value that exactly k of x reach; where equal values prevent that,
// the k-th largest. If x has fewer numbers above -Inf it is -Inf, and ok is false.
//
// It narrows down a range in which the value lies by counting how many reach its
// middle: mostly the mean of its ends, which is quick for what is spread evenly, but
// every fourth time the middle of the floats in it, after 32 of which one is left.
func cutoff(x []float32, k int) (value float32, ok bool) {
	largest := simd.Max(x)
	low, high := ordered(-math.MaxFloat32), ordered(largest)+1 // k reach low, fewer reach high
	if largest < -math.MaxFloat32 {
		return float32(math.Inf(-1)), false
	}
	known := false // whether k reach low
	for step, turn := float32(1), 0; ; turn++ {
		var middle uint32
		switch {
		case !known && turn < 8:
			// What is sought is most often a few units below the largest.
			middle = ordered(max(min(largest, math.MaxFloat32)-step, -math.MaxFloat32))
			step *= 2
		case !known:
			middle = low
		case turn%4 == 3:
			middle = low + (high-low)/2
		default:
			mean := (float64(number(low)) + float64(min(number(high-1), math.MaxFloat32))) / 2
			middle = ordered(float32(mean))
		}
		middle = max(middle, low)
		if known {
			middle = min(max(middle, low+1), high-1)
			if low+1 >= high {
				return number(low), true
			}
		}
		n := simd.Count(x, number(middle))
		switch {
		case n == k:
			return number(middle), true
		case n > k:
			low, known = middle, true
		case middle == low:
			return float32(math.Inf(-1)), false // fewer than k are finite
		default:
			high = middle
		}
	}
}
