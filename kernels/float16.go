package kernels

import "math"

// Float16bits returns f rounded to binary16 (IEEE 754-2019, 3.6), ties to even:
// too large becomes an infinity, and a NaN a quiet one of the same sign.
func Float16bits(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 1<<31 - 1
	const (
		nan       = 0xff<<23 + 1
		leastOver = 0x477ff000 // 65520, halfway from the largest number to the next
		least     = 0x38800000 // 2^-14, the least normal number
	)
	switch {
	case b >= nan:
		return sign | 0x7e00
	case b >= leastOver:
		return sign | 0x7c00
	case b < least:
		// A float32 whose last bit weighs 2^-24, as a denormal's does: the
		// addition rounds.
		const aligned = 0.5
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+aligned)-math.Float32bits(aligned))
	}
	// Half of the last kept bit, less one where that is even, carries into it
	// just where the number must be rounded up.
	b += 0xfff + b>>13&1
	return sign | uint16((b-(127-15)<<23)>>13)
}

// Float16frombits returns the value of the binary16 number with these bits. A
// signalling NaN becomes quiet.
func Float16frombits(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&0x3ff)
	switch exponent {
	case 0:
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case 31:
		if fraction != 0 {
			fraction |= 0x200
		}
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}
