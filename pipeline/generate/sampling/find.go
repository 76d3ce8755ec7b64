package sampling

import (
	"math"

	"github.com/leat-dev/leat/internal/panel"
)

const (
	buckets = 256
	sampled = 2048

	// few is how many logits are looked at one by one, and fewest are ordered.
	few    = 2048
	fewest = 24
)

// finder finds the token of a row at which the sum of the weights, in the order of
// the logits, reaches a target, without ordering the row.
//
// It keeps a range of logits, both ends included, in which the token is: the sum
// above it is less than the target, and with what is inside is not. A sample of the
// row tells where a narrower range might be, and sums of weights, which are exact,
// whether it is there. What is in it is copied, and so on with the copy.
type finder struct {
	row     []float32
	largest float32

	scale, low, high      float32
	target, above, inside uint64

	values [2][]float32 // copies, by turns
	places [2][]int32
	sample [sampled]float32
}

func (f *finder) find(s *scratch) crossing {
	x, ids, base := f.row, []int32(nil), uint64(0) // base: the weights above all of x
	turn := 0
	// copyOf copies what is in a range to the other copy, with its tokens.
	copyOf := func(from, to float32) ([]float32, []int32) {
		f.values[turn] = resize(f.values[turn], len(x)+panel.FilterRoom)
		f.places[turn] = resize(f.places[turn], len(x)+panel.FilterRoom)
		n := simd.Filter(f.values[turn], f.places[turn], x, from, to)
		values, places := f.values[turn][:n], f.places[turn][:n]
		if ids != nil {
			for i, at := range places {
				places[i] = ids[at]
			}
		}
		turn = 1 - turn
		return values, places
	}
	sumOf := func(x []float32, from float32) uint64 { return simd.SumWeights(x, from, f.largest, f.scale) }

	for tries := 0; tries < 10 && len(x) > few && f.low < f.high; tries++ {
		from, to := f.guess(s, x)
		if to < f.high {
			above := base + sumOf(x, next(to))
			if above >= f.target { // the token is above the guess
				f.low, f.inside = next(to), above-f.above
				continue
			}
			f.inside -= above - f.above
			f.high, f.above = to, above
		}
		values, places := copyOf(from, f.high)
		inside := sumOf(values, from)
		if f.above+inside < f.target { // the token is below the guess
			f.high, f.above, f.inside = previous(from), f.above+inside, f.inside-inside
			continue
		}
		f.low, f.inside = from, inside
		x, ids, base = values, places, f.above
	}
	values, places := copyOf(f.low, f.high)
	return f.among(s, values, places)
}

// guess returns a range, inside the finder's, in which the token most likely is.
//
// It goes by the sum below the token, which is known as the rest: since no weight
// below is larger than the token's, a sample tells its place by it to within the
// square root of the number that are below.
func (f *finder) guess(s *scratch, x []float32) (from, to float32) {
	const runs, length = sampled / 16, 16
	n, stride := 0, (len(x)-length)/(runs-1)
	least, most := float32(math.MaxFloat32), float32(-math.MaxFloat32)
	for i := range runs {
		for _, v := range x[i*stride:][:length] {
			if v >= f.low && v <= f.high {
				f.sample[n] = v
				n++
				least, most = min(least, v), max(most, v)
			}
		}
	}
	switch {
	case n < sampled/64:
		return f.low, f.high // so few of x are inside that they can be copied
	case least == most:
		return least, most
	}
	rest := 0.0
	if upTo := f.target - f.above; f.inside > upTo {
		rest = float64(f.inside-upTo) * sampled / float64(len(x))
	}
	counts, sums := s.histogram(f.sample[:n], f, least, most)
	at, below, sum := buckets-1, 0, 0.0
	for ; at > 0; at-- {
		if sum += float64(sums[at]); sum > rest {
			break
		}
		below += int(counts[at])
	}
	// The last bucket has the least values.
	margin := int32(3*math.Sqrt(float64(below+1))) + 4
	first, last := at, at
	for n := int32(0); first >= 0 && n < margin; first-- {
		n += counts[first]
	}
	for n := int32(0); last < buckets && n < margin; last++ {
		n += counts[last]
	}
	width := (float64(most) - float64(least)) / buckets
	from, to = f.low, f.high
	if last < buckets {
		from = max(from, float32(float64(most)-float64(last)*width))
	}
	if first >= 0 {
		to = min(to, float32(float64(most)-float64(first+1)*width))
	}
	if from > to {
		return f.low, f.high
	}
	return from, to
}

// histogram sorts values from least to most into buckets, the largest into the
// first, and returns how many are in each and the sum of their weights.
func (s *scratch) histogram(values []float32, f *finder, least, most float32) (*[buckets]int32, *[buckets]uint64) {
	s.counts, s.sums = [buckets]int32{}, [buckets]uint64{}
	w := s.weigh(values, f.largest, f.scale)
	perUnit := perUnit(least, most)
	for i, v := range values {
		b := bucket(v, most, perUnit)
		s.counts[b]++
		s.sums[b] += w[i]
	}
	return &s.counts, &s.sums
}

// perUnit returns how many buckets a unit of logits has.
func perUnit(least, most float32) float64 {
	return buckets * (1 - 1e-6) / (float64(most) - float64(least))
}

// bucket returns the bucket of v: 0 of the most, and another of the least. Of larger
// values it is never larger.
func bucket(v, most float32, perUnit float64) uint8 {
	return uint8(int((float64(most) - float64(v)) * perUnit))
}

// among returns the token among those inside the range, in order of their ids. They
// are used up.
func (f *finder) among(s *scratch, values []float32, ids []int32) crossing {
	for len(values) > fewest {
		least, most := values[0], values[0]
		for _, v := range values {
			if v < least {
				least = v
			}
			if v > most {
				most = v
			}
		}
		if least == most {
			w := s.weigh(values[:1], f.largest, f.scale)[0]
			i := min(int((f.target-f.above-1)/max(w, 1)), len(values)-1)
			return crossing{prefix{most, i + 1}, ids[i]}
		}
		_, sums := s.histogram(values, f, least, most)
		in, before := reach(sums[:], f.target-f.above)
		in = min(in, buckets-1)
		f.above += before
		n, perUnit := 0, perUnit(least, most)
		for i, v := range values {
			if int(bucket(v, most, perUnit)) == in {
				values[n], ids[n] = v, ids[i]
				n++
			}
		}
		values, ids = values[:n], ids[:n]
	}
	s.sortPairs(values, ids)
	w := s.weigh(values, f.largest, f.scale)
	i, _ := reach(w, f.target-f.above)
	return crossingAt(ids, values, min(i, len(values)-1))
}
