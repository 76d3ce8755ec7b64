package sampling

import "math"

// bisection finds a number by a condition that holds for the number itself and for
// all smaller ones, and for no larger one. Of a number for which the condition holds
// it says that it reaches what is sought.
//
// It narrows down a range that has the number. At first it proposes numbers a few
// units below the largest, where the one sought most often is. Then it mostly proposes
// the mean of the range's ends, which is quick if values are spread evenly, and every
// fourth time the middle one of all float32 in the range: after 32 of those one is left.
type bisection struct {
	low, high uint32 // ordered: low reaches it, high doesn't
	step      float32
	turn      int
}

// bisect returns a bisection of a range, given its ends. The lower one reaches what
// is sought.
func bisect(low, largest float32) bisection {
	return bisection{low: ordered(low), high: ordered(largest) + 1, step: 1}
}

// middle returns the number to try next. ok is false if one is left: it is that.
func (b *bisection) middle() (middle float32, ok bool) {
	if b.high-b.low <= 1 {
		return number(b.low), false
	}
	low, high := float64(number(b.low)), min(float64(number(b.high-1)), math.MaxFloat32)
	b.turn++
	var at uint32
	switch step := float64(b.step); {
	case step > 0 && high-step > low && b.turn < 8:
		at = ordered(float32(high - step))
		b.step *= 2
	case b.turn%4 == 0:
		at = b.low + (b.high-b.low)/2
	default:
		at = ordered(float32(low + (high-low)/2))
	}
	return number(min(max(at, b.low+1), b.high-1)), true
}

// told narrows the range by whether a middle reaches what is sought.
func (b *bisection) told(middle float32, reaches bool) {
	if reaches {
		b.low, b.step = ordered(middle), 0
	} else {
		b.high = ordered(middle)
	}
}

// above and below return the next larger and the next smaller float32. An infinity
// has none beyond it, and is returned itself.
func above(x float32) float32 { return math.Nextafter32(x, float32(math.Inf(1))) }
func below(x float32) float32 { return math.Nextafter32(x, float32(math.Inf(-1))) }

// ordered maps numbers to integers of the same order. Both zeros are the same.
func ordered(x float32) uint32 {
	b := math.Float32bits(x + 0)
	return b ^ (uint32(int32(b)>>31) | 1<<31)
}

// number is the inverse of ordered.
func number(o uint32) float32 {
	return math.Float32frombits(o ^ (^uint32(int32(o)>>31) | 1<<31))
}
