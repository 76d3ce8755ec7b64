package panel

import "math"

// Max returns the largest element, NaN left out: minus infinity where there is no
// number. A zero is positive. All levels give the same bits.
func (k *Kernels) Max(x []float32) float32 {
	return k.largest(x) + 0 // of -0 and +0 either may have been found
}

func largest(x []float32) float32 {
	most := float32(math.Inf(-1))
	for _, v := range x {
		if v > most {
			most = v
		}
	}
	return most
}

// Find returns where the first element is that equals v, or len(x). Zeros are equal,
// a NaN equals nothing. All levels give the same.
func (k *Kernels) Find(x []float32, v float32) int { return k.find(x, v) }

func find(x []float32, v float32) int {
	for i, e := range x {
		if e == v {
			return i
		}
	}
	return len(x)
}
