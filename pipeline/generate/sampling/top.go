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
	if k == 0 {
		s.ids, s.values = s.ids[:0], s.values[:0]
		return
	}
	least, exact := s.least(x, k)
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
		equal -= simd.Count(s.values, above(least))
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
func cutoff(x []float32, k int) (value float32, ok bool) {
	if n := simd.Count(x, -math.MaxFloat32); n <= k {
		return float32(math.Inf(-1)), n == k
	}
	for b := bisect(-math.MaxFloat32, simd.Max(x)); ; {
		middle, ok := b.middle()
		if !ok {
			return middle, true
		}
		n := simd.Count(x, middle)
		if n == k {
			return middle, true
		}
		b.told(middle, n > k)
	}
}
