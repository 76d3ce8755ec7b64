package panel

import "github.com/leat-dev/leat/kernels"

// SumSquares returns the sum of squares in float64, the same at every level: of
// 16 sums, the i-th takes the elements i, i+16, i+32 and so on, in order; then
// the upper 8 are added to the lower, of those the upper 4, and so on.
func (k *Kernels) SumSquares(x []float32) float64 { return k.sumSquares(x) }

// A float32's square is exact in float64, so that it doesn't matter whether a
// level fuses the sum.
func sumSquares(x []float32) float64 {
	var sum [16]float64
	for ; len(x) >= len(sum); x = x[len(sum):] {
		for i, v := range x[:len(sum)] {
			sum[i] += float64(v) * float64(v)
		}
	}
	for i, v := range x {
		sum[i] += float64(v) * float64(v)
	}
	for half := len(sum) / 2; half > 0; half /= 2 {
		for i := range half {
			sum[i] += sum[half+i]
		}
	}
	return sum[0]
}

// Sum returns the sum in float64, in the order of SumSquares.
func (k *Kernels) Sum(x []float32) float64 { return k.sum(x) }

func sum(x []float32) float64 {
	var sum [16]float64
	for i, v := range x {
		sum[i%len(sum)] += float64(v)
	}
	for half := len(sum) / 2; half > 0; half /= 2 {
		for i := range half {
			sum[i] += sum[half+i]
		}
	}
	return sum[0]
}

// Scale writes x·f·gain to dst, which may be x. All levels give the same bits.
func (k *Kernels) Scale(dst, x, gain []float32, f float32) {
	k.scale(dst, x[:len(dst)], gain[:len(dst)], f)
}

func scale(dst, x, gain []float32, f float32) {
	for i, v := range x {
		dst[i] = float32(v*f) * gain[i]
	}
}

// Standardize writes (x-mean)·f·gain to dst, which may be x. All levels give the
// same bits.
func (k *Kernels) Standardize(dst, x, gain []float32, mean, f float32) {
	k.standardize(dst, x[:len(dst)], gain[:len(dst)], mean, f)
}

func standardize(dst, x, gain []float32, mean, f float32) {
	for i, v := range x {
		dst[i] = float32(float32(v-mean)*f) * gain[i]
	}
}

// Multiply writes x·by to dst, which may be x. All levels give the same bits.
func (k *Kernels) Multiply(dst, x []float32, by float32) { k.multiply(dst, x[:len(dst)], by) }

func multiply(dst, x []float32, by float32) {
	for i, v := range x {
		dst[i] = v * by
	}
}

// Subtract writes x-by to dst, which may be x. All levels give the same bits.
func (k *Kernels) Subtract(dst, x []float32, by float32) { k.subtract(dst, x[:len(dst)], by) }

func subtract(dst, x []float32, by float32) {
	for i, v := range x {
		dst[i] = v - by
	}
}

// Divide writes x/by to dst, which may be x. All levels give the same bits.
func (k *Kernels) Divide(dst, x []float32, by float32) { k.divide(dst, x[:len(dst)], by) }

func divide(dst, x []float32, by float32) {
	for i, v := range x {
		dst[i] = v / by
	}
}

// Add adds x to dst. All levels give the same bits.
func (k *Kernels) Add(dst, x []float32) { k.add(dst, x[:len(dst)]) }

func add(dst, x []float32) {
	for i, v := range x {
		dst[i] += v
	}
}

// F16 writes x rounded to F16, ties to even, to dst. All levels give the same
// bits.
func (k *Kernels) F16(dst []uint16, x []float32) {
	dst = dst[:len(x)]
	whole := len(x) / Lanes * Lanes
	if whole > 0 {
		k.toF16(dst[:whole], x[:whole])
	}
	toF16(dst[whole:], x[whole:])
}

func toF16(dst []uint16, x []float32) {
	for i, v := range x {
		dst[i] = kernels.Float16bits(v)
	}
}
