package panel

// RotatePairs turns the pair x[2i], x[2i+1] by the angle whose cosine and sine are
// cos[i] and sin[i]:
//
//	a, b = a·cos - b·sin, a·sin + b·cos
//
// Each operation is rounded to float32, so that all levels give the same bits.
func (k *Kernels) RotatePairs(x, cos, sin []float32) {
	x, sin = x[:2*len(cos)], sin[:len(cos)]
	whole := len(cos) / 4 * 4
	if whole > 0 {
		k.rotatePairs(x[:2*whole], cos[:whole], sin[:whole])
	}
	rotatePairs(x[2*whole:], cos[whole:], sin[whole:])
}

func rotatePairs(x, cos, sin []float32) {
	for i, c := range cos {
		a, b, s := x[2*i], x[2*i+1], sin[i]
		x[2*i] = float32(a*c) - float32(b*s)
		x[2*i+1] = float32(a*s) + float32(b*c)
	}
}

// RotateHalves is RotatePairs of the pairs x[i], x[len(cos)+i].
func (k *Kernels) RotateHalves(x, cos, sin []float32) {
	n := len(cos)
	first, second, sin := x[:n], x[n:2*n], sin[:n]
	whole := n / 8 * 8
	if whole > 0 {
		k.rotateHalves(first[:whole], second[:whole], cos[:whole], sin[:whole])
	}
	rotateHalves(first[whole:], second[whole:], cos[whole:], sin[whole:])
}

func rotateHalves(first, second, cos, sin []float32) {
	for i, c := range cos {
		a, b, s := first[i], second[i], sin[i]
		first[i] = float32(a*c) - float32(b*s)
		second[i] = float32(a*s) + float32(b*c)
	}
}
