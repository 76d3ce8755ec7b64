package panel

import "math"

// ln 2 in two parts: the first has so few bits that an exponent times it is
// exact.
const (
	ln2High = 0x1.62ep-1 // 12 bits of ln 2
	ln2Low  = math.Ln2 - ln2High
)

// exp returns e^x for x at most 0, with a relative error below 2^-23; where it
// would be below 2^-126.5, which float32 can't hold in full, it is 0. Of NaN it
// is NaN.
//
// x is reduced to n·ln 2 + r with |r| ≤ ln 2/2 (Cody and Waite, "Software Manual
// for the Elementary Functions", 1980), and e^r is summed by Taylor's series,
// whose remainder after r⁷ is below 6e-9. Each product is rounded before it is
// added to; the SIMD levels fuse the two.
func exp(x float32) float32 {
	n, r := reduce(x)
	return float32((float32(series(r)*r) + 1) * twoTo(n))
}

// expm1 returns e^x - 1 for x at most 0, with a relative error below 2^-22: with n and
// r as in exp, e^r - 1 is r times the rest of the series, and e^x - 1 is
// 2^n·(e^r - 1) + (2^n - 1).
func expm1(x float32) float32 {
	n, r := reduce(x)
	power := twoTo(n)
	return float32(float32(series(r)*r)*power) + (power - 1)
}

// reduce returns x, or -88 where it is less, as n·ln 2 + r.
func reduce(x float32) (n, r float32) {
	if x < -88 {
		x = -88
	}
	const round = 3 << 22 // adding it leaves no bits for a fraction
	n = float32(x*(1/math.Ln2)) + round - round
	r = x - float32(n*ln2High)
	return n, r - float32(n*ln2Low)
}

// series is Taylor's, of (e^r - 1)/r.
func series(r float32) float32 {
	s := float32(1. / 5040)
	s = float32(s*r) + 1./720
	s = float32(s*r) + 1./120
	s = float32(s*r) + 1./24
	s = float32(s*r) + 1./6
	s = float32(s*r) + 1./2
	return float32(s*r) + 1
}

// twoTo is 2^n of an integer n from -126 to 0. The exponent field of -127 is 0, which
// is the number 0.
func twoTo(n float32) float32 { return math.Float32frombits(uint32(int32(n)+127) << 23) }
