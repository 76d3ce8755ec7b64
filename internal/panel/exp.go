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
	if x < -88 {
		x = -88
	}
	const round = 3 << 22 // adding it leaves no bits for a fraction
	n := float32(x*(1/math.Ln2)) + round - round
	r := x - float32(n*ln2High)
	r -= float32(n * ln2Low)

	s := float32(1. / 5040)
	s = float32(s*r) + 1./720
	s = float32(s*r) + 1./120
	s = float32(s*r) + 1./24
	s = float32(s*r) + 1./6
	s = float32(s*r) + 1./2
	s = float32(s*r) + 1
	s = float32(s*r) + 1
	// An exponent field of 0, which n = -127 comes to, is the number 0.
	return float32(s * math.Float32frombits(uint32(int32(n)+127)<<23))
}
