package cpu

import "math"

// ln 2 in two parts: the first has so few bits that an exponent times it is
// exact.
const (
	ln2High = 0x1.62ep-1 // 12 bits of ln 2
	ln2Low  = math.Ln2 - ln2High
)

// exp returns e^x, with a relative error below 2^-23 for normal results and
// below one step of a denormal else. It has the same bits on every target:
// each product is rounded before it is added to.
//
// x is reduced to n·ln 2 + r with |r| ≤ ln 2/2 (Cody and Waite, "Software Manual
// for the Elementary Functions", 1980), and e^r is summed by Taylor's series,
// whose remainder after r⁷ is below 6e-9.
func exp(x float32) float32 {
	switch {
	case x > 89:
		return float32(math.Inf(1))
	case x < -104:
		return 0
	case x != x:
		return x
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

	// 2^n in two factors, since n may be 128, or below the least normal exponent.
	half := int32(n) >> 1
	rest := int32(n) - half
	return float32(s * power2(half) * power2(rest))
}

// power2 returns 2^n for -126 ≤ n ≤ 127.
func power2(n int32) float32 { return math.Float32frombits(uint32(n+127) << 23) }
